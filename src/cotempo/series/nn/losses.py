"""Losses that networks are trained with: `Filling` hidden cells, `Correcting` a guess, and `Denoising` windows."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional

from cotempo.series.nn.backbone import Backbone, NoiseSchedule
from cotempo.series.nn.first_guess import first_guess, relate
from cotempo.series.nn.imputer import Imputer, Teacher, TokenImputer
from cotempo.series.nn.layers import Weights
from cotempo.series.nn.parameters import ParameterSpecs
from cotempo.series.nn.training import Lead, Tensors, TrainingWindows

LEAST_HIDDEN, MOST_HIDDEN = 0.2, 0.8
ROWS, CELLS, SPAN = 0.4, 0.7, 0.8
DROP_FEATURE = 0.2


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
    r"""Learn to denoise, predicting the clean window: equations (1) to (6) of FedTDD.

    .. math:: L = w_t \left(\|x_0 - \hat x_0\|^2 + \tfrac{\sqrt{\ell}}{5} \|F x_0 - F \hat x_0\|^2\right), \qquad
              w_t = \frac{\alpha_t (1 - \bar\alpha_t)}{100^2 \beta_t^2}

    over the cells that count, as printed; unless `squared`, absolute values take the place of squares and the root of
    the weight that of the weight, as in the authors' released code. The constants are that code's: the paper leaves
    them open. Where some cells of a window do not count, the Fourier term would see them and is left out.
    """

    backbone: Backbone
    noise: NoiseSchedule
    squared: bool = False

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
        loss = _mean(gap.square() if self.squared else gap.abs(), mask)
        whole = (mask | ~exists).all(-2, keepdim=True).all(-1, keepdim=True)
        spectrum = torch.fft.fft(gap.transpose(-1, -2), norm="forward")
        apart = spectrum.abs().square() if self.squared else spectrum.real.abs() + spectrum.imag.abs()
        apart = apart.transpose(-1, -2)
        loss = loss + self.backbone.length**0.5 / 5 * _mean(apart, exists & whole)
        weighted: Tensor = loss * self.noise.weight(time, clean) ** (2 if self.squared else 1)
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


def draw_masks(
    generator: torch.Generator, lead: tuple[int, ...], length: int, features: int, wide: int
) -> dict[str, Tensor]:
    """Draw the uniform numbers that decide what is hidden, ``[*lead, ...]`` each.

    `knobs` say how much, which kind, whether a whole feature is dropped, and where a gap begins. Windows of `features`
    features are padded to `wide` with numbers that hide nothing.
    """

    def uniform(*shape: int) -> Tensor:
        return torch.rand(*lead, *shape, generator=generator, device=generator.device, dtype=torch.float32)

    room = (0, wide - features)
    return {
        "knobs": uniform(4),
        "rows": uniform(length),
        "cells": functional.pad(uniform(length, features), room, value=1.0),
        "features": functional.pad(uniform(features), room, value=0.0),
    }


def hidden(chances: Mapping[str, Tensor], seen: Tensor, together: Tensor, exists: Tensor) -> Tensor:
    """Return which of the seen cells to hide, ``[networks, batch, length, features]``.

    Between 20 and 80 % of the rows, of single cells, of neighbouring rows (one long gap), or of the rows of some
    features are hidden, and now and then one feature wholly, half of these times alone. Some features are those of
    `together`, ``[networks, features]``, or a random half where that holds all that `exists`.
    """
    length = seen.shape[-2]
    amount, kind, drop, begin = (knob[..., None, None] for knob in chances["knobs"].unbind(-1))
    rate = LEAST_HIDDEN + (MOST_HIDDEN - LEAST_HIDDEN) * amount
    rows = (chances["rows"][..., None] < rate).expand_as(seen)
    # The gap may reach over either end of the window: gaps at the end are forecasts.
    after = torch.arange(length, device=seen.device)[:, None] / length - (begin * (1 + rate / 2) - rate / 2)
    gap = ((after >= 0) & (after < rate / 2)).expand_as(seen)
    mixed = together.any(-1, keepdim=True) & (exists & ~together).any(-1, keepdim=True)
    some = torch.where(mixed[:, None, :], together[:, None, :], chances["features"] < 0.5)[..., None, :]
    found = torch.where(kind < SPAN, gap, rows & some)
    found = torch.where(kind < CELLS, chances["cells"] < rate, found)
    found = torch.where(kind < ROWS, rows, found)
    first = chances["features"] == chances["features"].amax(-1, keepdim=True)
    several = (exists.sum(-1, keepdim=True) > 1)[:, None, None, :]
    found = found & ~((drop < DROP_FEATURE / 2) & several)
    return (found | ((drop < DROP_FEATURE) & first[..., None, :] & several)) & seen
