"""From noise to windows: DDPM, DDIM and DPM-Solver++, freely or around what was measured."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from cotempo.series.nn.noise import Noise

Sampler = Literal["ddpm", "ddim", "dpm"]
Denoise = Callable[[Tensor, int], Tensor]
# From which share of the noise on how many guided steps of which size are taken, and the weight of the model's own law.
GUIDED = ((0.9, 3, 1.0), (0.75, 2, 0.5), (0.05, 1, 0.25), (0.0, 0, 0.0))
PRIOR = 0.01


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
        Size of the steps that pull a draw towards what was measured, as published; 0 leaves them out.
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
        state, x, times = _State(self), start, self.times()
        for time, later in zip(times, [*times[1:], -1], strict=True):
            mean, deviation = state.step(x, denoise(x, time), time, later)
            x = _drawn(mean, deviation, generator)
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
        state, times = _State(self), self.times(start)
        x = self._noisy(guess, times[0], generator)
        for time, later in zip(times, [*times[1:], -1], strict=True):
            clean = denoise(x, time)
            clean = clean.clamp(-1, 1) if self.guidance else torch.where(seen, guess, clean)
            mean, deviation = state.step(x, clean, time, later)
            x = _drawn(mean, deviation, generator)
            if self.guidance and later >= 0:
                x = self._guided(denoise, x, time, (mean, deviation), guess, seen)
            known = guess if later < 0 else self._noisy(guess, later, generator)
            x = torch.where(seen, known, x)
        return x

    def _noisy(self, clean: Tensor, time: int, generator: torch.Generator) -> Tensor:
        kept = float(self.noise.kept[time])
        draw = torch.randn(clean.shape, generator=generator, device=clean.device, dtype=clean.dtype)
        return math.sqrt(kept) * clean + math.sqrt(1 - kept) * draw

    def _guided(
        self, denoise: Denoise, x: Tensor, time: int, law: tuple[Tensor, float], guess: Tensor, seen: Tensor
    ) -> Tensor:
        r"""The paper's guidance (eq. 23), in the steps of Diffusion-TS.

        .. math:: x \leftarrow x - \eta \operatorname{sign} \nabla_x \left(\frac{1}{\sigma} \|y - \hat x_0(x)\|^2
                  + \frac{\gamma}{\sigma} \|x - \mu\|^2\right)

        over measured cells :math:`y`, with the mean :math:`\mu` and the deviation :math:`\sigma` that :math:`x` was
        drawn with: the second term is :math:`-\log p(x_{t - 1} \mid x_t)`. Early in the walk up to three steps are
        taken, later one of a quarter of the size, in the last twentieth none. (Adagrad, which is started afresh for
        each step there, steps by :math:`\eta` whatever the size of the gradient.)
        """
        count, size = next((count, size) for least, count, size in GUIDED if time >= least * self.noise.steps)
        (mean, deviation), rate = law, self.guidance * size
        for _ in range(count):
            with torch.enable_grad():
                leaf = x.detach().requires_grad_()
                miss = (((denoise(leaf, time) - guess) * seen) ** 2).sum()
                loss = (miss + PRIOR * ((leaf - mean) ** 2).sum()) / (deviation or 1.0)
                (slope,) = torch.autograd.grad(loss, leaf)
            x = x - rate * slope.sign()
        return x


def _drawn(mean: Tensor, deviation: float, generator: torch.Generator) -> Tensor:
    if not deviation:
        return mean
    return mean + deviation * torch.randn(mean.shape, generator=generator, device=mean.device, dtype=mean.dtype)


class _State:
    """One walk: the formulas of the three samplers, and the last prediction for the second-order one."""

    def __init__(self, walk: Walk):
        self.walk = walk
        self.last: tuple[Tensor, float] | None = None

    def step(self, x: Tensor, clean: Tensor, time: int, later: int) -> tuple[Tensor, float]:
        """Mean and deviation of the step from `time` to `later`; -1 is the clean end."""
        if later < 0:
            return clean, 0.0
        kept, next_kept = (float(self.walk.noise.kept[place]) for place in (time, later))
        if self.walk.kind == "ddpm":
            return self._ddpm(x, clean, kept, next_kept)
        if self.walk.kind == "ddim":
            direction = (x - math.sqrt(kept) * clean) / math.sqrt(1 - kept)
            return math.sqrt(next_kept) * clean + math.sqrt(1 - next_kept) * direction, 0.0
        return self._dpm(x, clean, kept, next_kept), 0.0

    def _ddpm(self, x: Tensor, clean: Tensor, kept: float, next_kept: float) -> tuple[Tensor, float]:
        r"""The law :math:`q(x_{t'} \mid x_t, \hat x_0)`."""
        ratio = kept / next_kept
        mean = math.sqrt(next_kept) * (1 - ratio) / (1 - kept) * clean
        mean = mean + math.sqrt(ratio) * (1 - next_kept) / (1 - kept) * x
        return mean, math.sqrt((1 - ratio) * (1 - next_kept) / (1 - kept))

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
