"""Masks for training: cells to hide, so that an imputer learns from the kinds of gaps it will meet."""

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional

LEAST_HIDDEN, MOST_HIDDEN = 0.2, 0.8
ROWS, CELLS, SPAN = 0.4, 0.7, 0.8
DROP_FEATURE = 0.2


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
