"""`read_event_sequences`: archives of event sequences as papers on point processes publish them."""

import json
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cotempo.data.events import Events
from cotempo.data.public.plain_pickle import load_plain
from cotempo.errors import DataError, DataWarning

SPLITS = ("train", "dev", "test", "validation", "sequences")
TIMES = ("time_since_start", "arrival_times", "timestamp")
MARKS = ("type_event", "marks", "event_type")


def read_event_sequences(path: str | Path) -> dict[str, Events]:
    """Read a ``.pkl`` or ``.json`` archive of event sequences and return one table per split that it holds.

    Pickles are read without running anything: only containers, numbers, texts and numpy arrays are admitted. Known
    are lists of events with ``time_since_start, type_event`` below ``train, dev, test`` (neural Hawkes process,
    easy-tpp), lists of sequences with ``arrival_times, marks, t_start, t_end`` below ``sequences`` (intensity-free and
    triangular models), and JSON lists of sequences with ``time_since_start, type_event``.

    Parameters
    ----------
    path
        The archive.

    Returns
    -------
    dict of Events
        By the name of the split; of an archive that names none, the name of the file. Where no window is given it
        reaches from the first to the last event; sequences whose window would be empty are left out, with a warning.

    Examples
    --------
    >>> import json, pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "test.json"
    >>> _ = path.write_text(json.dumps([{"time_since_start": [0.0, 1.5, 2.0], "type_event": [0, 2, 0]}]))
    >>> read_event_sequences(path)["test"]
    Events(3 rows, 1 sequence, 2 exposed, marks 0, 2)
    """
    path = Path(path)
    if path.suffix == ".json":
        try:
            found = json.loads(path.read_text())
        except ValueError as error:
            raise DataError(f"{path} must be JSON, got: {error}") from error
    else:
        found = load_plain(path)
    if isinstance(found, Mapping):
        parts = {name: found[name] for name in SPLITS if isinstance(found.get(name), Sequence) and len(found[name])}
    else:
        parts = {path.stem: found} if isinstance(found, Sequence) and len(found) else {}
    if not parts:
        raise DataError(
            f"{path} must hold sequences below one of {', '.join(SPLITS)}, or a list of them, got {_kind(found)}"
        )
    return {path.stem if name == "sequences" else name: _table(path, name, part) for name, part in parts.items()}


def _table(path: Path, name: str, sequences: Sequence[Any]) -> Events:
    times, windows, marks = [], [], []
    for number, sequence in enumerate(sequences):
        where = f"{path}: sequence {number} of {name}"
        columns = _columns(sequence, where)
        time, mark = columns["time"], columns.get("mark")
        if not np.isfinite(time).all() or (np.diff(time) < 0).any():
            raise DataError(f"{where} must have finite times in rising order")
        if mark is not None and len(mark) != len(time):
            raise DataError(f"{where} must have a mark for every event, got {len(mark)} for {len(time)} events")
        start, end = (
            columns.get("start", time[0] if len(time) else 0.0),
            columns.get("end", time[-1] if len(time) else 0.0),
        )
        if end > start:
            times.append(time)
            windows.append((float(start), float(end)))
            marks.append([] if mark is None else [str(int(code)) for code in mark])
    if not times:
        raise DataError(f"{path} must hold a sequence of {name} with a window, got {len(sequences)} without")
    if len(times) < len(sequences):
        left = len(sequences) - len(times)
        warnings.warn(
            f"{path}: left out {left} of {len(sequences)} sequences of {name}: their windows are empty", DataWarning, 3
        )
    return Events.from_arrays(times, windows, marks if any(marks) else None)


def _columns(sequence: Any, where: str) -> dict[str, Any]:
    """Return times, marks and window of a sequence, given as a list of events or as a mapping of lists."""
    if isinstance(sequence, Sequence) and all(isinstance(event, Mapping) for event in sequence):
        names = {name for event in sequence for name in event}
        sequence = {name: [event.get(name) for event in sequence] for name in names} if sequence else {TIMES[0]: []}
    if not isinstance(sequence, Mapping):
        raise DataError(f"{where} must be a list of events or a mapping of lists, got {_kind(sequence)}")
    time = next((name for name in TIMES if name in sequence), None)
    if time is None:
        raise DataError(
            f"{where} must have one of {', '.join(TIMES)}, got {', '.join(map(str, sequence)) or 'nothing'}"
        )
    mark = next((name for name in MARKS if name in sequence), None)
    try:
        found: dict[str, Any] = {"time": np.asarray(sequence[time], dtype=np.float64).reshape(-1)}
        if mark is not None and sequence[mark] is not None:
            found["mark"] = np.asarray(sequence[mark], dtype=np.int64).reshape(-1)
        for name in ("start", "end"):
            if f"t_{name}" in sequence:
                found[name] = float(sequence[f"t_{name}"])
    except (TypeError, ValueError) as error:
        raise DataError(f"{where} must hold numbers, got: {error}") from error
    return found


def _kind(value: Any) -> str:
    return f"a {type(value).__name__}" + (
        f" of {', '.join(map(str, list(value)[:5]))}" if isinstance(value, Mapping) else ""
    )
