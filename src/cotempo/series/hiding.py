"""Which cells to hide in training, so that an imputer learns from the kinds of gaps it will meet."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

LEAST, MOST = 0.2, 0.8
ROWS, CELLS = 0.45, 0.8
DROP = 0.2


@dataclass(frozen=True)
class Chances:
    """Uniform numbers that decide what is hidden.

    `knobs` are ``[..., 3]`` (how much, which kind, whether a whole feature is dropped), `rows` ``[..., length]``,
    `cells` ``[..., length, features]`` and `features` ``[..., features]``.
    """

    knobs: Tensor
    rows: Tensor
    cells: Tensor
    features: Tensor


def draw_chances(
    generator: torch.Generator, lead: tuple[int, ...], length: int, features: int, wide: int, dtype: torch.dtype
) -> dict[str, Tensor]:
    """Draw for windows of `features` features, padded to `wide` with numbers that hide nothing."""

    def uniform(*shape: int) -> Tensor:
        return torch.rand(*lead, *shape, generator=generator, device=generator.device, dtype=dtype)

    room = (0, wide - features)
    return {
        "knobs": uniform(3),
        "rows": uniform(length),
        "cells": functional.pad(uniform(length, features), room, value=1.0),
        "features": functional.pad(uniform(features), room, value=0.0),
    }


def hidden(chances: Chances, seen: Tensor, together: Tensor) -> Tensor:
    """Return which of the seen cells to hide, ``[networks, batch, length, features]``.

    Between 20 and 80 % of the rows, of single cells, or of the rows of some features (`together`, ``[networks,
    features]``; where it is all or nothing, of a random half) are hidden, and now and then one feature wholly.
    """
    rate = LEAST + (MOST - LEAST) * chances.knobs[..., 0][..., None, None]
    kind = chances.knobs[..., 1][..., None, None]
    rows = (chances.rows[..., None] < rate).expand_as(seen)
    cells = chances.cells < rate
    mixed = together.any(-1, keepdim=True) & ~together.all(-1, keepdim=True)
    some = torch.where(mixed[:, None, :], together[:, None, :], chances.features < 0.5)[..., None, :]
    found = torch.where(kind < ROWS, rows, torch.where(kind < CELLS, cells, rows & some))
    first = chances.features == chances.features.amax(-1, keepdim=True)
    drops = (chances.knobs[..., 2] < DROP)[..., None] & first & ((chances.features > 0).sum(-1, keepdim=True) > 1)
    return (found | drops[..., None, :]) & seen
