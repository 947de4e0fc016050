"""Imputer and TokenImputer, residual transformers that correct a first guess; Teacher; and windows filled by them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cotempo.devices import find_device
from cotempo.series.filling.factor_models import FactorModels
from cotempo.series.nn import layers
from cotempo.series.nn.first_guess import Guess, first_guess, relate
from cotempo.series.nn.layers import Weights, linear, normalise
from cotempo.series.nn.parameters import ParameterSpec, ParameterSpecs, views
from cotempo.series.nn.training import stack_factor_models
from cotempo.typing import Floats

if TYPE_CHECKING:
    from cotempo.series.filling.stages import TeacherWeights
    from cotempo.series.settings import SeriesSettings

GROUPS = 6  # inputs of a cell; tokens do without the first, its level
FLOOR = 1e-3


@dataclass(frozen=True)
class Imputer:
    r"""A residual transformer over windows of rows.

    .. math:: \hat x = g + s \, f_\theta\!\left([g]_{-1}^1, \tfrac{g - m}{s}, o, d_-, d_+, \log s\right)

    with the guess :math:`g` (linear interpolation, or what another imputer made of it), the mask :math:`o`, the mean
    and deviation :math:`m, s` of what was seen of a feature in the window, and the closeness :math:`d_\pm` of the
    neighbouring measurements. A level beyond the range that features were scaled by counts as its end. The last layer
    starts at zero: untrained, the imputer is its guess.
    """

    length: int
    width: int = 64
    layers: int = 3
    heads: int = 4

    def specs(self, features: int) -> ParameterSpecs:
        """Return the parameters."""
        found: dict[str, ParameterSpec] = {
            **layers.features_in_specs("input", GROUPS, features, self.width),
            "place": ParameterSpec((self.length, self.width), 0.1),
        }
        for layer in range(self.layers):
            found |= layers.attention_specs(f"{layer}.attention", self.width)
            found |= layers.mlp_specs(f"{layer}.mlp", self.width)
        return {**found, **layers.linear_specs("output", self.width, features, gain=0.0)}

    def __call__(self, weights: Weights, given: Guess, spread: Tensor) -> Tensor:
        """Fill every cell; `spread` is each feature's deviation over all data, 0 for padding."""
        inputs, scale, exists = _inputs_of(given, spread)
        x = layers.features_in(weights, "input", inputs) + weights["place"][:, None]
        for layer in range(self.layers):
            normed = normalise(x)
            x = x + layers.attention(weights, f"{layer}.attention", normed, normed, self.heads)
            x = x + layers.mlp(weights, f"{layer}.mlp", normalise(x))
        return given.guess + scale * exists * linear(weights, "output", normalise(x))


@dataclass(frozen=True)
class TokenImputer:
    """A residual transformer over the cells of windows, attending along rows and along features in turn.

    Its weights know no feature: trained on some features it fills others as well, in any number. It sees values only
    in units of their own window, because the level of a feature without a name says nothing.
    """

    length: int
    width: int = 32
    layers: int = 2
    heads: int = 4

    def specs(self, features: int) -> ParameterSpecs:
        """Return the parameters, the same for any number of features."""
        found: dict[str, ParameterSpec] = {
            **layers.linear_specs("input", GROUPS - 1, self.width),
            "place": ParameterSpec((self.length, self.width), 0.1),
        }
        for layer in range(self.layers):
            found |= layers.attention_specs(f"{layer}.rows", self.width)
            found |= layers.attention_specs(f"{layer}.features", self.width)
            found |= layers.mlp_specs(f"{layer}.mlp", self.width)
        return {**found, **layers.linear_specs("output", self.width, 1, gain=0.0)}

    def __call__(self, weights: Weights, given: Guess, spread: Tensor) -> Tensor:
        """Fill every cell; `spread` is each feature's deviation over all data, 0 for padding."""
        inputs, scale, exists = _inputs_of(given, spread)
        networks, batch, length, _, features = inputs.shape
        padding = (spread == 0)[:, None, None, :].expand(networks, batch, length, features)
        padding = padding.reshape(networks, batch * length, features)
        tokens = inputs[..., 1:, :].permute(0, 1, 4, 2, 3).reshape(networks, batch * features, length, GROUPS - 1)
        x = linear(weights, "input", tokens) + weights["place"][:, None]
        for layer in range(self.layers):
            normed = normalise(x)
            x = x + layers.attention(weights, f"{layer}.rows", normed, normed, self.heads)
            x = _swap(x, batch, features)
            normed = normalise(x)
            x = x + layers.attention(weights, f"{layer}.features", normed, normed, self.heads, padding)
            x = _swap(x, batch, length)
            x = x + layers.mlp(weights, f"{layer}.mlp", normalise(x))
        found = linear(weights, "output", normalise(x)).reshape(networks, batch, features, length)
        return given.guess + scale * exists * found.transpose(-1, -2)


def _swap(x: Tensor, batch: int, outer: int) -> Tensor:
    """Exchange the outer and the inner axis of ``[networks, batch * outer, inner, width]``."""
    networks, _, inner, width = x.shape
    return x.reshape(networks, batch, outer, inner, width).transpose(2, 3).reshape(networks, -1, outer, width)


def _inputs_of(given: Guess, spread: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return inputs ``[networks, batch, length, groups, features]``, the scale of windows, and which features exist."""
    spread, seen = spread[:, None, None, :], given.seen.to(given.guess.dtype)
    count = seen.sum(-2, keepdim=True)
    mean = (given.values * seen).sum(-2, keepdim=True) / count.clamp(min=1)
    variance = ((given.values - mean) ** 2 * seen).sum(-2, keepdim=True) / count.clamp(min=1)
    # A feature seen less than twice has no deviation of its own: that over all data stands in, and the guess's mean.
    scale = torch.where(count >= 2, (variance + FLOOR**2).sqrt(), spread.clamp(min=FLOOR))
    mean = torch.where(count >= 1, mean, given.guess.mean(-2, keepdim=True))
    exists = (spread > 0).to(scale.dtype)
    inputs = [
        given.guess.clamp(-1, 1),
        ((given.guess - mean) / scale).clamp(-10, 10),
        given.seen.to(scale.dtype),
        1 / (1 + given.back),
        1 / (1 + given.forth),
        (scale.log() / 4).expand_as(given.guess),
    ]
    return torch.stack(inputs, dim=-2) * exists[..., None, :], scale, exists


@dataclass(frozen=True)
class Teacher:
    """Imputers trained elsewhere: one of the common features, and one of tokens that fills any feature.

    Both have the weights of one network, which serves all clients. `factors` are those of the common features.
    """

    imputer: Imputer
    weights: Weights
    factors: Mapping[str, Tensor]
    tokens: TokenImputer | None = None
    token_weights: Weights | None = None

    @classmethod
    def of(cls, given: TeacherWeights, settings: SeriesSettings) -> Teacher:
        """Load weights, ready to fill."""
        imputer, place, common = settings.imputer(), find_device(settings.device), len(given.factors.centre)
        flat = torch.tensor(given.weights[None], device=place)
        weights = views(flat, imputer.specs(common))
        factors = stack_factor_models([given.factors], common, place, flat.dtype)
        if given.tokens is None:
            return cls(imputer, weights, factors)
        tokens, flat = settings.token_imputer(), torch.tensor(given.tokens[None], device=place)
        return cls(imputer, weights, factors, tokens, views(flat, tokens.specs(common)))

    @torch.no_grad()
    def fillings(self, given: Guess, spread: Tensor) -> tuple[Tensor, Tensor]:
        """Fill a guess twice: the common features, which come first, by name; and all features by tokens."""
        count = self.factors["centre"].shape[-1]
        networks, batch, length, _ = given.guess.shape
        values, seen = (
            part[..., :count].reshape(1, networks * batch, length, count) for part in (given.values, given.seen)
        )
        guess = relate(first_guess(values, seen, self.factors["centre"]), self.factors)
        filled = self.imputer(self.weights, guess, self.factors["spread"])
        named, start = (
            torch.cat([part.reshape(networks, batch, length, count), given.guess[..., count:]], dim=-1)
            for part in (filled, guess.guess)
        )
        if self.tokens is None or self.token_weights is None:
            return named, named
        spread = torch.cat([self.factors["spread"].expand(networks, count), spread[:, count:]], dim=-1)
        weights = {name: weight.expand(networks, *weight.shape[1:]) for name, weight in self.token_weights.items()}
        return named, self.tokens(weights, replace(given, guess=start), spread)

    def join(self, given: Guess, named: Tensor, free: Tensor) -> Guess:
        """Replace the guess of unseen cells: common features by name, the others by tokens."""
        count = self.factors["centre"].shape[-1]
        filled = torch.cat([named[..., :count], free[..., count:]], dim=-1)
        return replace(given, guess=torch.where(given.seen, given.values, filled))


@torch.no_grad()
def fill_windows(
    settings: SeriesSettings, windows: Floats, models: FactorModels, teacher: TeacherWeights | None,
    own: NDArray[Any] | None, guess: Floats | None = None,
) -> Floats:  # fmt: skip
    """Fill scaled windows by factor models, or a guess, then twice by the teacher and by the own imputer, if given."""
    place, dtype = find_device(settings.device), getattr(torch, settings.precision)

    def load(part: Floats) -> Tensor:
        return torch.tensor(np.nan_to_num(part), device=place, dtype=dtype)[None]

    factors = stack_factor_models([models], windows.shape[2], place, dtype)
    seen = torch.tensor(~np.isnan(windows), device=place)[None]
    given = first_guess(load(windows), seen, factors["centre"])
    given = relate(given, factors) if guess is None else replace(given, guess=load(guess))
    found: list[Tensor] = [given.guess]
    if teacher is not None:
        loaded = Teacher.of(teacher, settings)
        found += loaded.fillings(given, factors["spread"])
        given = loaded.join(given, *found[1:])
    if own is not None:
        imputer, flat = settings.imputer(), torch.tensor(own, device=place)[None]
        found.append(imputer(views(flat, imputer.specs(windows.shape[2])), given, factors["spread"]))
    elif teacher is not None:
        found.append(found[-1])
    return np.asarray(torch.stack(found)[:, 0].double().cpu().numpy())
