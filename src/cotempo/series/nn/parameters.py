"""Parameters of many networks: flat vectors at rest, stacked tensors ``[networks, ...]`` in use; without torch.

Networks of fewer features are padded to the widest; padding sees zeros, so it gets no gradient, and cropping it gives
what each network would have learned alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cotempo.devices import Device

if TYPE_CHECKING:
    from torch import Tensor

Flat = NDArray[np.floating]


@dataclass(frozen=True)
class ParameterSpec:
    """One weight: its shape, and the deviation of its initial values (0: zeros)."""

    shape: tuple[int, ...]
    deviation: float = 0.0

    @property
    def size(self) -> int:
        """Return how many numbers it holds."""
        return prod(self.shape)


ParameterSpecs = Mapping[str, ParameterSpec]


@dataclass(frozen=True)
class NetworkState:
    """A network at rest with Adam's moments, all vectors ``(numbers,)``; `average` (of the weights) predicts."""

    weights: NDArray[Any]
    average: NDArray[Any]
    first: NDArray[Any]
    second: NDArray[Any]
    steps: int = 0

    @classmethod
    def fresh(cls, specs: ParameterSpecs, stream: np.random.Generator, dtype: str) -> NetworkState:
        """Draw the initial weights."""
        weights = draw(specs, stream, dtype)
        zeros = np.zeros_like(weights)
        return cls(weights, weights, zeros, zeros)


@dataclass(frozen=True)
class Schedule:
    """The batch, and a learning rate that rises to `rate` in `warm` steps; a cosine brings a twentieth at `horizon`."""

    batch: int = 64
    rate: float = 8e-4
    warm: int = 500
    horizon: int = 10_000
    device: Device = "cpu"

    def rate_at(self, steps: Tensor) -> Tensor:
        """Return the learning rate after so many steps."""
        warm = ((steps + 1) / max(self.warm, 1)).clamp(max=1)
        done = (steps - self.warm) / max(self.horizon - self.warm, 1)
        return self.rate * warm * (0.05 + 0.95 * ((1 + (math.pi * done.clamp(0, 1)).cos()) / 2))


def draw(specs: ParameterSpecs, stream: np.random.Generator, dtype: str = "float32") -> Flat:
    """Draw initial weights, as one vector."""
    parts = [stream.standard_normal(spec.size) * spec.deviation for spec in specs.values()]
    return np.concatenate(parts).astype(dtype)


def views(flat: Tensor, specs: ParameterSpecs) -> dict[str, Tensor]:
    """Return weights by name, ``[networks, *shape]``, of stacked vectors ``[networks, numbers]``."""
    parts: tuple[Tensor, ...] = flat.split_with_sizes([spec.size for spec in specs.values()], dim=1)
    return {name: part.reshape(len(flat), *spec.shape) for (name, spec), part in zip(specs.items(), parts, strict=True)}


def resize(flat: Flat, old: ParameterSpecs, new: ParameterSpecs) -> Flat:
    """Pad a vector of weights with zeros to a network of more features, or crop it to one of fewer."""
    parts, place = [], 0
    for name, spec in old.items():
        part, shape = flat[place : place + spec.size].reshape(spec.shape), new[name].shape
        place += spec.size
        room = [(0, max(after - before, 0)) for before, after in zip(spec.shape, shape, strict=True)]
        parts.append(np.pad(part, room)[tuple(map(slice, shape))].ravel())
    return np.concatenate(parts)
