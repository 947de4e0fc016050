"""Filling missing cells in four stages, each a gated correction of the one before.

Interpolation comes first. The teacher's imputer corrects the common features, which it knows by name, and the owner's
ties the others; the teacher's second imputer, of tokens, corrects any feature; the owner's own imputer what it can.
Gates say how far each correction is trusted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cotempo.series.interpolation import interpolate_rows
from cotempo.series.scale import Scale
from cotempo.series.ties import Ties
from cotempo.series.windows import Cover, Rows

if TYPE_CHECKING:
    from torch import Tensor

    from cotempo.series.imputer import Guess
    from cotempo.series.settings import Sizes
    from cotempo.series.tasks import Teacher

Floats = NDArray[np.float64]
MOST_WINDOWS = 512


@dataclass(frozen=True)
class Taught:
    """The teacher at rest: its weights, the ties of the common features, and its imputer of tokens, if it has one."""

    weights: NDArray[Any]
    ties: Ties
    tokens: NDArray[Any] | None = None


@dataclass(frozen=True)
class Filler:
    r"""What fills an owner's gaps.

    .. math:: \hat x = g_0 + \sum_{k = 1}^3 a_k (g_k - g_{k - 1})

    with the interpolant :math:`g_0`, what the teacher makes of common features and the owner's ties of the others
    :math:`g_1`, the filling by tokens :math:`g_2`, the own imputer's :math:`g_3`, and gates :math:`a_k` in [0, 1].

    Attributes
    ----------
    scale
        Of all features, the common ones first.
    ties
        Of all features.
    teacher
        The imputers trained on public series, if there are any.
    own
        Weights of the owner's imputer over all features, if there is one.
    gates
        :math:`a` for common and exclusive features and for each of the `patterns`, ``(2, 3, 3)``.
    common
        How many features are common.
    """

    scale: Scale
    ties: Ties
    teacher: Taught | None
    own: NDArray[Any] | None
    gates: Floats
    common: int

    def rows(self, rows: Rows, sizes: Sizes) -> Floats:
        """Fill rows, in the units of the data."""
        if not len(rows.values):
            return rows.values
        stages, known = self.stages(Rows(self.scale.apply(rows.values), rows.lengths), sizes)
        group = (np.arange(rows.values.shape[1]) >= self.common).astype(np.intp)
        gates = np.moveaxis(self.gates[group, known], -1, 0)
        filled = stages[0] + (gates * np.diff(stages, axis=0)).sum(axis=0)
        return np.where(np.isnan(rows.values), self.scale.undo(filled), rows.values)

    def stages(self, rows: Rows, sizes: Sizes) -> tuple[Floats, NDArray[np.intp]]:
        """All four fillings of scaled rows, ``(4, rows, features)``, and what is known around each cell.

        Networks see windows that overlap by three quarters; interpolation sees whole pieces.
        """
        lines = interpolate_rows(rows, self.scale.centre)
        cover = Cover(rows, sizes.reach, max(1, sizes.reach // 4))
        windows = np.where(cover.inside[..., None], cover.take(rows.values), np.nan)
        parts = [_stages(self, windows[k : k + MOST_WINDOWS], sizes) for k in range(0, len(windows), MOST_WINDOWS)]
        missing = np.isnan(rows.values)
        stages = [lines] + [np.where(missing, cover.blend(stage), lines) for stage in np.concatenate(parts, axis=1)]
        return np.stack(stages), patterns(missing, cover)


def open_gates() -> Floats:
    """Gates that trust the teacher on common features, and nothing else."""
    gates = np.zeros((2, 3, 3))
    gates[0, :, 0] = 1.0
    return gates


def patterns(missing: NDArray[np.bool_], cover: Cover) -> NDArray[np.intp]:
    """What is known around each cell, ``(rows, features)``.

    0 in rows where nothing was seen, 1 in rows where something was, and 2 for features that were not seen in most of
    the windows that cover the row: about them interpolation has hardly anything to say.
    """
    found = np.broadcast_to(~missing.all(axis=1, keepdims=True), missing.shape).astype(np.intp)
    gone = (cover.take(missing) | ~cover.inside[..., None]).all(axis=1, keepdims=True)
    unseen = cover.blend(np.broadcast_to(gone, (*cover.index.shape, missing.shape[1])).astype(np.float64))
    return np.where(unseen > 0.5, 2, found)


def make_teacher(taught: Taught, sizes: Sizes) -> Teacher:
    """The teacher, ready to fill."""
    import torch

    from cotempo.devices import find_device
    from cotempo.series.parameters import views
    from cotempo.series.tasks import Teacher
    from cotempo.series.training import load_ties

    imputer, place, common = sizes.imputer(), find_device(sizes.device), len(taught.ties.centre)
    flat = torch.tensor(taught.weights[None], device=place)
    weights, ties = views(flat, imputer.leaves(common)), load_ties([taught.ties], common, place, flat.dtype)
    if taught.tokens is None:
        return Teacher(imputer, weights, ties)
    tokens = sizes.token_imputer()
    flat = torch.tensor(taught.tokens[None], device=place)
    return Teacher(imputer, weights, ties, tokens, views(flat, tokens.leaves(common)))


def _stages(filler: Filler, windows: Floats, sizes: Sizes) -> Floats:
    """The last three fillings of scaled windows, ``(3, windows, length, features)``."""
    import torch

    from cotempo.devices import find_device
    from cotempo.series.tasks import first_guess, relate
    from cotempo.series.training import load_ties

    place, dtype = find_device(sizes.device), getattr(torch, sizes.precision)
    seen = torch.tensor(~np.isnan(windows), device=place)[None]
    values = torch.tensor(np.nan_to_num(windows), device=place, dtype=dtype)[None]
    ties = load_ties([filler.ties], windows.shape[2], place, dtype)
    with torch.no_grad():
        given = relate(first_guess(values, seen, ties["centre"]), ties)
        named = free = own = given.guess
        if filler.teacher is not None:
            teacher = make_teacher(filler.teacher, sizes)
            named, free = teacher.fillings(given, ties["spread"])
            given, own = teacher.join(given, named, free), free
        if filler.own is not None:
            own = _own(filler.own, given, ties["spread"], sizes)
        stages = torch.stack([named, free, own])
    return np.asarray(torch.where(seen, values, stages)[:, 0].double().cpu().numpy())


def _own(weights: NDArray[Any], given: Guess, spread: Tensor, sizes: Sizes) -> Tensor:
    import torch

    from cotempo.series.parameters import views

    imputer = sizes.imputer()
    flat = torch.tensor(weights, device=given.guess.device)[None]
    return imputer(views(flat, imputer.leaves(spread.shape[-1])), given, spread)
