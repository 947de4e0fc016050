"""Stacked training of the judges of many clients: each sees its own windows, all share random numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from cotempo.federation import Rng
from cotempo.series.nn.layers import Weights
from cotempo.series.nn.parameters import ParameterSpecs, draw, stack, views
from cotempo.typing import Floats


@dataclass(frozen=True)
class Stack:
    """Windows of several clients, ``[clients, windows, length, features]``, padded with zeros.

    `counts` says how many windows each client has.
    """

    windows: Tensor
    counts: Tensor

    @classmethod
    def of(cls, each: Sequence[Floats], device: torch.device) -> Stack:
        """Pad and stack on a device."""
        most, wide = (max(windows.shape[axis] for windows in each) for axis in (0, 2))
        padded = np.zeros((len(each), most, each[0].shape[1], wide), dtype=np.float32)
        for k, windows in enumerate(each):
            padded[k, : len(windows), :, : windows.shape[2]] = windows
        counts = torch.tensor([len(windows) for windows in each], device=device)
        return cls(torch.tensor(padded, device=device), counts)

    def pick(self, chances: Tensor) -> Tensor:
        """Turn uniform numbers ``[batch]`` into each client's windows, ``[clients, batch]``."""
        return (chances.to(self.counts.device) * self.counts[:, None]).long()

    def take(self, index: Tensor) -> Tensor:
        """Return windows ``[clients, batch, length, features]``."""
        return self.windows[torch.arange(len(index), device=index.device)[:, None], index]


def train_stack(
    specs: Callable[[int], ParameterSpecs], features: Sequence[int], loss: Callable[[Weights, torch.Generator], Tensor],
    steps: int, rate: float, rng: Rng, device: torch.device,
) -> Weights:  # fmt: skip
    """Minimise the sum of the clients' losses ``[clients]`` by Adam; a client in a stack learns what it would alone."""
    each, widest = [specs(count) for count in features], specs(max(features))
    flats = [draw(own, rng("weights")) for own in each]
    flat = torch.tensor(stack(flats, each, widest), device=device, requires_grad=True)
    optimiser, stream = torch.optim.Adam([flat], lr=rate), rng.torch("batches")
    for _ in range(steps):
        total = loss(views(flat, widest), stream).sum()
        optimiser.zero_grad()
        total.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    return views(flat.detach(), widest)
