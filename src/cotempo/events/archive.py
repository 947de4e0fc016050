"""Read event sequences from an npz archive: times, offsets, and what else is known of each sequence."""

from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cotempo.data import Events
from cotempo.errors import DataError

SPLITS = ("train", "dev", "test")


class EventArchive(NamedTuple):
    """Sequences, their windows, marks where events have them, and the split each was published in."""

    times: list[NDArray[np.float64]]
    windows: NDArray[np.float64]
    marks: list[NDArray[np.int64]] | None
    split: NDArray[np.int64]
    mark_count: int

    def select(self, sequences: NDArray[np.int64]) -> Events:
        """Return the named sequences as a table."""
        marks = None if self.marks is None else [[str(mark) for mark in self.marks[i]] for i in sequences]
        names = None if marks is None else [str(mark) for mark in range(self.mark_count)]
        return Events.from_arrays([self.times[i] for i in sequences], self.windows[sequences], marks, names)

    def of_split(self, name: str) -> NDArray[np.int64]:
        """Return which sequences were published as ``"train"``, ``"dev"`` or ``"test"``."""
        return np.flatnonzero(self.split == SPLITS.index(name))


def read_event_archive(path: str | Path) -> EventArchive:
    """Read an npz file with arrays ``times, offsets`` and, where known, ``split, types, t_start, t_end``.

    Sequence i is ``times[offsets[i]:offsets[i + 1]]``. Where the file knows no window, it reaches from the first to
    the last event: the first event then only opens it, and what is known of the quiet after the last is lost, so that
    rates come out too high, the more so the shorter sequences are. Sequences whose window would be empty are left out.
    """
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    missing = {"times", "offsets"} - set(arrays)
    if missing:
        raise DataError(f"an archive must hold the arrays times and offsets, {path} lacks {', '.join(sorted(missing))}")
    offsets = arrays["offsets"]
    times = [arrays["times"][a:b].astype(np.float64) for a, b in pairwise(offsets)]
    if "t_end" in arrays:
        windows = np.column_stack([arrays["t_start"], arrays["t_end"]]).astype(np.float64)
    else:
        windows = np.array([[part[0], part[-1]] if len(part) else [0.0, 0.0] for part in times])
    kept = np.flatnonzero(windows[:, 1] > windows[:, 0])
    split = arrays.get("split", np.zeros(len(times))).astype(np.int64)
    types = arrays.get("types")
    marks = None
    if types is not None:
        every = [types[a:b].astype(np.int64) for a, b in pairwise(offsets)]
        marks = [every[i] for i in kept]
    count = 0 if types is None else int(types.max()) + 1
    return EventArchive([times[i] for i in kept], windows[kept], marks, split[kept], count)
