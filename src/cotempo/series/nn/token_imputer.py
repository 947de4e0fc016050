"""One imputer for any features: a token for each feature and row, and no feature has a name."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from cotempo.series.nn.imputer import Guess, inputs_of
from cotempo.series.nn.layers import (
    Weights,
    attention,
    attention_leaves,
    linear,
    linear_leaves,
    mlp,
    mlp_leaves,
    normalise,
)
from cotempo.series.nn.parameters import Leaf, Leaves

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

    def leaves(self, features: int) -> Leaves:
        """The weights, the same for any number of features."""
        found: dict[str, Leaf] = {
            **linear_leaves("input", INPUTS, self.width),
            "place": Leaf((self.length, self.width), 0.1),
        }
        for layer in range(self.layers):
            found |= attention_leaves(f"{layer}.rows", self.width)
            found |= attention_leaves(f"{layer}.features", self.width)
            found |= mlp_leaves(f"{layer}.mlp", self.width)
        return {**found, **linear_leaves("output", self.width, 1, gain=0.0)}

    def __call__(self, weights: Weights, given: Guess, spread: Tensor) -> Tensor:
        """Fill every cell; `spread` is each feature's deviation over all data, 0 for padding."""
        inputs, scale, exists = inputs_of(given, spread)
        networks, batch, length, _, features = inputs.shape
        padding = (spread == 0)[:, None, None, :].expand(networks, batch, length, features)
        padding = padding.reshape(networks, batch * length, features)
        tokens = inputs[..., 1:, :].permute(0, 1, 4, 2, 3).reshape(networks, batch * features, length, INPUTS)
        x = linear(weights, "input", tokens) + weights["place"][:, None]
        for layer in range(self.layers):
            calm = normalise(x)
            x = x + attention(weights, f"{layer}.rows", calm, calm, self.heads)
            x = _swap(x, batch, features)
            calm = normalise(x)
            x = x + attention(weights, f"{layer}.features", calm, calm, self.heads, padding)
            x = _swap(x, batch, length)
            x = x + mlp(weights, f"{layer}.mlp", normalise(x))
        found = linear(weights, "output", normalise(x)).reshape(networks, batch, features, length)
        return given.guess + scale * exists * found.transpose(-1, -2)


def _swap(x: Tensor, batch: int, outer: int) -> Tensor:
    """``[networks, batch * outer, inner, width]`` with the outer and the inner axis exchanged."""
    networks, _, inner, width = x.shape
    return x.reshape(networks, batch, outer, inner, width).transpose(2, 3).reshape(networks, -1, outer, width)
