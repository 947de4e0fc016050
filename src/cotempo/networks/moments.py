"""`Sums` of transitions, which add up over clients, and the `Gram` matrix that a method learns from.

Rows are transitions ``z_t = [x_t, x_{t-1}, ..., x_{t-p}]``, so one joint Gram matrix of side ``(p + 1) d`` holds S, M
and N of the papers: ``[[S, M], [M', N]]``. Where clients miss cells, variables or lags, products are counted pair by
pair of columns first, and then completed (`completion`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from cotempo.data import Series
from cotempo.errors import DataError, Problem
from cotempo.networks.network import Network
from cotempo.typing import Bools, Floats, Indices

#: Digits of a scaled Gram. Units leave traces in the last ones, and between two graphs that are equally good such a
#: trace would decide.
DIGITS = 10
#: Values whose range is below this share of their size differ by rounding only.
ROUNDING = 1e-12
#: The least noise variance of scaled data: a network that explains everything would be infinitely sure.
LEAST_NOISE = 1e-9
#: Of `Benefit`, for all methods that learn a network.
METRIC = "log-density of held-out rows, nats per row"


class Transitions(NamedTuple):
    """A client's transitions, `(rows, side)` with NaN for missing cells, their weights, and at which row each is."""

    values: Floats
    weights: Floats
    places: Indices


def lagged(piece: Floats, lags: int) -> Floats:
    """Return one row per time step, with NaN where a lag reaches back before the piece."""
    padded = np.vstack([np.full((lags, piece.shape[1]), np.nan), piece])
    return np.hstack([padded[lags - lag : lags - lag + len(piece)] for lag in range(lags + 1)])


def lagged_columns(kept: Indices, variables: int, lags: int) -> Indices:
    """Return the columns of some variables among those of transitions."""
    return np.concatenate([kept + lag * variables for lag in range(lags + 1)])


def complete(rows: Floats) -> Floats:
    """Return the rows without a missing cell."""
    return np.asarray(rows[~np.isnan(rows).any(axis=1)])


def transitions(piece: Floats, lags: int) -> Floats:
    """Return the complete rows ``[x_t, x_{t-1}, ..., x_{t-p}]`` of one contiguous piece."""
    return complete(lagged(piece, lags))


def cut_transitions(table: Series, lags: int, half_life: float | None = None, *, partial: bool = False) -> Transitions:
    """Cut a table into transitions, none across a gap.

    `half_life` is the time after which the weight of a row halves; without it weights are the table's. `partial` keeps
    transitions with missing cells, also the first ones of a piece, whose lags reach back too far.
    """
    pieces, weights = table.pieces(), table.row_weights
    rows = np.vstack([lagged(values, lags) for _, values in pieces])
    missing = np.isnan(rows)
    kept = np.flatnonzero(~missing.all(axis=1) if partial else ~missing.any(axis=1))
    return Transitions(rows[kept], weigh_by_age(weights[kept], table.time[kept], half_life), kept)


def weigh_by_age(weights: Floats, when: Floats, half_life: float | None) -> Floats:
    """Return the weights of rows, halved for each `half_life` that they are older than the newest."""
    return weights if half_life is None else weights * 0.5 ** ((when.max(initial=-np.inf) - when) / half_life)


def check_table(table: Series, *, constants: bool = False) -> None:
    """Refuse columns that no network can be learned from; `constants` are allowed where they can be left out."""
    problems = []
    for name, values in zip(table.features, table.values.T, strict=True):
        seen = values[~np.isnan(values)]
        if not len(seen):
            problems.append(Problem("at least one value must not be missing, all are", column=name))
        elif not constants and len(seen) > 1 and (seen == seen[0]).all():
            must = (
                "values must vary, they are all the same here; leave the column out at every client, or take OneRound, "
                "which takes it for not measured at this one"
            )
            problems.append(Problem(must, column=name))
    if problems:
        raise DataError(problems)


def varying(rows: Floats) -> Bools:
    """Say whether each column varies by more than rounding; missing cells do not count."""
    if not len(rows):
        return np.zeros(rows.shape[1], dtype=np.bool_)
    highest, lowest = np.fmax.reduce(rows, axis=0), np.fmin.reduce(rows, axis=0)  # they pass over missing cells
    size = np.maximum(np.abs(highest), np.abs(lowest))
    return np.asarray(highest - lowest > ROUNDING * size, dtype=np.bool_)


class Sums(NamedTuple):
    """Moments about a centre, as they add up over clients. A leading axis may hold several, for parts of the rows.

    `counts` are the rows in which both columns of a pair were seen, `(..., pairs)`, or one number, `(..., 1)`, where
    all pairs have the same; `products` is the upper triangle row by row, `(..., pairs)`.
    """

    counts: Floats
    sums: Floats
    products: Floats

    @classmethod
    def of_rows(
        cls, values: Floats, weights: Floats | None = None, centre: Floats | float = 0.0, *, pairwise: bool = False
    ) -> Sums:
        """Sum transitions about a centre; `pairwise` counts the rows of each pair of columns."""
        each = np.ones(len(values)) if weights is None else weights
        seen = ~np.isnan(values)
        values = np.where(seen, values - centre, 0.0)
        weighted = values if weights is None else values * weights[:, None]
        counts = pack((seen * each[:, None]).T @ seen) if pairwise else each.sum(keepdims=True)
        return cls(counts, weighted.sum(axis=0), pack(weighted.T @ values))

    @classmethod
    def stack(cls, parts: Sequence[Sums]) -> Sums:
        """Return several sums as one, with a leading axis."""
        return cls(*(np.stack(fields) for fields in zip(*parts, strict=True)))

    def part(self, index: int) -> Sums:
        """Return one of several parts."""
        return Sums(*(field[index] for field in self))

    def total(self) -> Sums:
        """Return the sum of several parts."""
        return Sums(*(field.sum(axis=0) for field in self))

    def matrices(self) -> tuple[Floats, Floats]:
        """Return the counts and the products of one part as `(side, side)` matrices."""
        side, counts = len(self.sums), np.broadcast_to(self.counts, self.products.shape)
        return unpack(counts, side), unpack(self.products, side)


def pack(matrix: Floats) -> Floats:
    """Return the upper triangle of a symmetric matrix, row by row: half the bytes."""
    return matrix[np.triu_indices(len(matrix))]


def unpack(triangle: Floats, side: int) -> Floats:
    """Undo `pack`, for `(..., pairs)`."""
    matrix = np.empty((*triangle.shape[:-1], side, side))
    row, column = np.triu_indices(side)
    matrix[..., row, column] = matrix[..., column, row] = triangle
    return matrix


class Gram(NamedTuple):
    """A Gram matrix, summed over `rows` rows about their mean; zero in the rows and columns of what does not vary.

    The Gram about the own mean, not the raw one, is kept: to shift it to another mean adds a square and subtracts
    nothing, so means a million times the spread cost no digits. `mean` is about the centre of the sums. With missing
    cells `rows` is how many complete ones would be worth as much, and `unseen`, `(side, side)`, are the pairs of
    columns that were never seen together; none where it is left out.
    """

    gram: Floats
    rows: float
    mean: Floats
    unseen: Bools | None = None

    @classmethod
    def of_rows(cls, rows: Floats, weights: Floats | None = None) -> Gram:
        """Return the Gram of complete rows."""
        weights = np.ones(len(rows)) if weights is None else weights
        total = float(weights.sum())
        mean = weights @ rows / (total or 1.0)
        centred = rows - mean
        return cls((centred * weights[:, None]).T @ centred, total, mean)

    @classmethod
    def of_sums(cls, sums: Sums, least: float = ROUNDING) -> Gram:
        """Return the Gram about the pooled mean.

        A column whose variance is below the share `least` of its squared mean is taken for constant.
        """
        products, rows = unpack(sums.products, len(sums.sums)), float(sums.counts[0])
        mean = sums.sums / max(rows, 1e-300)
        return cls(_without_constants(products, rows * np.outer(mean, mean), least), rows, mean)

    def only(self, columns: Indices) -> Gram:
        """Return the Gram of some columns."""
        inside = np.ix_(columns, columns)
        unseen = None if self.unseen is None else self.unseen[inside]
        return Gram(self.gram[inside], self.rows, self.mean[columns], unseen)

    def per_row(self, mean: Floats, scale: Floats | None = None) -> Floats:
        """Return the Gram per row about another mean, ``gram / n + (m - mean)(m - mean)'`` with the own mean m.

        FDBNL's clients are centred by the POOLED mean: each one's own mean would remove differences between clients
        that the model must explain, and no mean at all biases every weight. A mean of zeros leaves the Gram uncentred.
        With `scale`, the standard deviations to divide columns by, the result is rounded to `DIGITS` digits.
        """
        if not self.rows:
            raise DataError("there must be at least one row without a missing cell, got none")
        shift = self.mean - mean
        gram = self.gram / self.rows + np.outer(shift, shift)
        return gram if scale is None else np.round(gram / np.outer(scale, scale), DIGITS)


def _without_constants(products: Floats, of_means: Floats, least: float) -> Floats:
    """Return products about the mean, zero for columns that vary by rounding only."""
    gram = products - of_means
    varies = gram.diagonal() > least * of_means.diagonal()
    return np.where(np.outer(varies, varies), gram, 0.0)


def make_semidefinite(covariance: Floats, floor: float) -> Floats:
    """Raise the eigenvalues of the correlations that are below `floor` to it; variances stay as they are."""
    spread = np.sqrt(np.maximum(covariance.diagonal(), 1e-300))
    values, vectors = np.linalg.eigh(covariance / np.outer(spread, spread))
    if values[0] >= floor:
        return covariance
    lifted = (vectors * np.maximum(values, floor)) @ vectors.T
    scale = spread / np.sqrt(lifted.diagonal())
    return np.asarray(lifted * np.outer(scale, scale))


# Held-out rows under a network.


def log_densities(rows: Floats, network: Network, mean: Floats, variance: Floats) -> Floats:
    """Return the log-density of each variable's structural residual in each row, `(rows, variables)`.

    W has no cycles, so the change of variables has determinant one, and their sum is the log-density of the row.
    `mean` is what the network's data were centred by, `variance` that of the residuals.
    """
    centred, count = rows - mean, len(variance)
    past = centred[:, count:] @ network.across.reshape(-1, count)
    error = centred[:, :count] - centred[:, :count] @ network.within - past
    return np.asarray(-0.5 * (np.log(2 * np.pi * variance) + error**2 / variance))


def marginal_log_densities(rows: Floats, held: Indices, network: Network, variance: Floats, past: Floats) -> Floats:
    """Return the log-density of each row of some variables given their own past, the others integrated out.

    `rows`, `(rows, held and their lags)`, are centred as the network's data were, `past` is the covariance of all
    lagged columns. Where all variables are held, these are the sums over variables of `log_densities`.
    """
    count = len(variance)
    own = lagged_columns(held, count, network.lags)[len(held) :] - count
    mixing = np.linalg.inv(np.eye(count) - network.within)
    effect = network.across.reshape(-1, count) @ mixing
    now = (effect.T @ past @ effect + mixing.T @ np.diag(variance) @ mixing)[np.ix_(held, held)]
    known = past[np.ix_(own, own)]
    known = known + np.diag(np.where(known.diagonal() > 0, 1e-9 * known.diagonal(), 1.0))
    across = (past @ effect)[np.ix_(own, held)]
    slopes = np.linalg.solve(known, across)
    noise = now - across.T @ slopes
    error = rows[:, : len(held)] - rows[:, len(held) :] @ slopes
    squares = np.einsum("ij,ji->i", error, np.linalg.solve(noise, error.T))
    return np.asarray(-0.5 * (np.linalg.slogdet(2 * np.pi * noise)[1] + squares))


def weight_errors(gram: Floats, network: Network, variance: Floats) -> Floats:
    """Return standard errors of weights given the edges, ``[lag, source, target]``, zero where there is no edge.

    The Gram, ``((lags + 1) variables, ...)``, is summed over rows about their mean. Weights are by least squares, so
    that those of j's parents S have the covariance ``variance_j K_SS^-1``.
    """
    weights = network.stacked.reshape(-1, len(variance))
    errors = np.zeros(weights.shape)
    for node, column in enumerate(weights.T):
        parents = np.flatnonzero(column)
        inverse = np.linalg.pinv(gram[np.ix_(parents, parents)], hermitian=True)
        errors[parents, node] = np.sqrt(np.maximum(variance[node] * inverse.diagonal(), 0.0))
    return errors.reshape(network.stacked.shape)


def unbiased(squares: Floats, rows: float, network: Network) -> Floats:
    """Return residual variances from mean squares of scaled data, `(variables,)`: one row less for each parent."""
    parents = np.count_nonzero(network.within, axis=0) + np.count_nonzero(network.across, axis=(0, 1))
    return np.asarray(np.maximum(squares, LEAST_NOISE) * rows / np.maximum(rows - 1 - parents, 1))
