"""The correlational score: whether features of generated windows go together as those of real ones do."""

import numpy as np

from cotempo.typing import Floats


def correlational(real: Floats, synthetic: Floats) -> float:
    r"""Return the distance of the correlation matrices of two sets of windows ``(windows, length, features)``.

    .. math:: \tfrac{1}{10} \sum_{i, j} |\rho_{ij} - \hat\rho_{ij}|

    over all pairs of features, as in the paper; a constant feature correlates with nothing.

    Examples
    --------
    >>> one = np.random.default_rng(0).normal(size=(5, 8, 3))
    >>> correlational(one, one)
    0.0
    """
    return float(np.abs(_correlation(real) - _correlation(synthetic)).sum() / 10)


def _correlation(windows: Floats) -> Floats:
    rows = windows.reshape(-1, windows.shape[-1])
    rows = rows - rows.mean(axis=0)
    scale = rows.std(axis=0)
    rows = rows / np.where(scale > 1e-12, scale, np.inf)
    return np.asarray(rows.T @ rows / len(rows))
