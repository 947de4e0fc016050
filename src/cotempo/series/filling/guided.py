"""Filling as published: the distiller draws the common features around what was measured, the own model the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cotempo.federation import Rng
from cotempo.series.nn.generation import draw_around
from cotempo.series.filling.interpolation import interpolate_rows
from cotempo.series.scale import Scale
from cotempo.series.windows import Cover, Rows

if TYPE_CHECKING:
    from cotempo.series.settings import Sizes

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class GuidedFiller:
    """Guided sampling from two diffusion models.

    Attributes
    ----------
    distiller, own
        Weights of the models over the common and over all features; without the second, exclusive features are
        interpolated.
    guidance
        Size of the steps towards measured cells.
    rng
        What draws stem from: of this owner, step and run.
    """

    scale: Scale
    common: int
    distiller: NDArray[Any]
    own: NDArray[Any] | None
    guidance: float
    rng: Rng

    def rows(self, rows: Rows, sizes: Sizes) -> Floats:
        """Fill rows, in the units of the data."""
        seen = ~np.isnan(rows.values)
        if seen.all() or not len(seen):
            return rows.values
        scaled = interpolate_rows(Rows(self.scale.apply(rows.values), rows.lengths), self.scale.centre)
        cover = Cover(rows, sizes.window, sizes.window)
        windows, known = cover.take(scaled), cover.take(seen)
        known &= cover.inside[..., None]
        count, rngs = self.common, [Rng(*self.rng.key, part) for part in ("common", "exclusive")]
        windows[..., :count] = draw_around(
            sizes, self.distiller, windows[..., :count], known[..., :count], 1, rngs[0], self.guidance
        )[0]
        known[..., :count] = True
        if self.own is not None and not known.all():
            windows = draw_around(sizes, self.own, windows, known, 1, rngs[1], self.guidance)[0]
        return np.where(seen, rows.values, self.scale.undo(cover.blend(windows)))


def guided_errors(filler: GuidedFiller, rows: Rows, sizes: Sizes, stream: np.random.Generator) -> tuple[float, float]:
    """Mean absolute errors on a fifth of the rows, hidden for the purpose: of interpolation, and of the filler."""
    hidden = np.broadcast_to(stream.random((len(rows.values), 1)) < 0.2, rows.values.shape) & ~np.isnan(rows.values)
    if not hidden.any():
        return 0.0, 0.0
    left = Rows(np.where(hidden, np.nan, rows.values), rows.lengths)
    truth = filler.scale.apply(rows.values)[hidden]
    lines = interpolate_rows(Rows(filler.scale.apply(left.values), left.lengths), filler.scale.centre)[hidden]
    filled = filler.scale.apply(filler.rows(left, sizes))[hidden]
    return float(np.abs(lines - truth).mean()), float(np.abs(filled - truth).mean())
