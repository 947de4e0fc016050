"""Context-FID: the Fréchet distance of real and generated windows, as an encoder trained on the real ones sees them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import sqrtm

from cotempo.devices import Device
from cotempo.federation import Rng
from cotempo.typing import Floats

if TYPE_CHECKING:
    from cotempo.series.nn.layers import Weights


def frechet(first: Floats, second: Floats) -> float:
    r"""Return the Fréchet distance of two clouds of points ``(points, dimensions)``, each taken as normal.

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


@dataclass(frozen=True)
class ContextFID:
    """Score generated windows against real ones by an encoder trained on the real ones (TS2Vec).

    `mean` and `deviation` standardise windows, ``(features,)``; `real` are the real windows as encoded.

    Examples
    --------
    >>> real = np.random.default_rng(0).normal(size=(40, 12, 2)).cumsum(axis=1)
    >>> judge = ContextFID.of(real, steps=2)
    >>> judge.score(real) < judge.score(-real + 5)
    True
    """

    mean: Floats
    deviation: Floats
    real: Floats
    weights: Weights
    rng: Rng

    @classmethod
    def of(cls, real: Floats, *, steps: int = 200, seed: int = 0, device: Device = "cpu") -> ContextFID:
        """Train an encoder on windows ``(windows, length, features)`` for so many steps."""
        return cls.of_all([real], steps=steps, seed=seed, device=device)[0]

    @classmethod
    def of_all(
        cls, reals: Sequence[Floats], *, steps: int = 200, seed: int = 0, device: Device = "cpu"
    ) -> list[ContextFID]:
        """Train an encoder for each of several clients, in one stack."""
        from cotempo.series.metrics.encoder import embed, train_encoders

        means = [real.mean(axis=(0, 1)) for real in reals]
        deviations = [np.maximum(real.std(axis=(0, 1)), 1e-6) for real in reals]
        scaled = [(real - mean) / size for real, mean, size in zip(reals, means, deviations, strict=True)]
        rng = Rng(seed, "context-fid")
        weights = train_encoders(scaled, steps, rng, device)
        found = zip(means, deviations, embed(weights, scaled), strict=True)
        return [cls(*parts, narrowed(weights, k, len(parts[0])), rng) for k, parts in enumerate(found)]

    def score(self, synthetic: Floats) -> float:
        """Return the distance of generated windows to the real ones; 0 is best."""
        from cotempo.series.metrics.encoder import embed

        (cloud,) = embed(self.weights, [(synthetic - self.mean) / self.deviation])
        return frechet(self.real, cloud)

    def floor(self) -> float:
        """Return the distance between random halves of the real windows: what a perfect generator would score."""
        order = self.rng("floor").permutation(len(self.real))
        half = len(order) // 2
        return frechet(self.real[order[:half]], self.real[order[half:]])


def narrowed(weights: Weights, client: int, features: int) -> Weights:
    """Return the encoder of one client of a stack, without the padding of its features."""
    own = {name: part[client : client + 1] for name, part in weights.items()}
    return {**own, "input.weight": own["input.weight"][:, :features]}
