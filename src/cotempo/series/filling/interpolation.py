"""Linear interpolation and last observation carried forward: the baselines of every imputer."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cotempo.data import Series
from cotempo.series.windows import SeriesRows
from cotempo.typing import Floats


def interpolate(series: Series) -> Series:
    """Fill each feature linearly between its neighbours in time, inside contiguous pieces.

    Before the first and after the last measurement of a piece its nearest one is repeated; a feature without any in a
    piece gets its mean over the table.

    Examples
    --------
    >>> interpolate(Series.from_arrays([[0.0], [float("nan")], [1.0]])).values.ravel().tolist()
    [0.0, 0.5, 1.0]
    """
    return _fill(series, _linear)


def carry_forward(series: Series) -> Series:
    """Fill each feature with its last measurement in the piece; before the first, with the first.

    Examples
    --------
    >>> carry_forward(Series.from_arrays([[0.0], [float("nan")], [1.0]])).values.ravel().tolist()
    [0.0, 0.0, 1.0]
    """
    return _fill(series, _last)


def interpolate_rows(rows: SeriesRows, centre: Floats) -> Floats:
    """Interpolate each piece linearly; a feature never seen in a piece gets its mean."""
    seen = ~np.isnan(rows.values)
    before, after = neighbours(rows, seen)
    place, columns = np.arange(len(seen))[:, None], np.arange(seen.shape[1])
    left, right = (np.where(found >= 0, rows.values[found, columns], np.nan) for found in (before, after))
    share = (place - before) / np.maximum(after - before, 1)
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


def _fill(series: Series, rule: object) -> Series:
    values = series.values.copy()
    with np.errstate(invalid="ignore"):
        count = (~np.isnan(values)).sum(axis=0)
        means = np.where(count > 0, np.nansum(values, axis=0) / np.maximum(count, 1), 0.0)
    start = 0
    for time, piece in series.pieces():
        for column in range(values.shape[1]):
            seen = ~np.isnan(piece[:, column])
            part = rule(time, piece[:, column], seen) if seen.any() else means[column]  # type: ignore[operator]
            values[start : start + len(time), column] = part
        start += len(time)
    return replace(series, values=values)


def _linear(time: Floats, values: Floats, seen: NDArray[np.bool_]) -> Floats:
    return np.interp(time, time[seen], values[seen])


def _last(time: Floats, values: Floats, seen: NDArray[np.bool_]) -> Floats:
    places = np.flatnonzero(seen)
    return np.asarray(values[places[np.maximum(np.searchsorted(places, np.arange(len(values)), "right") - 1, 0)]])
