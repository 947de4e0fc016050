"""`Marginals`: what synthetic rows of an owner follow, its own distributions and its autocovariances."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from cotempo.series.filling.factor_models import nearest_correlation
from cotempo.series.moments.gaussian import CONSTANT_VARIANCE, Gaussian, mean_products
from cotempo.series.moments.latent import (
    DEVIATIONS,
    EMPTY_SHARE,
    find_jump,
    find_leaders,
    join_pieces,
    normal_values,
    smooth_lags,
)
from cotempo.series.moments.moments import Units, WindowMoments
from cotempo.series.windows import SeriesRows
from cotempo.typing import Floats

REPAIRS, LEAST_EIGENVALUE = 5, 1e-6


@dataclass(frozen=True)
class Marginals:
    """What synthetic rows follow: a stationary Gaussian copula with an owner's own distributions as marginals.

    `quantiles` has each feature's at `DEVIATIONS`, ``(features, quantiles)``. `lags` has the
    correlations of normal values with those so many rows before, ``(window, features, features)``, whose steps make the
    owner's. `leaders` is as of `find_leaders`, and `steps` has each feature's usual step from row to row; empty where
    unknown. Where nothing is known of an owner `quantiles` is empty, too, and `lags` are covariances of values in
    `Units`.

    The process that fills gaps would not do: in it levels hardly pull back, so that windows would wander away from
    where they begin.
    """

    quantiles: Floats
    lags: Floats
    leaders: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    steps: Floats = field(default_factory=lambda: np.zeros(0))

    @classmethod
    def of(cls, rows: SeriesRows, process: Gaussian, units: Units, window: int) -> Marginals:
        """Measure rows in the units of the data, each of whose features was measured somewhere; the process fills."""
        quantiles = np.nanquantile(rows.values, norm.cdf(DEVIATIONS), axis=0, method="inverted_cdf").T
        whole = join_pieces(rows, process, units, window)
        steps = np.diff(rows.values, axis=0)
        steps[[end - 1 for _, end in rows.bounds[:-1]]] = np.nan
        size = np.sqrt(np.nansum(steps**2, axis=0) / np.maximum((~np.isnan(steps)).sum(axis=0), 1))
        lags = smooth_lags(normal_values(whole, quantiles, window), window)
        return cls(quantiles, lags, find_leaders(rows.values, quantiles), size)

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
        """Give rows drawn, ``(rows, features)``, the owner's distributions; columns that go together do so."""
        if not len(self.quantiles):
            return units.undo(normal)
        normal = normal.copy()
        for column, leader in enumerate(self.leaders):
            if leader:
                middles = [_middle(self.quantiles[each]) for each in (column, abs(leader) - 1)]
                led = np.sign(leader) * (normal[:, abs(leader) - 1] - middles[1])
                apart = led * (normal[:, column] - middles[0]) < 0
                normal[apart, column] = middles[0] + led[apart]
        return np.column_stack([_quantile(*each) for each in zip(normal.T, self.quantiles, strict=True)])


def _middle(quantiles: Floats) -> float:
    """Return the deviation at which a column with two sides changes from one to the other."""
    place = find_jump(quantiles)
    return float(DEVIATIONS[place : place + 2].mean())


def _quantile(normal: Floats, quantiles: Floats) -> Floats:
    """Return quantiles at the probabilities of normal values, none of them where the range is empty."""
    place = np.interp(normal, DEVIATIONS, np.arange(len(DEVIATIONS)))
    empty = np.diff(quantiles) > EMPTY_SHARE * (quantiles[-1] - quantiles[0])
    inside = np.minimum(place.astype(np.intp), len(empty) - 1)
    return np.interp(np.where(empty[inside], np.round(place), place), np.arange(len(DEVIATIONS)), quantiles)


def _spread_lags(lags: Floats) -> Floats:
    """Return the block Toeplitz matrix of covariances at lags."""
    both = np.concatenate([lags[:0:-1].swapaxes(1, 2), lags])
    place = np.arange(len(lags))
    side = len(lags) * lags.shape[1]
    return np.asarray(both[place[:, None] - place + len(lags) - 1].swapaxes(1, 2).reshape(side, side))
