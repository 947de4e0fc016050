"""`parent_sets`: average over all small parent sets, for many variables and few rows.

A target's own past is always among its parents. Of the others every set S of at most two is tried; with y the target,
Z the standardised sources (own past taken off both) and nu the degrees of freedom, slopes ~ N(0, variance) and
variance ~ InverseGamma(1/2, 1/2):

    log p(y | S) = -log det(I + Z_S' Z_S) / 2 - (1/2 + nu/2) log(1/2 + (y'y - y'Z_S (I + Z_S' Z_S)^-1 Z_S'y) / 2)

Source i is a parent with chance q_i, the same for every target, so that hubs are found: q is refitted by EM.
The design was devised on DREAM4, its gold standard in view, and is frozen since: its constants are not options, and
its figures on DREAM4 are no promise for other data.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from cotempo.networks.moments import Sums
from cotempo.typing import Floats

_SHAPE = 0.5
_SCALE = 0.5
_PARENTS = 2.0  # expected of a target before the data are seen
_PSEUDO_TARGETS = 1.0  # how many targets' worth the mean of q counts in each q_i
_ROUNDS = 30
_LOWEST, _HIGHEST = 1e-6, 0.9
_ALMOST_NEVER, _ALMOST_SURE = 1e-300, 1.0 - 1e-15


class Evidences(NamedTuple):
    """Log evidence of every parent set: (targets,), (targets, sources) and (targets, sources, sources).

    It is minus infinity where two sources are one, or a source is the target.
    """

    none: Floats
    one: Floats
    two: Floats


def parent_sets(centrings: Sequence[tuple[Floats, float]]) -> Floats:
    """Return the log odds that a source is a parent, ``[source, target]``, summed over centrings.

    Each centring is the centred Gram of ``[x_t, x_{t-1}]`` with its degrees of freedom. Memory grows with the third
    power of the number of variables: 8 MB a centring at 100 variables.
    """
    return np.asarray(sum(log_odds(evidences(scatter, freedom)) for scatter, freedom in centrings))


def centrings(
    pieces: Sequence[Floats], times: Sequence[Floats], weights: Sequence[Floats], perturbed_until: float | None = None
) -> Sums:
    """Sum rows three ways: all of them, about the mean of their piece and phase, and after the perturbation.

    Complete rows of the contiguous pieces up to the time `perturbed_until` are the first phase, later ones the
    relaxation. Without a perturbation every piece is one phase, and there are two ways.
    """
    until = np.inf if perturbed_until is None else perturbed_until
    parts = list(zip(pieces, times, weights, strict=True))
    early = [(rows[time <= until], weight[time <= until]) for rows, time, weight in parts]
    late = [(rows[time > until], weight[time > until]) for rows, time, weight in parts]
    phases = [part for part in (*early, *late) if len(part[0])]
    ways = [phases, [(rows - np.average(rows, axis=0, weights=weight), weight) for rows, weight in phases]]
    if perturbed_until is not None:
        ways.append(late)
    sums = Sums.stack([Sums.of_rows(*map(np.concatenate, zip(*way, strict=True))) for way in ways])
    sums.counts[1] -= len(phases)  # the means that were already subtracted
    sums.sums[1] = 0.0  # but for rounding it is
    return sums


def evidences(scatter: Floats, freedom: float) -> Evidences:
    """Return the log evidence of all parent sets of at most two sources beside the own past."""
    count = len(scatter) // 2
    scale = np.sqrt(scatter.diagonal() / freedom)
    standard = scatter / np.outer(scale, scale)
    none = np.empty(count)
    one = np.empty((count, count))
    two = np.empty((count, count, count))
    for target in range(count):
        own = count + target
        left = standard - np.outer(standard[:, own], standard[own]) / standard[own, own]
        spread, slopes, gram = left[target, target], left[target, count:], left[count:, count:]
        none[target], one[target], two[target] = _of_target(spread, slopes, gram, freedom - 1.0)
        one[target, target] = two[target, target] = two[target, :, target] = -np.inf
        np.fill_diagonal(two[target], -np.inf)
    return Evidences(none, one, two)


def _of_target(spread: float, slopes: Floats, gram: Floats, freedom: float) -> tuple[float, Floats, Floats]:
    ridged = gram.diagonal() + 1.0

    def evidence(explained: Floats | float, determinant: Floats | float) -> Floats:
        rest = _SCALE + np.maximum(spread - explained, 0.0) / 2.0
        return np.asarray(-0.5 * np.log(determinant) - (_SHAPE + freedom / 2.0) * np.log(rest))

    squares = slopes**2
    determinant = np.outer(ridged, ridged) - gram**2
    np.fill_diagonal(determinant, 1.0)
    crossed = np.outer(squares, ridged) + np.outer(ridged, squares) - 2.0 * np.outer(slopes, slopes) * gram
    return float(evidence(0.0, 1.0)), evidence(squares / ridged, ridged), evidence(crossed / determinant, determinant)


def log_odds(found: Evidences) -> Floats:
    """Refit the chance of every source by EM, and return the log odds of its edges."""
    count = len(found.none)
    largest = np.maximum(np.maximum(found.none, found.one.max(axis=1)), found.two.max(axis=(1, 2)))
    weights = Evidences(*(np.exp((part.T - largest).T) for part in found))
    chance = np.full(count, min(_PARENTS / count, 0.5))
    parents = _posterior(weights, chance)
    for _ in range(_ROUNDS - 1):
        prior = _PSEUDO_TARGETS * chance.mean()
        chance = np.clip((parents.sum(axis=1) + prior) / (count - 1 + _PSEUDO_TARGETS), _LOWEST, _HIGHEST)
        parents = _posterior(weights, chance)
    return np.asarray(np.log(parents) - np.log1p(-parents))


def _posterior(weights: Evidences, chance: Floats) -> Floats:
    """Return the probability ``[source, target]`` that a source is a parent, given every source's prior."""
    odds = chance / (1.0 - chance)
    alone = weights.one * odds
    in_pairs = (weights.two @ odds) * odds
    # Every pair holds two sources: summed over sources it is there twice.
    total = weights.none + alone.sum(axis=1) + in_pairs.sum(axis=1) / 2.0
    return np.asarray(np.clip((alone + in_pairs) / total[:, None], _ALMOST_NEVER, _ALMOST_SURE).T)
