"""`search_weight`: BOLA, which maximises a noisy function of one weight by a Gaussian process (equations 3 to 8).

References
----------
Frazier, A tutorial on Bayesian optimization, arXiv:1807.02811 (2018).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cotempo.typing import Floats

GRID = 201
LENGTHS = np.array([0.1, 0.2, 0.4, 0.8])
NOISES = np.array([1e-4, 1e-2, 1e-1, 5e-1])
CONFIDENCE = 2.0


@dataclass(frozen=True)
class Search:
    """The weight chosen, and those tried with their scores, ``(probes,)`` each, in the order they were tried."""

    weight: float
    tried: Floats
    scores: Floats


def search_weight(score: Callable[[float], float], low: float, probes: int, *, cautious: bool = True) -> Search:
    """Search ``[low, 1]`` for the weight with the highest score.

    The ends and the middle come first; then expected improvement (equation 7) and the upper confidence bound (equation
    8) choose in turn. The weight is the one whose score is highest (equation 3); with `cautious`, where the process'
    mean is highest, if it is above that at 1 by more than the process' deviation there, else 1. A few validation posts
    make scores noisy, and one lucky score must not cost a client its own model.

    Examples
    --------
    >>> search = search_weight(lambda weight: -(weight - 0.8) ** 2, low=0.6, probes=10)
    >>> abs(search.weight - 0.8) < 0.02
    True
    """
    grid = np.linspace(low, 1.0, GRID)
    tried = [1.0, low, (1.0 + low) / 2][:probes]
    scores = [score(weight) for weight in tried]
    for probe in range(len(tried), probes):
        mean, deviation = posterior(np.array(tried), np.array(scores), grid)
        value = expected_improvement(mean, deviation, max(scores)) if probe % 2 else mean + CONFIDENCE * deviation
        value[np.searchsorted(grid, tried).clip(max=GRID - 1)] = -np.inf  # a weight is not tried twice
        tried.append(float(grid[value.argmax()]))
        scores.append(score(tried[-1]))
    if not cautious:
        return Search(tried[int(np.argmax(scores))], np.array(tried), np.array(scores))
    mean, deviation = posterior(np.array(tried), np.array(scores), np.array(tried))
    best = int(mean.argmax())
    weight = tried[best] if mean[best] - mean[0] > deviation[best] else 1.0
    return Search(weight, np.array(tried), np.array(scores))


def posterior(tried: Floats, scores: Floats, where: Floats) -> tuple[Floats, Floats]:
    """Return the posterior mean and standard deviation of the process at some weights (equations 4 to 6).

    The kernel is ``exp(-d^2 / 2 l^2)`` plus noise, on standardised scores; its length and noise are those of
    the highest marginal likelihood on a small grid.
    """
    centre, spread = float(scores.mean()), float(scores.std()) or 1.0
    values = (scores - centre) / spread
    width = float(np.ptp(np.concatenate([tried, where]))) or 1.0
    kernels = np.stack([_kernel(tried, tried, length) for length in LENGTHS * width])
    noisy = kernels[:, None] + NOISES[:, None, None] * np.eye(len(tried))
    factors = np.linalg.cholesky(noisy)
    solutions = np.linalg.solve(noisy, np.broadcast_to(values[:, None], (*noisy.shape[:3], 1)))[..., 0]
    halves = np.log(np.diagonal(factors, axis1=2, axis2=3)).sum(axis=2)
    place = np.unravel_index((-0.5 * solutions @ values - halves).argmax(), halves.shape)
    length, factor, solved = float(LENGTHS[place[0]] * width), factors[place], solutions[place]
    across = _kernel(where, tried, length)
    variance = 1.0 - (np.linalg.solve(factor, across.T) ** 2).sum(axis=0)
    return centre + spread * (across @ solved), spread * np.sqrt(np.maximum(variance, 1e-12))


def expected_improvement(mean: Floats, deviation: Floats, best: float) -> Floats:
    """Return ``E max(f - best, 0)`` for a normal f (equation 7)."""
    from scipy.special import ndtr

    gain = mean - best
    unit = gain / deviation
    return np.asarray(gain * ndtr(unit) + deviation * np.exp(-(unit**2) / 2) / np.sqrt(2 * np.pi))


def _kernel(first: Floats, second: Floats, length: float) -> Floats:
    return np.asarray(np.exp(-(((first[:, None] - second) / length) ** 2) / 2))
