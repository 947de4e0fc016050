"""Gaussian: the autoregressive Gaussian process that window moments determine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_solve, cholesky, solve_triangular
from scipy.linalg.lapack import dpotri

from cotempo.series.filling.factor_models import nearest_correlation
from cotempo.series.moments.lacked import join_levels
from cotempo.series.moments.moments import WindowMoments, sum_spreads, sum_windows
from cotempo.series.windows import SeriesRows
from cotempo.typing import Floats

LONGEST_STRETCH, SHORTEST_STRETCH = 128, 24
EIGENVALUE_FLOOR = 1e-2
JITTER, CONSTANT_VARIANCE = 1e-8, 1e-6
LEVEL_WINDOWS = 10_000
MOST_CELLS = 2000  # of a stretch around a long gap


class WalkPrior(NamedTuple):
    """A prior centred at a random walk.

    `pull` is the deviation of the weight of the step before; that of the k-th before has a k-th of it. `noise` is the
    share of each feature's innovation that is its own.
    """

    pull: float
    noise: float


@dataclass(frozen=True)
class Gaussian:
    r"""A Gaussian process over rows, its features in `Units`.

    .. math:: x_t - x_{t-1} = B_1 x_{t-1} + \sum_{k = 1}^{p - 1} D_k (x_{t-k} - x_{t-k-1}) + e_t,
              \qquad e_t \sim N(0, V), \quad x_0 \sim N(0, C)

    With :math:`B = D = 0` and a diagonal :math:`V` the conditional mean of a gap is linear interpolation. The rows at
    the beginning of a piece have processes of lower order, fitted to the same moments. Levels hardly pull: as many
    windows as `LEVEL_WINDOWS` would have to say so, because where levels wander, the past tells too much of it.

    `start` is :math:`C`. For each order :math:`1, \dots, p`, `whiteners` make independent noise of a row and those
    before it, the row itself first, ``(features, order + 1, features)``.
    """

    start: Floats
    whiteners: tuple[Floats, ...]

    @classmethod
    def walk(cls, level: Floats, steps: Floats) -> Gaussian:
        """Make random walks from variances of levels, ``(features,)``, and the covariance of their steps."""
        white = np.linalg.inv(np.linalg.cholesky(steps))
        return cls(np.diag(level), (np.stack([white, -white], axis=1),))

    @classmethod
    def of(cls, moments: WindowMoments, prior: WalkPrior | None) -> Gaussian:
        """Fit the posterior mean under a prior; a random walk without one."""
        counts = np.maximum(moments.counts.diagonal(), 1.0)
        means = mean_products(moments)
        window, features = means.shape[:2]
        level, step = (np.where((v := means[k, :, k].diagonal()) > CONSTANT_VARIANCE, v, 1.0) for k in (1, 0))
        if prior is None:
            return cls.walk(level, np.diag(step))
        side = (window - 1) * features
        lag = np.arange(1, window - 1)[:, None]
        ridge = np.concatenate(
            [[LEVEL_WINDOWS * level], np.broadcast_to((lag / prior.pull) ** 2, (window - 2, features))]
        )
        table = means.reshape(side + features, side + features)
        factor = cholesky(
            table[features:, features:] + np.diag((ridge / counts).ravel()) + JITTER * np.eye(side), lower=True
        )
        half = solve_triangular(factor, table[features:, :features], lower=True)
        few = (np.count_nonzero(means[0, :, 0].diagonal() > CONSTANT_VARIANCE) + 2) / counts
        whiteners = []
        for order in range(1, window):
            known = order * features
            weights = solve_triangular(factor[:known, :known], half[:known], lower=True, trans=1)
            left = table[:features, :features] - half[:known].T @ half[:known] + np.diag(few * step)
            left = left / np.sqrt(np.outer(1 + few, 1 + few)) + np.diag(prior.noise * left.diagonal() + JITTER * step)
            white = np.linalg.inv(np.linalg.cholesky(left))
            whiteners.append(_lagged(white, weights.T.reshape(features, order, features)))
        share = few / (1 + few)
        start = means[1, :, 1] * np.sqrt(np.outer(1 - share, 1 - share)) + np.diag(share * level)
        return cls(start + np.diag(JITTER * level), tuple(whiteners))

    def precision(self, length: int) -> Floats:
        """Return the inverse covariance of a piece, ``(length * features, length * features)``."""
        features, most = len(self.start), len(self.whiteners)
        root = np.zeros((length, features, length, features))
        root[0, :, 0] = np.linalg.inv(np.linalg.cholesky(self.start))
        for row in range(1, length):
            order = min(row, most)
            root[row, :, row - order : row + 1] = self.whiteners[order - 1][:, ::-1]
        flat = root.reshape(length * features, length * features)
        return np.asarray(flat.T @ flat)

    def fill(self, rows: SeriesRows) -> Floats:
        """Fill missing cells by their conditional mean."""
        filled = rows.values.copy()
        for part in self._parts(rows, whole_gaps=True):
            filled[part.kept] = part.fill()[part.inner]
        return filled

    def measure(self, rows: SeriesRows) -> tuple[Floats, Floats]:
        """Fill missing cells by their conditional mean; return the deviations of all cells, too."""
        filled, deviation = rows.values.copy(), np.zeros_like(rows.values)
        for part in self._parts(rows, whole_gaps=True):
            filled[part.kept] = part.fill()[part.inner]
            spread = np.zeros(part.missing.shape)
            spread[part.missing] = np.sqrt(np.diag(part.covariance()))
            deviation[part.kept] = spread[part.inner]
        return filled, deviation

    def expect(self, rows: SeriesRows, window: int) -> WindowMoments:
        """Return the expected moments of rows with gaps: the E-step of expectation-maximisation."""
        filled, beyond = rows.values.copy(), WindowMoments.none(window, rows.values.shape[1]).products
        starts = {first for first, _ in rows.bounds}
        for part in self._parts(rows):
            filled[part.kept] = part.fill()[part.inner]
            size, features = part.missing.shape
            spread = np.zeros((size * features, size * features))
            gone = part.missing.ravel()
            spread[np.ix_(gone, gone)] = part.covariance()
            first = part.inner.start + (part.kept.start in starts)
            if first < part.inner.stop:
                table = spread.reshape(size, features, size, features)
                beyond = beyond + sum_spreads(table, first, part.inner.stop, window)
        found = sum_windows(rows.with_values(filled), window)
        return WindowMoments(found.products + beyond, found.counts)

    def draw(self, rows: SeriesRows, count: int, stream: np.random.Generator) -> Floats:
        """Draw rows with their gaps filled, ``(count, rows, features)``: stretch by stretch, given the last."""
        drawn = np.repeat(rows.values[None], count, axis=0)
        for part in self._parts(rows, whole_gaps=True):
            place = slice(part.kept.start - part.inner.start, part.kept.start - part.inner.start + len(part.missing))
            given = np.isnan(drawn[0, place]).ravel()
            values = drawn[:, place].reshape(count, -1)
            root = cholesky(part.precision[np.ix_(given, given)], lower=True, check_finite=False)
            means = -cho_solve((root, True), (np.where(given, 0.0, values) @ part.precision)[:, given].T)
            noise = solve_triangular(root, stream.standard_normal(means.shape), lower=True, trans=1)
            values[:, given] = (means + noise).T
            drawn[:, part.kept] = values.reshape(count, *part.missing.shape)[:, part.inner]
        return drawn

    def _parts(self, rows: SeriesRows, *, whole_gaps: bool = False) -> Iterator[_Part]:
        """Yield stretches with gaps: the middle of each is kept, the rest is context.

        With `whole_gaps` a gap that is longer than the context is a stretch of its own, as far as memory allows:
        what is filled does not jump inside it.
        """
        tables: dict[int, Floats] = {}
        longest = min(max(2 * (len(self.whiteners) + 1), SHORTEST_STRETCH), LONGEST_STRETCH)
        for begin, stop in rows.bounds:
            length = min(longest, stop - begin)
            starts = sorted({*range(begin, stop - length, max(1, length // 2)), stop - length})
            edges = [begin, *((first + length + second) // 2 for first, second in pairwise(starts)), stop]
            reach = length // 2
            spans = _long_gaps(rows.values, begin, stop, reach) if whole_gaps else []
            for first, end in spans:
                near = slice(max(begin, first - reach), min(stop, end + reach))
                table = self.precision(near.stop - near.start)
                yield _Part(slice(first, end), slice(first - near.start, end - near.start), rows.values[near], table)
            kept = [
                (start, *part)
                for start, edge in zip(starts, pairwise(edges), strict=True)
                for part in _outside(edge, spans)
            ]
            for start, first, end in kept:
                if np.isnan(rows.values[first:end]).any():
                    if length not in tables:
                        tables[length] = self.precision(length)
                    values = rows.values[start : start + length]
                    yield _Part(slice(first, end), slice(first - start, end - start), values, tables[length])


def _long_gaps(values: Floats, begin: int, stop: int, reach: int) -> list[tuple[int, int]]:
    """Return rows of a piece in which a feature is missing for longer than the reach, if these are not too many.

    Gaps of several features that overlap are one.
    """
    gone = np.isnan(values[begin:stop])
    bounds = np.diff(np.pad(gone, ((1, 1), (0, 0))).astype(np.int8), axis=0)
    found: list[tuple[int, int]] = []
    gaps = zip(*(np.argwhere(edge)[:, 1].tolist() for edge in (bounds.T > 0, bounds.T < 0)), strict=True)
    for first, end in sorted((begin + first, begin + end) for first, end in gaps if end - first > reach):
        if found and first <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((first, end))
    return [(first, end) for first, end in found if (end - first + 2 * reach) * values.shape[1] <= MOST_CELLS]


def _outside(span: tuple[int, int], others: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the parts of a span that are in none of others, which are in order and apart."""
    first, end = span
    for low, high in others:
        if high > first and low < end:
            if low > first:
                yield first, low
            first = high
    if first < end:
        yield first, end


class _Part:
    """A stretch of rows, conditioned on what was measured in it."""

    def __init__(self, kept: slice, inner: slice, values: Floats, precision: Floats):
        self.kept, self.inner, self.precision = kept, inner, precision
        self.missing = np.isnan(values)
        self._known = np.where(self.missing, 0.0, values)

    @cached_property
    def root(self) -> Floats:
        """Return the Cholesky factor of the missing cells' precision."""
        gone = self.missing.ravel()
        return np.asarray(cholesky(self.precision[np.ix_(gone, gone)], lower=True, check_finite=False))

    def fill(self) -> Floats:
        """Fill the stretch's missing cells by their conditional mean."""
        gone, filled = self.missing.ravel(), self._known.ravel()
        filled[gone] = -cho_solve((self.root, True), (self.precision @ filled)[gone], check_finite=False)
        return filled.reshape(self.missing.shape)

    def covariance(self) -> Floats:
        """Return the conditional covariance of the missing cells."""
        lower, _ = dpotri(self.root, lower=1)
        return np.asarray(np.tril(lower) + np.tril(lower, -1).T)


def _lagged(white: Floats, weights: Floats) -> Floats:
    """Turn weights of the level and of steps into those of rows, and whiten the innovation."""
    features, order = weights.shape[:2]
    found = np.zeros((features, order + 1, features))
    found[:, 0] = np.eye(features)
    found[:, 1] = -np.eye(features) - weights[:, 0]
    found[:, 1:-1] -= weights[:, 1:]
    found[:, 2:] += weights[:, 1:]
    return np.asarray(np.einsum("ij,jkl->ikl", white, found))


def mean_products(moments: WindowMoments) -> Floats:
    """Return mean products ``(window, features, window, features)``, made positive definite.

    Levels of such features are compared as far as `join_levels` can: they wander too far for windows of different
    clients to tell their distance. Each feature's own moments stand; between features correlations are moved to the
    nearest that fit together.
    """
    counts = moments.counts
    own = counts.diagonal()
    found = moments.products / np.maximum(counts, 1.0)[:, None]
    if (counts == own[0]).all() and own[0] > 0:
        return found
    window, features = found.shape[:2]
    apart = (counts != own) | (counts != own[:, None])
    np.fill_diagonal(apart, val=False)
    found[1][apart[:, None, :].repeat(window, axis=1)] = 0.0
    found[:, :, 1][apart[None].repeat(window, axis=0)] = 0.0
    join_levels(found, moments)
    roots = np.zeros_like(found)
    for column in range(features):
        table = found[:, column, :, column]
        lifted = table + np.diag(JITTER * (table.diagonal().max() + 1.0) * np.ones(window))
        found[:, column, :, column] = lifted
        roots[:, column, :, column] = np.linalg.cholesky(lifted)
    root = roots.reshape(window * features, -1)
    white = np.linalg.inv(root)
    near = nearest_correlation(white @ found.reshape(root.shape) @ white.T, EIGENVALUE_FLOOR)
    return np.asarray(root @ near @ root.T).reshape(found.shape)
