"""`hidden_correlations`: binary, counted, skewed and Gaussian columns in one matrix, by the Gaussian copula.

Every column is taken for a rising function of a hidden Gaussian. Its values are sorted into bins common to all
clients; the summed counts give the hidden thresholds, and a value becomes the mean of the hidden Gaussian in
its bin, ``s(x) = E[z | bin]``. Two such columns have (Mehler)

    E[s_i s_j] = sum_k a_ik a_jk r^k,     a_ik = E[s_i(z) He_k(z)] / sqrt(k!)

which rises in the hidden correlation r and is solved for it. Two binary columns give the tetrachoric correlation, two
fine ones that of the normal scores; the kind of a column need not be given.
"""

import math

import numpy as np
from scipy.stats import norm

from cotempo.networks.moments import make_semidefinite
from cotempo.typing import Floats

BINS = 512
_REACH = 50.0  # standard deviations
_CROWDING = 6.0  # how much narrower the middle bins are than the outer ones
_TERMS = 60
_LARGEST = 0.995
_HALVINGS = 40
_LEAST_EIGENVALUE = 0.01


def edges() -> Floats:
    """Return the inner bin edges on standardised values, dense in the middle, ``(BINS - 1,)``."""
    inner = np.linspace(-1.0, 1.0, BINS + 1)[1:-1]
    return np.sinh(_CROWDING * inner) / math.sinh(_CROWDING) * _REACH


def histogram(values: Floats) -> Floats:
    """Count standardised values, `(rows, variables)`, by bin, `(variables, BINS)`; missing ones are left out."""
    bins = np.searchsorted(edges(), values)
    seen = ~np.isnan(values)
    return np.stack(
        [np.bincount(column[there], minlength=BINS) for column, there in zip(bins.T, seen.T, strict=True)]
    ).astype(np.float64)


def hidden_scores(values: Floats, counts: Floats) -> Floats:
    """Replace standardised values by the mean of the hidden Gaussian in their bin; missing stays missing.

    `counts`, `(variables, BINS)`, are the histograms summed over clients.
    """
    table = _bin_means(counts)
    found = np.take_along_axis(table, np.searchsorted(edges(), values).T, axis=1).T
    return np.where(np.isnan(values), np.nan, found)


def hidden_correlations(scatter: Floats, counts: Floats) -> Floats:
    """Return the correlation matrix of the hidden Gaussians, from the centred Gram of hidden scores now and at lags.

    Solved pair by pair, the matrix need not be positive definite: eigenvalues below .01 are raised to it.
    """
    spread = np.sqrt(scatter.diagonal())
    observed = scatter / np.outer(spread, spread)
    # By the exact variance, not the sum of squared weights: for binary columns that sum converges slowly.
    shares = counts / counts.sum(axis=1, keepdims=True)
    variance = (shares * _bin_means(counts) ** 2).sum(axis=1, keepdims=True)
    weights = np.tile(_hermite_weights(counts) / np.sqrt(variance), (len(scatter) // len(counts), 1))
    low, high = np.full_like(observed, -_LARGEST), np.full_like(observed, _LARGEST)
    for _ in range(_HALVINGS):
        middle, implied = (low + high) / 2.0, np.zeros_like(observed)
        for term in weights.T[::-1]:
            implied = (implied + np.outer(term, term)) * middle
        below = implied < observed
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    solved = (low + high) / 2.0
    np.fill_diagonal(solved, 1.0)
    return make_semidefinite(solved, below=_LEAST_EIGENVALUE, floor=_LEAST_EIGENVALUE)[0]


def _thresholds(counts: Floats) -> Floats:
    """Return the bins' edges on the hidden Gaussian, ``(variables, BINS + 1)``."""
    shares = np.cumsum(counts, axis=1) / counts.sum(axis=1, keepdims=True)
    inner = norm.ppf(np.clip(shares[:, :-1], 0.0, 1.0))
    ends = np.full((len(counts), 1), np.inf)
    return np.hstack([-ends, inner, ends])


def _bin_means(counts: Floats) -> Floats:
    density = norm.pdf(_thresholds(counts))
    share = counts / counts.sum(axis=1, keepdims=True)
    return np.where(share > 0, (density[:, :-1] - density[:, 1:]) / np.where(share > 0, share, 1.0), 0.0)


def _hermite_weights(counts: Floats) -> Floats:
    """Return a_k for k = 1, 2, ..., ``(variables, terms)``.

    The integral of He_k against the density over a bin is ``[-He_{k-1} density]`` at its ends.
    """
    thresholds = _thresholds(counts)
    finite = np.where(np.isfinite(thresholds), thresholds, 0.0)
    density = np.where(np.isfinite(thresholds), norm.pdf(finite), 0.0)
    means = _bin_means(counts)
    # He_k / sqrt(k!), by its recursion, which does not overflow.
    before, now = np.zeros_like(finite), np.ones_like(finite)
    found = []
    for term in range(1, _TERMS + 1):
        ends = now * density / math.sqrt(term)
        found.append((means * (ends[:, :-1] - ends[:, 1:])).sum(axis=1))
        before, now = now, (finite * now - math.sqrt(term - 1) * before) / math.sqrt(term)
    return np.stack(found, axis=1)
