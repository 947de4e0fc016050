"""Imputer: a residual transformer that corrects a first guess, cell by cell."""

from dataclasses import dataclass

import torch
from torch import Tensor

from cotempo.series.nn.first_guess import Guess
from cotempo.series.nn.layers import (
    Weights,
    attention,
    attention_specs,
    features_in,
    features_in_specs,
    features_out_specs,
    linear,
    mlp,
    mlp_specs,
    normalise,
)
from cotempo.series.nn.parameters import ParameterSpec, ParameterSpecs

GROUPS = 6
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
            **features_in_specs("input", GROUPS, features, self.width),
            "place": ParameterSpec((self.length, self.width), 0.1),
        }
        for layer in range(self.layers):
            found |= attention_specs(f"{layer}.attention", self.width)
            found |= mlp_specs(f"{layer}.mlp", self.width)
        return {**found, **features_out_specs("output", self.width, features, gain=0.0)}

    def __call__(self, weights: Weights, given: Guess, spread: Tensor) -> Tensor:
        """Fill every cell; `spread` is each feature's deviation over all data, 0 for padding."""
        inputs, scale, exists = inputs_of(given, spread)
        x = features_in(weights, "input", inputs) + weights["place"][:, None]
        for layer in range(self.layers):
            normed = normalise(x)
            x = x + attention(weights, f"{layer}.attention", normed, normed, self.heads)
            x = x + mlp(weights, f"{layer}.mlp", normalise(x))
        return given.guess + scale * exists * linear(weights, "output", normalise(x))


def inputs_of(given: Guess, spread: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return inputs ``[networks, batch, length, groups, features]``, the scale of windows, and which features exist."""
    spread = spread[:, None, None, :]
    mean, scale = moments(given, spread)
    exists = (spread > 0).to(scale.dtype)
    inputs = torch.stack(
        [
            given.guess.clamp(-1, 1),
            ((given.guess - mean) / scale).clamp(-10, 10),
            given.seen.to(scale.dtype),
            1 / (1 + given.back),
            1 / (1 + given.forth),
            (scale.log() / 4).expand_as(given.guess),
        ],
        dim=-2,
    )
    return inputs * exists[..., None, :], scale, exists


def moments(given: Guess, spread: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and deviation of each feature's seen cells in a window, ``[networks, batch, 1, features]``.

    A feature seen less than twice has no deviation of its own: that over all data stands in, and the guess's mean.
    """
    seen = given.seen.to(given.guess.dtype)
    count = seen.sum(-2, keepdim=True)
    mean = (given.values * seen).sum(-2, keepdim=True) / count.clamp(min=1)
    variance = ((given.values - mean) ** 2 * seen).sum(-2, keepdim=True) / count.clamp(min=1)
    scale = torch.where(count >= 2, (variance + FLOOR**2).sqrt(), spread.clamp(min=FLOOR))
    return torch.where(count >= 1, mean, given.guess.mean(-2, keepdim=True)), scale
