"""DP-SGD: a network learns from noised sums of clipped gradients, one gradient a unit.

In every step each unit is drawn with the same chance, and of its windows one. The network is stacked as often as units
were drawn, so that the leading axis of the weights gives every unit's gradient; each is clipped to a norm, and noise of
`multiplier` times that norm is added to their sum. What a step does with it is post-processing.

References
----------
Abadi et al., "Deep learning with differential privacy", CCS 2016.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cotempo.devices import find_device
from cotempo.privacy.discrete_gaussian import Uniforms
from cotempo.privacy.noise import add_noise
from cotempo.series.nn.parameters import NetworkState, Schedule, views
from cotempo.series.nn.training import Task, Tensors, Tick, TrainingWindows, adam, load
from cotempo.typing import Floats

STACK = 32  # gradients that are computed at once


@dataclass(frozen=True)
class UnitWindows:
    """The windows of each unit: `counts` of them, one after the other, ``(units,)``; a unit may have none."""

    counts: NDArray[np.intp]

    def draw(self, rate: float, uniforms: Uniforms) -> NDArray[np.intp]:
        """Draw units, each with the chance `rate`, and return a window of each that has any."""
        drawn, places = (uniforms(len(self.counts)) for _ in range(2))
        windows = np.cumsum(self.counts) - self.counts + (places * self.counts).astype(np.intp)
        return np.asarray(windows[(drawn < rate) & (self.counts > 0)])


@dataclass(frozen=True)
class GradientNoise:
    """How gradients are made private: units are drawn with the chance `rate`, gradients clipped to the norm `clip`.

    `uniforms` choose units and noise; `generator` draws what losses need, and nobody else may know its seed.
    """

    multiplier: float
    rate: float
    clip: float
    uniforms: Uniforms
    generator: torch.Generator


def train_privately(
    task: Task, learned: NetworkState, dataset: TrainingWindows, units: UnitWindows, steps: int, schedule: Schedule,
    noise: GradientNoise, tick: Tick | None = None,
) -> NetworkState:  # fmt: skip
    """Take `steps` steps."""
    place = find_device(schedule.device)
    flats = [
        torch.tensor(part[None], device=place)
        for part in (learned.weights, learned.average, learned.first, learned.second)
    ]
    fixed = load([dataset], dataset.features, place, flats[0].dtype)
    counts = torch.tensor([[learned.steps]], device=place, dtype=flats[0].dtype)
    expected = noise.rate * len(units.counts)
    for done in range(steps):
        windows = units.draw(noise.rate, noise.uniforms)
        total = np.zeros(flats[0].shape[1])
        for first in range(0, len(windows), STACK):
            part = torch.tensor(windows[first : first + STACK], device=place)
            total += clipped_sum(gradients(task, flats[0], fixed, dataset, part, noise.generator), noise.clip)
        total = add_noise(total, noise.multiplier, noise.clip, 1, noise.uniforms) / expected
        adam(flats, counts, torch.tensor(total[None]).to(flats[0]), schedule)
        if tick is not None:
            tick(done + 1)
    weights, average, first_moment, second_moment = (flat[0].cpu().numpy() for flat in flats)
    return NetworkState(weights, average, first_moment, second_moment, learned.steps + steps)


def gradients(
    task: Task, weights: Tensor, fixed: Tensors, dataset: TrainingWindows, windows: Tensor, generator: torch.Generator
) -> Tensor:
    """Return the gradient of the loss of each window, ``[windows, numbers]``."""
    count = len(windows)
    draws = task.draw(dataset, dataset.features, (count, 1), generator)
    leaf = weights.expand(count, -1).clone().requires_grad_()
    losses = task.loss(views(leaf, task.specs(dataset.features)), fixed, {"windows": windows[:, None], **draws})
    (found,) = torch.autograd.grad(losses.sum(), leaf)
    return found


def clipped_sum(found: Tensor, norm: float) -> Floats:
    """Scale down what is longer than a norm, leave out what is not finite, and add up, in double precision."""
    exact = found.double()
    lengths = exact.norm(dim=1, keepdim=True)
    scaled = exact * (norm / lengths.clamp(min=norm))
    total: Floats = torch.where(torch.isfinite(lengths), scaled, 0.0).sum(0).cpu().numpy()
    return total
