"""From noise to windows: DDPM, DDIM and DPM-Solver++, freely or around what was measured."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from cotempo.series.noise import Noise

Sampler = Literal["ddpm", "ddim", "dpm"]
Denoise = Callable[[Tensor, int], Tensor]


@dataclass(frozen=True)
class Walk:
    """How to walk from noise to a clean window.

    Attributes
    ----------
    kind
        ``"ddpm"`` draws noise anew at each step; ``"ddim"`` and ``"dpm"`` (DPM-Solver++, second order) do not, and
        25 steps are enough for them.
    steps
        How many steps; for ``"ddpm"`` every step of the schedule is taken.
    guidance
        Strength of the pull of a gradient towards what was measured, after the paper; 0 leaves it out.
    """

    noise: Noise
    kind: Sampler = "dpm"
    steps: int = 25
    guidance: float = 0.0

    def times(self, start: float = 1.0) -> list[int]:
        """The steps of the schedule that are visited, falling, from a share of the whole way."""
        first = max(1, round(start * self.noise.steps)) - 1
        count = first + 1 if self.kind == "ddpm" else min(max(2, math.ceil(self.steps * start)), first + 1)
        return sorted({round(first * part / max(count - 1, 1)) for part in range(count)}, reverse=True)

    def sample(self, denoise: Denoise, start: Tensor, generator: torch.Generator) -> Tensor:
        """Walk from pure noise `start` to clean windows of the same shape."""
        state = _State(self, generator)
        x = start
        times = self.times()
        for time, later in zip(times, [*times[1:], -1], strict=True):
            x = state.step(x, denoise(x, time), time, later)
        return x

    def infill(
        self, denoise: Denoise, guess: Tensor, seen: Tensor, generator: torch.Generator, start: float = 0.3
    ) -> Tensor:
        """Draw the cells that were not seen, given those that were.

        The walk starts from the guess with the noise of a share `start` of the way. After each step from t to t' the
        measured cells are put in with the noise of t', where the others now are.

        Parameters
        ----------
        guess
            Complete windows ``[networks, batch, length, features]``, right where `seen`.
        """
        state = _State(self, generator)
        times = self.times(start)
        x = self._noisy(guess, times[0], generator)
        for time, later in zip(times, [*times[1:], -1], strict=True):
            clean = self._guided(denoise, x, time, guess, seen) if self.guidance else denoise(x, time)
            x = state.step(x, torch.where(seen, guess, clean), time, later)
            known = guess if later < 0 else self._noisy(guess, later, generator)
            x = torch.where(seen, known, x)
        return x

    def _noisy(self, clean: Tensor, time: int, generator: torch.Generator) -> Tensor:
        kept = float(self.noise.kept[time])
        draw = torch.randn(clean.shape, generator=generator, device=clean.device, dtype=clean.dtype)
        return math.sqrt(kept) * clean + math.sqrt(1 - kept) * draw

    def _guided(self, denoise: Denoise, x: Tensor, time: int, guess: Tensor, seen: Tensor) -> Tensor:
        r"""The paper's guidance: :math:`\hat x_0 - \eta \nabla_{x_t} \|y - \hat x_0(x_t)\|^2` over measured cells."""
        with torch.enable_grad():
            leaf = x.detach().requires_grad_()
            clean = denoise(leaf, time)
            miss = (((clean - guess) * seen) ** 2).sum()
            (slope,) = torch.autograd.grad(miss, leaf)
        return clean.detach() - self.guidance * slope


class _State:
    """One walk: the formulas of the three samplers, and the last prediction for the second-order one."""

    def __init__(self, walk: Walk, generator: torch.Generator):
        self.walk = walk
        self.generator = generator
        self.last: tuple[Tensor, float] | None = None

    def step(self, x: Tensor, clean: Tensor, time: int, later: int) -> Tensor:
        """From step `time` to step `later`; -1 is the clean end."""
        if later < 0:
            return clean
        kept, next_kept = (float(self.walk.noise.kept[place]) for place in (time, later))
        if self.walk.kind == "ddpm":
            return self._ddpm(x, clean, kept, next_kept)
        if self.walk.kind == "ddim":
            direction = (x - math.sqrt(kept) * clean) / math.sqrt(1 - kept)
            return math.sqrt(next_kept) * clean + math.sqrt(1 - next_kept) * direction
        return self._dpm(x, clean, kept, next_kept)

    def _ddpm(self, x: Tensor, clean: Tensor, kept: float, next_kept: float) -> Tensor:
        r"""Draw from :math:`q(x_{t'} \mid x_t, \hat x_0)`."""
        ratio = kept / next_kept
        mean = math.sqrt(next_kept) * (1 - ratio) / (1 - kept) * clean
        mean = mean + math.sqrt(ratio) * (1 - next_kept) / (1 - kept) * x
        deviation = math.sqrt((1 - ratio) * (1 - next_kept) / (1 - kept))
        return mean + deviation * torch.randn(x.shape, generator=self.generator, device=x.device, dtype=x.dtype)

    def _dpm(self, x: Tensor, clean: Tensor, kept: float, next_kept: float) -> Tensor:
        r"""DPM-Solver++ (2M) in half log signal-to-noise :math:`\lambda`, with the step before as second point."""
        here, there = (0.5 * math.log(part / (1 - part)) for part in (kept, next_kept))
        width = there - here
        point = clean
        if self.last is not None:
            before, place = self.last
            ratio = (here - place) / width
            point = clean + (clean - before) / (2 * ratio)
        self.last = (clean, here)
        return math.sqrt((1 - next_kept) / (1 - kept)) * x - math.sqrt(next_kept) * math.expm1(-width) * point
