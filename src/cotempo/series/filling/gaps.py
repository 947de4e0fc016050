"""Gaps: the measurements around them, their kinds, and their simplest filling, `interpolate`."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cotempo.data import Series
from cotempo.series.windows import Cover, SeriesRows
from cotempo.typing import Floats

EMPTY, BESIDE, LONG_EMPTY, LONG_BESIDE, UNSEEN = range(5)
KINDS = 5
LONG = 8
FAR = 1e9


def interpolate(series: Series) -> Series:
    """Fill each feature linearly between its neighbours in time, inside contiguous pieces.

    Before the first and after the last measurement of a piece its nearest one is repeated; a feature without any in a
    piece gets its mean over the table.

    Examples
    --------
    >>> interpolate(Series.from_arrays([[0.0], [float("nan")], [1.0]])).values.ravel().tolist()
    [0.0, 0.5, 1.0]
    """
    means = np.nansum(series.values, axis=0) / np.maximum((~np.isnan(series.values)).sum(axis=0), 1)
    return replace(series, values=interpolate_rows(SeriesRows.of(series), means, series.time))


def interpolate_rows(rows: SeriesRows, centre: Floats, time: Floats | None = None) -> Floats:
    """Interpolate each piece linearly, by `time` or by rows; a feature never seen in a piece gets its mean `centre`."""
    place = np.arange(len(rows.values)) if time is None else time
    seen = ~np.isnan(rows.values)
    before, after = neighbours(rows, seen)
    columns = np.arange(seen.shape[1])
    left, right = (np.where(found >= 0, rows.values[found, columns], np.nan) for found in (before, after))
    apart = place[after] - place[before]
    share = (place[:, None] - place[before]) / np.where(apart > 0, apart, 1)
    line = np.where(np.isnan(left), right, np.where(np.isnan(right), left, left + share * (right - left)))
    return np.where(seen, rows.values, np.where(np.isnan(line), centre, line))


def neighbours(rows: SeriesRows, seen: NDArray[np.bool_]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the rows of the measurements before and after each cell in its piece, without itself; -1 if none."""
    count = len(seen)
    first, end = (np.repeat(side, rows.lengths)[:, None] for side in np.array(rows.bounds).reshape(-1, 2).T)
    place = np.arange(count)[:, None]
    before = np.maximum.accumulate(np.where(seen, place, -1), axis=0)
    after = np.minimum.accumulate(np.where(seen, place, count)[::-1], axis=0)[::-1]
    before = np.concatenate([np.full_like(before[:1], -1), before[:-1]])
    after = np.concatenate([after[1:], np.full_like(after[:1], count)])
    return np.where(before >= first, before, -1), np.where(after < end, after, -1)


def steps_around(rows: SeriesRows) -> tuple[Floats, Floats]:
    """Return steps to the measurements before and after each cell, `FAR` where none is, ``(rows, features)``."""
    place = np.arange(len(rows.values))[:, None]
    before, after = neighbours(rows, ~np.isnan(rows.values))
    return np.where(before < 0, FAR, place - before), np.where(after < 0, FAR, after - place)


def kinds_of(rows: SeriesRows, reach: int) -> NDArray[np.intp]:
    """Return the kind of each cell, if it is missing, ``(rows, features)``.

    `EMPTY` in rows where nothing was measured and `BESIDE` in the others, `LONG_EMPTY` and `LONG_BESIDE` in long gaps
    and in those at the end of a piece; and `UNSEEN` for features that were not measured in most of the windows of
    `reach` rows that cover the row: about them interpolation has hardly anything to say.
    """
    missing = np.isnan(rows.values)
    cover = Cover(rows, reach, max(1, reach // 4))
    gone = (cover.take(missing) | ~cover.inside[..., None]).all(axis=1, keepdims=True)
    unseen = cover.blend(np.broadcast_to(gone, (*cover.index.shape, missing.shape[1])).astype(np.float64))
    return np.where(unseen > 0.5, UNSEEN, near_kinds(rows))


def near_kinds(rows: SeriesRows) -> NDArray[np.intp]:
    """Return the same without `UNSEEN`."""
    missing, (back, forth) = np.isnan(rows.values), steps_around(rows)
    return np.asarray(np.where(missing.all(axis=1, keepdims=True), EMPTY, BESIDE) + 2 * (back + forth > LONG))
