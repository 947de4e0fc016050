"""Context-FID: the Fréchet distance of real and generated windows, as an encoder trained on the real ones sees them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import sqrtm

from cotempo.federation.rng import Rng

Floats = NDArray[np.float64]


def frechet(first: Floats, second: Floats) -> float:
    r"""Fréchet distance of two clouds of points ``(points, dimensions)``, each taken as normal.

    .. math:: |\mu_1 - \mu_2|^2 + \operatorname{tr}\left(C_1 + C_2 - 2 (C_1 C_2)^{1/2}\right)

    Examples
    --------
    >>> cloud = np.random.default_rng(0).normal(size=(50, 2))
    >>> round(frechet(cloud, cloud + 1), 6)
    2.0
    """
    shift = first.mean(axis=0) - second.mean(axis=0)
    one, two = (np.atleast_2d(np.cov(cloud, rowvar=False)) for cloud in (first, second))
    root = np.real(sqrtm(one @ two))
    return float(max(shift @ shift + np.trace(one + two - 2 * root), 0.0))


class ContextFID:
    """Score generated windows against real ones by an encoder trained on the real ones (TS2Vec).

    Parameters
    ----------
    real
        Windows ``(windows, length, features)``.
    steps
        Training steps of the encoder.

    Examples
    --------
    >>> real = np.random.default_rng(0).normal(size=(40, 12, 2)).cumsum(axis=1)
    >>> judge = ContextFID(real, steps=2)
    >>> judge.score(real) < judge.score(-real + 5)
    True
    """

    def __init__(self, real: Floats, *, steps: int = 200, seed: int = 0):
        from cotempo.series.metrics.encoder import train_encoder

        self.mean = real.mean(axis=(0, 1))
        self.deviation = np.maximum(real.std(axis=(0, 1)), 1e-6)
        self._rng = Rng(seed, "context-fid")
        self._encoder = train_encoder(self._scaled(real), steps, self._rng)
        self._real = self._encoder.encode(self._scaled(real))

    def score(self, synthetic: Floats) -> float:
        """The distance of generated windows to the real ones; 0 is best."""
        return frechet(self._real, self._encoder.encode(self._scaled(synthetic)))

    def floor(self) -> float:
        """The distance between two random halves of the real windows: what a perfect generator would score."""
        order = self._rng("floor").permutation(len(self._real))
        half = len(order) // 2
        return frechet(self._real[order[:half]], self._real[order[half:]])

    def _scaled(self, windows: Floats) -> Floats:
        return np.asarray((windows - self.mean) / self.deviation)
