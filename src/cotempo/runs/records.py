"""Records of a run as plain values: steps, messages and failures for its logs, and the environment it ran in."""

from __future__ import annotations

import importlib.metadata
import json
import platform
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from cotempo.federation.exchange import Expect, Question
from cotempo.federation.message import Message
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


def summarize_message(question: Question, message: Message, expect: Expect) -> dict[str, Any]:
    """Return what a client sent, field by field, in a form its owner can read."""
    fields = {
        name: {"description": expect.fields[name].description if name in expect.fields else "", **_summary(value)}
        for name, value in message.items()
    }
    return {
        "client": question.client, "step": question.step, "round": question.round, "phase": question.phase,
        "bytes": message.nbytes, "weight": message.weight, "summed": expect.sums, "fields": fields,
    }  # fmt: skip


def _summary(value: Any) -> dict[str, Any]:
    """Return an array's size, range and first values; a scalar as it is."""
    if not isinstance(value, np.ndarray):
        return {"value": value[:200] if isinstance(value, str) else value}
    summary: dict[str, Any] = {"shape": list(value.shape), "dtype": str(value.dtype), "bytes": value.nbytes}
    if value.size:
        summary |= {"smallest": value.min().item(), "largest": value.max().item(), "first": value.ravel()[:3].tolist()}
    return summary


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
