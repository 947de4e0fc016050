"""Did joining help? A client's held-out rows under the network it learns alone and under the one learned together.

Alone is the same method on the client's own rows. Both see only rows before the held-out ones, both are judged by the
same rows and columns.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cotempo.networks.network import Network

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

#: Values whose range is below this share of their size differ by rounding only.
ROUNDING = 1e-12
#: The least noise variance, of scaled data: a network that explains everything would be infinitely sure.
LEAST_NOISE = 1e-9


def log_densities(rows: FloatArray, network: Network, mean: FloatArray, variance: FloatArray) -> FloatArray:
    """Log-density of each variable's structural residual in each row, `(rows, variables)`.

    W has no cycles, so the change of variables has determinant one, and their sum is the log-density of the row.

    Parameters
    ----------
    rows : (rows, (lags + 1) variables)
    network : Network
    mean : ((lags + 1) variables,)
        What the network's data were centred by.
    variance : (variables,)
        Of the residuals.
    """
    count = len(variance)
    centred = rows - mean
    lagged = network.across.reshape(-1, count)
    error = centred[:, :count] - centred[:, :count] @ network.within - centred[:, count:] @ lagged
    density: FloatArray = -0.5 * (np.log(2 * np.pi * variance) + error**2 / variance)
    return density


def unbiased(squares: FloatArray, rows: float, network: Network) -> FloatArray:
    """Residual variances from mean squares of scaled data, `(variables,)`: one row less for each parent."""
    parents = np.count_nonzero(network.within, axis=0) + np.count_nonzero(network.across, axis=(0, 1))
    variance: FloatArray = np.maximum(squares, LEAST_NOISE) * rows / np.maximum(rows - 1 - parents, 1)
    return variance


def varying(rows: FloatArray) -> BoolArray:
    """Whether each column varies by more than rounding; missing cells do not count.

    Examples
    --------
    >>> varying(np.array([[0.1, 1.0, np.nan], [0.1, 2.0, 5.0]])).tolist()
    [False, True, False]
    """
    if not len(rows):
        return np.zeros(rows.shape[1], dtype=np.bool_)
    highest, lowest = np.fmax.reduce(rows, axis=0), np.fmin.reduce(rows, axis=0)  # they pass over missing cells
    size = np.maximum(np.abs(highest), np.abs(lowest))
    return np.asarray(highest - lowest > ROUNDING * size, dtype=np.bool_)
