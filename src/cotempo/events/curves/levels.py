r"""Levels of clients: each has its own level of the shared curve, and a smooth deviation from it where that pays.

Given the curve :math:`r`, the level is :math:`m = (\kappa + n) / (\kappa + \int e\,r)`: :math:`\kappa` events draw it
to that of all clients together. The deviation :math:`g` is a Gaussian process on the log scale, by Laplace's method on
coarse cells. Strength, length and amplitude are the same for all clients: those with the best held-out likelihood
summed over them.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_solve, cholesky

from cotempo.typing import Floats

COARSE = 84
NEWTON = 30
# The simplest first: it is taken where nothing speaks for another.
STRENGTHS = (np.inf, 512.0, 128.0, 32.0, 8.0, 2.0, 0.5)
# Length, as a share of the span, and variance of deviations.
DEVIATIONS = ((1.0, 0.0), (0.1, 0.03), (0.1, 0.3), (0.4, 0.03), (0.4, 0.3))


class LevelSetting(NamedTuple):
    """How strongly levels are drawn together, and length and variance of deviations."""

    strength: float
    length: float
    variance: float


class OwnRate(NamedTuple):
    """A client's intensity in cells: its rate, and the variance that level and deviation add to its logarithm."""

    rate: Floats
    variance: Floats


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
    bend, bent = deviation(curve, events, exposure, own, temper)
    rate = curve * np.exp(bend)
    level = find_level(rate, events, exposure, own.strength)
    unsure = 0.0 if np.isinf(own.strength) else effect / (own.strength + events.sum())
    return OwnRate(level * rate, bent + unsure)


def deviation(
    curve: Floats, events: Floats, exposure: Floats, own: LevelSetting, temper: float
) -> tuple[Floats, Floats]:
    """Return posterior mean and variance of the deviation, ``(cells,)`` each, by Newton's steps to the mode."""
    cells = len(curve)
    if not own.variance:
        return np.zeros(cells), np.zeros(cells)
    size = min(COARSE, cells)
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
    spread = np.diag(prior) - ((root[:, None] * prior) * cho_solve((factor, True), root[:, None] * prior)).sum(axis=0)
    return mode[place], np.maximum(spread, 0.0)[place]


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
