"""Learning a Gaussian process from the window moments of an owner's rows, and filling with it as a stage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cotempo.series.choosing import PRIORS, USUAL, choose, split, try_priors
from cotempo.series.gaussian import Gaussian
from cotempo.series.moments import Units, find_units, sum_units
from cotempo.series.windows import Rows

if TYPE_CHECKING:
    from cotempo.series.settings import Sizes

Floats = NDArray[np.float64]
CELLS, FEWEST, MOST = 680, 4, 97
QUICK = 4
FAR, PRIOR, FLOOR = 1e4, 20, 1e-3


@dataclass(frozen=True)
class Windowed:
    """A stage of filling: the conditional mean of a Gaussian process."""

    units: Units
    process: Gaussian
    names: tuple[str, ...] = ("moments",)

    def fill(self, rows: Rows, sizes: Sizes) -> Floats:
        """Fill rows in the units that the process was learned in, ``(1, rows, features)``."""
        return self.units.undo(self.process.fill(Rows(self.units.apply(rows.values), rows.lengths)))[None]


def learn(rows: Rows, window: int, sweeps: int = 1) -> tuple[Windowed, Gaussian, Rows]:
    """Learn a process from all rows; return it, one that was learned without a part of them, and that part."""
    sums = sum_units(rows)
    units = find_units(**sums)
    kept, held = (Rows(units.apply(part.values), part.lengths) for part in split(rows))
    model = first_guess(units, sums["pairs"], sums["steps"])
    for size in windows_of_sweeps(window, sweeps if np.isnan(rows.values).any() else 0):
        first, rest = (model.expect(part, size) for part in (kept, held))
        model = Gaussian.of(first + rest, PRIORS[USUAL])
    prior = PRIORS[choose(**try_priors(first, held))]
    return Windowed(units, Gaussian.of(first + rest, prior)), Gaussian.of(first, prior), held


def usual_window(features: int, most: int = MOST) -> int:
    """Rows of a window with about as many cells as can be solved for in a moment."""
    return max(min(CELLS // features, most, MOST), FEWEST)


def windows_of_sweeps(window: int, sweeps: int) -> tuple[int, ...]:
    """Rows of a window in each sweep: few until the last."""
    return (max(window // QUICK, FEWEST),) * sweeps + (window,)


def first_guess(units: Units, pairs: Floats, steps: Floats) -> Gaussian:
    """Random walks whose steps go together as those did that were measured together, drawn to going alone."""
    related = steps / np.outer(units.step, units.step) / (pairs + PRIOR)
    np.fill_diagonal(related, 1.0)
    values, axes = np.linalg.eigh(related)
    near = (axes * np.maximum(values, FLOOR)) @ axes.T
    scale = np.sqrt(near.diagonal())
    return Gaussian.walk(np.full(len(near), FAR), near / np.outer(scale, scale))
