"""FactorModels: factor analysis of features, so that measured ones predict those missing in the same row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cotempo.series.filling.gaps import neighbours
from cotempo.series.windows import Scale, SeriesRows
from cotempo.typing import Floats

FACTORS = 6
VARIANCE_FLOOR = 1e-4
PRIOR_ROWS = 20
OUTLIER = 5.0


@dataclass(frozen=True)
class FactorModels:
    r"""Two factor models of scaled features: of their levels, and of how far they deviate from their neighbours.

    .. math:: x = \mu + \Lambda f + e, \qquad
              \frac{x - \ell}{\sqrt{b\,c / (b + c)}} = M g + u, \qquad f, g \sim N(0, I)

    with the line :math:`\ell` through the measurements :math:`b` steps before and :math:`c` steps after, and
    independent :math:`e, u`. The root is the deviation of a random walk between two fixed points.

    `centre` is :math:`\mu` and `spread` the deviation of each feature's level that the other features do not explain,
    ``(features,)``; `level_factors` and `move_factors` are :math:`\Lambda` and :math:`M`, with the variances of
    :math:`e` and :math:`u` as last column, ``(features, factors + 1)``.
    """

    centre: Floats
    spread: Floats
    level_factors: Floats
    move_factors: Floats

    @classmethod
    def none(cls, features: int) -> FactorModels:
        """Return models of independent features."""
        apart = np.zeros((features, FACTORS + 1))
        apart[:, -1] = 1.0
        return cls(np.zeros(features), np.ones(features), apart, apart)

    @classmethod
    def of(cls, rows: SeriesRows, scale: Scale) -> FactorModels:
        """Fit both models to scaled rows."""
        related = _correlation((rows.values - scale.centre) / scale.spread)
        left = np.sqrt(1 / np.diag(np.linalg.inv(related)))
        strayed = deviations_from_line(rows)
        count = np.maximum((~np.isnan(strayed)).sum(axis=0), 1)
        size = np.sqrt(np.nansum(strayed**2, axis=0) / count)
        size = np.where(size > 1e-6, size, 1.0)
        moves = _factors(_correlation(strayed / size), size)
        return cls(scale.centre, scale.spread * left, _factors(related, scale.spread), moves)


def deviations_from_line(rows: SeriesRows) -> Floats:
    """Return deviations of measurements from the line through their neighbours, in units of a random walk."""
    seen = ~np.isnan(rows.values)
    before, after = neighbours(rows, seen)
    place, columns = np.arange(len(seen))[:, None], np.arange(seen.shape[1])
    inner = seen & (before >= 0) & (after >= 0)
    back, forth = np.where(inner, place - before, 1), np.where(inner, after - place, 1)
    line = (rows.values[before, columns] * forth + rows.values[after, columns] * back) / (back + forth)
    return np.where(inner, (rows.values - line) / np.sqrt(back * forth / (back + forth)), np.nan)


def _correlation(values: Floats) -> Floats:
    """Return correlations of standardised columns over rows with both, shrunk to zero where those are few."""
    seen = (~np.isnan(values)).astype(float)
    clipped = np.clip(np.nan_to_num(values), -OUTLIER, OUTLIER)
    size = np.sqrt((clipped**2).sum(axis=0) / np.maximum(seen.sum(axis=0), 1))
    clipped = clipped / np.where(size > 1e-9, size, 1.0)
    found = clipped.T @ clipped / (seen.T @ seen + PRIOR_ROWS)
    np.fill_diagonal(found, 1.0)
    # Pairs measured in different rows need not fit together: the nearest matrix that could be one stands in.
    return nearest_correlation(found, VARIANCE_FLOOR)


def nearest_correlation(table: Floats, floor: float) -> Floats:
    """Raise the eigenvalues of a symmetric matrix to a floor, and scale its diagonal to 1."""
    values, axes = np.linalg.eigh(table)
    near = (axes * np.maximum(values, floor)) @ axes.T
    scale = np.sqrt(near.diagonal())
    return np.asarray(near / np.outer(scale, scale))


def _factors(correlation: Floats, size: Floats) -> Floats:
    """Fit loadings and unique variances by principal axis factoring, in the units of `size`."""
    features = len(correlation)
    left = 1 / np.diag(np.linalg.inv(correlation)) if features > FACTORS else np.full(features, VARIANCE_FLOOR)
    for _ in range(50):
        weights, axes = np.linalg.eigh(correlation - np.diag(left))
        loadings = axes[:, -FACTORS:] * np.sqrt(np.maximum(weights[-FACTORS:], 0))
        left = np.clip(1 - (loadings**2).sum(axis=1), VARIANCE_FLOOR, 1.0)
    room = np.zeros((features, FACTORS - loadings.shape[1]))
    return np.column_stack([loadings * size[:, None], room, left * size**2])
