"""Masks that hide cells of a series, so that imputed values can be compared with the truth."""

from dataclasses import replace

import numpy as np

from cotempo.data.argument_checks import Seed, as_generator, check_counts, check_number
from cotempo.data.series import Series
from cotempo.errors import ParameterError
from cotempo.typing import Bools, Floats


def mask_cells(shape: tuple[int, int], rate: float, rng: Seed) -> Bools:
    """Return a mask that hides single cells: ``(rows, features)``, True where a cell is hidden.

    Parameters
    ----------
    shape
        ``(rows, features)``.
    rate
        Share of the cells to hide; the nearest whole number of them is hidden.
    rng
        A random generator or a seed.

    Examples
    --------
    >>> int(mask_cells((10, 4), 0.25, rng=0).sum())
    10
    """
    return _draw(shape, rate, rng)


def mask_rows(shape: tuple[int, int], rate: float, rng: Seed) -> Bools:
    """Return a mask that hides complete rows, as when nothing was measured. Parameters as in `mask_cells`.

    Examples
    --------
    >>> mask_rows((4, 2), 0.5, rng=0).sum(axis=0).tolist()
    [2, 2]
    """
    return _draw(shape, rate, rng, features=1)


def hide(series: Series, mask: Bools) -> tuple[Series, Floats]:
    """Hide the cells of a series where a mask is True.

    Returns
    -------
    Series
        The same rows, NaN where hidden.
    array
        The hidden values, NaN everywhere else, ``(rows, features)``.

    Examples
    --------
    >>> series, truth = hide(Series.from_arrays([[1.0, 2.0]]), np.array([[True, False]]))
    >>> series.values.tolist(), truth.tolist()
    ([[nan, 2.0]], [[1.0, nan]])
    """
    chosen = np.asarray(mask)
    if chosen.dtype != np.bool_ or chosen.shape != series.values.shape:
        raise ParameterError(f"mask must be bool of {series.values.shape}, got {chosen.dtype} of {chosen.shape}")
    hidden = np.where(chosen, series.values, np.nan)
    return replace(series, values=np.where(chosen, np.nan, series.values)), hidden


def _draw(shape: tuple[int, int], rate: float, rng: Seed, *, features: int | None = None) -> Bools:
    """Return a mask of `shape` that repeats a random one of ``(rows, features)``."""
    if len(shape) != 2:
        raise ParameterError(f"shape must be (rows, features), got {shape!r}")
    check_counts(rows=shape[0], features=shape[1])
    check_number("rate", rate, 0, 1)
    found = np.zeros((shape[0], features or shape[1]), dtype=np.bool_)
    found.flat[as_generator(rng).permutation(found.size)[: round(rate * found.size)]] = True
    return np.broadcast_to(found, shape).copy()
