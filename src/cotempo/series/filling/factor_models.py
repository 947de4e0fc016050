"""Ties: how features go together, in closed form, so that a measured feature speaks for one that is missing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cotempo.series.filling.interpolation import neighbours
from cotempo.series.scale import Scale
from cotempo.series.windows import Rows

if TYPE_CHECKING:
    from torch import Tensor

Floats = NDArray[np.float64]
FACTORS = 6
FLOOR = 1e-4
PRIOR = 20
OUTLIER = 5.0


@dataclass(frozen=True)
class Ties:
    r"""Two factor models of scaled features: of their levels, and of how far they stray from their neighbours.

    .. math:: x = \mu + \Lambda f + e, \qquad
              \frac{x - \ell}{\sqrt{b\,c / (b + c)}} = M g + u, \qquad f, g \sim N(0, I)

    with the line :math:`\ell` through the measurements :math:`b` steps before and :math:`c` steps after, and
    independent :math:`e, u`. The root is the deviation of a random walk between two fixed points.

    Attributes
    ----------
    centre
        :math:`\mu`, ``(features,)``.
    spread
        Deviation of each feature's level that the other features do not explain, ``(features,)``.
    levels, moves
        :math:`\Lambda` and :math:`M`, each with the variances of :math:`e` and :math:`u` as last column,
        ``(features, factors + 1)``.
    """

    centre: Floats
    spread: Floats
    levels: Floats
    moves: Floats

    @classmethod
    def none(cls, features: int) -> Ties:
        """Features that have nothing to do with each other."""
        apart = np.zeros((features, FACTORS + 1))
        apart[:, -1] = 1.0
        return cls(np.zeros(features), np.ones(features), apart, apart)

    @classmethod
    def of(cls, rows: Rows, scale: Scale) -> Ties:
        """Measure ties on scaled rows."""
        related = _correlation((rows.values - scale.centre) / scale.spread)
        left = np.sqrt(1 / np.diag(np.linalg.inv(related)))
        strayed = stray(rows)
        count = np.maximum((~np.isnan(strayed)).sum(axis=0), 1)
        size = np.sqrt(np.nansum(strayed**2, axis=0) / count)
        size = np.where(size > 1e-6, size, 1.0)
        moves = _factors(_correlation(strayed / size), size)
        return cls(scale.centre, scale.spread * left, _factors(related, scale.spread), moves)


def stray(rows: Rows) -> Floats:
    """How far measurements stray from the line through their neighbours, in deviations of a random walk."""
    seen = ~np.isnan(rows.values)
    before, after = neighbours(rows, seen)
    place, columns = np.arange(len(seen))[:, None], np.arange(seen.shape[1])
    inner = seen & (before >= 0) & (after >= 0)
    back, forth = np.where(inner, place - before, 1), np.where(inner, after - place, 1)
    line = (rows.values[before, columns] * forth + rows.values[after, columns] * back) / (back + forth)
    return np.where(inner, (rows.values - line) / np.sqrt(back * forth / (back + forth)), np.nan)


def _correlation(values: Floats) -> Floats:
    """Correlations of standardised columns over the rows both were measured in, drawn to zero where those are few."""
    seen = (~np.isnan(values)).astype(float)
    calm = np.clip(np.nan_to_num(values), -OUTLIER, OUTLIER)
    size = np.sqrt((calm**2).sum(axis=0) / np.maximum(seen.sum(axis=0), 1))
    calm = calm / np.where(size > 1e-9, size, 1.0)
    found = calm.T @ calm / (seen.T @ seen + PRIOR)
    np.fill_diagonal(found, 1.0)
    weights, axes = np.linalg.eigh(found)
    # Pairs measured in different rows need not fit together: the nearest matrix that could be one stands in.
    near = (axes * np.maximum(weights, FLOOR)) @ axes.T
    scale = np.sqrt(np.diag(near))
    return np.asarray(near / np.outer(scale, scale))


def _factors(correlation: Floats, size: Floats) -> Floats:
    """Loadings and left variances of a factor model, by principal axes, in the units of `size`."""
    features = len(correlation)
    left = 1 / np.diag(np.linalg.inv(correlation)) if features > FACTORS else np.full(features, FLOOR)
    for _ in range(50):
        weights, axes = np.linalg.eigh(correlation - np.diag(left))
        loadings = axes[:, -FACTORS:] * np.sqrt(np.maximum(weights[-FACTORS:], 0))
        left = np.clip(1 - (loadings**2).sum(axis=1), FLOOR, 1.0)
    room = np.zeros((features, FACTORS - loadings.shape[1]))
    return np.column_stack([loadings * size[:, None], room, left * size**2])


def expect(factors: Tensor, values: Tensor, seen: Tensor) -> Tensor:
    r"""What a factor model expects of every feature, given those seen.

    .. math:: \Lambda (I + \Lambda_s^T D_s^{-1} \Lambda_s)^{-1} \Lambda_s^T D_s^{-1} x_s

    Parameters
    ----------
    factors
        ``[networks, features, factors + 1]``, as `Ties.levels`.
    values, seen
        ``[networks, batch, length, features]``.
    """
    import torch

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
    # Elimination by hand: solvers of the library cannot be recorded in a CUDA graph.
    for place in range(count):
        pivot = table[..., place : place + 1, :] / table[..., place : place + 1, place : place + 1]
        table = table - (table[..., :, place : place + 1] - eye[:, place : place + 1]) * pivot
    return torch.bmm(table[..., -1], loadings.transpose(1, 2)).reshape(values.shape).to(kind)
