"""MomentsStage: filling by the Gaussian process of an owner's window moments."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cotempo.series.moments.gaussian import Gaussian
from cotempo.series.moments.model_choice import PRIORS, USUAL, choose, split, try_priors
from cotempo.series.moments.moments import Units, WindowMoments, find_units, sum_units, sum_windows
from cotempo.series.settings import SeriesSettings
from cotempo.series.windows import SeriesRows
from cotempo.typing import Floats

CELLS, FEWEST_ROWS, MOST_ROWS = 680, 4, 97
SWEEP_DIVISOR = 4
LEVEL_VARIANCE, PRIOR_PAIRS, EIGENVALUE_FLOOR = 1e4, 20, 1e-3


@dataclass(frozen=True)
class MomentsStage:
    """A stage of filling: the conditional mean of a Gaussian process."""

    units: Units
    process: Gaussian
    names: tuple[str, ...] = ("moments",)

    def fill(self, rows: SeriesRows, settings: SeriesSettings) -> Floats:
        """Fill rows in the units that the process was learned in, ``(1, rows, features)``."""
        return self.units.undo(self.process.fill(self.units.rows(rows)))[None]


def learn(rows: SeriesRows, window: int, sweeps: int = 1) -> tuple[MomentsStage, Gaussian, SeriesRows]:
    """Learn a process from all rows; return it, one that was learned without a part of them, and that part."""
    sums = sum_units(rows)
    units = find_units(**sums)
    incomplete, (kept, held) = bool(np.isnan(rows.values).any()), split(rows)
    sizes = windows_of_sweeps(window, sweeps if incomplete else 0)
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


def usual_window(features: int, most: int = MOST_ROWS) -> int:
    """Return the rows of a window with about `CELLS` cells."""
    return max(min(CELLS // features, most, MOST_ROWS), FEWEST_ROWS)


def windows_of_sweeps(window: int, sweeps: int) -> tuple[int, ...]:
    """Return the rows of a window in each sweep: few until the last."""
    return (max(window // SWEEP_DIVISOR, FEWEST_ROWS),) * sweeps + (window,)


def first_guess(units: Units, pairs: Floats, steps: Floats) -> Gaussian:
    """Make random walks with the correlations of steps measured together, shrunk to independence."""
    related = steps / np.outer(units.step, units.step) / (pairs + PRIOR_PAIRS)
    np.fill_diagonal(related, 1.0)
    values, axes = np.linalg.eigh(related)
    near = (axes * np.maximum(values, EIGENVALUE_FLOOR)) @ axes.T
    scale = np.sqrt(near.diagonal())
    return Gaussian.walk(np.full(len(near), LEVEL_VARIANCE), near / np.outer(scale, scale))
