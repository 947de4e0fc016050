"""Calibration: conformal intervals around fillings, from errors on hidden measurements; and noise like these errors.

Noise is added to fillings that networks learn from, because a conditional mean is smoother than what it stands for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from cotempo.series.filling.ahead import LEVELS, Ahead, at_level, quantiles
from cotempo.series.filling.factor_models import deviations_from_line
from cotempo.series.filling.gaps import near_kinds, steps_around
from cotempo.series.filling.stages import Fills
from cotempo.series.settings import SeriesSettings
from cotempo.series.windows import Cover, SeriesRows
from cotempo.typing import Floats

SHARES = (0.3, 0.5)
FEWEST_CELLS = 100
ROUGH_SHARE, ROUGH_DRAWS = 0.25, 3
KINDS = 3
SHRINKAGE = 4  # measurements at which the pace counts half
CONSTANT_SHARE = 1e-9  # of the largest value: what moves less is constant


@dataclass(frozen=True)
class Calibration:
    r"""Conformal intervals around fillings.

    .. math:: \hat x \pm r_p \, e \, v \sqrt{\frac{b\,c}{b + c}}

    with the mean error :math:`e` of a feature, the steps :math:`b` and :math:`c` to its measurements before and after,
    how much faster than usual it moves around there, :math:`v`, and the quantile :math:`r_p` of errors in these units
    over hidden cells. Where cells to fill are like the hidden ones, a share :math:`p` of them lies inside. Each of the
    `kinds` of cells has errors and quantiles of its own.

    `usual` is how far a feature usually deviates from the line through its neighbours, ``(features,)``. `errors` has
    :math:`e` in units of the data, ``(kinds, features)``, 0 where too few cells could be hidden or the feature was
    constant: there a normal law with a deviation by the model stands in. `ratios` has :math:`r_p` for the levels
    .005, .01, ..., .995, ``(kinds, features, levels)``. `ahead` has the intervals of forecasts.

    References
    ----------
    Lei et al., "Distribution-free predictive inference for regression", JASA 2018.
    """

    usual: Floats
    errors: Floats
    ratios: Floats
    ahead: Ahead

    @classmethod
    def none(cls, features: int) -> Calibration:
        """Return intervals that know nothing."""
        ratios = np.zeros((KINDS, features, len(LEVELS)))
        return cls(np.ones(features), np.zeros((KINDS, features)), ratios, Ahead.none(features))

    def embed(self, columns: NDArray[np.intp], features: int) -> Calibration:
        """Embed among more features, of which nothing is known."""
        found = Calibration.none(features)
        found.usual[columns], found.errors[:, columns], found.ratios[:, columns] = self.usual, self.errors, self.ratios
        return replace(found, ahead=self.ahead.embed(columns, features))

    @classmethod
    def of(cls, rows: SeriesRows, filled: Floats, truth: Floats, length: int) -> Calibration:
        """Calibrate on rows with missing cells, how they were filled, and the truth."""
        found = cls.none(truth.shape[1])
        missing = np.isnan(rows.values)
        moved = np.abs(deviations_from_line(rows))
        usual = np.nansum(moved, axis=0) / np.maximum((~np.isnan(moved)).sum(axis=0), 1)
        still = usual <= CONSTANT_SHARE * np.where(missing, 0.0, np.abs(rows.values)).max(axis=0, initial=0.0)
        usual = np.where(still, 1.0, usual)
        hidden = missing & ~np.isnan(truth) & ~still
        units = np.where(hidden, np.abs(filled - truth), 0.0) / _stretch(rows, usual, length)
        for kind in range(KINDS):
            chosen = hidden & (_kinds(rows) == kind)
            count = chosen.sum(axis=0)
            errors = np.where(chosen, units, 0.0).sum(axis=0) / np.maximum(count, 1)
            chosen &= errors > 0
            if chosen.sum() < FEWEST_CELLS:
                continue
            relative = units / np.where(errors > 0, errors, 1.0)
            found.errors[kind] = errors
            found.ratios[kind] = quantiles(relative[chosen])
            for column in np.flatnonzero(chosen.sum(axis=0) >= FEWEST_CELLS):
                found.ratios[kind, column] = quantiles(relative[chosen[:, column], column])
        return replace(found, usual=usual)

    def widths(self, rows: SeriesRows, deviation: Floats, levels: tuple[float, ...], length: int) -> Floats:
        """Return half the width of each missing cell's interval, 0 elsewhere, ``(levels, rows, features)``.

        `deviation` is by a process that fills, or else of draws, ``(rows, features)``; all in units of the data.
        """
        missing = np.isnan(rows.values)
        kind, columns = _kinds(rows), np.arange(missing.shape[1])
        unit = self.errors[kind, columns] * _stretch(rows, self.usual, length)
        found = []
        for level in levels:
            normal = norm.ppf((1 + level) / 2) * deviation
            found.append(np.where(unit > 0, at_level(self.ratios, level)[kind, columns] * unit, normal) * missing)
        return np.stack(found) if found else np.zeros((0, *missing.shape))

    def knows(self, rows: SeriesRows) -> bool:
        """Return whether every missing cell is of a kind that errors are known of."""
        known = self.errors[_kinds(rows), np.arange(rows.values.shape[1])] > 0
        return bool(known[np.isnan(rows.values)].all())


def _kinds(rows: SeriesRows) -> NDArray[np.intp]:
    """Return 0 in rows where nothing was seen, 1 in the others, and 2 in long gaps, ``(rows, features)``."""
    return np.minimum(near_kinds(rows), KINDS - 1)


def _stretch(rows: SeriesRows, usual: Floats, length: int) -> Floats:
    """Return the scale of each cell's error: by its gap, up to half a window, and by the feature's pace."""
    back, forth = steps_around(rows)
    walk = (back * forth / (back + forth)).clip(max=max(length / 2, 1.0))
    return np.asarray(np.sqrt(walk) * _pace(rows, usual, length))


def _pace(rows: SeriesRows, usual: Floats, length: int) -> Floats:
    """Estimate how much faster than usual each feature moves around each row, shrunk to 1."""
    cover = Cover(rows, 2 * length, max(1, length // 2))
    moves = cover.windows(np.abs(deviations_from_line(rows)))
    count = (~np.isnan(moves)).sum(axis=1, keepdims=True)
    pace = np.nansum(moves, axis=1, keepdims=True) / np.maximum(count, 1) / usual
    pace = np.where(count > 0, pace, 1.0).clip(0.1, 1e3) ** (count / (count + SHRINKAGE))
    return cover.blend(np.broadcast_to(pace, moves.shape))


def calibrate(
    settings: SeriesSettings, parts: Sequence[tuple[Fills, SeriesRows]], stream: np.random.Generator
) -> Calibration:
    """Hide measured rows, cells, long gaps and ends, and compare what is filled in with what was measured.

    Of several parts each has a filler of its own, so that nobody is judged on rows that shaped its gates.
    """
    tried = [(lambda rows, filler=filler: filler.rows(rows, settings), rows) for filler, rows in parts]
    return replace(_calibrate_gaps(settings, parts, stream), ahead=Ahead.of(tried, settings.window))


def _calibrate_gaps(
    settings: SeriesSettings, parts: Sequence[tuple[Fills, SeriesRows]], stream: np.random.Generator
) -> Calibration:
    found = []
    for filler, rows in (part for part in parts if len(part[1].values)):
        left = [np.where(gone, np.nan, rows.values) for gone in _hidings(rows.values.shape, settings.window, stream)]
        hidden = rows.with_values(np.concatenate(left), len(left))
        truth = np.tile(rows.values, (len(left), 1))
        found.append((hidden.lengths, hidden.values, filler.rows(hidden, settings), truth))
    if not found:
        return Calibration.none(parts[0][1].values.shape[1])
    lengths, *rest = zip(*found, strict=True)
    values, filled, truth = (np.concatenate(part) for part in rest)
    return Calibration.of(SeriesRows(values, sum(lengths, ())), filled, truth, settings.window)


def _hidings(shape: tuple[int, int], window: int, stream: np.random.Generator) -> Iterator[NDArray[np.bool_]]:
    """Yield what to hide: rows, cells, and half a window in every two of all or of half of the features."""
    for share in SHARES:
        yield stream.random((shape[0], 1)) < share
        yield stream.random(shape) < share
    for half in (False, True):
        gap = (np.arange(shape[0]) + stream.integers(2 * window)) % (2 * window) < max(1, window // 2)
        yield gap[:, None] & (stream.random(shape[1]) < 0.5 if half else True)


def imputation_errors(filler: Fills, rows: SeriesRows, settings: SeriesSettings, stream: np.random.Generator) -> Floats:
    """Return errors of filling hidden rows, ``(hidden rows, features)``, NaN where nothing was measured."""
    found = [rows.values[:0]]
    for _ in range(ROUGH_DRAWS if len(rows.values) else 0):
        chosen = stream.random(len(rows.values)) < ROUGH_SHARE
        left = np.where(chosen[:, None], np.nan, rows.values)
        found.append((rows.values - filler.rows(rows.with_values(left), settings))[chosen])
    errors = np.concatenate(found)
    return errors[~np.isnan(errors).all(axis=1)]


def add_imputation_errors(
    filled: Floats, missing: NDArray[np.bool_], errors: Floats, stream: np.random.Generator
) -> Floats:
    """Add to the missing cells of each row the errors of one row drawn at random, so that features err together.

    A feature that was not measured in the drawn row gets an error of its own from another row.

    Examples
    --------
    >>> stream = np.random.default_rng(0)
    >>> add_imputation_errors(np.zeros((2, 1)), np.array([[True], [False]]), np.array([[0.5]]), stream).ravel().tolist()
    [0.5, 0.0]
    """
    if not len(errors):
        return filled
    drawn = errors[stream.integers(len(errors), size=len(filled))]
    for column in range(filled.shape[1]):
        pool = errors[~np.isnan(errors[:, column]), column]
        lacking = np.isnan(drawn[:, column])
        drawn[lacking, column] = stream.choice(pool, lacking.sum()) if len(pool) else 0.0
    return np.where(missing, filled + drawn, filled)
