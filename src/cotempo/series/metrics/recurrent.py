"""Discriminative and predictive scores, both by a two-layer recurrent network."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from cotempo.federation.rng import Rng
from cotempo.series.training import device

Floats = NDArray[np.float64]
BATCH = 128
Reading = Callable[[Tensor], Tensor]
Measure = Callable[[Tensor, Tensor], Tensor]


class Reader(nn.Module):
    """Two GRU layers and a linear read-out at every time."""

    def __init__(self, features: int, outputs: int):
        super().__init__()
        width = max(4, 2 * features)
        self.gru = nn.GRU(features, width, num_layers=2, batch_first=True)
        self.out = nn.Linear(width, outputs)

    def forward(self, windows: Tensor) -> Tensor:
        """From ``(windows, length, features)`` to ``(windows, length, outputs)``."""
        found: Tensor = self.out(self.gru(windows)[0])
        return found


def discriminative(real: Floats, synthetic: Floats, *, steps: int = 500, seed: int = 0) -> float:
    """How far the accuracy of telling real from generated windows is from chance, on a fifth held out; 0 is best.

    Examples
    --------
    >>> real = np.random.default_rng(0).normal(size=(60, 8, 1))
    >>> discriminative(real, real + 20, steps=100)
    0.5
    """
    rng = Rng(seed, "discriminative")
    count = min(len(real), len(synthetic))
    parts = [windows[rng(name).permutation(len(windows))[:count]] for name, windows in (("a", real), ("b", synthetic))]
    cut = max(1, round(0.8 * count))
    windows = np.concatenate([part[:cut] for part in parts])
    labels = np.repeat([1.0, 0.0], cut)[:, None]
    reader = _train(windows, labels, lambda out: out[:, -1], functional.binary_cross_entropy_with_logits, steps, rng)
    tests = [_apply(reader, part[cut:] if cut < count else part)[:, -1, 0] > 0 for part in parts]
    accuracy = (tests[0].mean() + (~tests[1]).mean()) / 2
    return float(abs(accuracy - 0.5))


def predictive(real: Floats, synthetic: Floats, *, steps: int = 500, seed: int = 0) -> float:
    """Mean absolute error on real windows of a next-row predictor trained on generated ones, scaled to [0, 1].

    Examples
    --------
    >>> steady = np.ones((20, 6, 1)) * np.linspace(0, 1, 20)[:, None, None]
    >>> predictive(steady, steady, steps=300) < 0.2
    True
    """
    low, high = real.min(axis=(0, 1)), real.max(axis=(0, 1))
    room = np.where(high - low > 1e-12, high - low, 1.0)
    known, made = (real - low) / room, (synthetic - low) / room
    rng = Rng(seed, "predictive")
    reader = _train(made[:, :-1], made[:, 1:], lambda out: out, functional.l1_loss, steps, rng)
    return float(np.abs(_apply(reader, known[:, :-1]) - known[:, 1:]).mean())


def _train(windows: Floats, targets: Floats, read: Reading, measure: Measure, steps: int, rng: Rng) -> Reader:
    """Train a reader so that what is read of it is near the targets by some measure."""
    place, stream = device(), rng.torch("reader")
    reader = Reader(windows.shape[2], targets.shape[-1])
    with torch.no_grad():
        for weight in reader.parameters():
            width = reader.gru.hidden_size**-0.5
            weight.copy_((2 * torch.rand(weight.shape, generator=stream) - 1) * width)
    reader.to(place)
    inputs, wanted = (torch.tensor(part, dtype=torch.float32, device=place) for part in (windows, targets))
    optimiser = torch.optim.Adam(reader.parameters(), lr=3e-3)
    for _ in range(steps):
        chosen = torch.randint(len(inputs), (min(BATCH, len(inputs)),), generator=stream).to(place)
        loss = measure(read(reader(inputs[chosen])), wanted[chosen])
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    return reader


@torch.no_grad()
def _apply(reader: Reader, windows: Floats) -> Floats:
    place = next(reader.parameters()).device
    return np.asarray(reader(torch.tensor(windows, dtype=torch.float32, device=place)).double().cpu().numpy())
