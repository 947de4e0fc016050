"""Scores of generated series against real ones, and of what they reveal.

`correlational`, `ContextFID` by a TS2Vec encoder, and `discriminative` and `predictive` by a recurrent network; windows
are ``(windows, length, features)``. Networks have a leading axis of one, as layers need it.

References
----------
Yue et al., "TS2Vec: towards universal representation of time series", AAAI 2022.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt

import numpy as np
import torch
from scipy.linalg import sqrtm
from torch import Tensor
from torch.nn import functional

from cotempo.devices import Device, find_device
from cotempo.federation import Rng
from cotempo.series.nn.layers import Weights, linear, linear_specs
from cotempo.series.nn.parameters import ParameterSpec, ParameterSpecs, draw, views
from cotempo.series.release import membership, nearest_distance
from cotempo.typing import Floats

__all__ = [
    "ContextFID", "correlational", "discriminative", "frechet", "membership", "nearest_distance", "predictive",
]  # fmt: skip
Loss = Callable[[Weights, torch.Generator], Tensor]
ENCODER_WIDTH, ENCODER_DEPTH, ENCODER_BATCH, ENCODER_RATE = 32, 4, 32, 1e-3
GRU_WIDTH, GRU_BATCH, GRU_RATE = 24, 128, 3e-3


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
        """Train an encoder on real windows for so many steps."""
        mean, deviation = real.mean(axis=(0, 1)), np.maximum(real.std(axis=(0, 1)), 1e-6)
        scaled, rng = (real - mean) / deviation, Rng(seed, "context-fid")
        weights = _train_encoder(scaled, steps, rng, find_device(device))
        return cls(mean, deviation, _embed(weights, scaled), weights, rng)

    def score(self, synthetic: Floats) -> float:
        """Return the distance of generated windows to the real ones; 0 is best."""
        return frechet(self.real, _embed(self.weights, (synthetic - self.mean) / self.deviation))

    def floor(self) -> float:
        """Return the distance between random halves of the real windows: what a perfect generator would score."""
        order = self.rng("floor").permutation(len(self.real))
        half = len(order) // 2
        return frechet(self.real[order[:half]], self.real[order[half:]])


def _encoder_specs(features: int) -> ParameterSpecs:
    """Return the weights: an input layer, dilated convolutions over three places, an output layer."""
    found = linear_specs("input", features, ENCODER_WIDTH)
    for layer in range(ENCODER_DEPTH):
        found |= linear_specs(f"{layer}", 3 * ENCODER_WIDTH, ENCODER_WIDTH)
    return {**found, **linear_specs("output", ENCODER_WIDTH, ENCODER_WIDTH)}


def _encode(weights: Weights, windows: Tensor, hidden: Tensor | None = None) -> Tensor:
    """Encode ``[clients, windows, length, features]`` at every time; hidden places are zeroed."""
    x = linear(weights, "input", windows)
    if hidden is not None:
        x = x.masked_fill(hidden[..., None], 0.0)
    for layer in range(ENCODER_DEPTH):
        reach = 2**layer
        around = functional.pad(functional.gelu(x), (0, 0, reach, reach))
        length = x.shape[2]
        taps = [around[:, :, place : place + length] for place in (0, reach, 2 * reach)]
        x = x + linear(weights, f"{layer}", torch.cat(taps, dim=-1))
    return linear(weights, "output", functional.gelu(x))


@torch.no_grad()
def _embed(weights: Weights, windows: Floats) -> Floats:
    """Embed windows: the maximum over time."""
    loaded = _load(windows, weights["input.weight"].device)
    parts = [_encode(weights, loaded[:, k : k + 1024]).amax(2) for k in range(0, len(windows), 1024)]
    return np.asarray(torch.cat(parts, dim=1)[0].double().cpu().numpy())


def _train_encoder(windows: Floats, steps: int, rng: Rng, place: torch.device) -> Weights:
    """Train so that two views of a window look alike and other windows do not."""
    data, length = _load(windows, place), windows.shape[1]

    def loss(weights: Weights, stream: torch.Generator) -> Tensor:
        batch = _pick(data, ENCODER_BATCH, stream)
        # Both views share a stretch of at least half the window.
        size = int(torch.randint(max(2, length // 2), length + 1, (1,), generator=stream))
        left = int(torch.randint(0, length - size + 1, (1,), generator=stream))
        right = left + size
        start = int(torch.randint(0, left + 1, (1,), generator=stream))
        end = int(torch.randint(right, length + 1, (1,), generator=stream))
        hidden = (torch.rand(2, ENCODER_BATCH, length, generator=stream) < 0.5).to(batch.device)
        one = _encode(weights, batch[:, :, start:right], hidden[None, 0, :, start:right])[:, :, left - start :]
        two = _encode(weights, batch[:, :, left:end], hidden[None, 1, :, left:end])[:, :, : right - left]
        return _hierarchical_loss(one, two)

    return _train(_encoder_specs(windows.shape[2]), loss, steps, ENCODER_RATE, rng, place)


def _hierarchical_loss(one: Tensor, two: Tensor) -> Tensor:
    """Return the mean contrast between windows and between times over ever coarser times."""
    losses = []
    while True:
        losses.append((_contrast(one.transpose(1, 2), two.transpose(1, 2)) + _contrast(one, two)) / 2)
        if one.shape[2] == 1:
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


def reader_specs(features: int) -> ParameterSpecs:
    """Return the weights of two GRU layers and a read-out of a yes or no and of the next row."""
    found: dict[str, ParameterSpec] = {}
    for layer, inputs in enumerate((features, GRU_WIDTH)):
        found |= {
            f"{layer}.input.weight": ParameterSpec((inputs, 3 * GRU_WIDTH), 1 / sqrt(3 * GRU_WIDTH)),
            f"{layer}.input.bias": ParameterSpec((3 * GRU_WIDTH,)),
            **linear_specs(f"{layer}.state", GRU_WIDTH, 3 * GRU_WIDTH, gain=0.6),
        }
    next_row = linear_specs("next", GRU_WIDTH, features, gain=0.6)
    return {**found, **linear_specs("answer", GRU_WIDTH, 1, gain=0.6), **next_row}


def read(weights: Weights, windows: Tensor) -> Tensor:
    r"""Return the state of two gated recurrent layers at every time, ``[1, windows, length, width]``.

    .. math:: h_t = (1 - z) \odot \tanh(W x_t + r \odot U h_{t - 1}) + z \odot h_{t - 1}

    with the gates :math:`r, z = \sigma(W' x_t + U' h_{t - 1})`.
    """
    x = windows
    for layer in (0, 1):
        given = linear(weights, f"{layer}.input", x)
        state, states = x.new_zeros(*x.shape[:2], GRU_WIDTH), []
        for place in range(x.shape[2]):
            fresh, reset, keep = given[:, :, place].chunk(3, -1)
            old_fresh, old_reset, old_keep = linear(weights, f"{layer}.state", state).chunk(3, -1)
            kept = torch.sigmoid(keep + old_keep)
            state = torch.lerp(torch.tanh(fresh + torch.sigmoid(reset + old_reset) * old_fresh), state, kept)
            states.append(state)
        x = torch.stack(states, dim=2)
    return x


def discriminative(
    real: Floats, synthetic: Floats, *, steps: int = 500, seed: int = 0, device: Device = "cpu"
) -> float:
    """Return how far a classifier's accuracy on real and generated windows is from chance, on a fifth held out.

    Real values are scaled to [0, 1], so that the units of the features do not matter.

    Examples
    --------
    >>> real = np.random.default_rng(0).normal(size=(60, 8, 1))
    >>> discriminative(real, real + 20, steps=100)
    0.5
    """
    place, rng, count = find_device(device), Rng(seed, "discriminative"), min(len(real), len(synthetic))
    parts = zip("ab", _to_unit(real, synthetic), strict=True)
    both = [windows[rng(name).permutation(len(windows))[:count]] for name, windows in parts]
    cut = max(1, round(0.8 * count))
    learned = [_load(windows[:cut], place) for windows in both]

    def loss(weights: Weights, stream: torch.Generator) -> Tensor:
        batch = torch.cat([_pick(windows, GRU_BATCH // 2, stream) for windows in learned], dim=1)
        logits = _answers(weights, batch)
        labels = (torch.arange(logits.shape[1], device=logits.device) < GRU_BATCH // 2).to(logits.dtype)
        return functional.binary_cross_entropy_with_logits(logits, labels.expand_as(logits), reduction="none").mean(1)

    weights = _train(reader_specs(real.shape[2]), loss, steps, GRU_RATE, rng, place)
    with torch.no_grad():
        tests = (_load(part[cut:] if cut < len(part) else part, place) for part in both)
        yes, no = (_answers(weights, test).double().cpu().numpy() for test in tests)
    return float(abs(((yes > 0).mean() + (no <= 0).mean()) / 2 - 0.5))


def _answers(weights: Weights, windows: Tensor) -> Tensor:
    return linear(weights, "answer", read(weights, windows)[:, :, -1])[..., 0]


def predictive(real: Floats, synthetic: Floats, *, steps: int = 500, seed: int = 0, device: Device = "cpu") -> float:
    """Return the error on real windows of a next-row predictor trained on generated ones, scaled to [0, 1].

    Examples
    --------
    >>> steady = np.ones((20, 6, 1)) * np.linspace(0, 1, 20)[:, None, None]
    >>> predictive(steady, steady, steps=300) < 0.2
    True
    """
    place = find_device(device)
    known, made = (_load(part, place) for part in _to_unit(real, synthetic))

    def misses(weights: Weights, windows: Tensor) -> Tensor:
        return (linear(weights, "next", read(weights, windows[:, :, :-1])) - windows[:, :, 1:]).abs()

    def loss(weights: Weights, stream: torch.Generator) -> Tensor:
        error = misses(weights, _pick(made, GRU_BATCH, stream))
        return error.sum((1, 2, 3)) / error.numel()

    weights = _train(reader_specs(real.shape[2]), loss, steps, GRU_RATE, Rng(seed, "predictive"), place)
    with torch.no_grad():
        return float(misses(weights, known).double().cpu().numpy().mean())


def _to_unit(real: Floats, synthetic: Floats) -> tuple[Floats, Floats]:
    """Scale both so that the real values lie in [0, 1]."""
    low, high = real.min(axis=(0, 1)), real.max(axis=(0, 1))
    room = np.where(high - low > 1e-12, high - low, 1.0)
    return (real - low) / room, (synthetic - low) / room


def _load(windows: Floats, place: torch.device) -> Tensor:
    return torch.tensor(windows[None].astype(np.float32), device=place)


def _pick(windows: Tensor, count: int, stream: torch.Generator) -> Tensor:
    chosen = (torch.rand(count, generator=stream).to(windows.device) * windows.shape[1]).long()
    return windows[:, chosen]


def _train(specs: ParameterSpecs, loss: Loss, steps: int, rate: float, rng: Rng, place: torch.device) -> Weights:
    """Minimise a loss by Adam."""
    flat = torch.tensor(draw(specs, rng("weights"))[None], device=place, requires_grad=True)
    optimiser, stream = torch.optim.Adam([flat], lr=rate), rng.torch("batches")
    for _ in range(steps):
        total = loss(views(flat, specs), stream).sum()
        optimiser.zero_grad()
        total.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    return views(flat.detach(), specs)
