"""Write a benchmark's rows with what is needed to repeat them."""

from __future__ import annotations

import csv
import json
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "results"
CODE = (":/", ":(exclude,top)benchmarks/results")  # what a measurement depends on: not other results


def write_results(name: str, rows: Sequence[Mapping[str, Any]], *, seed: Any, note: str = "") -> Path:
    """Write `name.csv` and, beside it, `name.json` with seed, commit, date and machine."""
    path, measured = FOLDER / f"{name}.csv", commit()  # before the file itself is a change
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()})
    about = {
        "seed": seed,
        "commit": measured,
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{platform.machine()}, Python {platform.python_version()}",
        "note": note,
    }
    path.with_suffix(".json").write_text(json.dumps(about, indent=1) + "\n")
    return path


@cache
def commit() -> str:
    """The commit measured; a plus sign marks uncommitted changes. COTEMPO_COMMIT names it in a copy without history.

    Other result files are no changes that matter. Asked once a process, so that all its parts name the same.
    """
    if named := os.environ.get("COTEMPO_COMMIT"):
        return named
    here = Path(__file__).parent
    revision = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=here, capture_output=True, text=True)
    status = subprocess.run(
        ["git", "status", "--porcelain", "-uno", "--", *CODE], cwd=here, capture_output=True, text=True
    )
    return (revision.stdout.strip() or "unknown") + ("+" if status.stdout.strip() else "")
