"""Distances of generated windows from real ones: `correlational`, `frechet`, and `ContextFID` by a TS2Vec encoder.

References
----------
Yue et al., "TS2Vec: towards universal representation of time series", AAAI 2022.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.linalg import sqrtm
from torch import Tensor
from torch.nn import functional

from cotempo.devices import Device, find_device
from cotempo.federation import Rng
from cotempo.series.metrics.stacked import Stack, train_stack
from cotempo.series.nn.layers import Weights, linear, linear_specs
from cotempo.series.nn.parameters import ParameterSpecs
from cotempo.typing import Floats

WIDTH, OUTPUTS, DEPTH, BATCH = 32, 32, 4, 32


def correlational(real: Floats, synthetic: Floats) -> float:
    r"""Return the distance of the correlation matrices of two sets of windows ``(windows, length, features)``.

    .. math:: \tfrac{1}{10} \sum_{i, j} |\rho_{ij} - \hat\rho_{ij}|

    over all pairs of features, as in the paper; a constant feature correlates with nothing.

    Examples
    --------
    >>> one = np.random.default_rng(0).normal(size=(5, 8, 3))
    >>> correlational(one, one)
    0.0
    """
    return float(np.abs(_correlation(real) - _correlation(synthetic)).sum() / 10)


def _correlation(windows: Floats) -> Floats:
    rows = windows.reshape(-1, windows.shape[-1])
    rows = rows - rows.mean(axis=0)
    scale = rows.std(axis=0)
    rows = rows / np.where(scale > 1e-12, scale, np.inf)
    return np.asarray(rows.T @ rows / len(rows))


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
        means = [real.mean(axis=(0, 1)) for real in reals]
        deviations = [np.maximum(real.std(axis=(0, 1)), 1e-6) for real in reals]
        scaled = [(real - mean) / size for real, mean, size in zip(reals, means, deviations, strict=True)]
        rng = Rng(seed, "context-fid")
        weights = train_encoders(scaled, steps, rng, device)
        found = zip(means, deviations, embed(weights, scaled), strict=True)
        return [cls(*parts, _narrowed(weights, k, len(parts[0])), rng) for k, parts in enumerate(found)]

    def score(self, synthetic: Floats) -> float:
        """Return the distance of generated windows to the real ones; 0 is best."""
        (cloud,) = embed(self.weights, [(synthetic - self.mean) / self.deviation])
        return frechet(self.real, cloud)

    def floor(self) -> float:
        """Return the distance between random halves of the real windows: what a perfect generator would score."""
        order = self.rng("floor").permutation(len(self.real))
        half = len(order) // 2
        return frechet(self.real[order[:half]], self.real[order[half:]])


def _narrowed(weights: Weights, client: int, features: int) -> Weights:
    """Return the encoder of one client of a stack, without the padding of its features."""
    own = {name: part[client : client + 1] for name, part in weights.items()}
    return {**own, "input.weight": own["input.weight"][:, :features]}


def encoder_specs(features: int) -> ParameterSpecs:
    """Return the weights: an input layer, dilated convolutions over three places, an output layer."""
    found = linear_specs("input", features, WIDTH)
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
def embed(weights: Weights, each: Sequence[Floats]) -> list[Floats]:
    """Embed each client's windows: the maximum over time."""
    windows = Stack.of(each, next(iter(weights.values())).device).windows
    parts = [encode(weights, windows[:, k : k + 1024]).amax(2) for k in range(0, windows.shape[1], 1024)]
    found = torch.cat(parts, dim=1).double().cpu().numpy()
    return [found[k, : len(own)] for k, own in enumerate(each)]


def train_encoders(each: Sequence[Floats], steps: int, rng: Rng, device: Device = "cpu") -> Weights:
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
