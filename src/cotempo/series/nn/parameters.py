"""Weights of many equal networks as one: flat vectors at rest, stacked tensors ``[networks, ...]`` at work.

Networks may differ in their number of features. They are padded to the widest; padding sees zeros, so it gets no
gradient, and cropping it away gives what each network would have learned by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

Flat = NDArray[np.floating]


@dataclass(frozen=True)
class Leaf:
    """One weight: its shape, the deviation it is drawn with (0: zeros), and which axis counts features, if any."""

    shape: tuple[int, ...]
    deviation: float = 0.0
    feature_axis: int | None = None

    @property
    def size(self) -> int:
        """How many numbers it holds."""
        return prod(self.shape)


Leaves = Mapping[str, Leaf]


def draw(leaves: Leaves, stream: np.random.Generator, dtype: str = "float32") -> Flat:
    """First weights, as one vector."""
    parts = [stream.standard_normal(leaf.size) * leaf.deviation for leaf in leaves.values()]
    return np.concatenate(parts).astype(dtype)


def views(flat: Tensor, leaves: Leaves) -> dict[str, Tensor]:
    """The weights by name, ``[networks, *shape]``, of stacked vectors ``[networks, numbers]``."""
    parts: tuple[Tensor, ...] = flat.split_with_sizes([leaf.size for leaf in leaves.values()], dim=1)
    return {
        name: part.reshape(len(flat), *leaf.shape) for (name, leaf), part in zip(leaves.items(), parts, strict=True)
    }


def widen(flat: Flat, leaves: Leaves, wide: Leaves) -> Flat:
    """Pad a vector of weights with zeros to a network of more features."""
    parts, place = [], 0
    for name, leaf in leaves.items():
        part = flat[place : place + leaf.size].reshape(leaf.shape)
        place += leaf.size
        if leaf.feature_axis is not None:
            room = [(0, 0)] * part.ndim
            room[leaf.feature_axis] = (0, wide[name].shape[leaf.feature_axis] - leaf.shape[leaf.feature_axis])
            part = np.pad(part, room)
        parts.append(part.ravel())
    return np.concatenate(parts)


def narrow(flat: Flat, leaves: Leaves, wide: Leaves) -> Flat:
    """Undo `widen`."""
    parts, place = [], 0
    for name, leaf in leaves.items():
        size = wide[name].size
        part = flat[place : place + size].reshape(wide[name].shape)
        place += size
        if leaf.feature_axis is not None:
            part = part.take(range(leaf.shape[leaf.feature_axis]), axis=leaf.feature_axis)
        parts.append(part.ravel())
    return np.concatenate(parts)


def stack(flats: Sequence[Flat], leaves: Sequence[Leaves], wide: Leaves) -> Flat:
    """Stack vectors of several networks, each padded to the widest, ``(networks, numbers)``."""
    return np.stack([widen(flat, own, wide) for flat, own in zip(flats, leaves, strict=True)])
