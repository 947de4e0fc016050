"""TS2Vec: an encoder of windows, trained so that two views of a window look alike and other windows do not.

References
----------
Yue et al., "TS2Vec: towards universal representation of time series", AAAI 2022.
"""

from collections.abc import Sequence
from math import sqrt

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from cotempo.devices import Device, find_device
from cotempo.federation import Rng
from cotempo.series.metrics.stacked import Stack, train_stack
from cotempo.series.nn.layers import Weights, linear, linear_specs
from cotempo.series.nn.parameters import ParameterSpec, ParameterSpecs

WIDTH, OUTPUTS, DEPTH, BATCH = 32, 32, 4, 32


def encoder_specs(features: int) -> ParameterSpecs:
    """Return the weights: an input layer, dilated convolutions over three places, an output layer."""
    found = {
        "input.weight": ParameterSpec((features, WIDTH), 1 / sqrt(features), 0),
        "input.bias": ParameterSpec((WIDTH,)),
    }
    for layer in range(DEPTH):
        found |= linear_specs(f"{layer}", 3 * WIDTH, WIDTH)
    return {**found, **linear_specs("output", WIDTH, OUTPUTS)}


def encode(weights: Weights, windows: Tensor, hidden: Tensor | None = None) -> Tensor:
    """Encode ``[clients, windows, length, features]`` at every time; hidden places are zeroed."""
    x = linear(weights, "input", windows)
    if hidden is not None:
        x = x.masked_fill(hidden[..., None], 0.0)
    for layer in range(DEPTH):
        reach = 2**layer
        around = functional.pad(functional.gelu(x), (0, 0, reach, reach))
        length = x.shape[2]
        taps = [around[:, :, place : place + length] for place in (0, reach, 2 * reach)]
        x = x + linear(weights, f"{layer}", torch.cat(taps, dim=-1))
    return linear(weights, "output", functional.gelu(x))


@torch.no_grad()
def embed(weights: Weights, each: Sequence[NDArray[np.float64]]) -> list[NDArray[np.float64]]:
    """Embed each client's windows: the maximum over time."""
    windows = Stack.of(each, next(iter(weights.values())).device).windows
    parts = [encode(weights, windows[:, k : k + 1024]).amax(2) for k in range(0, windows.shape[1], 1024)]
    found = torch.cat(parts, dim=1).double().cpu().numpy()
    return [found[k, : len(own)] for k, own in enumerate(each)]


def train_encoders(each: Sequence[NDArray[np.float64]], steps: int, rng: Rng, device: Device = "cpu") -> Weights:
    """Train an encoder for each client's windows ``(windows, length, features)``."""
    place = find_device(device)
    data, length = Stack.of(each, place), each[0].shape[1]

    def loss(weights: Weights, stream: torch.Generator) -> Tensor:
        batch = data.take(data.pick(torch.rand(BATCH, generator=stream)))
        left, right = _overlap(length, stream)
        start = int(torch.randint(0, left + 1, (1,), generator=stream))
        end = int(torch.randint(right, length + 1, (1,), generator=stream))
        hidden = (torch.rand(2, BATCH, length, generator=stream) < 0.5).to(batch.device)
        one = encode(weights, batch[:, :, start:right], hidden[None, 0, :, start:right])[:, :, left - start :]
        two = encode(weights, batch[:, :, left:end], hidden[None, 1, :, left:end])[:, :, : right - left]
        return hierarchical_loss(one, two)

    return train_stack(encoder_specs, [own.shape[2] for own in each], loss, steps, 1e-3, rng, place)


def _overlap(length: int, stream: torch.Generator) -> tuple[int, int]:
    """Draw a stretch of at least half the window that both views share."""
    size = int(torch.randint(max(2, length // 2), length + 1, (1,), generator=stream))
    left = int(torch.randint(0, length - size + 1, (1,), generator=stream))
    return left, left + size


def hierarchical_loss(one: Tensor, two: Tensor) -> Tensor:
    """Return the mean contrast between windows and between times over ever coarser times, ``[clients]``."""
    losses = []
    while True:
        losses.append((_contrast(one.transpose(1, 2), two.transpose(1, 2)) + _contrast(one, two)) / 2)
        length = one.shape[2]
        if length == 1:
            return torch.stack(losses).mean(0)
        one, two = _coarser(one), _coarser(two)


def _coarser(x: Tensor) -> Tensor:
    """Return the larger of every two neighbours in time."""
    half = x.shape[2] // 2
    return torch.maximum(x[:, :, 0 : 2 * half : 2], x[:, :, 1 : 2 * half : 2])


def _contrast(one: Tensor, two: Tensor) -> Tensor:
    """Return the cross-entropy of finding, among all items of the third axis, the same item in the other view."""
    count = one.shape[2]
    if count == 1:
        return one.new_zeros(len(one))
    both = torch.cat([one, two], dim=2)
    likeness = both @ both.transpose(-1, -2)
    likeness = likeness.masked_fill(torch.eye(2 * count, dtype=torch.bool, device=one.device), float("-inf"))
    partner = torch.arange(2 * count, device=one.device).roll(count)
    chosen = likeness.log_softmax(-1).gather(-1, partner[:, None].expand(*likeness.shape[:-1], 1))
    return -chosen.mean((1, 2, 3))
