"""Discriminative and predictive scores, both by a two-layer recurrent network, for many clients at once."""

from collections.abc import Sequence
from math import sqrt

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from cotempo.devices import Device, find_device
from cotempo.federation import Rng
from cotempo.series.metrics.stacked import Stack, train_stack
from cotempo.series.nn.layers import Weights, linear, linear_specs
from cotempo.series.nn.parameters import ParameterSpec, ParameterSpecs
from cotempo.typing import Floats

BATCH, WIDTH, RATE = 128, 24, 3e-3


def reader_specs(features: int) -> ParameterSpecs:
    """Return the weights of two GRU layers and a read-out of a yes or no and of the next row."""
    found: dict[str, ParameterSpec] = {}
    for layer, inputs in enumerate((features, WIDTH)):
        found |= {
            f"{layer}.input.weight": ParameterSpec((inputs, 3 * WIDTH), 1 / sqrt(3 * WIDTH)),
            f"{layer}.input.bias": ParameterSpec((3 * WIDTH,)),
            **linear_specs(f"{layer}.state", WIDTH, 3 * WIDTH, gain=0.6),
        }
    next_row = linear_specs("next", WIDTH, features, gain=0.6)
    return {**found, **linear_specs("answer", WIDTH, 1, gain=0.6), **next_row}


def read(weights: Weights, windows: Tensor) -> Tensor:
    r"""Return the state of two gated recurrent layers at every time, ``[clients, windows, length, width]``.

    .. math:: h_t = (1 - z) \odot \tanh(W x_t + r \odot U h_{t - 1}) + z \odot h_{t - 1}

    with the gates :math:`r, z = \sigma(W' x_t + U' h_{t - 1})`.
    """
    x = windows
    for layer in (0, 1):
        given = linear(weights, f"{layer}.input", x)
        state, states = x.new_zeros(*x.shape[:2], WIDTH), []
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
    return discriminative_all([real], [synthetic], steps=steps, seed=seed, device=device)[0]


def discriminative_all(
    reals: Sequence[Floats], synthetics: Sequence[Floats], *, steps: int = 500, seed: int = 0, device: Device = "cpu"
) -> list[float]:
    """Return `discriminative` of several clients, their networks trained in one stack."""
    place, rng, both, cuts = find_device(device), Rng(seed, "discriminative"), [], []
    for pair in zip(reals, synthetics, strict=True):
        count = min(map(len, pair))
        parts = zip("ab", _to_unit(*pair), strict=True)
        both.append([windows[rng(name).permutation(len(windows))[:count]] for name, windows in parts])
        cuts.append(max(1, round(0.8 * count)))
    stacks = [Stack.of([pair[k][:cut] for pair, cut in zip(both, cuts, strict=True)], place) for k in (0, 1)]

    def loss(weights: Weights, stream: torch.Generator) -> Tensor:
        batch = [stack.take(stack.pick(torch.rand(BATCH // 2, generator=stream))) for stack in stacks]
        logits = linear(weights, "answer", read(weights, torch.cat(batch, dim=1))[:, :, -1])[..., 0]
        labels = (torch.arange(logits.shape[1], device=logits.device) < BATCH // 2).to(logits.dtype)
        losses = functional.binary_cross_entropy_with_logits(logits, labels.expand_as(logits), reduction="none")
        return losses.mean(1)

    features = [real.shape[2] for real in reals]
    weights = train_stack(reader_specs, features, loss, steps, RATE, rng, place)
    tests = [[part[cut:] if cut < len(part) else part for part in pair] for pair, cut in zip(both, cuts, strict=True)]
    found = [_answers(weights, [test[k] for test in tests]) for k in (0, 1)]
    shares = [((yes > 0).mean(), (no <= 0).mean()) for yes, no in zip(*found, strict=True)]
    return [float(abs(sum(pair) / 2 - 0.5)) for pair in shares]


@torch.no_grad()
def _answers(weights: Weights, each: Sequence[Floats]) -> list[Floats]:
    states = read(weights, Stack.of(each, weights["answer.weight"].device).windows)[:, :, -1]
    logits = linear(weights, "answer", states)[..., 0].double().cpu().numpy()
    return [logits[k, : len(own)] for k, own in enumerate(each)]


def predictive(real: Floats, synthetic: Floats, *, steps: int = 500, seed: int = 0, device: Device = "cpu") -> float:
    """Return the error on real windows of a next-row predictor trained on generated ones, scaled to [0, 1].

    Examples
    --------
    >>> steady = np.ones((20, 6, 1)) * np.linspace(0, 1, 20)[:, None, None]
    >>> predictive(steady, steady, steps=300) < 0.2
    True
    """
    return predictive_all([real], [synthetic], steps=steps, seed=seed, device=device)[0]


def predictive_all(
    reals: Sequence[Floats], synthetics: Sequence[Floats], *, steps: int = 500, seed: int = 0, device: Device = "cpu"
) -> list[float]:
    """Return `predictive` of several clients, their networks trained in one stack."""
    pairs = [_to_unit(*pair) for pair in zip(reals, synthetics, strict=True)]
    place = find_device(device)
    stack, features = Stack.of([made for _, made in pairs], place), [real.shape[2] for real in reals]
    exists = torch.zeros(len(features), 1, 1, max(features), device=place)
    for k, count in enumerate(features):
        exists[k, ..., :count] = 1.0

    def loss(weights: Weights, stream: torch.Generator) -> Tensor:
        batch = stack.take(stack.pick(torch.rand(BATCH, generator=stream)))
        ahead = linear(weights, "next", read(weights, batch[:, :, :-1]))
        error = (ahead - batch[:, :, 1:]).abs() * exists
        return error.sum((1, 2, 3)) / (exists.sum((1, 2, 3)) * ahead.shape[1] * ahead.shape[2])

    weights = train_stack(reader_specs, features, loss, steps, RATE, Rng(seed, "predictive"), place)
    with torch.no_grad():
        known = Stack.of([real for real, _ in pairs], place).windows
        ahead = linear(weights, "next", read(weights, known[:, :, :-1]))
        gaps = (ahead - known[:, :, 1:]).abs().double().cpu().numpy()
    return [float(gaps[k, : len(real), :, : real.shape[2]].mean()) for k, (real, _) in enumerate(pairs)]


def _to_unit(real: Floats, synthetic: Floats) -> tuple[Floats, Floats]:
    """Scale both so that the real values lie in [0, 1]."""
    low, high = real.min(axis=(0, 1)), real.max(axis=(0, 1))
    room = np.where(high - low > 1e-12, high - low, 1.0)
    return (real - low) / room, (synthetic - low) / room
