"""SeriesMoments: impute one owner's series in seconds by a Gaussian process fitted to window moments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from pydantic import Field
from scipy.stats import norm

from cotempo.federation import Rng
from cotempo.series.filling.factor_models import nearest_correlation
from cotempo.series.fitted import FilledRows, FittedSeries
from cotempo.series.moments.gaussian import CONSTANT_VARIANCE, Gaussian
from cotempo.series.moments.model_choice import PRIORS, USUAL, calibrate, choose, split, try_priors
from cotempo.series.moments.moments import Units, WindowMoments, find_units, sum_units, sum_windows
from cotempo.series.settings import SeriesSettings
from cotempo.series.windows import SeriesRows, Timing, as_series, refuse_unseen
from cotempo.settings import Settings
from cotempo.typing import Floats

CELLS, FEWEST_ROWS, MOST_ROWS = 680, 4, 97
WINDOW = Field(default=None, ge=4, description=f"Rows of a window; by default {CELLS} cells, at most {MOST_ROWS} rows.")
SWEEP_DIVISOR = 4
LEVEL_VARIANCE, PRIOR_PAIRS, EIGENVALUE_FLOOR = 1e4, 20, 1e-3
QUANTILES, LEAST_START = 201, 0.05


class SeriesMoments(Settings):
    """Fill one owner's series by the conditional mean of a Gaussian process, fitted to sums of window moments.

    The process has the moments of windows of a few rows (`Gaussian`), shrunk to a random walk, whose conditional mean
    is linear interpolation. A fifth of the rows, held out, chooses how far, and calibrates intervals. Missing values
    in the training data are fine, and so are many short sequences.

    Examples
    --------
    >>> from cotempo.data import make_series
    >>> clients, _ = make_series(clients=1, length=60, missing=0.2)
    >>> model = SeriesMoments(window=8).fit(clients["client-0"])
    >>> bool(np.isnan(model.impute(clients["client-0"]).values).any())
    False
    >>> model.sample(3)
    Series(24 rows, 3 sequences, features x0, x1, x2, x3)
    """

    window: int | None = WINDOW

    def fit(self, series: Any, *, seed: int = 0, progress: bool | None = None) -> MomentsModel:
        """Learn from a table or any dataframe of one client, and return the fitted model.

        `seed` and `progress` are as of other models and change nothing: the fit is exact, and takes seconds.
        """
        table = as_series(series)
        refuse_unseen(table.features, table.values)
        rows = SeriesRows.of(table)
        moving = int(np.count_nonzero(sum_units(rows)["steps"].diagonal()))
        window = self.window or usual_window(max(moving, 1), max(rows.lengths))
        stage, trial, held = learn(rows, window)
        calibration = calibrate(trial, stage.units, held, window)
        order = np.arange(len(table.features))
        known = (table.features, order, window, calibration, Timing.of(table))
        return MomentsModel(*known, stage.units, stage.process, Marginals.of(rows.values, stage.units))


@dataclass(frozen=True, eq=False, repr=False)
class MomentsModel(FittedSeries):
    """A fitted Gaussian process of an owner's series; `process` is in `units`."""

    units: Units
    process: Gaussian
    marginals: Marginals

    def _impute(self, rows: SeriesRows, draws: int, levels: tuple[float, ...], seed: int) -> FilledRows:
        inner, missing = self.units.rows(rows), np.isnan(rows.values)

        def back(part: Floats) -> Floats:
            return np.where(missing, self.units.undo(part), rows.values)

        if not levels and draws == 1:
            return FilledRows(back(self.process.fill(inner)), np.zeros((0, *missing.shape)), None)
        filled, deviation = self.process.measure(inner)
        widths = self.calibration.widths(rows, deviation * self.units.step, levels, self.window)
        drawn = self.process.draw(inner, draws, Rng(seed, "impute")("draws")) if draws > 1 else None
        return FilledRows(back(filled), widths, None if drawn is None else back(drawn))

    def _sample(self, count: int, seed: int) -> Floats:
        features, window = len(self.features), self.window
        noise = Rng(seed, "sample")("draws").standard_normal((window * features, count))

        def root(process: Gaussian) -> Floats:
            return np.asarray(np.linalg.inv(np.linalg.cholesky(process.precision(window))).T)

        if not len(self.marginals.levels):
            return self.units.undo((root(self.process) @ noise).T.reshape(-1, features))
        own, levels = replace(self.process, start=self.marginals.levels), self.marginals.levels.diagonal()
        # Levels wander inside a window: it begins with so much less of their variance.
        grown = (root(own) ** 2).sum(axis=1).reshape(window, features).mean(axis=0) / levels - 1
        less = np.sqrt((1 - grown).clip(min=LEAST_START))
        found = root(replace(own, start=self.marginals.levels * np.outer(less, less)))
        rows = found.reshape(window, features, -1)
        turned = self.marginals.turn(rows @ rows.swapaxes(1, 2))
        drawn = (found @ noise).T.reshape(count, window, features)
        return self.marginals.values(np.einsum("rij,crj->cri", turned, drawn).reshape(-1, features))


@dataclass(frozen=True)
class Marginals:
    """An owner's own distributions, for synthetic windows: a Gaussian copula of the process with these as marginals.

    `quantiles` has each feature's, from its least to its largest value, ``(features, quantiles)``, and `levels` the
    covariance of levels in `Units`; both are empty where nothing is known of an owner.
    """

    quantiles: Floats
    levels: Floats

    @classmethod
    def none(cls) -> Marginals:
        """Know nothing."""
        return cls(np.zeros((0, 0)), np.zeros((0, 0)))

    @classmethod
    def of(cls, values: Floats, units: Units) -> Marginals:
        """Measure rows in the units of the data; nothing is known where a feature was never measured."""
        if np.isnan(values).all(axis=0).any():
            return cls.none()
        inner = units.apply(values)
        inner = np.where(np.isnan(inner), 0.0, inner - np.nanmean(inner, axis=0))
        seen = (~np.isnan(values)).astype(np.float64)
        found = inner.T @ inner / np.maximum(seen.T @ seen, 1.0)
        scale = np.sqrt(np.maximum(found.diagonal(), CONSTANT_VARIANCE))
        related = found / np.outer(scale, scale)
        np.fill_diagonal(related, 1.0)
        levels = nearest_correlation(related, EIGENVALUE_FLOOR) * np.outer(scale, scale)
        return cls(np.nanquantile(values, np.linspace(0, 1, QUANTILES), axis=0).T, levels)

    def turn(self, covariances: Floats) -> Floats:
        """Return what turns rows of some covariances into standard normal ones correlated as the owner's levels."""
        deviations = np.sqrt(self.levels.diagonal())
        related = np.linalg.cholesky(self.levels / np.outer(deviations, deviations))
        return np.asarray(related @ np.linalg.inv(np.linalg.cholesky(covariances)))

    def values(self, normal: Floats) -> Floats:
        """Give standard normal values ``(rows, features)`` these distributions."""
        places, grid = norm.cdf(normal), np.linspace(0, 1, self.quantiles.shape[1])
        return np.column_stack([np.interp(p, grid, q) for p, q in zip(places.T, self.quantiles, strict=True)])


@dataclass(frozen=True)
class MomentsStage:
    """A stage of filling: the conditional mean of a Gaussian process."""

    units: Units
    process: Gaussian
    names: tuple[str, ...] = ("moments",)

    def fill(self, rows: SeriesRows, settings: SeriesSettings) -> Floats:
        """Fill rows in the units that the process was learned in, ``(1, rows, features)``."""
        return self.units.undo(self.process.fill(self.units.rows(rows)))[None]

    def measure(self, rows: SeriesRows) -> tuple[Floats, Floats]:
        """Return the conditional mean and deviation of each cell, in the units that the process was learned in."""
        filled, deviation = self.process.measure(self.units.rows(rows))
        return self.units.undo(filled), deviation * self.units.step


def learn(rows: SeriesRows, window: int) -> tuple[MomentsStage, Gaussian, SeriesRows]:
    """Learn a process from all rows; return it, one that was learned without a part of them, and that part."""
    sums = sum_units(rows)
    units = find_units(**sums)
    incomplete, (kept, held) = bool(np.isnan(rows.values).any()), split(rows)
    sizes = windows_of_sweeps(window, incomplete=incomplete)
    first = sum_filled(kept, units, sum_units(kept), sizes)
    if incomplete:
        pieces = SeriesRows(np.concatenate([kept.values, held.values]), kept.lengths + held.lengths)
        whole = sum_filled(pieces, units, sums, sizes)
    else:
        whole = first + sum_windows(units.rows(held), window)
    held = units.rows(held)
    prior = PRIORS[choose(**try_priors(first, held))]
    return MomentsStage(units, Gaussian.of(whole, prior)), Gaussian.of(first, prior), held


def sum_filled(rows: SeriesRows, units: Units, sums: Mapping[str, Floats], sizes: Sequence[int]) -> WindowMoments:
    """Sum windows of rows, in the units of the data, in sweeps: gaps as what was summed before fills them.

    `sums`, as of `sum_units`, make the first guess; `sizes` are the rows of a window in each sweep.
    """
    inner = units.rows(rows)
    found = first_guess(units, sums["pairs"], sums["steps"]).expect(inner, sizes[0])
    for size in sizes[1:]:
        found = Gaussian.of(found, PRIORS[USUAL]).expect(inner, size)
    return found


def own_sums(rows: SeriesRows, units: Units, window: int) -> WindowMoments:
    """Sum windows of rows, in the units of the data, with gaps as these rows alone fill them."""
    sizes = windows_of_sweeps(window, incomplete=bool(np.isnan(rows.values).any()))
    return sum_filled(rows, units, sum_units(rows), sizes)


def usual_window(features: int, most: int = MOST_ROWS) -> int:
    """Return the rows of a window with about `CELLS` cells."""
    return max(min(CELLS // features, most, MOST_ROWS), FEWEST_ROWS)


def windows_of_sweeps(window: int, *, incomplete: bool) -> tuple[int, ...]:
    """Return the rows of a window in each sweep: where cells are missing, few in a first one that fills them."""
    return (max(window // SWEEP_DIVISOR, FEWEST_ROWS), window) if incomplete else (window,)


def first_guess(units: Units, pairs: Floats, steps: Floats) -> Gaussian:
    """Make random walks with the correlations of steps measured together, shrunk to independence."""
    related = steps / np.outer(units.step, units.step) / (pairs + PRIOR_PAIRS)
    np.fill_diagonal(related, 1.0)
    return Gaussian.walk(np.full(len(related), LEVEL_VARIANCE), nearest_correlation(related, EIGENVALUE_FLOOR))
