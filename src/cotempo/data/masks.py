"""Which cells of a series are hidden, so that what a method fills in can be compared with the truth."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cotempo.data.arguments import Seed, as_generator, check_count, check_number
from cotempo.data.series import Series
from cotempo.errors import ParameterError

Mask = NDArray[np.bool_]


def mask_cells(shape: tuple[int, int], rate: float, rng: Seed) -> Mask:
    """Return a mask that hides single cells, anywhere.

    Parameters
    ----------
    shape
        ``(rows, features)``.
    rate
        Share of the cells to hide; the nearest whole number of them is hidden.
    rng
        A random generator or a seed.

    Returns
    -------
    array of bool
        True where a cell is hidden, ``(rows, features)``.

    Examples
    --------
    >>> int(mask_cells((10, 4), 0.25, rng=0).sum())
    10
    """
    rows, features = _shape(shape)
    return _some(rows * features, rate, rng).reshape(rows, features)


def mask_rows(shape: tuple[int, int], rate: float, rng: Seed) -> Mask:
    """Return a mask that hides whole rows: moments when nothing was measured. Parameters as in `mask_cells`.

    Examples
    --------
    >>> mask_rows((4, 2), 0.5, rng=0).sum(axis=0).tolist()
    [2, 2]
    """
    rows, features = _shape(shape)
    return np.tile(_some(rows, rate, rng)[:, None], (1, features))


def mask_features(shape: tuple[int, int], rate: float, rng: Seed) -> Mask:
    """Return a mask that hides whole features: what a client does not measure. Parameters as in `mask_cells`.

    Examples
    --------
    >>> mask_features((2, 4), 0.5, rng=0).sum(axis=1).tolist()
    [2, 2]
    """
    rows, features = _shape(shape)
    return np.tile(_some(features, rate, rng), (rows, 1))


def hide(series: Series, mask: Mask) -> tuple[Series, NDArray[np.float64]]:
    """Hide cells of a series.

    Parameters
    ----------
    series
        What is hidden from; unchanged.
    mask
        True where a cell is hidden, ``(rows, features)``.

    Returns
    -------
    Series
        The same rows, NaN where hidden.
    array
        What was hidden, NaN everywhere else, ``(rows, features)``.

    Examples
    --------
    >>> series, truth = hide(Series.from_arrays([[1.0, 2.0]]), np.array([[True, False]]))
    >>> series.values.tolist(), truth.tolist()
    ([[nan, 2.0]], [[1.0, nan]])
    """
    chosen = np.asarray(mask)
    if chosen.dtype != np.bool_ or chosen.shape != series.values.shape:
        raise ParameterError(f"mask must be bool of {series.values.shape}, got {chosen.dtype} of {chosen.shape}")
    left = np.where(chosen, np.nan, series.values)
    hidden = np.where(chosen, series.values, np.nan)
    return Series(series.features, series.sequence, series.time, left, series.unit), hidden


def _shape(shape: tuple[int, int]) -> tuple[int, int]:
    if len(shape) != 2:
        raise ParameterError(f"shape must be (rows, features), got {shape!r}")
    check_count("rows", shape[0])
    check_count("features", shape[1])
    return int(shape[0]), int(shape[1])


def _some(count: int, rate: float, rng: Seed) -> Mask:
    check_number("rate", rate, 0, 1)
    found = np.zeros(count, dtype=np.bool_)
    found[as_generator(rng).permutation(count)[: round(rate * count)]] = True
    return found
