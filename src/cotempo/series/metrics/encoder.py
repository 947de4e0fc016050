"""TS2Vec: an encoder of windows, trained so that two views of a window look alike and other windows do not.

References
----------
Yue et al., "TS2Vec: towards universal representation of time series", AAAI 2022.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from cotempo.federation.rng import Rng
from cotempo.series.training import device

WIDTH, OUTPUTS, DEPTH, BATCH = 32, 32, 4, 32


class Encoder(nn.Module):
    """Dilated convolutions over a window, each with its input added."""

    def __init__(self, features: int):
        super().__init__()
        self.input = nn.Linear(features, WIDTH)
        self.convolutions = nn.ModuleList(
            nn.Conv1d(WIDTH, WIDTH, 3, padding=2**layer, dilation=2**layer) for layer in range(DEPTH)
        )
        self.output = nn.Conv1d(WIDTH, OUTPUTS, 1)

    def forward(self, windows: Tensor, hidden: Tensor | None = None) -> Tensor:
        """Encode ``(windows, length, features)`` to ``(windows, length, outputs)``; hidden places are zeroed."""
        x = self.input(windows)
        if hidden is not None:
            x = x.masked_fill(hidden[..., None], 0.0)
        x = x.transpose(1, 2)
        for convolution in self.convolutions:
            x = x + convolution(functional.gelu(x))
        found: Tensor = self.output(functional.gelu(x)).transpose(1, 2)
        return found

    @torch.no_grad()
    def encode(self, windows: NDArray[np.float64]) -> NDArray[np.float64]:
        """One vector per window: the largest value over time."""
        place = next(self.parameters()).device
        parts = [
            self(torch.tensor(windows[k : k + 1024], dtype=torch.float32, device=place)).amax(1).cpu().double().numpy()
            for k in range(0, len(windows), 1024)
        ]
        return np.concatenate(parts)


def train_encoder(windows: NDArray[np.float64], steps: int, rng: Rng) -> Encoder:
    """Train on windows ``(windows, length, features)``."""
    place, stream = device(), rng.torch("encoder")
    encoder = Encoder(windows.shape[2])
    with torch.no_grad():
        for weight in encoder.parameters():
            fan = weight[0].numel() if weight.dim() > 1 else 1
            weight.copy_(torch.randn(weight.shape, generator=stream) * (fan**-0.5 if weight.dim() > 1 else 0.0))
    encoder.to(place)
    data = torch.tensor(windows, dtype=torch.float32, device=place)
    optimiser = torch.optim.AdamW(encoder.parameters(), lr=1e-3)
    length = windows.shape[1]
    for _ in range(steps):
        chosen = torch.randint(len(data), (min(BATCH, len(data)),), generator=stream)
        batch = data[chosen.to(place)]
        left, right = _overlap(length, stream)
        start, end = (
            int(torch.randint(0, left + 1, (1,), generator=stream)),
            int(torch.randint(right, length + 1, (1,), generator=stream)),
        )
        hidden = (torch.rand(2, len(batch), length, generator=stream) < 0.5).to(place)
        one = encoder(batch[:, start:right], hidden[0, :, start:right])[:, left - start :]
        two = encoder(batch[:, left:end], hidden[1, :, left:end])[:, : right - left]
        loss = hierarchical_loss(one, two)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    return encoder


def _overlap(length: int, stream: torch.Generator) -> tuple[int, int]:
    """A random stretch of at least half the window that both views share."""
    size = int(torch.randint(max(2, length // 2), length + 1, (1,), generator=stream))
    left = int(torch.randint(0, length - size + 1, (1,), generator=stream))
    return left, left + size


def hierarchical_loss(one: Tensor, two: Tensor) -> Tensor:
    """Mean over ever coarser times of the contrast between windows and between times."""
    losses = []
    while True:
        losses.append((_contrast(one.transpose(0, 1), two.transpose(0, 1)) + _contrast(one, two)) / 2)
        if one.shape[1] == 1:
            return torch.stack(losses).mean()
        one, two = (functional.max_pool1d(part.transpose(1, 2), 2).transpose(1, 2) for part in (one, two))


def _contrast(one: Tensor, two: Tensor) -> Tensor:
    """Cross-entropy of finding, among all items of an axis in both views, the same item in the other view."""
    count = one.shape[1]
    if count == 1:
        return one.new_zeros(())
    both = torch.cat([one, two], dim=1)
    likeness = both @ both.transpose(1, 2)
    likeness = likeness.masked_fill(torch.eye(2 * count, dtype=torch.bool, device=one.device), float("-inf"))
    partner = torch.arange(2 * count, device=one.device).roll(count)
    return functional.cross_entropy(likeness.reshape(-1, 2 * count), partner.repeat(len(both)))
