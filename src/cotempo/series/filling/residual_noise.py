"""Residual noise added to fillings, because a conditional mean is smoother than what it stands for."""

import numpy as np
from numpy.typing import NDArray

from cotempo.series.filling.stages import Fills
from cotempo.series.settings import SeriesSettings
from cotempo.series.windows import SeriesRows
from cotempo.typing import Floats

HIDDEN_SHARE = 0.25
DRAWS = 3


def imputation_errors(filler: Fills, rows: SeriesRows, settings: SeriesSettings, stream: np.random.Generator) -> Floats:
    """Return errors of filling hidden rows, ``(hidden rows, features)``, NaN where nothing was measured."""
    found = [rows.values[:0]]
    for _ in range(DRAWS if len(rows.values) else 0):
        chosen = stream.random(len(rows.values)) < HIDDEN_SHARE
        left = np.where(chosen[:, None], np.nan, rows.values)
        found.append((rows.values - filler.rows(rows.with_values(left), settings))[chosen])
    errors = np.concatenate(found)
    return errors[~np.isnan(errors).all(axis=1)]


def add_imputation_errors(
    filled: Floats, missing: NDArray[np.bool_], errors: Floats, stream: np.random.Generator
) -> Floats:
    """Add to the missing cells of each row the errors of one row drawn at random, so that features err together.

    A feature that was not measured in the drawn row gets an error of its own from another row.

    Examples
    --------
    >>> stream = np.random.default_rng(0)
    >>> add_imputation_errors(np.zeros((2, 1)), np.array([[True], [False]]), np.array([[0.5]]), stream).ravel().tolist()
    [0.5, 0.0]
    """
    if not len(errors):
        return filled
    drawn = errors[stream.integers(len(errors), size=len(filled))]
    for column in range(filled.shape[1]):
        pool = errors[~np.isnan(errors[:, column]), column]
        lacking = np.isnan(drawn[:, column])
        drawn[lacking, column] = stream.choice(pool, lacking.sum()) if len(pool) else 0.0
    return np.where(missing, filled + drawn, filled)
