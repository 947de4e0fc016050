"""Parts of an experiment, one file each: a long run can be cut, continued, or dealt out over processes and machines."""

from __future__ import annotations

import hashlib
import json
import platform
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from results import commit

FOLDER = Path("runs/parts")
Part = tuple[Mapping[str, Any], Callable[[], Mapping[str, Any]]]


def do_part(folder: Path, key: Mapping[str, Any], measure: Callable[[], Mapping[str, Any]]) -> None:
    """Measure and write one part, unless it is there already."""
    text = json.dumps(dict(key), sort_keys=True)
    path = folder / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"
    if path.exists():
        return
    machine = f"{platform.machine()}, Python {platform.python_version()}"
    part = {**key, **measure(), "commit": commit(), "machine": machine}
    folder.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".new").write_text(json.dumps(part))
    path.with_suffix(".new").replace(path)
    print(text, {name: round(part[name], 3) for name in ("NMI", "gain", "seconds") if name in part}, flush=True)


def do_parts(folder: Path, parts: Sequence[Part], jobs: int = 1) -> None:
    """Do parts in this order, so many at once in processes of their own; one that fails is told of and left out."""
    if jobs == 1:
        for key, measure in parts:
            do_part(folder, key, measure)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        for future in [pool.submit(_try_part, folder, key, measure) for key, measure in parts]:
            future.result()


def _try_part(folder: Path, key: Mapping[str, Any], measure: Callable[[], Mapping[str, Any]]) -> None:
    try:
        do_part(folder, key, measure)
    except Exception:
        print(f"FAILED {dict(key)}\n{traceback.format_exc()}", flush=True)


def read_parts(folder: Path, **wanted: Any) -> list[dict[str, Any]]:
    """Return the parts whose key has these values, in a fixed order."""
    parts = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    return [part for part in parts if all(part.get(name) == value for name, value in wanted.items())]


def about(parts: list[dict[str, Any]]) -> str:
    """Where the parts were measured."""
    places = sorted({f"commit {part['commit']} on {part['machine']}" for part in parts})
    return "measured with " + "; ".join(places)
