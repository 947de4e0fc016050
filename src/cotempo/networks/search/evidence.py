"""`Evidence`: how well a set of parents explains one variable, from a single Gram matrix; `refit` its hyperparameters.

With n rows, K the summed Gram of ``z_t = [x_t, x_{t-1}, ..., x_{t-p}]`` and S the parents of variable j, the noise
variance of j has the prior InverseGamma(a, b) and is integrated out:

    score(j, S) = -(a + n/2) log(b + rss/2) - price(S),      rss = K_jj - K_jS (K_SS + I/v)^-1 K_Sj

    penalty:  v = infinity,  price(S) = |S| (log n + 2 gamma log m) / 2
    bayes:    slopes ~ N(0, v variance_j),  price(S) = log det(I + v K_SS) / 2 - sum over S of log(q / (1 - q))

The prior (a, b) is common to all variables and refitted, so that large a means equal noise variances and small a means
free ones. Under `bayes` the edge densities q (one for the slice, one for the lags) and v are refitted too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dpotrf, dtrtri
from scipy.optimize import minimize, minimize_scalar
from scipy.special import digamma, gammaln

from cotempo.typing import Floats

Parents = tuple[int, ...]

#: A candidate whose variance given the chosen parents falls below this share of its own is a copy of them.
COLLINEAR = 1e-9
#: Few rows say little about how dense a graph is, and the best graph is sparser than the truth: the density of the
#: slice is pulled towards this many neighbours, as if that had been seen in `PULL` pairs for each variable.
NEIGHBOURS = 4.0
PULL = 2.0


class ParentProfile(NamedTuple):
    """Score of a variable with chosen parents, and the gain for adding each column and for dropping each parent.

    `adding`, `(side,)`, is minus infinity for the parents and the variable itself.
    """

    score: float
    adding: Floats
    dropping: Floats


@dataclass(frozen=True)
class Evidence:
    """The score of a variable's parents under one choice of hyperparameters.

    `gram` is K, summed over rows and centred, `(side, side)`, `rows` n (a fraction where rows are borrowed), `shape`
    and `scale` are a and b, `precision` is 1/v, zero for least squares; `price`, `(side,)`, is that of each candidate:
    the penalty, or minus the log odds of its edge.
    """

    gram: Floats
    rows: float
    variables: int
    shape: float
    scale: float
    price: Floats
    precision: float = 0.0
    _ridged: Floats = field(init=False, repr=False)
    _diagonal: Floats = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_ridged", self.gram + self.precision * np.eye(len(self.gram)))
        object.__setattr__(self, "_diagonal", self._ridged.diagonal().copy())

    def profile(self, node: int, parents: Parents) -> ParentProfile:
        """Score `parents` of `node`, and every set that differs from them by one.

        With K_SS = L L' and R = L^-1 K_S., the candidates' variances and covariances given S are
        ``diag K - sum R^2`` and ``K_j. - R_j' R``, so that all candidates cost O(m |S|^2) together.
        """
        index = np.array(parents, dtype=np.intp)
        block = self._ridged.take(index, 0)
        inverse = _inverse_factor(block.take(index, 1))
        rows = inverse @ block
        own = rows[:, node]
        variance = self._diagonal - np.einsum("ij,ij->j", rows, rows)
        variance = np.maximum(variance, COLLINEAR * self._diagonal)
        covariance = self.gram[node] - own @ rows
        spread = 2.0 * self.scale + max(float(covariance[node]), 0.0)
        power = self.shape + self.rows / 2.0
        freed = np.minimum(covariance * covariance / variance / spread, 1.0 - COLLINEAR)
        adding = -power * np.log1p(-freed) - self.price
        slopes = own @ inverse
        rest = 1.0 / np.einsum("ij,ij->j", inverse, inverse)
        dropping = self.price.take(index) - power * np.log1p(slopes * slopes * rest / spread)
        score = -power * math.log(spread / 2.0) - float(self.price.take(index).sum())
        if self.precision:
            adding -= 0.5 * np.log(variance / self.precision)
            dropping += 0.5 * np.log(rest / self.precision)
            score += float(np.log(inverse.diagonal()).sum()) + 0.5 * len(parents) * math.log(self.precision)
        adding[index] = -np.inf
        adding[node] = -np.inf
        return ParentProfile(score, adding, dropping)

    def residual(self, node: int, parents: Parents) -> float:
        """Return the (ridge-penalised) residual sum of squares of `node` on `parents`."""
        slopes = self.slopes(node, parents)
        return max(float(self.gram[node, node] - self.gram[node, list(parents)] @ slopes), 0.0)

    def slopes(self, node: int, parents: Parents) -> Floats:
        """Return the slopes of `node` on `parents`, in the order of `parents`."""
        index = list(parents)
        solved = np.linalg.lstsq(self._ridged[np.ix_(index, index)], self.gram[index, node])[0]
        return np.asarray(solved, dtype=np.float64)

    def total(self, parents: list[Parents]) -> float:
        """Return the evidence of a graph, normalised so that different hyperparameters compare.

        ``sum_j score(j, S_j) + a log b - log Gamma(a) + log Gamma(a + n/2)`` and, under `bayes`, the log probability
        of the absent edges.
        """
        constant = self.shape * math.log(self.scale) - gammaln(self.shape) + gammaln(self.shape + self.rows / 2.0)
        total = sum(self.profile(node, chosen).score + float(constant) for node, chosen in enumerate(parents))
        if self.precision:
            count, nothing = self.variables, -np.log1p(np.exp(-self.price))
            # Inside the slice a pair has one chance, not two.
            total += float(nothing[:count].sum() * (count - 1) / 2.0 + nothing[count:].sum() * count)
        return total


def _inverse_factor(block: Floats) -> Floats:
    """Return the inverse of the Cholesky factor; a singular block is nudged off zero first."""
    if not len(block):
        return block
    factor, failed = dpotrf(block, lower=1)
    if failed:
        factor, _ = dpotrf(block + COLLINEAR * np.diag(block.diagonal()), lower=1)
    inverse: Floats = dtrtri(factor, lower=1)[0]
    return inverse


# Hyperparameters, by empirical Bayes.


def refit(evidence: Evidence, parents: list[Parents]) -> Evidence:
    """Return the evidence with its hyperparameters made most likely for one graph.

    Least squares eats one degree of freedom per parent, so there ``rss_j n / (n - |S_j|)`` stands for rss_j; the
    Bayesian residual has the slopes integrated out and needs no such correction.
    """
    if evidence.precision:
        evidence = _refit_densities(_refit_slopes(evidence, parents), parents)
    residuals = np.array([evidence.residual(node, chosen) for node, chosen in enumerate(parents)])
    if not evidence.precision:
        sizes = np.array([len(chosen) for chosen in parents])
        residuals = residuals * evidence.rows / np.maximum(evidence.rows - sizes, 1.0)
    shape, scale = fit_variances(residuals, evidence.rows, largest=10.0 * evidence.rows)
    return replace(evidence, shape=shape, scale=scale)


def _refit_slopes(evidence: Evidence, parents: list[Parents]) -> Evidence:
    def negative(log_precision: float) -> float:
        trial = replace(evidence, precision=math.exp(log_precision))
        return -sum(trial.profile(node, chosen).score for node, chosen in enumerate(parents))

    if not any(parents):
        return evidence
    found = minimize_scalar(negative, bounds=(math.log(0.1), math.log(1e3)), method="bounded", options={"xatol": 0.05})
    return replace(evidence, precision=math.exp(found.x))


def _refit_densities(evidence: Evidence, parents: list[Parents]) -> Evidence:
    d, side = evidence.variables, len(evidence.gram)
    inside = sum(parent < d for chosen in parents for parent in chosen)
    lagged = sum(len(chosen) for chosen in parents) - inside
    price = np.empty(side)
    pairs = d * (d - 1) / 2.0
    expected = min(NEIGHBOURS / max(d - 1, 1), 0.9)
    price[:d] = -_log_odds(inside + PULL * d * expected, pairs + PULL * d)
    price[d:] = -_log_odds(lagged + 0.5, d * (side - d) + 1.0)
    return replace(evidence, price=price)


def _log_odds(edges: float, candidates: float) -> float:
    return math.log(edges / (candidates - edges))


def fit_variances(residuals: Floats, rows: float | Floats, largest: float) -> tuple[float, float]:
    """Return the (a, b) that make residual sums of squares rss_j over n rows each most likely.

    Maximise ``sum_j a log b - log Gamma(a) + log Gamma(a + n/2) - (a + n/2) log(b + rss_j/2)``, over log a and
    log(b/a). `largest` bounds a; beyond about n it is equal variances to all purposes.
    """
    half = np.maximum(residuals, np.finfo(float).tiny) / 2.0
    level = float(np.exp(np.mean(np.log(half / rows * 2.0))))

    def negative(point: Floats) -> tuple[float, Floats]:
        a = math.exp(point[0])
        b = a * level * math.exp(point[1])
        power, sums = a + rows / 2.0, b + half
        value = np.sum(a * math.log(b) - gammaln(a) + gammaln(power) - power * np.log(sums))
        by_a = np.sum(math.log(b) - digamma(a) + digamma(power) - np.log(sums))
        by_b = np.sum(a / b - power / sums)
        return -float(value), -np.array([a * by_a + b * by_b, b * by_b])

    bounds = [(math.log(0.5), math.log(largest)), (-10.0, 10.0)]
    found = minimize(negative, np.array([math.log(3.0), 0.0]), jac=True, method="L-BFGS-B", bounds=bounds)
    a = math.exp(found.x[0])
    return a, a * level * math.exp(found.x[1])
