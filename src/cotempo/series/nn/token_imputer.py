"""TokenImputer: one imputer for any features, with a token for each feature and row."""

from dataclasses import dataclass

from torch import Tensor

from cotempo.series.nn.first_guess import Guess
from cotempo.series.nn.imputer import inputs_of
from cotempo.series.nn.layers import (
    Weights,
    attention,
    attention_specs,
    linear,
    linear_specs,
    mlp,
    mlp_specs,
    normalise,
)
from cotempo.series.nn.parameters import ParameterSpec, ParameterSpecs

INPUTS = 5


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
            **linear_specs("input", INPUTS, self.width),
            "place": ParameterSpec((self.length, self.width), 0.1),
        }
        for layer in range(self.layers):
            found |= attention_specs(f"{layer}.rows", self.width)
            found |= attention_specs(f"{layer}.features", self.width)
            found |= mlp_specs(f"{layer}.mlp", self.width)
        return {**found, **linear_specs("output", self.width, 1, gain=0.0)}

    def __call__(self, weights: Weights, given: Guess, spread: Tensor) -> Tensor:
        """Fill every cell; `spread` is each feature's deviation over all data, 0 for padding."""
        inputs, scale, exists = inputs_of(given, spread)
        networks, batch, length, _, features = inputs.shape
        padding = (spread == 0)[:, None, None, :].expand(networks, batch, length, features)
        padding = padding.reshape(networks, batch * length, features)
        tokens = inputs[..., 1:, :].permute(0, 1, 4, 2, 3).reshape(networks, batch * features, length, INPUTS)
        x = linear(weights, "input", tokens) + weights["place"][:, None]
        for layer in range(self.layers):
            normed = normalise(x)
            x = x + attention(weights, f"{layer}.rows", normed, normed, self.heads)
            x = _swap(x, batch, features)
            normed = normalise(x)
            x = x + attention(weights, f"{layer}.features", normed, normed, self.heads, padding)
            x = _swap(x, batch, length)
            x = x + mlp(weights, f"{layer}.mlp", normalise(x))
        found = linear(weights, "output", normalise(x)).reshape(networks, batch, features, length)
        return given.guess + scale * exists * found.transpose(-1, -2)


def _swap(x: Tensor, batch: int, outer: int) -> Tensor:
    """Exchange the outer and the inner axis of ``[networks, batch * outer, inner, width]``."""
    networks, _, inner, width = x.shape
    return x.reshape(networks, batch, outer, inner, width).transpose(2, 3).reshape(networks, -1, outer, width)
