"""Calibration: how wide an interval must be to hold what it promises, found on measurements hidden for the purpose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from cotempo.series.interpolation import neighbours
from cotempo.series.ties import stray
from cotempo.series.windows import Cover, Rows

if TYPE_CHECKING:
    from cotempo.series.filling import Filler
    from cotempo.series.guided import GuidedFiller
    from cotempo.series.settings import Sizes

Floats = NDArray[np.float64]
LEVELS = np.arange(1, 200) / 200
SHARES = (0.3, 0.5)
FEWEST = 40
CALM = 4


@dataclass(frozen=True)
class Calibration:
    r"""Conformal intervals around fillings.

    .. math:: \hat x \pm r_p \, e \, v \sqrt{\frac{b\,c}{b + c}}

    with the mean error :math:`e` of a feature, the steps :math:`b` and :math:`c` to its measurements before and after,
    how much faster than usual it moves around there, :math:`v`, and the quantile :math:`r_p` of errors in these units
    over hidden cells. Where cells to fill are like the hidden ones, a share :math:`p` of them lies inside. Cells of
    rows where nothing was measured have errors and quantiles of their own; the others come second.

    Attributes
    ----------
    usual
        How far a feature usually strays from the line through its neighbours, ``(features,)``.
    errors
        :math:`e` in units of the data, 0 where too few cells could be hidden: there the deviation of draws stands in,
        ``(2, features)``.
    ratios
        :math:`r_p` for the levels .005, .01, ..., .995, ``(2, levels)``.

    References
    ----------
    Lei et al., "Distribution-free predictive inference for regression", JASA 2018.
    """

    usual: Floats
    errors: Floats
    ratios: Floats

    @classmethod
    def none(cls, features: int) -> Calibration:
        """Intervals of a normal law with the deviation of the draws."""
        return cls(np.ones(features), np.zeros((2, features)), np.stack([norm.ppf((1 + LEVELS) / 2)] * 2))

    @classmethod
    def of(cls, rows: Rows, filled: Floats, truth: Floats, length: int) -> Calibration:
        """From rows of which some cells are missing, how they were filled, and what is true there."""
        found = cls.none(truth.shape[1])
        moved = stray(rows)
        count = (~np.isnan(moved)).sum(axis=0)
        usual = np.nansum(np.abs(moved), axis=0) / np.maximum(count, 1)
        usual = np.where(usual > 0, usual, 1.0)
        missing = np.isnan(rows.values)
        hidden = missing & ~np.isnan(truth)
        units = np.where(hidden, np.abs(filled - truth), 0.0) / stretch(rows, usual, length)
        for kind in (0, 1):
            chosen = hidden & (kinds(missing) == kind)
            if chosen.sum() < FEWEST:
                continue
            total = np.where(chosen, units, 0.0).sum(axis=0)
            found.errors[kind] = np.where(chosen.any(axis=0), total / np.maximum(chosen.sum(axis=0), 1), 0.0)
            ratios = (units / np.where(found.errors[kind] > 0, found.errors[kind], 1.0))[chosen]
            # One hidden cell more than there are makes the quantile cover at least its level.
            ranks = np.minimum(LEVELS * (len(ratios) + 1) / len(ratios), 1.0)
            found.ratios[kind] = np.quantile(ratios, ranks, method="higher")
        return cls(usual, found.errors, found.ratios)

    def widths(self, rows: Rows, deviation: Floats, level: float, length: int) -> Floats:
        """Half the width of the interval of every missing cell, and 0 of the others, in units of the data.

        `deviation` is that of the draws, ``(rows, features)``.
        """
        missing = np.isnan(rows.values)
        kind = kinds(missing)
        ratio = np.array([np.interp(level, LEVELS, ratios) for ratios in self.ratios])
        error = self.errors[kind, np.arange(missing.shape[1])]
        unit = np.where(error > 0, error * stretch(rows, self.usual, length), deviation)
        return np.where(missing, ratio[kind] * unit, 0.0)


def kinds(missing: NDArray[np.bool_]) -> NDArray[np.intp]:
    """0 in rows where nothing was seen, 1 in the others, ``(rows, features)``."""
    return np.broadcast_to(~missing.all(axis=1, keepdims=True), missing.shape).astype(np.intp)


def stretch(rows: Rows, usual: Floats, length: int) -> Floats:
    """How much farther off a cell may be than the next one: by the length of the gap, and as the feature moves there.

    Parameters
    ----------
    usual
        How far each feature usually strays from its line, ``(features,)``.
    length
        Rows of a window: farther measurements count as so far away.

    Returns
    -------
    array
        ``(rows, features)``.
    """
    seen = ~np.isnan(rows.values)
    place = np.arange(len(seen))[:, None]
    before, after = neighbours(rows, seen)
    back, forth = (
        np.where(found < 0, np.inf, np.abs(place - found)).clip(max=1e6 * length) for found in (before, after)
    )
    walk = (back * forth / (back + forth)).clip(max=length)
    cover, moved = Cover(rows, 2 * length, max(1, length // 2)), np.abs(stray(rows))
    moves = np.where(cover.inside[..., None], cover.take(moved), np.nan)
    count = (~np.isnan(moves)).sum(axis=1, keepdims=True)
    pace = np.nansum(moves, axis=1, keepdims=True) / np.maximum(count, 1) / usual
    pace = np.where(count > 0, pace, 1.0).clip(1e-3, 1e3) ** (count / (count + CALM))
    return np.asarray(np.sqrt(walk) * cover.blend(np.broadcast_to(pace, moves.shape)))


def calibrate(sizes: Sizes, filler: Filler | GuidedFiller, rows: Rows, stream: np.random.Generator) -> Calibration:
    """Hide measured rows and cells, fewer and more of them, and compare what is filled in with what was measured."""
    shape = rows.values.shape
    if not len(rows.values):
        return Calibration.none(shape[1])
    chances = [stream.random(size) < share for share in SHARES for size in ((shape[0], 1), shape)]
    left = [np.where(chance, np.nan, rows.values) for chance in chances]
    hidden = Rows(np.concatenate(left), rows.lengths * len(left))
    return Calibration.of(hidden, filler.rows(hidden, sizes), np.tile(rows.values, (len(left), 1)), sizes.window)
