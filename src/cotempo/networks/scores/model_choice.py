"""`choose`: rank edges by the features that predict best.

Candidates are {linear with 1, 2, 3 or 5 lags; squares; products} x {ridge, sparse}. All moments come in five blocks;
a candidate's worth is how likely each block is given the other four, ``log p(all) - log p(four)``, which both kinds of
regression have in closed form: slopes ~ N(0, v variance), variance ~ InverseGamma(1/2, 1/2).

    ridge   all features, v made most likely; a source scores its Wald statistic b_g' V_g^-1 b_g
    sparse  features chosen forward and backward, v = 1, each at the price log m; a source scores the evidence lost
            when its features are forbidden, or what adding the best of them would gain (less than nothing)

A product counts for both of its sources. Columns that do not vary, such as the square of a column with two equally
frequent values, are no features.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from cotempo.networks.moments import Sums, unpack
from cotempo.networks.scores.features import Column
from cotempo.networks.search.evidence import Evidence, Parents
from cotempo.networks.search.parents import Neighbourhood, climb, neighbourhood
from cotempo.typing import Bools, Floats, Indices

#: Candidate features by name: how many lags, and which kinds of columns.
CANDIDATES: dict[str, tuple[int, tuple[str, ...]]] = {
    "linear-1": (1, ("lag",)),
    "linear-2": (2, ("lag",)),
    "linear-3": (3, ("lag",)),
    "linear-5": (5, ("lag",)),
    "squares": (1, ("lag", "square")),
    "products": (1, ("lag", "square", "product")),
}

#: A column whose variance is below this share of its mean square does not vary but for rounding.
FLAT = 1e-10

_SHAPE = 0.5
_SCALE = 0.5
_STRENGTHS = 10.0 ** np.arange(-4, 3)


class Blocks(NamedTuple):
    """Grams of blocks of joint rows, `(blocks, columns, columns)`, centred and standardised by their pooled moments.

    The targets are the first columns. `flat` columns do not vary but for rounding.
    """

    grams: Floats
    rows: Floats
    flat: Bools

    def select(self, columns: Sequence[Column], lags: int, kinds: Sequence[str]) -> Regressions:
        """Return the regressions of all targets on the columns of some kinds."""
        variables = sum(column.kind == "now" for column in columns)
        uses = np.array([[source in column.sources for column in columns] for source in range(variables)])
        chosen = np.flatnonzero([column.kind in kinds and column.lag <= lags for column in columns] & ~self.flat)
        return Regressions(self.grams, self.rows, chosen, uses)


class Regressions(NamedTuple):
    """Regressions of all targets on the `chosen` columns; `uses[i, j]` is whether column j is made of variable i."""

    blocks: Floats
    rows: Floats
    chosen: Indices
    uses: Bools

    @property
    def total(self) -> tuple[Floats, float]:
        """The Gram of all blocks, and their rows."""
        return self.blocks.sum(axis=0), float(self.rows.sum())

    @property
    def allowed(self) -> Bools:
        """Whether each column is one of the features."""
        allowed = np.zeros(self.uses.shape[1], dtype=np.bool_)
        allowed[self.chosen] = True
        return allowed


def standard_blocks(sums: Sums) -> Blocks:
    """Centre and scale blocks of joint rows by their pooled moments."""
    grams, counts = unpack(sums.products, sums.sums.shape[1]), sums.counts[:, 0]
    rows, total = counts.sum(), sums.sums.sum(axis=0)
    square, mean = grams.sum(axis=0).diagonal(), total / rows
    flat = square - total**2 / rows <= FLAT * square
    crossed = sums.sums[:, :, None] * mean
    blocks = grams - crossed - np.swapaxes(crossed, 1, 2) + counts[:, None, None] * np.outer(mean, mean)
    scale = np.where(flat, 1.0, np.sqrt(np.maximum(blocks.sum(axis=0).diagonal(), 0.0) / rows))
    return Blocks(blocks / np.outer(scale, scale), counts, flat)


def choose(blocks: Blocks, columns: Sequence[Column], names: Sequence[str]) -> tuple[str, Floats, dict[str, float]]:
    """Return the candidate that predicts best, such as ``"products, ridge"``, its scores and all log-likelihoods."""
    problems = {name: blocks.select(columns, *CANDIDATES[name]) for name in names}
    likelihoods = {}
    for name, problem in problems.items():
        likelihoods[f"{name}, ridge"] = predict_ridge(problem)
        likelihoods[f"{name}, sparse"] = predict_sparse(problem)
    best = max(likelihoods, key=lambda name: likelihoods[name])
    features, regression = best.split(", ")
    score = {"ridge": wald, "sparse": evidence_lost}[regression]
    return best, score(problems[features]), likelihoods


# Ridge.


class RidgeSpectrum(NamedTuple):
    """The features' Gram as ``U diag(values) U'``, with ``U' Z' y`` and ``y'y`` of every target."""

    values: Floats
    rotated: Floats
    spread: Floats

    def evidence(self, rows: float, strength: float) -> float:
        """Return the log evidence of all targets together, slopes ~ N(0, strength variance)."""
        explained = (self.rotated**2 / (self.values[:, None] + 1.0 / strength)).sum(axis=0)
        determinant = np.log1p(strength * self.values).sum()
        rest = _SCALE + np.maximum(self.spread - explained, 0.0) / 2.0
        each = -0.5 * determinant - (_SHAPE + rows / 2.0) * np.log(rest) + _constant(rows)
        return float(each.sum())

    def best_strength(self, rows: float) -> float:
        """Return the strength that makes the data most likely."""
        return float(max(_STRENGTHS, key=lambda strength: self.evidence(rows, strength)))


def predict_ridge(problem: Regressions) -> float:
    """Return the predictive log-likelihood of the blocks, each given the others."""
    gram, rows = problem.total
    everything = _decompose(gram, problem)
    total = 0.0
    for block, count in zip(problem.blocks, problem.rows, strict=True):
        rest = _decompose(gram - block, problem)
        strength = rest.best_strength(rows - count)
        total += everything.evidence(rows, strength) - rest.evidence(rows - count, strength)
    return total


def wald(problem: Regressions) -> Floats:
    """Return every source's Wald statistic, ``b_g' V_g^-1 b_g / variance`` over its features g."""
    gram, rows = problem.total
    strength = _decompose(gram, problem).best_strength(rows)
    chosen, count = problem.chosen, len(problem.uses)
    covariance = np.linalg.inv(gram[np.ix_(chosen, chosen)] + np.eye(len(chosen)) / strength)
    towards = gram[chosen, :count]
    slopes = covariance @ towards
    variance = np.maximum(gram.diagonal()[:count] - (towards * slopes).sum(axis=0), _SCALE) / rows
    scores = np.empty((count, count))
    for source in range(count):
        group = np.flatnonzero(problem.uses[source, chosen])
        solved = np.linalg.solve(covariance[np.ix_(group, group)], slopes[group])
        scores[source] = (slopes[group] * solved).sum(axis=0) / variance
    return scores


def _decompose(gram: Floats, problem: Regressions) -> RidgeSpectrum:
    chosen, count = problem.chosen, len(problem.uses)
    values, vectors = np.linalg.eigh(gram[np.ix_(chosen, chosen)])
    return RidgeSpectrum(np.maximum(values, 0.0), vectors.T @ gram[chosen, :count], gram.diagonal()[:count])


def _constant(rows: float) -> float:
    return float(gammaln(_SHAPE + rows / 2.0)) - rows / 2.0 * math.log(2.0 * math.pi)


# Sparse.


def predict_sparse(problem: Regressions) -> float:
    """Return the predictive log-likelihood of the blocks, features chosen on the others each time."""
    gram, rows = problem.total
    everything, total = _evidence(gram, rows, problem), 0.0
    for block, count in zip(problem.blocks, problem.rows, strict=True):
        rest = _evidence(gram - block, rows - count, problem)
        for target in range(len(problem.uses)):
            found = _climb(rest, target, problem.allowed)
            total += everything.profile(target, found.parents).score - found.score
        total += len(problem.uses) * (_constant(rows) - _constant(rows - float(count)))
    return float(total)


def evidence_lost(problem: Regressions) -> Floats:
    """Return for every source the evidence a target loses without its features; negative where it would not pay."""
    evidence, allowed = _evidence(*problem.total, problem), problem.allowed
    scores = np.empty((len(problem.uses), len(problem.uses)))
    for target in range(len(problem.uses)):
        best = _climb(evidence, target, allowed)
        for source, uses in enumerate(problem.uses):
            if uses[list(best.parents)].any():
                left = tuple(parent for parent in best.parents if not uses[parent])
                scores[source, target] = best.score - _climb(evidence, target, allowed & ~uses, left).score
            else:
                scores[source, target] = best.adding[allowed & uses].max(initial=-np.inf)
    return scores


def _climb(evidence: Evidence, target: int, allowed: Bools, start: Parents = ()) -> Neighbourhood:
    return climb(lambda parents: neighbourhood(evidence, target, parents), allowed, start)


def _evidence(gram: Floats, rows: float, problem: Regressions) -> Evidence:
    price = np.full(len(gram), math.log(max(len(problem.chosen), 1)))
    return Evidence(gram, rows, len(problem.uses), _SHAPE, _SCALE, price, precision=1.0)
