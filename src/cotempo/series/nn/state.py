"""What training keeps: weights, their average, Adam's moments, the number of steps; and how training goes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cotempo.devices import Device
from cotempo.series.nn.parameters import Leaves, draw

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Learned:
    """A network at rest, all vectors ``(numbers,)``; `average` is what predicts."""

    weights: NDArray[Any]
    average: NDArray[Any]
    first: NDArray[Any]
    second: NDArray[Any]
    steps: int = 0

    @classmethod
    def fresh(cls, leaves: Leaves, stream: np.random.Generator, dtype: str) -> Learned:
        """A network that has learned nothing yet."""
        weights = draw(leaves, stream, dtype)
        zeros = np.zeros_like(weights)
        return cls(weights, weights, zeros, zeros)


@dataclass(frozen=True)
class Schedule:
    """How training goes.

    Attributes
    ----------
    batch
        Windows in a step.
    rate
        The largest learning rate, reached after `warm` steps; a cosine brings it down to a twentieth at `horizon`.
    clip
        The largest norm of a gradient.
    average
        Pace of the exponential average of weights.
    device
        Where it is computed.
    """

    batch: int = 64
    rate: float = 8e-4
    warm: int = 500
    horizon: int = 10_000
    clip: float = 1.0
    betas: tuple[float, float] = (0.9, 0.96)
    average: float = 0.995
    device: Device = "cpu"

    def rate_at(self, steps: Tensor) -> Tensor:
        """The learning rate after so many steps."""
        from cotempo.series.nn.training import cosine

        warm = ((steps + 1) / max(self.warm, 1)).clamp(max=1)
        done = (steps - self.warm) / max(self.horizon - self.warm, 1)
        return self.rate * warm * (0.05 + 0.95 * cosine(done))
