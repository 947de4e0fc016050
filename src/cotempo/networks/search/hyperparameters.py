"""`refit`: the hyperparameters of the evidence that make one graph most likely, empirical Bayes."""

import math
from dataclasses import replace

import numpy as np
from scipy.optimize import minimize, minimize_scalar
from scipy.special import digamma, gammaln

from cotempo.networks.search.evidence import Evidence, Parents
from cotempo.typing import Floats

#: Few rows say little about how dense a graph is, and the best graph is sparser than the truth: the density of the
#: slice is pulled towards this many neighbours, as if that had been seen in `PULL` pairs for each variable.
NEIGHBOURS = 4.0
PULL = 2.0


def refit(evidence: Evidence, parents: list[Parents]) -> Evidence:
    """Return the evidence with its hyperparameters made most likely for one graph.

    Least squares eats one degree of freedom per parent, so there ``rss_j n / (n - |S_j|)`` stands for rss_j; the
    Bayesian residual has the slopes integrated out and needs no such correction.
    """
    sizes = np.array([len(chosen) for chosen in parents])
    if evidence.precision:
        evidence = _refit_densities(_refit_slopes(evidence, parents), parents)
    residuals = np.array([evidence.residual(node, chosen) for node, chosen in enumerate(parents)])
    rows = np.full(len(parents), float(evidence.rows))
    if not evidence.precision:
        residuals = residuals * rows / np.maximum(rows - sizes, 1.0)
    shape, scale = fit_variances(residuals, rows, largest=10.0 * evidence.rows)
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


def fit_variances(residuals: Floats, rows: Floats, largest: float) -> tuple[float, float]:
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
