"""Filling missing cells in three stages, each a gated correction of the one before.

Interpolation comes first; the teacher, one imputer for all, corrects the common features; an owner's own imputer
corrects what it can. Gates say how far each correction is trusted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cotempo.series.scale import Scale
from cotempo.series.windows import Rows, fill_rows

if TYPE_CHECKING:
    from torch import Tensor

    from cotempo.series.imputer import Guess
    from cotempo.series.settings import Sizes
    from cotempo.series.tasks import Teacher

Floats = NDArray[np.float64]
MOST_WINDOWS = 512


@dataclass(frozen=True)
class Filler:
    r"""What fills an owner's gaps.

    .. math:: \hat x = g_0 + a (g_1 - g_0) + b (g_2 - g_1)

    with the interpolant :math:`g_0`, the teacher's filling :math:`g_1`, the own imputer's :math:`g_2`, and gates
    :math:`a, b` in [0, 1].

    Attributes
    ----------
    scale
        Of all features, the common ones first.
    common
        How many features are common.
    teacher, own
        Weights of the imputers over the common and over all features; either may be missing.
    gates
        :math:`(a, b)` for common and exclusive features and for each of the `patterns`, ``(2, 3, 2)``.
    """

    scale: Scale
    common: int
    teacher: NDArray[Any] | None
    own: NDArray[Any] | None
    gates: Floats

    def rows(self, rows: Rows, sizes: Sizes) -> Floats:
        """Fill rows, in the units of the data."""
        scaled = Rows(self.scale.apply(rows.values), rows.lengths)
        filled = fill_rows(scaled, sizes.reach, lambda windows: self.windows(windows, sizes))
        return np.where(np.isnan(rows.values), self.scale.undo(filled), rows.values)

    def windows(self, windows: Floats, sizes: Sizes) -> Floats:
        """Fill scaled windows, ``(windows, length, features)``, NaN where missing."""
        lines, taught, own = self.stages(windows, sizes)
        gate = self.gates[self._groups(), patterns(windows)]
        return lines + gate[..., 0] * (taught - lines) + gate[..., 1] * (own - taught)

    def stages(self, windows: Floats, sizes: Sizes) -> tuple[Floats, Floats, Floats]:
        """The interpolant, the teacher's and the own imputer's filling of scaled windows."""
        parts = [_stages(self, windows[k : k + MOST_WINDOWS], sizes) for k in range(0, len(windows), MOST_WINDOWS)]
        lines, taught, own = (np.concatenate(stage) for stage in zip(*parts, strict=True))
        return lines, taught, own

    def _groups(self) -> NDArray[np.intp]:
        return (np.arange(len(self.scale.low)) >= self.common).astype(np.intp)


def open_gates(common: float = 1.0, own: float = 0.0) -> Floats:
    """Gates that trust the teacher on common features, and the own imputer as far as given."""
    gates = np.zeros((2, 3, 2))
    gates[0, :, 0] = common
    gates[..., 1] = own
    return gates


def patterns(windows: Floats) -> NDArray[np.intp]:
    """What is known around each cell of windows ``(windows, length, features)``.

    0 in rows where nothing was seen, 1 in rows where something was, and 2 for features that were not seen in the
    whole window: about them interpolation has nothing to say.
    """
    seen = ~np.isnan(windows)
    found = np.broadcast_to(seen.any(axis=-1, keepdims=True), windows.shape).astype(np.intp)
    return np.where(seen.any(axis=-2, keepdims=True), found, 2)


def make_teacher(weights: NDArray[Any], public: Scale, sizes: Sizes) -> Teacher:
    """An imputer of the common features, ready to improve guesses."""
    import torch

    from cotempo.series.parameters import views
    from cotempo.series.tasks import Teacher
    from cotempo.series.training import device

    imputer, place = sizes.imputer(), device()
    flat = torch.tensor(weights[None], device=place)
    centre, spread = (torch.tensor(part, device=place, dtype=flat.dtype) for part in (public.centre, public.spread))
    return Teacher(imputer, views(flat, imputer.leaves(len(public.low))), centre, spread)


def _stages(filler: Filler, windows: Floats, sizes: Sizes) -> tuple[Floats, Floats, Floats]:
    import torch

    from cotempo.series.tasks import first_guess
    from cotempo.series.training import device

    place, dtype = device(), getattr(torch, sizes.precision)
    seen = torch.tensor(~np.isnan(windows), device=place)[None]
    values = torch.tensor(np.nan_to_num(windows), device=place, dtype=dtype)[None]
    centre = torch.tensor(filler.scale.centre, device=place, dtype=dtype)[None]
    with torch.no_grad():
        given = first_guess(values, seen, centre)
        taught = given
        if filler.teacher is not None:
            public = filler.scale.take(np.arange(filler.common))
            taught = make_teacher(filler.teacher, public, sizes).improve(given)
        own = taught.guess if filler.own is None else _own(filler, taught, sizes)
    done = (torch.where(seen, values, stage)[0].double().cpu().numpy() for stage in (given.guess, taught.guess, own))
    lines, middle, last = done
    return lines, middle, last


def _own(filler: Filler, given: Guess, sizes: Sizes) -> Tensor:
    import torch

    from cotempo.series.parameters import views

    imputer = sizes.imputer()
    flat = torch.tensor(filler.own, device=given.guess.device)[None]
    spread = torch.tensor(filler.scale.spread, device=flat.device, dtype=flat.dtype)[None]
    return imputer(views(flat, imputer.leaves(len(filler.scale.low))), given, spread)
