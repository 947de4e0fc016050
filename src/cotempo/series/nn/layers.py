"""Layers of many networks at once: every weight has a leading axis, one entry per network."""

import math
from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional

from cotempo.series.nn.parameters import ParameterSpec

Weights = Mapping[str, Tensor]
SHORT = 64 * 64  # pairs of places


def linear_specs(name: str, inputs: int, outputs: int, *, gain: float = 1.0) -> dict[str, ParameterSpec]:
    """Return the parameters of `linear`."""
    return {
        f"{name}.weight": ParameterSpec((inputs, outputs), gain / math.sqrt(inputs)),
        f"{name}.bias": ParameterSpec((outputs,)),
    }


def linear(weights: Weights, name: str, x: Tensor) -> Tensor:
    """Multiply the last axis; `x` is ``[networks, ..., inputs]``."""
    weight, bias = weights[f"{name}.weight"], weights[f"{name}.bias"]
    flat = torch.baddbmm(bias[:, None, :], x.reshape(len(x), -1, x.shape[-1]), weight)
    return flat.reshape(*x.shape[:-1], weight.shape[-1])


def features_in_specs(name: str, groups: int, features: int, outputs: int) -> dict[str, ParameterSpec]:
    """Return the parameters of `features_in`; the deviation does not depend on the number of features."""
    return {f"{name}.weight": ParameterSpec((groups, features, outputs), 1 / math.sqrt(8 * groups))}


def features_in(weights: Weights, name: str, x: Tensor) -> Tensor:
    """Mix features into channels; `x` is ``[networks, ..., groups, features]``."""
    weight = weights[f"{name}.weight"]
    count, groups, features, outputs = weight.shape
    flat = torch.bmm(x.reshape(count, -1, groups * features), weight.reshape(count, groups * features, outputs))
    return flat.reshape(*x.shape[:-2], outputs)


def normalise(x: Tensor) -> Tensor:
    """Apply layer norm without weights: the linear layer that follows has its own."""
    return functional.layer_norm(x, x.shape[-1:])


def attention_specs(name: str, width: int) -> dict[str, ParameterSpec]:
    """Return the parameters of `attention`."""
    return {
        **linear_specs(f"{name}.query", width, width),
        **linear_specs(f"{name}.pair", width, 2 * width),
        **linear_specs(f"{name}.out", width, width, gain=0.5),
    }


def attention(
    weights: Weights, name: str, x: Tensor, context: Tensor, heads: int, padding: Tensor | None = None
) -> Tensor:
    """Attend from `x` to `context`, both ``[networks, batch, length, width]``, but not to `padding`."""
    networks, batch, length, width = x.shape

    def by_head(part: Tensor) -> Tensor:
        return part.reshape(networks * batch, -1, heads, width // heads).transpose(1, 2)

    key, value = linear(weights, f"{name}.pair", context).chunk(2, -1)
    query = linear(weights, f"{name}.query", x)
    mask = None if padding is None else ~padding.reshape(networks * batch, 1, 1, -1)
    short = x.is_cuda and length * context.shape[2] <= SHORT
    mix = _attend if short else functional.scaled_dot_product_attention
    mixed = mix(by_head(query), by_head(key), by_head(value), mask)
    return linear(weights, f"{name}.out", mixed.transpose(1, 2).reshape(networks, batch, length, width))


def _attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    """Compute scaled dot-product attention: on a GPU, over short windows, faster than the library's kernels."""
    scores = query / math.sqrt(query.shape[-1]) @ key.transpose(-1, -2)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    return scores.softmax(-1) @ value


def mlp_specs(name: str, width: int) -> dict[str, ParameterSpec]:
    """Return the parameters of `mlp`."""
    return {
        **linear_specs(f"{name}.up", width, 4 * width),
        **linear_specs(f"{name}.down", 4 * width, width, gain=0.5),
    }


def mlp(weights: Weights, name: str, x: Tensor) -> Tensor:
    """Apply two layers, four times as wide between."""
    return linear(weights, f"{name}.down", functional.gelu(linear(weights, f"{name}.up", x)))
