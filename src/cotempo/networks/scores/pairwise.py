"""Scores of pairs of variables: `granger`, partial correlations and `skewness_direction`.

Every score is ``(variables, variables)``, ``[source, target]``; its diagonal means nothing.
"""

import numpy as np

from cotempo.typing import Floats

#: Added to variances, as a share: it keeps the Gram of pasts that are copies of each other invertible.
COLLINEAR = 1e-10


def granger(scatter: Floats, rows: float, lags: int) -> Floats:
    """Return the F statistic of the source's past in a regression of the target on its own past and the source's.

    ``F = (rss_own - rss_both) / lags / (rss_both / (rows - 2 lags - 1))`` (Granger 1969, Investigating causal relations
    by econometric models and cross-spectral methods), from the centred Gram of ``[x_t, x_{t-1}, ..., x_{t-p}]``.
    """
    count = len(scatter) // (lags + 1)
    freedom = rows - 2 * lags - 1
    pasts = count + np.arange(count)[:, None] + count * np.arange(lags)  # (variables, lags)
    scores = np.zeros((count, count))
    scatter = scatter + COLLINEAR * np.diag(scatter.diagonal())
    for target in range(count):
        own = pasts[target]
        left = scatter - scatter[:, own] @ np.linalg.solve(scatter[np.ix_(own, own)], scatter[own])
        variance = left[pasts[:, :, None], pasts[:, None, :]]
        variance[target] = np.eye(lags)  # the target has nothing to add to itself
        covariance = left[target, pasts]
        solved = np.linalg.solve(variance, covariance[:, :, None])[:, :, 0]
        explained = (covariance * solved).sum(axis=1)
        explained[target] = 0.0
        scores[:, target] = explained / lags / (np.maximum(left[target, target] - explained, 1e-300) / freedom)
    return scores


def within_partial(scatter: Floats, shrinkage: float = 0.0) -> Floats:
    """Return the absolute partial correlation of two variables given all others, inside one time step.

    It is ``|P_ik| / sqrt(P_ii P_kk)`` with P the inverse of the correlation matrix. `shrinkage`, a share of the
    identity mixed into the correlations, must be above 0 where rows are fewer than columns.
    """
    precision = np.linalg.inv(correlations(scatter, shrinkage))
    spread = np.sqrt(precision.diagonal())
    return np.asarray(np.abs(precision / np.outer(spread, spread)))


def lagged_partial(scatter: Floats, variables: int, shrinkage: float = 0.0) -> Floats:
    """Return the absolute partial correlation of source's past and target given everybody's past, the largest lag's.

    For a target y and pasts with inverse correlation P and regression weights b it is
    ``|b_i| / sqrt(b_i^2 + P_ii s)`` with s the residual variance: the other targets are not conditioned on.
    """
    correlation = correlations(scatter, shrinkage)
    past = slice(variables, len(correlation))
    precision = np.linalg.inv(correlation[past, past])
    weights = precision @ correlation[past, :variables]
    residual = 1.0 - (correlation[past, :variables] * weights).sum(axis=0)
    unexplained = precision.diagonal()[:, None] * np.maximum(residual, 1e-300)
    partial = np.abs(weights) / np.sqrt(weights**2 + unexplained)
    return np.asarray(partial.reshape(-1, variables, variables).max(axis=0))


def skewness_direction(scatter: Floats, thirds: Floats, rows: float) -> Floats:
    """Return ``sqrt(n) r_ij (E[x_i^2 x_j] - E[x_i x_j^2])``, positive where i drives j.

    Variables are standardised, and turned round where their skewness is negative. A cause is more skewed than what it
    causes, because noise is added on the way (Hyvarinen and Smith 2013, Pairwise likelihood ratios for estimation of
    non-Gaussian structural equation models). `thirds` are ``sum_t x_i^2 x_j`` about the mean.
    """
    scale = np.sqrt(scatter.diagonal() / rows)
    standard = thirds / rows / (scale[:, None] ** 2 * scale[None, :])
    sign = np.where(standard.diagonal() < 0, -1.0, 1.0)
    standard = standard * sign[None, :]
    correlation = correlations(scatter) * np.outer(sign, sign)
    return np.asarray(np.sqrt(rows) * correlation * (standard - standard.T))


def within_skewness(scatter: Floats, thirds: Floats, rows: float, shrinkage: float = 0.0) -> Floats:
    """Return ``|partial correlation| (1 + tanh(skewness direction) / 2)``.

    Partial correlations find the pair, the skewness turns it. The form was devised on NetSim, its truth in view.
    """
    return within_partial(scatter, shrinkage) * (1.0 + 0.5 * np.tanh(skewness_direction(scatter, thirds, rows)))


def central_thirds(thirds: Floats, gram: Floats, sums: Floats, rows: float) -> Floats:
    """Turn ``sum x_i^2 x_j`` into the same about the mean.

    ``sum (x_i - m_i)^2 (x_j - m_j) = T_ij - 2 m_i G_ij - m_j G_ii + 2 n m_i^2 m_j``
    """
    mean = sums / rows
    return np.asarray(
        thirds - 2.0 * mean[:, None] * gram - np.outer(gram.diagonal(), mean) + 2.0 * rows * np.outer(mean**2, mean)
    )


def correlations(scatter: Floats, shrinkage: float = 0.0) -> Floats:
    """Return the correlation matrix, mixed with the identity."""
    scale = np.sqrt(scatter.diagonal())
    return np.asarray((1.0 - shrinkage) * scatter / np.outer(scale, scale) + shrinkage * np.eye(len(scatter)))
