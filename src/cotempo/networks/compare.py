"""Did joining help? A client's held-out rows under a model of its own and under the shared network."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cotempo.networks.network import Network

FloatArray = NDArray[np.float64]


def compare_alone(
    rows: FloatArray,
    held_out: int,
    lags: int,
    network: Network,
    mean: FloatArray,
    scale: FloatArray,
    variance: FloatArray,
) -> tuple[float, float]:
    """Return the mean log-density of the held-out rows, alone and together, in nats per row.

    Alone is the best the client can do for certain: a Gaussian over its transitions with a Ledoit-Wolf covariance,
    conditioned on the past. Together is the shared network with the pooled residual variances. Both see only rows
    before the held-out ones.

    Parameters
    ----------
    rows : (transitions, (lags + 1) variables)
        All of the client's transitions; the last `held_out` are judged.
    mean, scale : ((lags + 1) variables,)
        What the network's data were centred and scaled by.
    variance : (variables,)
        Pooled residual variances, in scaled units.
    """
    count = network.within.shape[0]
    seen = rows[: max(1, len(rows) - held_out - lags)]
    judged = rows[len(rows) - held_out :]
    if held_out == 0 or len(seen) < 3:
        return 0.0, 0.0
    return (
        gaussian_alone(seen, judged, count),
        float(log_densities((judged - mean) / scale, network, variance).mean() - np.log(scale[:count]).sum()),
    )


def gaussian_alone(seen: FloatArray, judged: FloatArray, count: int) -> float:
    """Mean log-density of the judged rows under a shrunken Gaussian over the seen ones, given the past."""
    from sklearn.covariance import ledoit_wolf

    covariance, _ = ledoit_wolf(seen)
    covariance += 1e-9 * np.trace(covariance) / len(covariance) * np.eye(len(covariance))
    centre = seen.mean(axis=0)
    past, cross = covariance[count:, count:], covariance[:count, count:]
    slope = np.linalg.solve(past, cross.T)
    error = judged[:, :count] - centre[:count] - (judged[:, count:] - centre[count:]) @ slope
    factor = np.linalg.cholesky(covariance[:count, :count] - cross @ slope)
    whitened = np.linalg.solve(factor, error.T)
    constant = np.log(factor.diagonal()).sum() + count / 2 * np.log(2 * np.pi)
    return float(-constant - 0.5 * (whitened**2).sum(axis=0).mean())


def log_densities(rows: FloatArray, network: Network, variance: FloatArray) -> FloatArray:
    """Log-density of each row's structural residuals, `(rows,)`.

    W has no cycles, so the change of variables has determinant one.
    """
    count = len(variance)
    lagged = network.across.reshape(-1, count)
    error = rows[:, :count] - rows[:, :count] @ network.within - rows[:, count:] @ lagged
    variance = np.maximum(variance, 1e-12)
    density: FloatArray = -0.5 * (np.log(2 * np.pi * variance) + error**2 / variance).sum(axis=1)
    return density
