"""First guesses of missing cells in windows: linear interpolation, then the factor models of `FactorModels`."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional

SHRINKAGE = 8  # measurements at which the pace of a window counts half
OUTLIER = 3.0


@dataclass(frozen=True)
class Guess:
    """Windows with a guess of every cell, all ``[networks, batch, length, features]``.

    `values` counts only where `seen`; `back` and `forth` are the steps to the measurement before and after.
    """

    values: Tensor
    seen: Tensor
    guess: Tensor
    back: Tensor
    forth: Tensor


def first_guess(values: Tensor, seen: Tensor, centre: Tensor) -> Guess:
    """Interpolate linearly inside each window; a feature never seen there gets its mean `centre`."""
    line, back, forth = line_between(values, seen)
    nothing = torch.zeros_like(back)
    back, forth = torch.where(seen, nothing, back), torch.where(seen, nothing, forth)
    line = torch.where(seen.any(-2, keepdim=True), torch.where(seen, values, line), centre[:, None, None, :])
    return Guess(values, seen, line, back, forth)


def line_between(values: Tensor, seen: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Interpolate every cell between the measurements before and after it, measured cells too.

    `values`, ``(..., length, features)``, must be finite and counts only where `seen`. Return the line, and the steps
    to the measurement before and after (`length` where there is none).
    """
    length = values.shape[-2]
    place = torch.arange(length, device=values.device)[:, None].expand(values.shape)
    before = torch.where(seen, place, -1).cummax(-2).values
    after = torch.where(seen, place, length).flip(-2).cummin(-2).values.flip(-2)
    before = functional.pad(before[..., :-1, :], (0, 0, 1, 0), value=-1)
    after = functional.pad(after[..., 1:, :], (0, 0, 0, 1), value=length)
    left = values.gather(-2, torch.where(before >= 0, before, after).clamp(0, length - 1))
    right = values.gather(-2, torch.where(after < length, after, before).clamp(0, length - 1))
    back = torch.where(before >= 0, place - before, length).to(values.dtype)
    forth = torch.where(after < length, after - place, length).to(values.dtype)
    inner = (before >= 0) & (after < length)
    share = torch.where(inner, back / (back + forth), torch.zeros_like(back))
    return left + share * (right - left), back, forth


@torch.no_grad()
def relate(given: Guess, factors: Mapping[str, Tensor]) -> Guess:
    """Improve a guess by stacked factor models of the features measured in the same row.

    A feature deviates from its line as the others do from theirs, each at the pace it has in this window; one never
    seen in the window is placed by the levels of the others.
    """
    length = given.values.shape[-2]
    line, back, forth = line_between(given.values, given.seen)
    walk = torch.where(torch.maximum(back, forth) < length, back * forth / (back + forth), torch.minimum(back, forth))
    size = walk.clamp(min=1e-3).sqrt()
    known = given.seen & (torch.minimum(back, forth) < length)
    apart = torch.where(known, (given.values - line) / size, 0)
    moves = factors["move_factors"]
    usual = ((moves[..., :-1] ** 2).sum(-1) + moves[..., -1]).sqrt()[:, None, None, :]
    pace = _pace(apart, known, usual)
    clipped = (apart / pace).clamp(-OUTLIER * usual, OUTLIER * usual)
    deviation = pace * expect(moves, clipped, known)
    here = given.seen.any(-2, keepdim=True)
    guess = torch.where(given.seen | ~here, given.guess, given.guess + size * deviation)
    centre = factors["centre"][:, None, None, :]
    level = centre + expect(factors["level_factors"], guess - centre, here.expand_as(guess))
    return replace(given, guess=torch.where(here, guess, level))


def _pace(apart: Tensor, known: Tensor, usual: Tensor) -> Tensor:
    """Estimate how much faster than usual each feature moves in a window, shrunk to 1 on a log scale."""
    count = known.sum(-2, keepdim=True).to(apart.dtype)
    # The mean absolute deviation of a normal law is the root of 2 / pi; squares would be ruled by outliers.
    swift = (math.pi / 2) ** 0.5 * apart.abs().sum(-2, keepdim=True) / (usual * count).clamp(min=1e-9)
    return torch.pow(swift.clamp(1e-2, 1e2), count / (count + SHRINKAGE))


def expect(factors: Tensor, values: Tensor, seen: Tensor) -> Tensor:
    r"""Return the conditional mean of every feature under a factor model, given those seen.

    .. math:: \Lambda (I + \Lambda_s^T D_s^{-1} \Lambda_s)^{-1} \Lambda_s^T D_s^{-1} x_s

    `factors` are as `FactorModels.level_factors`, ``[networks, features, factors + 1]``; `values` and `seen`
    ``[networks, batch, length, features]``.
    """
    # In double precision: weights range over four decades.
    kind, factors, values = values.dtype, factors.double(), values.double()
    networks, features, count = len(factors), factors.shape[1], factors.shape[2] - 1
    loadings = factors[..., :-1]
    weight = (seen / factors[:, None, None, :, -1]).reshape(networks, -1, features)
    squares = (loadings[..., :, None] * loadings[..., None, :]).reshape(networks, features, count * count)
    eye = torch.eye(count, device=values.device, dtype=values.dtype)
    matrix = torch.bmm(weight, squares).reshape(networks, -1, count, count) + eye
    right = torch.bmm(weight * values.reshape(networks, -1, features), loadings)
    table = torch.cat([matrix, right[..., None]], dim=-1)
    # Gaussian elimination by hand: library solvers cannot be recorded in a CUDA graph.
    for place in range(count):
        pivot = table[..., place : place + 1, :] / table[..., place : place + 1, place : place + 1]
        table = table - (table[..., :, place : place + 1] - eye[:, place : place + 1]) * pivot
    return torch.bmm(table[..., -1], loadings.transpose(1, 2)).reshape(values.shape).to(kind)
