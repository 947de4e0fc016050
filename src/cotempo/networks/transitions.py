"""Transitions of a series, the rows that networks are learned from: ``z_t = [x_t, x_{t-1}, ..., x_{t-p}]``."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cotempo.data import Series
from cotempo.errors import DataError, Problem

FloatArray = NDArray[np.float64]


class Rows(NamedTuple):
    """A client's transitions, `(rows, side)`, with missing cells as NaN, and the weight of each."""

    values: FloatArray
    weights: FloatArray


def transitions(piece: FloatArray, lags: int) -> FloatArray:
    """Return the complete rows ``[x_t, x_{t-1}, ..., x_{t-p}]`` of one contiguous piece.

    Examples
    --------
    >>> import numpy as np
    >>> transitions(np.array([[1.0], [2.0], [3.0]]), lags=1)
    array([[2., 1.],
           [3., 2.]])
    """
    rows = _lagged(piece, lags)
    complete: FloatArray = rows[~np.isnan(rows).any(axis=1)]
    return complete


def transition_rows(table: Series, lags: int, half_life: float | None = None, *, partial: bool = False) -> Rows:
    """Cut a table into transitions, none across a gap.

    Parameters
    ----------
    partial
        Keep transitions with missing cells, and the first ones of a piece, whose lags reach back too far; otherwise
        only complete ones.
    half_life
        The time after which a row counts half; all rows count fully without it.
    """
    pieces = table.pieces()
    rows = np.vstack([_lagged(values, lags) for _, values in pieces])
    when = np.concatenate([time for time, _ in pieces])
    missing = np.isnan(rows)
    kept = ~missing.all(axis=1) if partial else ~missing.any(axis=1)
    rows, when = rows[kept], when[kept]
    weights = np.ones(len(rows))
    if half_life is not None and len(rows):
        weights = 0.5 ** ((when.max() - when) / half_life)
    return Rows(rows, weights)


def _lagged(piece: FloatArray, lags: int) -> FloatArray:
    """One row a time step, with NaN where a lag reaches back before the piece."""
    padded = np.vstack([np.full((lags, piece.shape[1]), np.nan), piece])
    return np.hstack([padded[lags - lag : lags - lag + len(piece)] for lag in range(lags + 1)])


def check_table(table: Series) -> None:
    """Refuse columns that no network can be learned from."""
    problems = []
    for index, name in enumerate(table.features):
        seen = table.values[~np.isnan(table.values[:, index]), index]
        if not len(seen):
            problems.append(Problem("at least one value must not be missing, all are", column=name))
        elif len(seen) > 1 and (seen == seen[0]).all():
            problems.append(
                Problem("values must vary, they are all the same; leave the column out at every client", column=name)
            )
    if problems:
        raise DataError(problems)
