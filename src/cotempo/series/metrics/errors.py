"""Errors of filled cells."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def mean_absolute_error(truth: ArrayLike, filled: ArrayLike, missing: NDArray[np.bool_]) -> float:
    """Mean absolute error over the cells that were missing.

    Examples
    --------
    >>> mean_absolute_error([[1.0, 2.0]], [[1.0, 4.0]], np.array([[False, True]]))
    2.0
    """
    return float(np.abs(np.asarray(filled) - np.asarray(truth))[missing].mean())


def root_mean_square_error(truth: ArrayLike, filled: ArrayLike, missing: NDArray[np.bool_]) -> float:
    """Root mean square error over the cells that were missing.

    Examples
    --------
    >>> root_mean_square_error([[1.0, 2.0]], [[1.0, 4.0]], np.array([[False, True]]))
    2.0
    """
    return float(np.sqrt(((np.asarray(filled) - np.asarray(truth))[missing] ** 2).mean()))


def crps(truth: ArrayLike, draws: ArrayLike, missing: NDArray[np.bool_]) -> float:
    r"""Continuous ranked probability score of draws ``(draws, ...)``, over the cells that were missing.

    .. math:: E|X - x| - \tfrac12 E|X - X'|

    with the unbiased mean over pairs; a single draw's score is its absolute error.

    Examples
    --------
    >>> crps([[0.0]], [[[-1.0]], [[1.0]]], np.array([[True]]))
    0.0
    """
    sample = np.sort(np.asarray(draws)[:, missing], axis=0)
    count = len(sample)
    error = np.abs(sample - np.asarray(truth)[missing]).mean(axis=0)
    if count == 1:
        return float(error.mean())
    # For sorted draws the sum over pairs of |X - X'| is a weighted sum of the draws.
    weights = 2 * np.arange(count) - count + 1
    spread = 2 * (weights[:, None] * sample).sum(axis=0) / (count * (count - 1))
    return float((error - spread / 2).mean())


def interval_coverage(truth: ArrayLike, low: ArrayLike, high: ArrayLike, missing: NDArray[np.bool_]) -> float:
    """Share of the missing cells that lie inside their interval.

    Examples
    --------
    >>> interval_coverage([[1.0, 5.0]], [[0.0, 0.0]], [[2.0, 2.0]], np.array([[True, True]]))
    0.5
    """
    inside = (np.asarray(low) <= np.asarray(truth)) & (np.asarray(truth) <= np.asarray(high))
    return float(inside[missing].mean())
