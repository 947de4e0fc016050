"""`ColumnGaussian`: moments of all columns where clients miss cells, variables or lags, by expectation-maximisation.

    begin      every pair of columns is summed over the rows that have both                   (`of_pairs`)
    repeat     E: each client fills what it lacks with what the Gaussian expects, and sums    (`expect`)
               M: the sums of all clients give the next Gaussian                              (`of_sums`)

Pairwise sums alone do not fit together: each pair of columns comes from other rows, and the matrix they make need not
be one that any rows can have. Moved to the nearest possible one it is close to singular, and a search finds many edges
in it, all of them sure and most of them wrong.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cotempo.networks.moments import Gram, Sums, make_semidefinite, pack, unpack
from cotempo.typing import Bools, Floats

#: Rows of unrelated columns that the M step adds if no pair of columns were complete, and in proportion if some are:
#: what is filled in must not make an edge sure. Chosen on DREAM4's networks 4 and 5, on subsets of 16 genes.
PRIOR_ROWS = 80.0
#: The M step is repeated until no correlation changes by more, or this many times.
TOLERANCE = 1e-3
MOST_STEPS = 25


class ColumnGaussian(NamedTuple):
    """The mean about the centre of the sums, `(..., side)`, and the covariance, `(..., side, side)`."""

    mean: Floats
    covariance: Floats

    @classmethod
    def of_pairs(cls, sums: Sums) -> ColumnGaussian:
        """Return the pairwise moments, moved to some that fit together."""
        counts, products = sums.matrices()
        mean = sums.sums / np.maximum(counts.diagonal(), 1.0)
        average = products / np.maximum(counts, 1.0) - np.outer(mean, mean) * (counts > 0)
        return cls(mean, make_semidefinite(average, floor=0.05))

    @classmethod
    def of_sums(cls, sums: Sums, rows: float) -> ColumnGaussian:
        """Return the most likely moments for the sums of filled rows, worth `rows` complete ones."""
        gram = Gram.of_sums(sums)
        prior = PRIOR_ROWS * max(1.0 - rows / max(gram.rows, 1.0), 0.0)
        covariance = gram.gram / max(gram.rows + prior, 1.0)
        np.fill_diagonal(covariance, gram.gram.diagonal() / max(gram.rows, 1.0))
        return cls(gram.mean, covariance)

    def part(self, index: int) -> ColumnGaussian:
        """Return one of several."""
        return ColumnGaussian(self.mean[index], self.covariance[index])

    def change(self, other: ColumnGaussian) -> float:
        """Return the largest difference of a covariance, in standard deviations of the two columns."""
        spread = np.sqrt(np.maximum(np.diagonal(other.covariance, axis1=-2, axis2=-1), 1e-300))
        difference = np.abs(other.covariance - self.covariance) / (spread[..., :, None] * spread[..., None, :])
        return float(difference.max(initial=0.0))

    def expect(self, rows: Floats, weights: Floats) -> Sums:
        """Return the sums expected of `(rows, side)` about the centre, whose missing cells are NaN."""
        side = rows.shape[1]
        total, products = np.zeros(side), np.zeros((side, side))
        patterns, which = np.unique(np.isnan(rows), axis=0, return_inverse=True)
        for place, missing in enumerate(patterns):
            mine = which.ravel() == place
            weight = weights[mine]
            filled, left = self._fill(rows[mine], missing)
            total += weight @ filled
            products += (filled * weight[:, None]).T @ filled
            products[np.ix_(missing, missing)] += weight.sum() * left
        return Sums(weights.sum(keepdims=True), total, pack(products))

    def _fill(self, rows: Floats, missing: Bools) -> tuple[Floats, Floats]:
        """Return the rows with their conditional mean, and the conditional covariance of the missing columns."""
        if not missing.any():
            return rows, np.zeros((0, 0))
        seen = ~missing
        known = self.covariance[np.ix_(seen, seen)]
        known = known + np.diag(np.where(known.diagonal() > 0, 1e-9 * known.diagonal(), 1.0))
        across = self.covariance[np.ix_(seen, missing)]
        slopes = np.linalg.solve(known, across)
        filled = np.empty(rows.shape)
        filled[:, seen] = rows[:, seen]
        filled[:, missing] = self.mean[missing] + (rows[:, seen] - self.mean[seen]) @ slopes
        return filled, self.covariance[np.ix_(missing, missing)] - across.T @ slopes

    @staticmethod
    def stack(parts: list[ColumnGaussian]) -> ColumnGaussian:
        """Return several as one, with a leading axis."""
        return ColumnGaussian(*(np.stack(fields) for fields in zip(*parts, strict=True)))


def worth(pairs: Floats) -> float:
    """Return how many complete rows are worth as much as rows whose pairs of columns were seen so often, `(pairs,)`.

    It is the harmonic mean, over the pairs that were seen at all.
    """
    return float(1.0 / np.mean(1.0 / pairs[pairs > 0])) if (pairs > 0).any() else 0.0


def complete_gram(sums: Sums, pairs: Floats) -> Gram:
    """Return the Gram to search, as of `worth` many rows, from sums of filled rows and how often pairs were seen."""
    rows = worth(pairs)
    model = ColumnGaussian.of_sums(sums, rows)
    return Gram(rows * model.covariance, rows, model.mean, unpack(pairs, len(model.mean)) <= 0)


def gram_with_gaps(rows: Floats, weights: Floats) -> Gram:
    """Return the Gram of one client's own rows, `(rows, side)`, whose missing cells are NaN."""
    if not np.isnan(rows).any():
        return Gram.of_sums(Sums.of_rows(rows, weights))
    pairs = Sums.of_rows(rows, weights, pairwise=True)
    model = ColumnGaussian.of_pairs(pairs)
    for _ in range(MOST_STEPS):
        sums = model.expect(rows, weights)
        before, model = model, ColumnGaussian.of_sums(sums, worth(pairs.counts))
        if before.change(model) < TOLERANCE:
            break
    return complete_gram(sums, pairs.counts)
