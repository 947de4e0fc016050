"""Lower bounds on epsilon from one run, by guesses which canaries were in it.

A run whose data held each of m canaries with probability one half is guessed about: of r canaries the guess says in or
out, v of them are right. An (epsilon, delta) differentially private run makes many right guesses unlikely; the bound
is the largest epsilon that the guesses contradict with the wanted confidence.

References
----------
Steinke, Nasr and Jagielski, "Privacy auditing with one (1) training run", NeurIPS 2023.
Mahloujifar, Melis and Chaudhuri, "Auditing f-differential privacy in one run", 2024.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import bdtrc, expit, ndtr, ndtri

from cotempo.errors import ParameterError
from cotempo.privacy.accounting import gaussian_multiplier
from cotempo.typing import Bools, Floats

#: Shares of the canaries that are guessed about; the confidence is divided among them.
SHARES = (0.1, 0.25, 0.5, 1.0)
#: No guesses tell more: even with 10,000 canaries, all of them guessed right, the bound is below 9.
LARGEST = 30.0
#: Neither bound is sought more exactly than this.
TOLERANCE = 1e-6


class Guesses(NamedTuple):
    """How many canaries there were, about how many of them a guess was made, and how many of these were right."""

    canaries: int
    made: int
    right: int


def one_run_epsilon(guesses: Guesses, delta: float, confidence: float = 0.95) -> float:
    """Return the largest epsilon that guesses contradict, by Theorem 5.2 of Steinke et al.; 0 if they contradict none.

    Examples
    --------
    >>> round(one_run_epsilon(Guesses(100, 100, 100), 1e-6), 2), one_run_epsilon(Guesses(100, 100, 55), 1e-6)
    (3.49, 0.0)
    """
    return _largest(lambda epsilon: one_run_p_value(guesses, epsilon, delta) < 1 - confidence)


def one_run_p_value(guesses: Guesses, epsilon: float, delta: float) -> float:
    r"""Return how likely so many right guesses are at most, if the run is (epsilon, delta) differentially private.

    .. math:: P[W \ge v] + 2 m \delta \max_{1 \le i \le v} \frac{P[v - i \le W < v]}{i}, \qquad
              W \sim \mathrm{Binomial}\left(r, \frac{e^\epsilon}{1 + e^\epsilon}\right)
    """
    canaries, made, right = guesses
    if not 0 <= right <= made <= canaries:
        raise ParameterError(
            f"right guesses must be at most the guesses made, these at most all canaries, got {guesses}"
        )
    at_least = _binomial_tail(np.arange(right + 1.0), made, float(expit(epsilon)))
    between = at_least[:right][::-1] - at_least[right]
    slope = float(np.max(between / np.arange(1, right + 1), initial=0.0))
    return float(min(1.0, at_least[right] + 2 * canaries * delta * slope))


def one_run_gaussian_epsilon(guesses: Guesses, delta: float, confidence: float = 0.95) -> float:
    """Return the same for a run that is Gaussian differentially private, which guesses contradict sooner.

    A run whose noise is Gaussian keeps more than one pair (epsilon, delta): the whole trade-off curve of two Gaussians
    (Mahloujifar et al., Algorithm 3). The epsilon returned is that of the curve at delta.
    """
    return _largest(lambda epsilon: not _fits_gaussian(guesses, epsilon, delta, 1 - confidence))


def _fits_gaussian(guesses: Guesses, epsilon: float, delta: float, chance: float) -> bool:
    """Say whether so many right guesses with this chance agree with the curve of a Gaussian.

    If `right` or more guesses are right with the given chance, `inside` bounds the share of canaries guessed right in
    such runs from below and `outside` that of those guessed wrong. The curve bounds each step to one right guess less;
    all steps together may not need more canaries than are guessed about.
    """
    canaries, made, right = guesses
    mu = 1 / gaussian_multiplier(max(epsilon, TOLERANCE), delta)
    inside, outside = chance * right / canaries, chance * (made - right) / canaries
    for fewer in range(right - 1, -1, -1):
        reached = max(outside, float(ndtr(ndtri(inside) - mu)))
        if reached == outside:
            break
        inside = min(inside + fewer / (made - fewer) * (reached - outside), 1.0)
        outside = reached
    return inside + outside <= made / canaries


def _largest(contradicted: Callable[[float], bool]) -> float:
    """Return the largest epsilon that is contradicted, by bisection; smaller ones are then contradicted too."""
    low, high = 0.0, 1.0
    if not contradicted(0.0):
        return 0.0
    while contradicted(high) and high < LARGEST:
        low, high = high, 2 * high
    while high - low > TOLERANCE:
        middle = (low + high) / 2
        low, high = (middle, high) if contradicted(middle) else (low, middle)
    return low


def _binomial_tail(least: Floats, trials: int, chance: float) -> Floats:
    """Return the chance of at least so many successes."""
    return np.where(least <= 0, 1.0, bdtrc(np.maximum(least - 1, 0), trials, chance))


class MembershipBound(NamedTuple):
    """What scores of canaries tell: two lower bounds on epsilon, and how well members are told from others.

    `epsilon` holds whatever the run did, `gaussian_epsilon` if its noise is Gaussian; each with the given confidence.
    `true_positives` is the share of members found where one in a hundred others is taken for one.
    """

    epsilon: float
    gaussian_epsilon: float
    guesses: Guesses
    auc: float
    true_positives: float


def bound_membership(scores: Floats, included: Bools, delta: float, confidence: float = 0.95) -> MembershipBound:
    """Return what scores tell about canaries: above a half that they were in the run, below it that they were not.

    Guesses are made about those whose scores are farthest from a half. About how many is tried at four shares of all,
    among which the confidence is divided.

    Examples
    --------
    >>> included = np.arange(80) % 2 == 0
    >>> found = bound_membership(np.where(included, 1.0, 0.0), included, 1e-6)
    >>> round(found.epsilon, 2), found.auc, found.true_positives
    (2.88, 1.0, 1.0)
    """
    if scores.shape != included.shape or not included.any() or included.all():
        raise ParameterError(f"there must be canaries in the run and others not in it, got {included.sum()} in it")
    order = np.argsort(-np.abs(scores - 0.5), kind="stable")
    each = 1 - (1 - confidence) / len(SHARES)
    tried = []
    for share in SHARES:
        chosen = order[: max(1, int(share * len(scores)))]
        right = int(((scores[chosen] > 0.5) == included[chosen]).sum())
        tried.append(Guesses(len(scores), len(chosen), right))
    bounds = [one_run_epsilon(guesses, delta, each) for guesses in tried]
    gaussian = max(one_run_gaussian_epsilon(guesses, delta, each) for guesses in tried)
    best = int(np.argmax(bounds))
    return MembershipBound(bounds[best], gaussian, tried[best], area(scores, included), caught(scores, included))


def area(scores: Floats, included: Bools) -> float:
    """Return the chance that a member scores higher than another; ties count half."""
    gap = np.sign(scores[included][:, None] - scores[~included][None, :])
    return float((gap.mean() + 1) / 2)


def caught(scores: Floats, included: Bools, false_positives: float = 0.01) -> float:
    """Return the share of members that score higher than all others but the given share of them."""
    others = np.sort(scores[~included])[::-1]
    return float(np.mean(scores[included] > others[int(false_positives * len(others))]))
