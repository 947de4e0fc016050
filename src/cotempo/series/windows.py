"""Windows of a series: never across a gap, a sequence or a split; and the way back from windows to rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cotempo.data import Series
from cotempo.errors import DataError

Floats = NDArray[np.float64]
Fill = Callable[[Floats], Floats]


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
        ends = np.cumsum((0, *self.lengths)).tolist()
        return list(zip(ends[:-1], ends[1:], strict=True))

    def starts(self, length: int, stride: int = 1) -> NDArray[np.int64]:
        """Where the windows begin: every `stride` rows, inside one piece each."""
        found = [np.arange(first, end - length + 1, stride) for first, end in self.bounds if end - first >= length]
        return np.concatenate([np.zeros(0, dtype=np.int64), *found]).astype(np.int64)

    def windows(self, length: int, stride: int = 1) -> Floats:
        """The windows themselves, ``(windows, length, features)``."""
        return np.asarray(self.values[self.starts(length, stride)[:, None] + np.arange(length)])

    def split(self, share: float, length: int) -> tuple[Rows, Rows]:
        """Cut off the last rows of every piece, about `share` of them and never less than a window of each part.

        A piece too short to give both parts a window stays whole, in the first part.
        """
        kept, held, kept_lengths, held_lengths = [], [], [], []
        for first, end in self.bounds:
            size = max(round(share * (end - first)), length)
            cut = end - size if end - first - size >= length else end
            kept.append(self.values[first:cut])
            kept_lengths.append(cut - first)
            if cut < end:
                held.append(self.values[cut:end])
                held_lengths.append(end - cut)
        empty = self.values[:0]
        return (
            Rows(np.concatenate([empty, *kept]), tuple(kept_lengths)),
            Rows(np.concatenate([empty, *held]), tuple(held_lengths)),
        )


def need_window(rows: Rows, length: int) -> None:
    """Raise `DataError` unless at least one window fits into a piece."""
    longest = max(rows.lengths, default=0)
    if longest < length:
        raise DataError(
            f"a contiguous piece must have at least {length} rows, the window's length; the longest has {longest}. "
            "Choose a shorter window, or close the gaps in time."
        )


def fill_rows(rows: Rows, length: int, fill: Fill, stride: int | None = None) -> Floats:
    """Fill rows through overlapping windows and blend, a cell counting more the farther it is from a window's edge.

    Parameters
    ----------
    fill
        Takes windows ``(windows, length, features)`` with NaN where missing, returns them complete.
    stride
        Rows between windows; a quarter of a window when left out.
    """
    stride = stride or max(1, length // 4)
    starts, pads = _cover(rows, length, stride)
    index = starts[:, None] + np.arange(length)
    inside = index < pads[:, None]
    windows = rows.values[np.minimum(index, len(rows.values) - 1)]
    windows[~inside] = np.nan
    filled = fill(windows)
    ramp = np.minimum(np.arange(1, length + 1), np.arange(length, 0, -1)).astype(np.float64)
    weight = np.where(inside, ramp, 0.0)
    total = np.zeros(len(rows.values))
    blended = np.zeros(rows.values.shape)
    np.add.at(total, index[inside], weight[inside])
    np.add.at(blended, index[inside], weight[inside][:, None] * filled[inside])
    blended /= total[:, None]
    return np.where(np.isnan(rows.values), blended, rows.values)


def _cover(rows: Rows, length: int, stride: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Starts of windows that cover every row, and the end of the piece each of them lies in."""
    starts, ends = [], []
    for first, end in rows.bounds:
        last = max(first, end - length)
        places = sorted({*range(first, last, stride), last})
        starts += places
        ends += [end] * len(places)
    return np.array(starts, dtype=np.int64), np.array(ends, dtype=np.int64)
