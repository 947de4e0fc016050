"""Kinds of gaps: by how far the next measurements are, and by whether other features were measured in the row."""

import numpy as np
from numpy.typing import NDArray

from cotempo.series.filling.interpolation import neighbours
from cotempo.series.windows import Cover, SeriesRows
from cotempo.typing import Floats

EMPTY, BESIDE, LONG_EMPTY, LONG_BESIDE, UNSEEN = range(5)
KINDS = 5
LONG = 8
FAR = 1e9


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
    missing, (back, forth) = np.isnan(rows.values), steps_around(rows)
    found = np.where(missing.all(axis=1, keepdims=True), EMPTY, BESIDE) + 2 * (back + forth > LONG)
    cover = Cover(rows, reach, max(1, reach // 4))
    gone = (cover.take(missing) | ~cover.inside[..., None]).all(axis=1, keepdims=True)
    unseen = cover.blend(np.broadcast_to(gone, (*cover.index.shape, missing.shape[1])).astype(np.float64))
    return np.where(unseen > 0.5, UNSEEN, found)
