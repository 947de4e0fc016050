"""Calibration: how wide an interval must be to hold what it promises, found on measurements hidden for the purpose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from cotempo.federation.rng import Rng
from cotempo.series.generation import draw_around
from cotempo.series.scale import Scale
from cotempo.series.windows import Cover, Rows

if TYPE_CHECKING:
    from cotempo.series.filling import Filler
    from cotempo.series.guided import GuidedFiller
    from cotempo.series.settings import Sizes

Floats = NDArray[np.float64]
LEVELS = np.arange(1, 200) / 200
DRAWS = 8
HIDDEN = 0.3
MOST_WINDOWS = 24
FEWEST = 40


@dataclass(frozen=True)
class Calibration:
    r"""Conformal intervals around fillings.

    .. math:: \hat x \pm r_p \, (\sigma + e)

    with the deviation :math:`\sigma` of the draws of a cell, the mean absolute error :math:`e` of its feature, and the
    quantile :math:`r_p` of :math:`|x - \hat x| / (\sigma + e)` over hidden cells. Where cells to fill are like the
    hidden ones, a share :math:`p` of them lies inside, whatever the networks are worth.

    Attributes
    ----------
    errors
        :math:`e` in scaled units, ``(features,)``.
    ratios
        :math:`r_p` for the levels .005, .01, ..., .995.

    References
    ----------
    Lei et al., "Distribution-free predictive inference for regression", JASA 2018.
    """

    errors: Floats
    ratios: Floats

    @classmethod
    def none(cls, features: int) -> Calibration:
        """Intervals of a normal law with the deviation of the draws."""
        return cls(np.zeros(features), norm.ppf((1 + LEVELS) / 2))

    @classmethod
    def of(cls, filled: Floats, deviation: Floats, truth: Floats, hidden: NDArray[np.bool_]) -> Calibration:
        """From fillings of hidden cells, all ``(rows, features)``; with hardly any, as `none`."""
        if hidden.sum() < FEWEST:
            return cls.none(truth.shape[1])
        gaps = np.where(hidden, np.abs(filled - np.where(hidden, truth, 0.0)), 0.0)
        count = hidden.sum(axis=0)
        errors = np.where(count > 0, gaps.sum(axis=0) / np.maximum(count, 1), gaps.sum() / hidden.sum())
        ratios = (gaps / np.maximum(deviation + errors, 1e-9))[hidden]
        # One hidden cell more than there are makes the quantile cover at least its level.
        ranks = np.minimum(LEVELS * (len(ratios) + 1) / len(ratios), 1.0)
        return cls(errors, np.quantile(ratios, ranks, method="higher"))

    def ratio(self, level: float) -> float:
        """The quantile for a level, interpolated."""
        return float(np.interp(level, LEVELS, self.ratios))


def calibrate(
    sizes: Sizes, filler: Filler | GuidedFiller, weights: NDArray[Any], scale: Scale, rows: Rows, rng: Rng
) -> Calibration:
    """Hide a third of some measured cells, half of these by rows, and compare what is drawn with what was measured."""
    features = rows.values.shape[1]
    rows = _first_windows(rows, sizes.window)
    seen, stream = ~np.isnan(rows.values), rng("calibration")
    by_row = np.broadcast_to(stream.random((len(seen), 1)) < HIDDEN, seen.shape)
    first = np.arange(len(seen))[:, None] < len(seen) / 2
    hidden = np.where(first, by_row, stream.random(seen.shape) < HIDDEN) & seen
    if hidden.sum() < FEWEST:
        return Calibration.none(features)
    left = Rows(np.where(hidden, np.nan, rows.values), rows.lengths)
    filled = scale.apply(filler.rows(left, sizes))
    drawn = draw_rows(sizes, weights, left, filled, DRAWS, rng)
    return Calibration.of(filled, drawn.std(axis=0, ddof=1), scale.apply(rows.values), hidden)


def draw_rows(sizes: Sizes, weights: NDArray[Any], rows: Rows, filled: Floats, draws: int, rng: Rng) -> Floats:
    """Draws of the diffusion model around a filling, scaled, ``(draws, rows, features)``."""
    cover = Cover(rows, sizes.window, sizes.window)
    seen = ~np.isnan(rows.values)
    drawn = draw_around(sizes, weights, cover.take(filled), cover.take(seen), draws, rng)
    return np.stack([cover.blend(windows) for windows in drawn])


def _first_windows(rows: Rows, length: int) -> Rows:
    """The first rows of every piece, not more than a number of windows in all."""
    most = max(1, MOST_WINDOWS // max(len(rows.lengths), 1)) * length
    parts = [rows.values[first : min(end, first + most)] for first, end in rows.bounds]
    return Rows(np.concatenate([rows.values[:0], *parts]), tuple(map(len, parts)))
