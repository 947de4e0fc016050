"""`ParentSearch`: the best parents of one variable among those an order allows, by forward and backward steps.

Neighbouring orders ask for the same variable with nearly the same predecessors, so both what was found for a set of
predecessors and the steps from a set of parents are cached.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from cotempo.networks.search.evidence import Evidence, Parents
from cotempo.networks.search.prior_knowledge import Constraints
from cotempo.typing import Bools, Floats

#: A step must gain more than this, so that rounding cannot make a search run in circles.
LEAST_GAIN = 1e-7

#: Numbers cached before the cache is emptied: bounds it at some hundred megabytes.
CACHED = 20_000_000


class Neighbourhood(NamedTuple):
    """Chosen parents of one variable and the steps that lead away from them.

    `adding`, `(side,)`, is the gain for each further candidate, `drop_gain` that for dropping the least useful parent
    which is not required; `dropped` are the parents left then.
    """

    score: float
    parents: Parents
    adding: Floats
    drop_gain: float
    dropped: Parents


def neighbourhood(evidence: Evidence, node: int, parents: Parents, required: Parents = ()) -> Neighbourhood:
    """Return the steps from `parents` of `node`."""
    score, adding, dropping = evidence.profile(node, parents)
    gains = [-np.inf if parent in required else gain for parent, gain in zip(parents, dropping.tolist(), strict=True)]
    best = max(gains, default=-np.inf)
    place = gains.index(best) if gains else 0
    return Neighbourhood(score, parents, adding, best, parents[:place] + parents[place + 1 :])


def climb(look: Callable[[Parents], Neighbourhood], candidates: Bools, parents: Parents) -> Neighbourhood:
    """Add or drop the parent that gains most, until none gains.

    Among copies of a column a step can promise a gain that rounding eats: one that does not raise the score is the end.
    """
    now = look(parents)
    while True:
        adding = np.where(candidates, now.adding, -np.inf)
        add = int(adding.argmax())
        gain = float(adding[add])
        if max(gain, now.drop_gain) <= LEAST_GAIN:
            return now
        after = look(now.dropped if now.drop_gain > gain else tuple(sorted((*now.parents, add))))
        if after.score <= now.score:
            return now
        now = after


def drop(parents: Parents, column: int) -> Parents:
    """Return the parents without one, if it is among them."""
    return tuple(parent for parent in parents if parent != column)


class Fit(NamedTuple):
    """Parents of one variable, and the variables of the slice whose addition would gain, were they allowed."""

    score: float
    parents: Parents
    improving: frozenset[int]


class ParentSearch:
    """Forward/backward search for parents, with a cache of what was found for each set of predecessors."""

    def __init__(self, evidence: Evidence, constraints: Constraints):
        self.evidence = evidence
        self.allowed, self.required = constraints
        self._known: dict[tuple[int, int], Fit] = {}
        self._near: dict[tuple[int, Parents], Neighbourhood] = {}
        self._swapped: set[tuple[int, int]] = set()

    def fit(self, node: int, before: Bools, key: int, start: Parents) -> Fit:
        """Return parents of `node` among the variables `before` it, whose bits are `key`, and all lags."""
        known = self._known.get((node, key))
        if known is None:
            if len(self._known) * len(before) >= CACHED:
                self._known.clear()
            known = self._known[node, key] = self._climb(node, self._candidates(node, before), start)
        return known

    def swap_parents(self, node: int, before: Bools, key: int, fit: Fit) -> Fit:
        """Return a better fit, if one is found by forbidding one parent at a time and then allowing it again.

        Single steps stop where two parents would have to be exchanged; forbidding one forces the exchange. It takes
        as many fits as there are parents, so it is kept for orders from which no move gains.
        """
        if (node, key) in self._swapped:
            return fit
        self._swapped.add((node, key))
        candidates = self._candidates(node, before)
        best = fit
        for parent in fit.parents:
            if parent not in self.required[node]:
                fewer = candidates.copy()
                fewer[parent] = False
                detour = self._climb(node, fewer, drop(fit.parents, parent))
                best = max(best, self._climb(node, candidates, detour.parents), key=lambda one: one.score)
        if best.score > fit.score + LEAST_GAIN:
            self._known[node, key] = best
        return best

    def _candidates(self, node: int, before: Bools) -> Bools:
        candidates: Bools = self.allowed[node].copy()
        candidates[: len(before)] &= before
        return candidates

    def _climb(self, node: int, candidates: Bools, start: Parents) -> Fit:
        found = climb(lambda parents: self._look(node, parents), candidates, start)
        count = len(self.allowed)
        improving = np.flatnonzero(self.allowed[node, :count] & (found.adding[:count] > LEAST_GAIN))
        return Fit(found.score, found.parents, frozenset(improving.tolist()))

    def _look(self, node: int, parents: Parents) -> Neighbourhood:
        known = self._near.get((node, parents))
        if known is None:
            if len(self._near) * len(self.allowed[0]) >= CACHED:
                self._near.clear()
            known = self._near[node, parents] = neighbourhood(self.evidence, node, parents, self.required[node])
        return known
