"""Records of a run as plain values: steps and failures for its log, and the environment it ran in."""

import importlib.metadata
import json
import platform
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cotempo.federation.rounds import Step


def describe_step(step: Step) -> dict[str, Any]:
    """Return a step as a log record."""
    return {
        "step": step.step, "round": step.round, "phase": step.phase,
        "time": datetime.now(UTC).isoformat(timespec="milliseconds"), "seconds": round(step.seconds, 6),
        "metrics": {name: float(value) for name, value in step.metrics.items()},
        "sent": dict(step.sent), "received": dict(step.received),
        "failures": [asdict(failure) for failure in step.answers.failures],
    }  # fmt: skip


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the records of a JSON-lines file without a last line that was cut off; none if there is no file."""
    if not path.exists():
        return []
    records = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            records.append(json.loads(line))
        except ValueError:
            break
    return records


def environment() -> dict[str, Any]:
    """Return versions and platform, for reproducing a run."""
    names = ("cotempo", "numpy", "scipy", "scikit-learn", "torch", "pyarrow", "narwhals", "safetensors", "pydantic")
    versions = {}
    for name in names:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {"python": sys.version.split()[0], "platform": platform.platform(), "packages": versions}
