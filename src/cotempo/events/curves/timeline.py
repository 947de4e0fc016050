r"""Timeline: one curve of time for all clients, from sums of their counts in cells, and each client's level of it.

The intensity of client c is :math:`m_c\, r(t)\, e^{g_c(t)}`. With levels :math:`m_c` known, the curve :math:`r` depends
on the clients only through :math:`N_j = \sum_c n_{cj}` and :math:`E_j = \sum_c m_c e_{cj}`, events and weighted
exposure of cell j. Clients send both for each of a few folds, so the server can choose by cross-validated likelihood
summed over clients: which estimate, and how strongly bursts beyond Poisson's are tempered.

Given the curve, the level is :math:`m = (\kappa + n) / (\kappa + \int e\,r)`: :math:`\kappa` events draw it to that of
all clients together. The deviation :math:`g` is a Gaussian process on the log scale, by Laplace's method on coarse
cells. Strength, length and amplitude are those with the best held-out likelihood summed over clients.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_solve, cholesky

from cotempo.events.curves.density import density
from cotempo.events.curves.piecewise import histogram, mean_rate
from cotempo.events.curves.piecewise import level as steps
from cotempo.events.curves.shapes import learn_shapes, mean_at
from cotempo.typing import Floats

PARTS = 48
CELLS, LEAST_CELLS = 1008, 48
# No rate is lower than this share of the mean: an event there would be impossible.
FLOOR = 1e-4
# Nats by which rates in pieces must tell held-out events better than a smooth estimate: their jumps look like news.
PIECES, JUMPS_PRICE = ("profile", "histogram", "steps"), 3.0
# Powers of the dispersion that counts and exposures are divided by.
POWERS = (0.0, 0.5, 1.0)
# Coarse cells of deviations, and the most steps of Newton.
COARSE, NEWTON = 84, 30
# The simplest first: it is taken where nothing speaks for another.
STRENGTHS = (np.inf, 512.0, 128.0, 32.0, 8.0, 2.0, 0.5)
# Length, as a share of the span, and variance of deviations; the shortest are hours of a week.
DEVIATIONS = ((1.0, 0.0), (0.025, 0.03), (0.025, 0.3), (0.1, 0.03), (0.1, 0.3), (0.4, 0.03), (0.4, 0.3))


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


def flat(events: Floats, exposure: Floats, closed: bool = False) -> Floats:
    """Return one rate for all cells."""
    return np.full(len(events), mean_rate(events, exposure))


def profile(events: Floats, exposure: Floats, closed: bool = False) -> Floats:
    """Return the rates of 48 equal parts, drawn to the mean rate by two pseudo-events, ``(cells,)``."""
    place = np.arange(len(events)) * PARTS // len(events)
    seen, watched = np.bincount(place, events), np.bincount(place, exposure)
    return np.asarray(((seen + 2) / (watched + 2 / mean_rate(events, exposure)))[place])


def average(events: Floats, exposure: Floats, closed: bool = False) -> Floats:
    """Return the posterior mean of smooth curves (Gaussian processes), steps and bins, averaged by their evidence."""
    cells = len(events)
    return mean_at((np.arange(cells) + 0.5) / cells, learn_shapes(events, exposure, min(cells, CELLS), closed))


SIMPLE: dict[str, Callable[[Floats, Floats, bool], Floats]] = {
    "flat": flat, "profile": profile, "histogram": histogram, "density": density, "steps": steps,
}  # fmt: skip
SMOOTHERS = {**SIMPLE, "average": average}


def fit_curve(smoother: str, temper: float, events: Floats, exposure: Floats, closed: bool = False) -> Floats:
    """Return the rate of each cell, ``(cells,)``, by an estimate that believes one in `temper` events.

    Where cells are those of a period, `closed`, the last is beside the first.
    """
    rate = SMOOTHERS[smoother](events / temper, exposure / temper, closed)
    return np.asarray(np.maximum(rate, FLOOR * mean_rate(events, exposure)))


def choose_curve(
    events: Floats, exposure: Floats, dispersion: float, closed: bool = False
) -> tuple[str, float, Floats, dict[str, float]]:
    """Choose estimate and tempering by cross-validated log-likelihood, given ``(folds, cells)`` each.

    The posterior average, which costs more, is tried with the tempering that is best for the simple estimates. Returns
    estimate and tempering; the curve without each fold and the one of all, ``(folds + 1, cells)``; and the best
    log-likelihood of each estimate less that of one rate.
    """
    tempers = sorted({max(dispersion, 1.0) ** power for power in POWERS})
    total = (events.sum(axis=0), exposure.sum(axis=0))
    parts = [(total[0] - out, total[1] - hidden) for out, hidden in zip(events, exposure, strict=True)]
    curves, scores = {}, {}

    def judge(name: str, temper: float) -> None:
        without = np.stack([fit_curve(name, temper, *part, closed) for part in parts])
        curves[name, temper] = without
        scores[name, temper] = float((events * np.log(without) - exposure * without).sum())

    def best() -> tuple[str, float]:
        return max(scores, key=lambda each: scores[each] - (JUMPS_PRICE if each[0] in PIECES else 0.0))

    judge("flat", 1.0)
    for name in SIMPLE:
        for temper in tempers if name != "flat" else ():
            judge(name, temper)
    judge("average", best()[1])
    gained = {name: max(scores[key] for key in scores if key[0] == name) - scores["flat", 1.0] for name in SMOOTHERS}
    return *best(), np.vstack([curves[best()], fit_curve(*best(), *total, closed)]), gained


class LevelSetting(NamedTuple):
    """How strongly levels are drawn together, and length and variance of deviations."""

    strength: float
    length: float
    variance: float


class OwnRate(NamedTuple):
    """A client's intensity: its rate in cells, and how sure its logarithm is.

    `level` is the variance of the level's logarithm, `covariance` that of the deviation in its coarse cells.
    """

    rate: Floats
    level: float
    covariance: Floats


SETTINGS = tuple(LevelSetting(strength, *deviation) for deviation in DEVIATIONS for strength in STRENGTHS)


def find_level(curve: Floats, events: Floats, exposure: Floats, strength: float) -> float:
    """Return the client's level of the curve, from its events and exposure in cells."""
    if np.isinf(strength):
        return 1.0
    return float((strength + events.sum()) / (strength + (exposure * curve).sum()))


def own_rate(
    curve: Floats, events: Floats, exposure: Floats, own: LevelSetting, temper: float, effect: float = 1.0
) -> OwnRate:
    """Return the client's intensity: the curve at its own level, with its deviation."""
    bend, covariance = deviation(curve, events, exposure, own, temper)
    rate = curve * np.exp(bend)
    level = find_level(rate, events, exposure, own.strength)
    unsure = 0.0 if np.isinf(own.strength) else effect / (own.strength + events.sum())
    return OwnRate(level * rate, unsure, covariance)


def deviation(
    curve: Floats, events: Floats, exposure: Floats, own: LevelSetting, temper: float
) -> tuple[Floats, Floats]:
    """Return the posterior mean of the deviation, ``(cells,)``, and its covariance in coarse cells, by Newton's steps
    to the mode.
    """
    cells = len(curve)
    size = min(COARSE, cells)
    if not own.variance:
        return np.zeros(cells), np.zeros((size, size))
    place = np.arange(cells) * size // cells
    level = find_level(curve, events, exposure, 8.0)
    seen = np.bincount(place, events, size) / temper
    expected = np.bincount(place, level * exposure * curve, size) / temper
    middles = (np.arange(size) + 0.5) / size
    prior = own.variance * np.exp(-0.5 * ((middles[:, None] - middles) / own.length) ** 2)
    mode = np.zeros(size)
    for _ in range(NEWTON):
        weight = expected * np.exp(mode)
        root = np.sqrt(weight)
        factor = cholesky(np.eye(size) + root[:, None] * prior * root, lower=True)
        target = weight * mode + seen - weight
        step = prior @ (target - root * cho_solve((factor, True), root * (prior @ target))) - mode
        mode = mode + np.clip(step, -1.0, 1.0)
        if np.abs(step).max() < 1e-6:
            break
    seen_of = root[:, None] * prior
    return mode[place], prior - seen_of.T @ cho_solve((factor, True), seen_of)


def cross_validate(curves: Floats, events: Floats, exposure: Floats, temper: float) -> Floats:
    """Return held-out log-likelihood of the client's events for each of `SETTINGS`.

    `curves` are learned without each fold; all arguments are ``(folds, cells)``.
    """
    scores = np.zeros((len(DEVIATIONS), len(STRENGTHS)))
    for curve, held, watched in zip(curves, events, exposure, strict=True):
        seen, known = events.sum(axis=0) - held, exposure.sum(axis=0) - watched
        for i, (length, variance) in enumerate(DEVIATIONS):
            rate = curve * np.exp(deviation(curve, seen, known, LevelSetting(0.0, length, variance), temper)[0])
            for j, strength in enumerate(STRENGTHS):
                own = find_level(rate, seen, known, strength) * rate
                scores[i, j] += float((held * np.log(own) - watched * own).sum())
    return scores.ravel()
