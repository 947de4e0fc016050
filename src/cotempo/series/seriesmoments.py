"""SeriesMoments: impute one owner's series in seconds by a Gaussian process fitted to window moments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic import Field

from cotempo.errors import warn
from cotempo.federation import Rng
from cotempo.series.filling.factor_models import nearest_correlation
from cotempo.series.filling.limits import Limits
from cotempo.series.fitted import FilledRows, FittedSeries
from cotempo.series.moments.gaussian import Gaussian
from cotempo.series.moments.latent import DEVIATIONS
from cotempo.series.moments.marginals import Marginals
from cotempo.series.moments.model_choice import PRIORS, USUAL, calibrate, choose, split, try_priors
from cotempo.series.moments.moments import Units, WindowMoments, find_units, sum_units, sum_windows
from cotempo.series.settings import SeriesSettings
from cotempo.series.windows import SeriesRows, Timing, as_series, refuse_unseen
from cotempo.settings import Settings
from cotempo.typing import Floats

CELLS, FEWEST_ROWS, MOST_ROWS = 680, 4, 97
WINDOW = Field(default=None, ge=4, description=f"Rows of a window; by default {CELLS} cells, at most {MOST_ROWS} rows.")
SWEEP_DIVISOR = 4
FEWEST_STEPS, MOST_ROUGH = 200, 1.5
LEVEL_VARIANCE, PRIOR_PAIRS, EIGENVALUE_FLOOR = 1e4, 20, 1e-3


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
        rows = SeriesRows.of(table).calmed()
        for words in table.faults():
            warn(words)
        window = self.window or own_window(rows)
        stage, trial, held = learn(rows, window)
        calibration = calibrate(trial, stage.units, held, window)
        order = np.arange(len(table.features))
        known = (table.features, order, window, calibration, Timing.of(table))
        marginals = Marginals.of(rows, stage.process, stage.units, window)
        return MomentsModel(*known, stage.units, stage.process, marginals, Limits.of(rows.values))


@dataclass(frozen=True, eq=False, repr=False)
class MomentsModel(FittedSeries):
    """A fitted Gaussian process of an owner's series; `process` is in `units`; `limits` are the owner's, if known."""

    units: Units
    process: Gaussian
    marginals: Marginals
    limits: Limits | None = None

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

    def known_ranges(self) -> Floats:
        """Return the quantiles of the owner's own values."""
        if not len(self.marginals.quantiles):
            return super().known_ranges()
        return np.array([[np.interp(d, DEVIATIONS, own) for own in self.marginals.quantiles] for d in (-1.645, 1.645)])

    def known_limits(self) -> Limits:
        """Return the hard ends of the owner's own ranges."""
        return self.limits or super().known_limits()

    def _sample(self, count: int, rows: int, seed: int) -> Floats:
        stream, marginals = Rng(seed, "sample")("draws"), self.marginals
        drawn = marginals.values(marginals.draw(count, rows, stream).reshape(-1, len(self.features)), self.units)
        self._warn_of_steps(drawn.reshape(count, rows, -1))
        return drawn

    def _warn_of_steps(self, drawn: Floats) -> None:
        """Warn where synthetic windows are rougher or smoother than the table learned from."""
        if not len(self.marginals.steps) or drawn[:, 1:, 0].size < FEWEST_STEPS:
            return
        made, real = np.sqrt((np.diff(drawn, axis=1) ** 2).mean(axis=(0, 1))), self.marginals.steps
        for place in np.flatnonzero((made > MOST_ROUGH * real) | (MOST_ROUGH * made < real)):
            apart = f"{made[place]:.3g} instead of {real[place]:.3g} from row to row"
            warn(f"column {self.features[self.order[place]]!r} of synthetic windows moves unlike the table's: {apart}")


@dataclass(frozen=True)
class MomentsStage:
    """A stage of filling: the conditional mean of a Gaussian process, fitted under one of `PRIORS`."""

    units: Units
    process: Gaussian
    names: tuple[str, ...] = ("moments",)
    prior: int = USUAL

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
    chosen = choose(**try_priors(first, held))
    prior = PRIORS[chosen]
    return MomentsStage(units, Gaussian.of(whole, prior), prior=chosen), Gaussian.of(first, prior), held


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


def own_window(rows: SeriesRows) -> int:
    """Return the rows of a window for one owner."""
    moving = int(np.count_nonzero(sum_units(rows)["steps"].diagonal()))
    return usual_window(max(moving, 1), max(rows.lengths))


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
