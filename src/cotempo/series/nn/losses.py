"""What networks are trained for: to fill hidden cells, and to denoise windows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional

from cotempo.series.nn.backbone import Backbone
from cotempo.series.filling.masking import Chances, draw_chances, hidden
from cotempo.series.nn.imputer import Guess, Imputer
from cotempo.series.filling.interpolation import interpolate_windows, line_between
from cotempo.series.nn.layers import Weights
from cotempo.series.nn.noise import Noise
from cotempo.series.nn.parameters import Leaves
from cotempo.series.filling.factor_models import expect
from cotempo.series.nn.token_imputer import TokenImputer
from cotempo.series.nn.training import Material

CALM = 8
OUTLIER = 3.0


def first_guess(values: Tensor, seen: Tensor, centre: Tensor) -> Guess:
    """Linear interpolation inside each window, and the mean of a feature never seen there."""
    line, back, forth = interpolate_windows(values, seen, centre[:, None, None, :])
    return Guess(values, seen, line, back, forth)


@torch.no_grad()
def relate(given: Guess, ties: Mapping[str, Tensor]) -> Guess:
    """Improve a first guess by what the features measured in the same row say, with `Ties` stacked by networks.

    A feature strays from its line as the others do from theirs, each at the pace it has in this window; one never seen
    in the window is where the levels of the others put it.
    """
    length = given.values.shape[-2]
    line, back, forth = line_between(given.values, given.seen)
    walk = torch.where(torch.maximum(back, forth) < length, back * forth / (back + forth), torch.minimum(back, forth))
    size = walk.clamp(min=1e-3).sqrt()
    known = given.seen & (torch.minimum(back, forth) < length)
    apart = torch.where(known, (given.values - line) / size, 0)
    usual = ((ties["moves"][..., :-1] ** 2).sum(-1) + ties["moves"][..., -1]).sqrt()[:, None, None, :]
    pace = _pace(apart, known, usual)
    calm = (apart / pace).clamp(-OUTLIER * usual, OUTLIER * usual)
    strayed = pace * expect(ties["moves"], calm, known)
    here = given.seen.any(-2, keepdim=True)
    guess = torch.where(given.seen | ~here, given.guess, given.guess + size * strayed)
    centre = ties["centre"][:, None, None, :]
    level = centre + expect(ties["levels"], guess - centre, here.expand_as(guess))
    return replace(given, guess=torch.where(here, guess, level))


def _pace(apart: Tensor, known: Tensor, usual: Tensor) -> Tensor:
    """How much faster than usual each feature moves in a window, ``[networks, batch, 1, features]``.

    The fewer measurements, the nearer to 1 on a log scale: it takes `CALM` of them to go half of the way.
    """
    count = known.sum(-2, keepdim=True).to(apart.dtype)
    # The mean absolute deviation of a normal law is the root of 2 / pi; squares would be ruled by outliers.
    swift = (math.pi / 2) ** 0.5 * apart.abs().sum(-2, keepdim=True) / (usual * count).clamp(min=1e-9)
    return torch.pow(swift.clamp(1e-2, 1e2), count / (count + CALM))


@dataclass(frozen=True)
class Teacher:
    """Imputers trained elsewhere, frozen: one of the common features, and one of tokens that fills any feature.

    Both have the weights of one network, which serves all clients. `ties` are those of the common features.
    """

    imputer: Imputer
    weights: Weights
    ties: Mapping[str, Tensor]
    tokens: TokenImputer | None = None
    token_weights: Weights | None = None

    @torch.no_grad()
    def fillings(self, given: Guess, spread: Tensor) -> tuple[Tensor, Tensor]:
        """Fill a guess twice: the common features, which come first, by name; and all features by tokens."""
        count = self.ties["centre"].shape[-1]
        networks, batch, length, _ = given.guess.shape
        values, seen = (
            part[..., :count].reshape(1, networks * batch, length, count) for part in (given.values, given.seen)
        )
        guess = relate(first_guess(values, seen, self.ties["centre"]), self.ties)
        filled = self.imputer(self.weights, guess, self.ties["spread"])
        named, start = (
            torch.cat([part.reshape(networks, batch, length, count), given.guess[..., count:]], dim=-1)
            for part in (filled, guess.guess)
        )
        if self.tokens is None or self.token_weights is None:
            return named, named
        spread = torch.cat([self.ties["spread"].expand(networks, count), spread[:, count:]], dim=-1)
        weights = {name: weight.expand(networks, *weight.shape[1:]) for name, weight in self.token_weights.items()}
        return named, self.tokens(weights, replace(given, guess=start), spread)

    def join(self, given: Guess, named: Tensor, free: Tensor) -> Guess:
        """Put what is known best where nothing was seen: common features by name, the others by tokens."""
        count = self.ties["centre"].shape[-1]
        filled = torch.cat([named[..., :count], free[..., count:]], dim=-1)
        return replace(given, guess=torch.where(given.seen, given.values, filled))


@dataclass(frozen=True)
class Filling:
    """Learn to fill cells that are hidden on purpose: mean absolute error on them."""

    imputer: Imputer | TokenImputer
    teacher: Teacher | None = None

    def leaves(self, features: int) -> Leaves:
        """Those of the imputer."""
        return self.imputer.leaves(features)

    def draw(
        self, material: Material, wide: int, lead: tuple[int, int], generator: torch.Generator
    ) -> dict[str, Tensor]:
        """What decides which cells are hidden."""
        dtype = torch.float32
        return draw_chances(generator, lead, self.imputer.length, material.features, wide, dtype)

    def loss(self, weights: Weights, fixed: dict[str, Tensor], batch: dict[str, Tensor]) -> Tensor:
        """Mean absolute error on the hidden cells, of each network."""
        values = fixed["windows"][fixed["network"], batch["windows"]]
        seen = fixed["mask"][fixed["network"], batch["windows"]]
        chances = Chances(batch["knobs"], batch["rows"], batch["cells"], batch["features"])
        target = hidden(chances, seen, fixed["common"], fixed["exists"])
        left = seen & ~target
        given = first_guess(torch.where(left, values, 0), left, fixed["centre"])
        given = relate(given, fixed)
        if self.teacher:
            given = self.teacher.join(given, *self.teacher.fillings(given, fixed["spread"]))
        filled = self.imputer(weights, given, fixed["spread"])
        error = (filled - values).abs() * target
        return error.sum((1, 2, 3)) / target.sum((1, 2, 3)).clamp(min=1)


@dataclass(frozen=True)
class Correcting:
    """Learn to correct a guess of cells that were hidden before: mean absolute error on them."""

    imputer: Imputer

    def leaves(self, features: int) -> Leaves:
        """Those of the imputer."""
        return self.imputer.leaves(features)

    def draw(
        self, material: Material, wide: int, lead: tuple[int, int], generator: torch.Generator
    ) -> dict[str, Tensor]:
        """Nothing: what is hidden is in the material."""
        return {}

    def loss(self, weights: Weights, fixed: dict[str, Tensor], batch: dict[str, Tensor]) -> Tensor:
        """Mean absolute error on the cells that count, of each network."""
        values, target, guess, left = (
            fixed[name][fixed["network"], batch["windows"]] for name in ("windows", "mask", "guess", "left")
        )
        given = replace(first_guess(torch.where(left, values, 0), left, fixed["centre"]), guess=guess)
        error = (self.imputer(weights, given, fixed["spread"]) - values).abs() * target
        return error.sum((1, 2, 3)) / target.sum((1, 2, 3)).clamp(min=1)


@dataclass(frozen=True)
class Denoising:
    r"""Learn to denoise, predicting the clean window.

    .. math:: L = w_t \left(|x_0 - \hat x_0| + \tfrac{\sqrt{\ell}}{5} |F x_0 - F \hat x_0|\right), \qquad
              w_t = \frac{\sqrt{\alpha_t} \sqrt{1 - \bar\alpha_t}}{100\, \beta_t}

    over the cells that count; where some of a window's do not, the Fourier term would see them and is left out.
    """

    backbone: Backbone
    noise: Noise

    def leaves(self, features: int) -> Leaves:
        """Those of the backbone."""
        return self.backbone.leaves(features)

    def draw(
        self, material: Material, wide: int, lead: tuple[int, int], generator: torch.Generator
    ) -> dict[str, Tensor]:
        """Steps of diffusion and noise."""
        place = generator.device
        shape = (*lead, self.backbone.length, material.features)
        noise = torch.randn(*shape, generator=generator, device=place, dtype=torch.float32)
        return {
            "time": torch.randint(self.noise.steps, lead, generator=generator, device=place),
            "noise": functional.pad(noise, (0, wide - material.features)),
        }

    def loss(self, weights: Weights, fixed: dict[str, Tensor], batch: dict[str, Tensor]) -> Tensor:
        """The weighted loss of each network."""
        clean = fixed["windows"][fixed["network"], batch["windows"]]
        mask = fixed["mask"][fixed["network"], batch["windows"]]
        exists = fixed["exists"][:, None, None, :]
        time = batch["time"]
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


def _mean(values: Tensor, mask: Tensor) -> Tensor:
    """Mean over the cells of each window that count, ``[networks, batch]``."""
    mask = mask.expand_as(values)
    return (values * mask).sum((-1, -2)) / mask.sum((-1, -2)).clamp(min=1)
