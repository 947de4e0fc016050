"""What an owner of series has after fitting: it fills gaps, draws new windows, looks ahead and takes series apart."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cotempo.data import Series
from cotempo.data.tables import numbered
from cotempo.errors import ParameterError
from cotempo.federation import Rng
from cotempo.series.filling.calibration import Calibration
from cotempo.series.filling.stages import Filler
from cotempo.series.nn.generation import draw_around, draw_windows, take_apart
from cotempo.series.filling.guided import GuidedFiller
from cotempo.series.imputed import Owner, put_back
from cotempo.series.scale import Scale
from cotempo.series.windows import Cover, Rows

if TYPE_CHECKING:
    from cotempo.series.settings import Sizes

Floats = NDArray[np.float64]
ONE_DEVIATION = 0.6827


class SeriesModel(Owner):
    """A fitted model of one owner's series.

    Attributes
    ----------
    features
        Names of the features, in the order of the owner's table.
    filler
        What fills gaps.
    scale
        Of the diffusion model.
    calibration
        How wide intervals are.
    """

    def __init__(
        self,
        sizes: Sizes,
        features: tuple[str, ...],
        order: NDArray[np.intp],
        filler: Filler | GuidedFiller,
        weights: NDArray[Any],
        scale: Scale,
        calibration: Calibration,
    ):
        super().__init__(features, order, sizes.window)
        self.sizes = sizes
        self.filler = filler
        self.scale = scale
        self.calibration = calibration
        self._weights = weights

    def _impute(self, rows: Rows, draws: int, level: float, seed: int) -> tuple[Floats, ...]:
        filled = self._filler(seed).rows(rows, self.sizes)
        if draws == 1:
            return (filled,)
        width, found = self._draws(rows, filled, draws, level, Rng(seed, "impute"))
        return filled, filled - width, filled + width, found

    def sample(self, count: int, *, seed: int = 0) -> Series:
        """Draw `count` synthetic windows; each is a sequence of its own."""
        if count < 1:
            raise ParameterError(f"count must be at least 1, got {count}")
        windows = self.scale.undo(draw_windows(self.sizes, self._weights, len(self.features), count, Rng(seed)))
        values = np.concatenate(windows)
        names = np.repeat(numbered(count), self.sizes.window)
        time = np.tile(np.arange(self.sizes.window, dtype=np.float64), count)
        return Series(self.features, names, time, put_back(values, self.order))

    def decompose(self, series: Series) -> dict[str, Series]:
        """Take a series apart: ``trend``, ``season`` and ``residual`` add up to it, with its gaps filled."""
        columns = self.columns(series)
        rows = self.rows(series, columns)
        filled = self.scale.apply(self.filler.rows(rows, self.sizes))
        cover = Cover(rows, self.sizes.window, max(1, self.sizes.window // 2))
        parts = take_apart(self.sizes, self._weights, cover.take(filled))
        half = (self.scale.high - self.scale.low) / 2
        trend, season = (cover.blend(part) for part in parts)
        trend, season = self.scale.undo(trend), season * half
        rest = self.scale.undo(filled) - trend - season
        return {
            name: replace(series, values=put_back(part, columns))
            for name, part in (("trend", trend), ("season", season), ("residual", rest))
        }

    def _filler(self, seed: int) -> Filler | GuidedFiller:
        """What fills gaps; where that is drawn, with a seed."""
        if isinstance(self.filler, GuidedFiller):
            return replace(self.filler, rng=Rng(*self.filler.rng.key, seed))
        return self.filler

    def _draws(self, rows: Rows, filled: Floats, draws: int, level: float, rng: Rng) -> tuple[Floats, Floats]:
        """Half the width of intervals, and draws: those of the diffusion model around the filling, calibrated."""
        half, missing, length = (self.scale.high - self.scale.low) / 2, np.isnan(rows.values), self.sizes.window
        cover = Cover(rows, length, length)
        given = (cover.take(self.scale.apply(filled)), cover.take(~missing) & cover.inside[..., None])
        drawn = draw_around(self.sizes, self._weights, *given, draws, rng)
        found = np.stack([cover.blend(windows) for windows in drawn]) * half
        apart, deviation = found - found.mean(axis=0), found.std(axis=0, ddof=1)
        usual, width = self.calibration.widths(rows, deviation, (ONE_DEVIATION, level), length)
        return width, np.where(missing, filled + apart * usual / np.maximum(deviation, 1e-9 * half), filled)
