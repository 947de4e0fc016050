"""Grid: equal cells of time in which events and exposure are counted, so that cost does not grow with events."""

from dataclasses import dataclass

import numpy as np

from cotempo.errors import ParameterError
from cotempo.events.records.record import Record
from cotempo.typing import Floats


@dataclass(frozen=True)
class Grid:
    """Equal cells of the stretch ``[start, end]``.

    Examples
    --------
    >>> Grid(0.0, 10.0, 5).middles.tolist()
    [1.0, 3.0, 5.0, 7.0, 9.0]
    """

    start: float
    end: float
    cells: int

    def __post_init__(self) -> None:
        if not (np.isfinite(self.start) and np.isfinite(self.end) and self.start < self.end):
            raise ParameterError(f"a grid must end after its start, got [{self.start:g}, {self.end:g}]")

    @property
    def width(self) -> float:
        """The length of a cell."""
        return (self.end - self.start) / self.cells

    @property
    def edges(self) -> Floats:
        """Where cells begin and end, ``(cells + 1,)``."""
        return np.asarray(np.linspace(self.start, self.end, self.cells + 1), dtype=np.float64)

    @property
    def middles(self) -> Floats:
        """The middle of each cell, ``(cells,)``."""
        return np.asarray(self.start + self.width * (np.arange(self.cells) + 0.5), dtype=np.float64)

    def count(self, record: Record) -> Floats:
        """Return the number of events in each cell, ``(cells,)``; those outside are counted at the nearest end."""
        place = np.floor((record.time - self.start) / self.width)
        inside = np.clip(place, 0, self.cells - 1).astype(np.intp)
        return np.asarray(np.bincount(inside, weights=record.count, minlength=self.cells), dtype=np.float64)

    def expose(self, record: Record) -> Floats:
        """Return how long each cell was watched, ``(cells,)``; the ends also stand for what lies outside."""
        edges = self.edges
        total = np.zeros(self.cells + 1)
        # Few windows at a time, so that many windows do not need much memory.
        for first in range(0, len(record.start), 2000):
            starts, ends = record.start[first : first + 2000], record.end[first : first + 2000]
            total += np.clip(edges[:, None] - starts, 0.0, ends - starts).sum(axis=1)
        total[0], total[-1] = 0.0, (record.end - record.start).sum()
        return np.diff(total)
