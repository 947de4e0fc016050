r"""Timeline: one curve of time for all clients, from sums of their counts and exposures in cells.

The intensity of client c is :math:`m_c\, r(t)\, e^{g_c(t)}`. With levels :math:`m_c` known, the curve :math:`r` depends
on the clients only through :math:`N_j = \sum_c n_{cj}` and :math:`E_j = \sum_c m_c e_{cj}`, events and weighted
exposure of cell j. Clients send both for each of a few folds, so the server can choose by cross-validated likelihood
summed over clients: which estimate, and how strongly bursts beyond Poisson's are tempered.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cotempo.events.curves.density import density
from cotempo.events.curves.piecewise import histogram, mean_rate
from cotempo.events.curves.piecewise import level as steps
from cotempo.events.curves.shapes import draws_at, learn_shapes, mean_at
from cotempo.typing import Floats

PARTS = 48
CELLS, LEAST_CELLS = 1008, 48
# No rate is lower than this share of the mean: an event there would be impossible.
FLOOR = 1e-4
# Powers of the dispersion that counts and exposures are divided by.
POWERS = (0.0, 0.5, 1.0)


@dataclass(frozen=True)
class Timeline:
    """What the server knows of the curve.

    `sums` are events and weighted exposure of each fold and cell, ``(2, folds, cells)``; `curves` the curve without
    each fold, then of everything, ``(folds + 1, cells)``. `smoother` names the chosen estimate; `temper` is what counts
    and exposures are divided by for it. `own` is the `LevelSetting` of all clients, and `effect` the design effect of
    sequences: how much their counts vary beyond Poisson's.
    """

    sums: Floats
    curves: Floats
    smoother: str
    temper: float
    own: Floats
    effect: float


def flat(events: Floats, exposure: Floats) -> Floats:
    """Return one rate for all cells."""
    return np.full(len(events), mean_rate(events, exposure))


def profile(events: Floats, exposure: Floats) -> Floats:
    """Return the rates of 48 equal parts, drawn to the mean rate by two pseudo-events, ``(cells,)``."""
    place = np.arange(len(events)) * PARTS // len(events)
    seen, watched = np.bincount(place, events), np.bincount(place, exposure)
    return np.asarray(((seen + 2) / (watched + 2 / mean_rate(events, exposure)))[place])


def average(events: Floats, exposure: Floats) -> Floats:
    """Return the posterior mean of smooth curves (Gaussian processes), steps and bins, averaged by their evidence."""
    cells = len(events)
    return mean_at((np.arange(cells) + 0.5) / cells, learn_shapes(events, exposure, min(cells, CELLS)))


SIMPLE: dict[str, Callable[[Floats, Floats], Floats]] = {
    "flat": flat, "profile": profile, "histogram": histogram, "density": density, "steps": steps,
}  # fmt: skip
SMOOTHERS = {**SIMPLE, "average": average}


def fit_curve(smoother: str, temper: float, events: Floats, exposure: Floats) -> Floats:
    """Return the rate of each cell, ``(cells,)``, by an estimate that believes one in `temper` events."""
    rate = SMOOTHERS[smoother](events / temper, exposure / temper)
    return np.asarray(np.maximum(rate, FLOOR * mean_rate(events, exposure)))


class CurvePosterior:
    """The chosen curve with its uncertainty, which is that of smooth curves, steps and bins."""

    def __init__(self, line: Timeline):
        events, exposure = line.sums.sum(axis=1) / line.temper
        cells, self.curve = len(events), line.curves[-1]
        self.shapes = learn_shapes(events, exposure, min(cells, CELLS))
        self.smooth = line.smoother in ("average", "density")
        self.known = np.maximum(mean_at((np.arange(cells) + 0.5) / cells, self.shapes), FLOOR * self.curve)

    def mean(self, place: Floats, cell: NDArray[np.intp]) -> Floats:
        """Return the curve at places from 0 to 1; a smooth one changes within cells as the posterior does."""
        within = mean_at(place, self.shapes) / self.known[cell] if self.smooth else 1.0
        return np.asarray(self.curve[cell] * within)

    def draws(self, place: Floats, cell: NDArray[np.intp]) -> Floats:
        """Return draws, ``(draws, places)``: those of the posterior, moved some of the way to the chosen estimate.

        How far each is moved is uniform: where the estimate and the posterior disagree, the band holds both.
        """
        drawn = draws_at(place, self.shapes)
        moved = np.random.default_rng(0).uniform(size=(len(drawn), 1))
        return np.asarray(drawn * (self.curve[cell] / self.known[cell]) ** moved)


def choose_curve(events: Floats, exposure: Floats, dispersion: float) -> tuple[str, float, Floats, dict[str, float]]:
    """Choose estimate and tempering by cross-validated log-likelihood, given ``(folds, cells)`` each.

    The posterior average, which costs more, is tried with the tempering that is best for the simple estimates.

    Returns estimate and tempering; the curve without each fold and the one of all, ``(folds + 1, cells)``; and the
    best log-likelihood of each estimate less that of one rate.

    Examples
    --------
    >>> seen = np.random.default_rng(0).poisson(np.repeat([2.0, 8.0], 48), (5, 96)).astype(float)
    >>> smoother, temper, curves, scores = choose_curve(seen, np.ones((5, 96)), 1.0)
    >>> curves[-1, [0, 95]].round().tolist(), scores["steps"] > scores["profile"] > 100
    ([2.0, 8.0], True)
    """
    tempers = sorted({max(dispersion, 1.0) ** power for power in POWERS})
    total = (events.sum(axis=0), exposure.sum(axis=0))
    parts = [(total[0] - out, total[1] - hidden) for out, hidden in zip(events, exposure, strict=True)]
    curves, scores = {}, {}

    def judge(name: str, temper: float) -> None:
        without = np.stack([fit_curve(name, temper, *part) for part in parts])
        curves[name, temper] = without
        scores[name, temper] = float((events * np.log(without) - exposure * without).sum())

    def best() -> tuple[str, float]:
        return max(scores, key=lambda each: scores[each])

    judge("flat", 1.0)
    for name in SIMPLE:
        for temper in tempers if name != "flat" else ():
            judge(name, temper)
    judge("average", best()[1])
    gained = {name: max(scores[key] for key in scores if key[0] == name) - scores["flat", 1.0] for name in SMOOTHERS}
    return *best(), np.vstack([curves[best()], fit_curve(*best(), *total)]), gained
