"""Sampler: windows drawn from a diffusion model, unconditionally or around measurements, and their decomposition."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cotempo.devices import find_device
from cotempo.series.nn.backbone import NoiseSchedule, Parts
from cotempo.series.nn.parameters import views
from cotempo.typing import Floats

if TYPE_CHECKING:
    from cotempo.federation import Rng
    from cotempo.series.settings import SeriesSettings

Denoise = Callable[[Tensor, int], Tensor]
MOST_WINDOWS = 512
# From which share of the noise on how many guided steps of which size are taken; and the paper's eta and gamma.
GUIDED = ((0.9, 3, 1.0), (0.75, 2, 0.5), (0.05, 1, 0.25), (0.0, 0, 0.0))
ETA, GAMMA = 0.05, 0.01


@dataclass(frozen=True)
class Sampler:
    """A sampler from noise to clean windows, `guided` by equation (23) or not.

    ``"ddpm"`` takes every step of the schedule and adds noise in each; ``"ddim"`` and ``"dpm"`` (DPM-Solver++, second
    order) are deterministic, and 25 `steps` are enough for them.
    """

    noise: NoiseSchedule
    kind: Literal["ddpm", "ddim", "dpm"] = "dpm"
    steps: int = 25
    guided: bool = False

    def times(self, start: float = 1.0) -> list[int]:
        """Return the steps of the schedule that are visited, falling, from a share of its length."""
        first = max(1, round(start * self.noise.steps)) - 1
        count = first + 1 if self.kind == "ddpm" else min(max(2, math.ceil(self.steps * start)), first + 1)
        return sorted({round(first * part / max(count - 1, 1)) for part in range(count)}, reverse=True)

    def sample(self, denoise: Denoise, start: Tensor, generator: torch.Generator) -> Tensor:
        """Sample clean windows from pure noise `start` of the same shape (line 9 of Algorithm 1)."""
        step, x, times = _ReverseStep(self), start, self.times()
        for time, later in zip(times, [*times[1:], -1], strict=True):
            mean, deviation = step(x, denoise(x, time), time, later)
            x = _drawn(mean, deviation, generator)
        return x

    def infill(
        self, denoise: Denoise, guess: Tensor, seen: Tensor, generator: torch.Generator, start: float = 0.3
    ) -> Tensor:
        """Draw the cells that were not seen, given a `guess` of complete windows that is right where `seen`.

        The draw starts from the guess with the noise of a share `start` of the schedule. After each step from t to t'
        the measured cells are put in with the noise of t', where the others now are.
        """
        step, times = _ReverseStep(self), self.times(start)
        x = self._noisy(guess, times[0], generator)
        for time, later in zip(times, [*times[1:], -1], strict=True):
            clean = denoise(x, time)
            clean = clean.clamp(-1, 1) if self.guided else torch.where(seen, guess, clean)
            mean, deviation = step(x, clean, time, later)
            x = _drawn(mean, deviation, generator)
            if self.guided and later >= 0:
                x = self._guide(denoise, x, time, (mean, deviation), guess, seen)
            known = guess if later < 0 else self._noisy(guess, later, generator)
            x = torch.where(seen, known, x)
        return x

    def _noisy(self, clean: Tensor, time: int, generator: torch.Generator) -> Tensor:
        kept = float(self.noise.kept[time])
        return _drawn(math.sqrt(kept) * clean, math.sqrt(1 - kept), generator)

    def _guide(
        self, denoise: Denoise, x: Tensor, time: int, law: tuple[Tensor, float], guess: Tensor, seen: Tensor
    ) -> Tensor:
        r"""Guide a draw towards what was measured (equation 23), in the steps of Diffusion-TS.

        .. math:: x \leftarrow x - \eta \operatorname{sign} \nabla_x \left(\frac{1}{\sigma} \|y - \hat x_0(x)\|^2
                  + \frac{\gamma}{\sigma} \|x - \mu\|^2\right)

        over measured cells :math:`y`, with the mean :math:`\mu` and the deviation :math:`\sigma` that :math:`x` was
        drawn with: the second term is :math:`-\log p(x_{t - 1} \mid x_t)`. At high noise up to three steps are taken,
        later one of a quarter of the size, in the last twentieth none. (Adagrad, which is restarted for each step
        there, steps by :math:`\eta` whatever the size of the gradient.)
        """
        count, size = next((count, size) for least, count, size in GUIDED if time >= least * self.noise.steps)
        (mean, deviation), rate = law, ETA * size
        for _ in range(count):
            with torch.enable_grad():
                leaf = x.detach().requires_grad_()
                miss = (((denoise(leaf, time) - guess) * seen) ** 2).sum()
                loss = (miss + GAMMA * ((leaf - mean) ** 2).sum()) / (deviation or 1.0)
                (slope,) = torch.autograd.grad(loss, leaf)
            x = x - rate * slope.sign()
        return x


def _drawn(mean: Tensor, deviation: float, generator: torch.Generator) -> Tensor:
    if not deviation:
        return mean
    return mean + deviation * torch.randn(mean.shape, generator=generator, device=mean.device, dtype=mean.dtype)


class _ReverseStep:
    """One step of the reverse process; the second-order solver remembers its last prediction."""

    def __init__(self, sampler: Sampler):
        self.sampler = sampler
        self.last: tuple[Tensor, float] | None = None

    def __call__(self, x: Tensor, clean: Tensor, time: int, later: int) -> tuple[Tensor, float]:
        """Return mean and deviation of the step from `time` to `later`; -1 is the clean end."""
        if later < 0:
            return clean, 0.0
        kept, next_kept = (float(self.sampler.noise.kept[place]) for place in (time, later))
        if self.sampler.kind == "ddpm":
            return self._ddpm(x, clean, kept, next_kept)
        if self.sampler.kind == "ddim":
            direction = (x - math.sqrt(kept) * clean) / math.sqrt(1 - kept)
            return math.sqrt(next_kept) * clean + math.sqrt(1 - next_kept) * direction, 0.0
        return self._dpm(x, clean, kept, next_kept), 0.0

    def _ddpm(self, x: Tensor, clean: Tensor, kept: float, next_kept: float) -> tuple[Tensor, float]:
        r"""Return the law :math:`q(x_{t'} \mid x_t, \hat x_0)` of equation (17)."""
        ratio = kept / next_kept
        mean = math.sqrt(next_kept) * (1 - ratio) / (1 - kept) * clean
        mean = mean + math.sqrt(ratio) * (1 - next_kept) / (1 - kept) * x
        return mean, math.sqrt((1 - ratio) * (1 - next_kept) / (1 - kept))

    def _dpm(self, x: Tensor, clean: Tensor, kept: float, next_kept: float) -> Tensor:
        r"""Step by DPM-Solver++ (2M) in half log signal-to-noise :math:`\lambda`, the step before as second point."""
        here, there = (0.5 * math.log(part / (1 - part)) for part in (kept, next_kept))
        width = there - here
        point = clean
        if self.last is not None:
            before, place = self.last
            ratio = (here - place) / width
            point = clean + (clean - before) / (2 * ratio)
        self.last = (clean, here)
        return math.sqrt((1 - next_kept) / (1 - kept)) * x - math.sqrt(next_kept) * math.expm1(-width) * point


class _Diffusion:
    """A trained diffusion model, loaded; called, it predicts the parts of clean windows."""

    def __init__(self, settings: SeriesSettings, weights: NDArray[Any], features: int, *, guided: bool = False):
        noise = NoiseSchedule(settings.diffusion_steps)
        self.sampler = Sampler(noise, settings.sampler, settings.sampler_steps, guided)
        self.place, self.backbone = find_device(settings.device), settings.backbone()
        flat = torch.tensor(weights[None], device=self.place)
        self.dtype, self.weights = flat.dtype, views(flat, self.backbone.specs(features))
        self.exists = torch.ones(1, 1, 1, features, device=self.place, dtype=torch.bool)

    def __call__(self, noisy: Tensor, time: int) -> Parts:
        steps = torch.full(noisy.shape[:2], time, device=self.place)
        return self.backbone(self.weights, noisy, steps, self.exists)

    def denoise(self, noisy: Tensor, time: int) -> Tensor:
        return self(noisy, time).whole

    def load(self, values: Floats) -> Tensor:
        return torch.tensor(values, device=self.place, dtype=self.dtype)[None]


@torch.no_grad()
def draw_windows(settings: SeriesSettings, weights: NDArray[Any], features: int, count: int, rng: Rng) -> Floats:
    """Draw new windows, ``(count, length, features)``, in scaled units."""
    model, found, generator = _Diffusion(settings, weights, features), [], rng.torch("sample", settings.device)
    for first in range(0, count, MOST_WINDOWS):
        shape = (1, min(MOST_WINDOWS, count - first), settings.window, features)
        noise = torch.randn(shape, generator=generator, device=model.place, dtype=model.dtype)
        found.append(model.sampler.sample(model.denoise, noise, generator)[0].double().cpu().numpy())
    return np.concatenate(found)


@torch.no_grad()
def draw_around(
    settings: SeriesSettings, weights: NDArray[Any], windows: Floats, seen: NDArray[np.bool_], draws: int, rng: Rng,
    *, guided: bool = False,
) -> Floats:  # fmt: skip
    """Draw the unseen cells of complete windows, ``(draws, windows, length, features)``, in scaled units."""
    model, found = _Diffusion(settings, weights, windows.shape[2], guided=guided), []
    repeated, known = np.tile(windows, (draws, 1, 1)), np.tile(seen, (draws, 1, 1))
    generator = rng.torch("infill", settings.device)
    for first in range(0, len(repeated), MOST_WINDOWS):
        part = slice(first, first + MOST_WINDOWS)
        guess, mask = model.load(repeated[part]), torch.tensor(known[part], device=model.place)[None]
        drawn = model.sampler.infill(model.denoise, guess, mask, generator, settings.warm_start)
        found.append(drawn[0].double().cpu().numpy())
    return np.concatenate(found).reshape(draws, *windows.shape)


@torch.no_grad()
def decompose_windows(settings: SeriesSettings, weights: NDArray[Any], windows: Floats) -> tuple[Floats, Floats]:
    """Return trend and season of complete windows, as the model sees them without noise."""
    model = _Diffusion(settings, weights, windows.shape[2])
    parts = model(model.load(windows), 0)
    return parts.trend[0].double().cpu().numpy(), parts.season[0].double().cpu().numpy()
