"""`Marginals`: what synthetic rows of an owner follow, its own distributions and its autocovariances."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from cotempo.series.filling.factor_models import nearest_correlation
from cotempo.series.moments.gaussian import CONSTANT_VARIANCE, mean_products
from cotempo.series.moments.moments import Units, WindowMoments
from cotempo.series.windows import SeriesRows
from cotempo.typing import Floats

#: Deviations of a normal value at whose probabilities quantiles are kept.
DEVIATIONS = np.linspace(-4, 4, 201)
REPAIRS, LEAST_EIGENVALUE = 5, 1e-6
HERMITE_ORDERS, HERMITE_POINTS = 15, 2000


@dataclass(frozen=True)
class Marginals:
    """What synthetic rows follow: a stationary Gaussian copula with an owner's own distributions as marginals.

    `quantiles` has each feature's at `DEVIATIONS`, ``(features, quantiles)``. `lags` has the
    correlations of normal values with those so many rows before, ``(window, features, features)``, that make values
    correlated as the owner's are. Where nothing is known of an owner `quantiles` is empty, and `lags` are covariances
    of values in `Units`.

    The process that fills gaps would not do: in it levels hardly pull back, so that windows would wander away from
    where they begin.
    """

    quantiles: Floats
    lags: Floats

    @classmethod
    def of(cls, rows: SeriesRows, window: int) -> Marginals:
        """Measure rows in the units of the data, each of whose features was measured somewhere."""
        seen = ~np.isnan(rows.values)
        quantiles = np.nanquantile(rows.values, norm.cdf(DEVIATIONS), axis=0).T
        count = seen.sum(axis=0)
        away = np.where(seen, rows.values - np.where(seen, rows.values, 0.0).sum(axis=0) / count, 0.0)
        spread = np.sqrt((away**2).sum(axis=0) / count)
        scores = away / np.where(spread > 0, spread, 1.0)
        place = np.concatenate([np.zeros(0, dtype=np.intp), *(np.arange(length) for length in rows.lengths)])
        known, features = seen.astype(np.float64), scores.shape[1]
        lags = np.zeros((window, features, features))
        for lag in range(window):
            later = np.flatnonzero(place >= lag)
            pairs = known[later].T @ known[later - lag]
            lags[lag] = scores[later].T @ scores[later - lag] / np.maximum(pairs, 1.0)
        return cls(quantiles, normal_correlations(lags, quantiles))

    @classmethod
    def of_moments(cls, moments: WindowMoments) -> Marginals:
        """Take what window moments say, of values in `Units`."""
        means = mean_products(moments)
        window = len(means)
        # From a step, the level before it and earlier steps back to rows, the last first.
        back = np.zeros((window, window))
        back[:, 1], back[0, 0], back[2:, 2:] = 1.0, 1.0, -np.tri(window - 2)
        table = np.einsum("ia,afbg,jb->ifjg", back, means, back)
        lags = [np.mean([table[k, :, k + lag] for k in range(window - lag)], axis=0) for lag in range(window)]
        return cls(np.zeros((0, 0)), np.array(lags))

    def draw(self, count: int, rows: int, stream: np.random.Generator) -> Floats:
        """Draw so many pieces of so many rows, ``(count, rows, features)``.

        Rows beyond the window follow from the window before them, so that all windows have the same covariances.
        """
        window, features = self.lags.shape[:2]
        table, known = self.covariance(), (window - 1) * features
        root, first = np.linalg.cholesky(table), min(rows, window) * features
        weights = np.linalg.solve(table[:known, :known], table[:known, known:])
        found = stream.standard_normal((count, rows * features))
        found[:, :first] = found[:, :first] @ root[:first, :first].T
        for start in range(first, rows * features, features):
            row = slice(start, start + features)
            found[:, row] = found[:, start - known : start] @ weights + found[:, row] @ root[known:, known:].T
        return found.reshape(count, rows, features)

    def covariance(self) -> Floats:
        """Return the covariance of a window, the earliest row first, ``(window * features, window * features)``.

        Lags that were measured on different rows need not fit together: lags near them that do stand in.
        """
        scale = np.sqrt(np.maximum(self.lags[0].diagonal(), CONSTANT_VARIANCE))
        lags = self.lags / np.outer(scale, scale)
        np.fill_diagonal(lags[0], 1.0)
        window, features = lags.shape[:2]
        table = _spread_lags(lags)
        for _ in range(REPAIRS):
            if np.linalg.eigvalsh(table)[0] >= LEAST_EIGENVALUE:
                break
            near = nearest_correlation(table, LEAST_EIGENVALUE).reshape(window, features, window, features)
            lags = np.array([np.mean([near[k + j, :, k] for k in range(window - j)], axis=0) for j in range(window)])
            table = _spread_lags(lags)
        lacking = max(0.0, LEAST_EIGENVALUE - float(np.linalg.eigvalsh(table)[0]))
        table = (table + lacking * np.eye(len(table))) / (1 + lacking)
        return np.asarray(table * np.outer(np.tile(scale, window), np.tile(scale, window)))

    def values(self, normal: Floats, units: Units) -> Floats:
        """Give rows drawn, ``(rows, features)``, the owner's distributions."""
        if not len(self.quantiles):
            return units.undo(normal)
        both = zip(normal.T, self.quantiles, strict=True)
        return np.column_stack([np.interp(column, DEVIATIONS, own) for column, own in both])


def _spread_lags(lags: Floats) -> Floats:
    """Return the block Toeplitz matrix of covariances at lags."""
    both = np.concatenate([lags[:0:-1].swapaxes(1, 2), lags])
    place = np.arange(len(lags))
    side = len(lags) * lags.shape[1]
    return np.asarray(both[place[:, None] - place + len(lags) - 1].swapaxes(1, 2).reshape(side, side))


def normal_correlations(related: Floats, quantiles: Floats) -> Floats:
    r"""Return the correlations that normal values need so that values with given distributions have `related`.

    With the Hermite coefficients :math:`c_k` of a feature's quantile function, normal values with a correlation
    :math:`\rho` make values with a covariance of :math:`\sum_{k \ge 1} c_k c'_k \rho^k` (Cario and Nelson, 1997).
    """
    normal = norm.ppf((np.arange(HERMITE_POINTS) + 0.5) / HERMITE_POINTS)
    values = np.array([np.interp(normal, DEVIATIONS, each) for each in quantiles])
    values = values - values.mean(axis=1, keepdims=True)
    spread = values.std(axis=1, keepdims=True)
    values = values / np.where(spread > 0, spread, 1.0)
    basis = [np.ones_like(normal), normal]
    for order in range(1, HERMITE_ORDERS):
        basis.append((normal * basis[-1] - np.sqrt(order) * basis[-2]) / np.sqrt(order + 1))
    weights = values @ np.array(basis[1:]).T / HERMITE_POINTS
    size = np.sqrt((weights**2).sum(axis=1, keepdims=True))
    weights = weights / np.where(size > 0, size, 1.0)
    tried = np.linspace(-1, 1, 401)
    powers = tried ** np.arange(1, HERMITE_ORDERS + 1)[:, None]
    found = np.zeros_like(related)
    for one in range(len(quantiles)):
        for other in range(len(quantiles)):
            made = np.maximum.accumulate((weights[one] * weights[other]) @ powers)
            found[:, one, other] = np.interp(related[:, one, other], made, tried)
    return found
