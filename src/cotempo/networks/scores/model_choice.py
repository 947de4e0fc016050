"""The rule that chooses its own features: what predicts best decides what the edges are ranked by.

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
from numpy.typing import NDArray
from scipy.special import gammaln

from cotempo.networks.scores.features import Column
from cotempo.networks.search.evidence import Evidence
from cotempo.networks.views import FLAT, Views

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
Indices = NDArray[np.intp]

#: Candidate features by name: how many lags, and which kinds of columns.
CANDIDATES: dict[str, tuple[int, tuple[str, ...]]] = {
    "linear-1": (1, ("lag",)),
    "linear-2": (2, ("lag",)),
    "linear-3": (3, ("lag",)),
    "linear-5": (5, ("lag",)),
    "squares": (1, ("lag", "square")),
    "products": (1, ("lag", "square", "product")),
}

_SHAPE = 0.5
_SCALE = 0.5
_STRENGTHS = 10.0 ** np.arange(-4, 3)
_LEAST_GAIN = 1e-7


class Choice(NamedTuple):
    """What was chosen.

    Attributes
    ----------
    name : str
        Features and regression, ``"products, ridge"``.
    scores : (variables, variables)
        ``[source, target]``.
    likelihoods : dict from str to float
        Predictive log-likelihood of every candidate.
    """

    name: str
    scores: FloatArray
    likelihoods: dict[str, float]


class Problem(NamedTuple):
    """Regressions of all targets on one candidate's features.

    Attributes
    ----------
    blocks : (blocks, columns, columns)
        Centred, standardised Grams; the targets are the first columns.
    rows : (blocks,)
    chosen : (features,)
        Columns of the candidate's features.
    uses : (variables, columns) bool
        Whether a column is made of a variable.
    """

    blocks: FloatArray
    rows: FloatArray
    chosen: Indices
    uses: BoolArray

    @property
    def variables(self) -> int:
        """How many targets there are."""
        return len(self.uses)


def choose(views: Views, columns: Sequence[Column], names: Sequence[str]) -> Choice:
    """Return the scores of the candidate that predicts best.

    Parameters
    ----------
    views : Views
        Blocks of joint rows.
    columns : sequence of Column
        What the rows' columns are.
    names : sequence of str
        Candidates, of `CANDIDATES`.
    """
    problems = {name: problem_of(views, columns, *CANDIDATES[name]) for name in names}
    likelihoods = {}
    for name, problem in problems.items():
        likelihoods[f"{name}, ridge"] = predict_ridge(problem)
        likelihoods[f"{name}, sparse"] = predict_sparse(problem)
    best = max(likelihoods, key=lambda name: likelihoods[name])
    features, regression = best.split(", ")
    score = {"ridge": wald, "sparse": evidence_lost}[regression]
    return Choice(best, score(problems[features]), likelihoods)


def choose_lags(
    views: Views, columns: Sequence[Column], names: Sequence[str], kinds: Sequence[str]
) -> dict[str, float]:
    """Return the predictive log-likelihood of ridge regressions with as many lags as each linear candidate has."""
    return {name: predict_ridge(problem_of(views, columns, CANDIDATES[name][0], kinds)) for name in names}


def flat_columns(views: Views) -> BoolArray:
    """Whether each column does not vary but for rounding."""
    total = views.total()
    variance = total.gram[0].diagonal() - total.sums[0] ** 2 / total.rows[0]
    return np.asarray(variance <= FLAT * total.gram[0].diagonal(), dtype=np.bool_)


def problem_of(views: Views, columns: Sequence[Column], lags: int, kinds: Sequence[str]) -> Problem:
    """Centre and scale all blocks by the pooled moments, and pick a candidate's columns."""
    flat = flat_columns(views)
    rows = views.rows.sum()
    mean = views.sums.sum(axis=0) / rows
    crossed = views.sums[:, :, None] * mean
    blocks = views.gram - crossed - np.swapaxes(crossed, 1, 2) + views.rows[:, None, None] * np.outer(mean, mean)
    scale = np.where(flat, 1.0, np.sqrt(np.maximum(blocks.sum(axis=0).diagonal(), 0.0) / rows))
    variables = sum(column.kind == "now" for column in columns)
    uses = np.array([[source in column.sources for column in columns] for source in range(variables)])
    chosen = np.flatnonzero([column.kind in kinds and column.lag <= lags for column in columns] & ~flat)
    return Problem(blocks / np.outer(scale, scale), views.rows, chosen, uses)


# Ridge.


class Spectrum(NamedTuple):
    """The features' Gram as ``U diag(values) U'``, with ``U' Z' y`` and ``y'y`` of every target."""

    values: FloatArray
    rotated: FloatArray
    spread: FloatArray

    def evidence(self, rows: float, strength: float) -> float:
        """Log evidence of all targets together, slopes ~ N(0, strength variance)."""
        explained = (self.rotated**2 / (self.values[:, None] + 1.0 / strength)).sum(axis=0)
        determinant = np.log1p(strength * self.values).sum()
        rest = _SCALE + np.maximum(self.spread - explained, 0.0) / 2.0
        each = -0.5 * determinant - (_SHAPE + rows / 2.0) * np.log(rest) + _constant(rows)
        return float(each.sum())

    def best_strength(self, rows: float) -> float:
        """The strength that makes the data most likely."""
        return float(max(_STRENGTHS, key=lambda strength: self.evidence(rows, strength)))


def predict_ridge(problem: Problem) -> float:
    """Return the predictive log-likelihood of the blocks, each given the others."""
    gram, rows = problem.blocks.sum(axis=0), float(problem.rows.sum())
    everything = _decompose(gram, problem)
    total = 0.0
    for block, count in zip(problem.blocks, problem.rows, strict=True):
        rest = _decompose(gram - block, problem)
        strength = rest.best_strength(rows - count)
        total += everything.evidence(rows, strength) - rest.evidence(rows - count, strength)
    return total


def wald(problem: Problem) -> FloatArray:
    """Return every source's Wald statistic, ``b_g' V_g^-1 b_g / variance`` over its features g."""
    gram, rows = problem.blocks.sum(axis=0), float(problem.rows.sum())
    strength = _decompose(gram, problem).best_strength(rows)
    chosen, count = problem.chosen, problem.variables
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


def _decompose(gram: FloatArray, problem: Problem) -> Spectrum:
    chosen, count = problem.chosen, problem.variables
    values, vectors = np.linalg.eigh(gram[np.ix_(chosen, chosen)])
    return Spectrum(np.maximum(values, 0.0), vectors.T @ gram[chosen, :count], gram.diagonal()[:count])


def _constant(rows: float) -> float:
    return float(gammaln(_SHAPE + rows / 2.0)) - rows / 2.0 * math.log(2.0 * math.pi)


# Sparse.


def predict_sparse(problem: Problem) -> float:
    """Return the predictive log-likelihood of the blocks, features chosen on the others each time."""
    gram, rows = problem.blocks.sum(axis=0), float(problem.rows.sum())
    everything, allowed = _evidence(gram, rows, problem), _allowed(problem)
    total = 0.0
    for block, count in zip(problem.blocks, problem.rows, strict=True):
        rest = _evidence(gram - block, rows - count, problem)
        for target in range(problem.variables):
            parents = climb(rest, target, allowed)
            total += everything.profile(target, parents).score - rest.profile(target, parents).score
        total += problem.variables * (_constant(rows) - _constant(rows - float(count)))
    return float(total)


def evidence_lost(problem: Problem) -> FloatArray:
    """Return for every source the evidence a target loses without its features; negative where it would not pay."""
    gram, rows = problem.blocks.sum(axis=0), float(problem.rows.sum())
    evidence, allowed = _evidence(gram, rows, problem), _allowed(problem)
    scores = np.empty((problem.variables, problem.variables))
    for target in range(problem.variables):
        parents = climb(evidence, target, allowed)
        best = evidence.profile(target, parents)
        for source, uses in enumerate(problem.uses):
            if uses[list(parents)].any():
                left = tuple(parent for parent in parents if not uses[parent])
                without = climb(evidence, target, allowed & ~uses, left)
                scores[source, target] = best.score - evidence.profile(target, without).score
            else:
                scores[source, target] = best.adding[allowed & uses].max(initial=-np.inf)
    return scores


def climb(evidence: Evidence, target: int, allowed: BoolArray, parents: tuple[int, ...] = ()) -> tuple[int, ...]:
    """Add or drop the feature that gains most, until none gains."""
    while True:
        seen = evidence.profile(target, parents)
        adding = np.where(allowed, seen.adding, -np.inf)
        add = int(adding.argmax())
        drop = int(seen.dropping.argmax()) if parents else 0
        dropping = float(seen.dropping[drop]) if parents else -math.inf
        if max(float(adding[add]), dropping) <= _LEAST_GAIN:
            return parents
        fewer, more = parents[:drop] + parents[drop + 1 :], tuple(sorted((*parents, add)))
        parents = fewer if dropping > adding[add] else more


def _evidence(gram: FloatArray, rows: float, problem: Problem) -> Evidence:
    price = np.full(len(gram), math.log(max(len(problem.chosen), 1)))
    return Evidence(gram, rows, problem.variables, _SHAPE, _SCALE, price, precision=1.0)


def _allowed(problem: Problem) -> BoolArray:
    allowed = np.zeros(problem.uses.shape[1], dtype=np.bool_)
    allowed[problem.chosen] = True
    return allowed
