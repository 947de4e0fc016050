"""Losses that networks are trained with: `Filling` hidden cells, `Correcting` a guess, and `Denoising` windows."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional

from cotempo.series.filling.masking import draw_masks, hidden
from cotempo.series.nn.backbone import Backbone, NoiseSchedule
from cotempo.series.nn.first_guess import first_guess, relate
from cotempo.series.nn.imputer import Imputer, TokenImputer
from cotempo.series.nn.layers import Weights
from cotempo.series.nn.parameters import ParameterSpecs
from cotempo.series.nn.teacher import Teacher
from cotempo.series.nn.training import Lead, Tensors, TrainingWindows


@dataclass(frozen=True)
class Filling:
    """Learn to fill cells that are hidden on purpose: mean absolute error on them."""

    imputer: Imputer | TokenImputer
    teacher: Teacher | None = None

    def specs(self, features: int) -> ParameterSpecs:
        """Return the parameters of the imputer."""
        return self.imputer.specs(features)

    def draw(self, dataset: TrainingWindows, wide: int, lead: Lead, generator: torch.Generator) -> Tensors:
        """Draw what decides which cells are hidden."""
        return draw_masks(generator, lead, self.imputer.length, dataset.features, wide)

    def loss(self, weights: Weights, fixed: Tensors, batch: Tensors) -> Tensor:
        """Return the mean absolute error on the hidden cells, of each network."""
        values, seen = _pick(fixed, batch, "windows", "mask")
        target = hidden(batch, seen, fixed["common"], fixed["exists"])
        left = seen & ~target
        given = relate(first_guess(torch.where(left, values, 0), left, fixed["centre"]), fixed)
        if self.teacher:
            given = self.teacher.join(given, *self.teacher.fillings(given, fixed["spread"]))
        return _mean_error(self.imputer(weights, given, fixed["spread"]), values, target)


class Correcting(Filling):
    """Learn to correct a guess of cells that were hidden before: mean absolute error on them."""

    def draw(self, dataset: TrainingWindows, wide: int, lead: Lead, generator: torch.Generator) -> Tensors:
        """Draw nothing: the dataset says what is hidden."""
        return {}

    def loss(self, weights: Weights, fixed: Tensors, batch: Tensors) -> Tensor:
        """Return the mean absolute error on the cells that count, of each network."""
        values, target, guess, left = _pick(fixed, batch, "windows", "mask", "guess", "left")
        given = replace(first_guess(torch.where(left, values, 0), left, fixed["centre"]), guess=guess)
        return _mean_error(self.imputer(weights, given, fixed["spread"]), values, target)


@dataclass(frozen=True)
class Denoising:
    r"""Learn to denoise, predicting the clean window: equations (1) to (6) of FedTDD, absolute values for squares.

    .. math:: L = w_t \left(|x_0 - \hat x_0| + \tfrac{\sqrt{\ell}}{5} |F x_0 - F \hat x_0|\right), \qquad
              w_t = \frac{\sqrt{\alpha_t} \sqrt{1 - \bar\alpha_t}}{100\, \beta_t}

    over the cells that count; where some of a window's do not, the Fourier term would see them and is left out.
    """

    backbone: Backbone
    noise: NoiseSchedule

    def specs(self, features: int) -> ParameterSpecs:
        """Return the parameters of the backbone."""
        return self.backbone.specs(features)

    def draw(self, dataset: TrainingWindows, wide: int, lead: Lead, generator: torch.Generator) -> Tensors:
        """Draw diffusion steps and noise."""
        place = generator.device
        shape = (*lead, self.backbone.length, dataset.features)
        noise = torch.randn(*shape, generator=generator, device=place, dtype=torch.float32)
        return {
            "time": torch.randint(self.noise.steps, lead, generator=generator, device=place),
            "noise": functional.pad(noise, (0, wide - dataset.features)),
        }

    def loss(self, weights: Weights, fixed: Tensors, batch: Tensors) -> Tensor:
        """Return the weighted loss of each network."""
        clean, mask = _pick(fixed, batch, "windows", "mask")
        exists, time = fixed["exists"][:, None, None, :], batch["time"]
        signal, sigma = self.noise.levels(time, clean)
        noisy = signal * clean + sigma * batch["noise"].to(clean.dtype)
        gap = (self.backbone(weights, noisy, time, exists).whole - clean) * exists
        loss = _mean(gap.abs(), mask)
        whole = (mask | ~exists).all(-2, keepdim=True).all(-1, keepdim=True)
        spectrum = torch.fft.fft(gap.transpose(-1, -2), norm="forward")
        apart = (spectrum.real.abs() + spectrum.imag.abs()).transpose(-1, -2)
        loss = loss + self.backbone.length**0.5 / 5 * _mean(apart, exists & whole)
        weighted: Tensor = loss * self.noise.weight(time, clean)
        return weighted.mean(1)


def _pick(fixed: Tensors, batch: Tensors, *names: str) -> list[Tensor]:
    """Return the windows of a batch, ``[networks, batch, length, features]``, and what belongs to them."""
    return [fixed[name][fixed["network"], batch["windows"]] for name in names]


def _mean_error(filled: Tensor, values: Tensor, target: Tensor) -> Tensor:
    error = (filled - values).abs() * target
    return error.sum((1, 2, 3)) / target.sum((1, 2, 3)).clamp(min=1)


def _mean(values: Tensor, mask: Tensor) -> Tensor:
    """Return the mean over the cells of each window that count, ``[networks, batch]``."""
    mask = mask.expand_as(values)
    return (values * mask).sum((-1, -2)) / mask.sum((-1, -2)).clamp(min=1)
