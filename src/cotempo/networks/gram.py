"""Moments that add up over clients, also where clients miss cells, variables or lags.

Transitions ``z_t = [x_t, x_{t-1}, ..., x_{t-p}]`` are summed pair by pair of columns: how often both were seen, and the
sum of their products about a common centre. Where every client sees everything all pairs have one count.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cotempo.networks.compare import ROUNDING
from cotempo.networks.transitions import Rows

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


class Sums(NamedTuple):
    """Moments about a centre, as they add up.

    Attributes
    ----------
    counts : (1,) or (pairs,)
        Rows in which both columns of a pair were seen; one number where all pairs have the same.
    sums : (side,)
        Sums of the columns.
    products : (pairs,)
        Sums of products, the upper triangle row by row.
    """

    counts: FloatArray
    sums: FloatArray
    products: FloatArray


class Gram(NamedTuple):
    """A usable Gram matrix about the pooled mean.

    Attributes
    ----------
    gram : (side, side)
        Summed over `rows` rows; zero in the rows and columns of what does not vary.
    rows : float
        Their number; with missing cells the harmonic mean over pairs.
    mean : (side,)
        The pooled mean, about the centre.
    unseen : (side, side) bool
        Pairs of columns that were never seen together.
    repaired : float
        The most negative eigenvalue of the correlation matrix before it was mended; 0 where nothing was.
    """

    gram: FloatArray
    rows: float
    mean: FloatArray
    unseen: BoolArray
    repaired: float

    def only(self, columns: NDArray[np.intp]) -> Gram:
        """The same of some columns."""
        inside = np.ix_(columns, columns)
        return Gram(self.gram[inside], self.rows, self.mean[columns], self.unseen[inside], self.repaired)


def sum_products(rows: Rows, centre: FloatArray, *, pairwise: bool) -> Sums:
    """Sum up transitions about a centre.

    Examples
    --------
    >>> rows = Rows(np.array([[1.0, 2.0], [3.0, np.nan]]), np.ones(2))
    >>> sum_products(rows, np.zeros(2), pairwise=True)
    Sums(counts=array([2., 1., 1.]), sums=array([4., 2.]), products=array([10.,  2.,  4.]))
    """
    seen = ~np.isnan(rows.values)
    values = np.where(seen, rows.values - centre, 0.0)
    weighted = values * rows.weights[:, None]
    counts = pack((seen * rows.weights[:, None]).T @ seen) if pairwise else rows.weights.sum(keepdims=True)
    return Sums(counts, weighted.sum(axis=0), pack(weighted.T @ values))


def assemble(sums: Sums) -> Gram:
    """Make a Gram matrix about the pooled mean, mended where pairwise moments do not fit together."""
    side = len(sums.sums)
    counts = unpack(np.broadcast_to(sums.counts, (side * (side + 1) // 2,)), side)
    products = unpack(sums.products, side)
    mean = sums.sums / np.maximum(counts.diagonal(), 1e-300)
    if len(sums.counts) == 1:
        rows = float(sums.counts[0])
        return Gram(_settle(products, rows * np.outer(mean, mean)), rows, mean, np.zeros((side, side), np.bool_), 0.0)
    unseen = counts <= 0
    covariance = _settle(
        np.where(unseen, 0.0, products / np.where(unseen, 1.0, counts)), np.outer(mean, mean) * ~unseen
    )
    mended, repaired = make_semidefinite(covariance)
    rows = float(1.0 / np.mean(1.0 / counts[~unseen]))
    return Gram(rows * mended, rows, mean, unseen, repaired)


def _settle(products: FloatArray, of_means: FloatArray) -> FloatArray:
    """Products about the mean, zero for columns that vary by rounding only."""
    gram = products - of_means
    varies = gram.diagonal() > ROUNDING * of_means.diagonal()
    return np.where(np.outer(varies, varies), gram, 0.0)


def make_semidefinite(covariance: FloatArray, floor: float = 1e-3) -> tuple[FloatArray, float]:
    """Lift the eigenvalues of the correlation matrix to `floor`, keeping variances; return the smallest before."""
    spread = np.sqrt(np.maximum(covariance.diagonal(), 1e-300))
    values, vectors = np.linalg.eigh(covariance / np.outer(spread, spread))
    if values[0] >= 0:
        return covariance, 0.0
    lifted = (vectors * np.maximum(values, floor)) @ vectors.T
    scale = spread / np.sqrt(lifted.diagonal())
    return lifted * np.outer(scale, scale), float(values[0])


def pack(matrix: FloatArray) -> FloatArray:
    """The upper triangle of a symmetric matrix, row by row: half the bytes."""
    return matrix[np.triu_indices(len(matrix))]


def unpack(triangle: FloatArray, side: int) -> FloatArray:
    """Undo `pack`.

    Examples
    --------
    >>> unpack(np.array([1.0, 2.0, 3.0]), 2).tolist()
    [[1.0, 2.0], [2.0, 3.0]]
    """
    matrix = np.zeros((side, side))
    matrix[np.triu_indices(side)] = triangle
    return matrix + np.triu(matrix, 1).T


def embed(sums: Sums, own: NDArray[np.intp], side: int) -> Sums:
    """Place a client's moments among the columns of all clients; what it does not hold counts zero times."""
    counts = np.zeros((side, side))
    products = np.zeros((side, side))
    total = np.zeros(side)
    inside = np.ix_(own, own)
    held = len(own)
    counts[inside] = unpack(np.broadcast_to(sums.counts, (held * (held + 1) // 2,)), held)
    products[inside] = unpack(sums.products, held)
    total[own] = sums.sums
    return Sums(pack(counts), total, pack(products))
