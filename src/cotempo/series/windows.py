"""Windows of a series: never across a gap, a sequence or a split; and the way back from windows to rows."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cotempo.data import Series
from cotempo.errors import DataError

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Rows:
    """Rows of a series in contiguous pieces, one after the other.

    Attributes
    ----------
    values
        ``(rows, features)``, NaN where missing.
    lengths
        How many rows each piece has.
    """

    values: Floats
    lengths: tuple[int, ...]

    @classmethod
    def of(cls, series: Series) -> Rows:
        """The pieces of a table."""
        pieces = [values for _, values in series.pieces()]
        return cls(np.concatenate([np.zeros((0, len(series.features))), *pieces]), tuple(map(len, pieces)))

    @property
    def bounds(self) -> list[tuple[int, int]]:
        """First row and end of each piece."""
        return list(pairwise(np.cumsum((0, *self.lengths)).tolist()))

    def starts(self, length: int, stride: int = 1) -> NDArray[np.int64]:
        """Where the windows begin: every `stride` rows, inside one piece each."""
        found = [np.arange(first, end - length + 1, stride) for first, end in self.bounds if end - first >= length]
        return np.concatenate([np.zeros(0, dtype=np.int64), *found]).astype(np.int64)

    def windows(self, length: int, stride: int = 1) -> Floats:
        """The windows themselves, ``(windows, length, features)``."""
        return np.asarray(self.values[self.starts(length, stride)[:, None] + np.arange(length)])

    def split(self, share: float, length: int, every: int = 1) -> tuple[Rows, Rows]:
        """Set apart about `share` of the rows: the end of each piece long enough for a window of each part.

        With `every` above 1 only each so many-th of these pieces is cut, the first of them at least. Where no piece is
        long enough, the last of five or more pieces are set apart whole, else nothing is.
        """
        kept, held, found = [], [], 0
        for first, end in self.bounds:
            size = max(round(share * (end - first)), length)
            cut = end
            if end - first - size >= length:
                cut = end - size if found % every == 0 else end
                found += 1
            kept.append(self.values[first:cut])
            held.append(self.values[cut:end])
        if not found and len(kept) >= 5:
            count = max(1, round(share * len(kept) / every))
            kept, held = kept[:-count], kept[-count:]
        return _joined(kept, self.values[:0]), _joined([part for part in held if len(part)], self.values[:0])


def _joined(parts: list[Floats], empty: Floats) -> Rows:
    return Rows(np.concatenate([empty, *parts]), tuple(map(len, parts)))


def need_window(rows: Rows, length: int) -> None:
    """Raise `DataError` unless at least one window fits into a piece."""
    longest = max(rows.lengths, default=0)
    if longest < length:
        raise DataError(
            f"a contiguous piece must have at least {length} rows, the window's length; the longest has {longest}. "
            "Choose a shorter window, or close the gaps in time."
        )


class Cover:
    """Windows that cover every row of some pieces, and the way back.

    A piece shorter than a window gets one window that reaches beyond it.

    Parameters
    ----------
    stride
        Rows between windows of a piece; the last one ends with the piece.
    """

    def __init__(self, rows: Rows, length: int, stride: int):
        starts, ends = [], []
        for first, end in rows.bounds:
            last = max(first, end - length)
            places = sorted({*range(first, last, stride), last})
            starts += places
            ends += [end] * len(places)
        reach = np.array(starts, dtype=np.intp).reshape(-1, 1) + np.arange(length)
        stop = np.array(ends, dtype=np.intp).reshape(-1, 1)
        self.inside = reach < stop
        self.index = np.minimum(reach, stop - 1)
        ramp = np.minimum(np.arange(1, length + 1), np.arange(length, 0, -1)).astype(np.float64)
        self.weight = np.where(self.inside, ramp, 0.0)
        self.total = np.zeros(len(rows.values))
        np.add.at(self.total, self.index, self.weight)

    def take(self, values: NDArray[Any]) -> NDArray[Any]:
        """The windows of rows ``(rows, ...)``; beyond a short piece its last row is repeated."""
        return np.asarray(values[self.index])

    def blend(self, windows: Floats) -> Floats:
        """Rows of windows, a cell counting more the farther it is from a window's edge."""
        heavy = (self.weight[..., None] * windows).reshape(self.index.size, -1)
        index, count = self.index.ravel(), len(self.total)
        sums = [np.bincount(index, column, minlength=count) for column in heavy.T]
        return np.asarray(np.stack(sums, axis=-1) / self.total[:, None])
