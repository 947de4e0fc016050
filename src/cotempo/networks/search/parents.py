"""The best parents of one variable among those an order allows: forward and backward steps until none gains.

Neighbouring orders ask for the same variable with nearly the same predecessors, so both what was found for a set of
predecessors and what was seen from a set of parents are remembered.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cotempo.networks.search.evidence import Evidence, Parents
from cotempo.networks.search.prior_knowledge import Knowledge

BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]

#: A step must gain more than this, so that rounding cannot make a search run in circles.
LEAST_GAIN = 1e-7

#: Numbers remembered before the memory is emptied: bounds it at some hundred megabytes.
REMEMBERED = 20_000_000


class Fit(NamedTuple):
    """Parents of one variable.

    Attributes
    ----------
    score : float
    parents : tuple of int
        Columns of the joint Gram.
    tempting : frozenset of int
        Variables of the slice whose addition would gain, were they allowed.
    """

    score: float
    parents: Parents
    tempting: frozenset[int]


class View(NamedTuple):
    """Chosen parents and the steps that lead away from them.

    Attributes
    ----------
    fit : Fit
    adding : (side,)
        Gain for each further candidate.
    drop_gain : float
        Gain for leaving out the least useful parent that is not required.
    dropped : tuple of int
        The parents that are left then.
    """

    fit: Fit
    adding: FloatArray
    drop_gain: float
    dropped: Parents


class ParentSearch:
    """Forward/backward search for parents, remembering what it found for each set of predecessors.

    Parameters
    ----------
    evidence : Evidence
    knowledge : Knowledge
    """

    def __init__(self, evidence: Evidence, knowledge: Knowledge):
        self.evidence = evidence
        self.allowed, self.required = knowledge
        self._known: dict[tuple[int, int], Fit] = {}
        self._views: dict[tuple[int, Parents], View] = {}
        self._polished: set[tuple[int, int]] = set()

    def fit(self, node: int, before: BoolArray, key: int, start: Parents) -> Fit:
        """Return parents of `node` among the variables `before` it and all lags, climbing from `start`.

        Parameters
        ----------
        before : (variables,) bool
            Variables that precede `node`.
        key : int
            The same as bits.
        """
        known = self._known.get((node, key))
        if known is None:
            if len(self._known) * len(before) >= REMEMBERED:
                self._known.clear()
            known = self._known[node, key] = self._climb(node, self._candidates(node, before), start)
        return known

    def polish(self, node: int, before: BoolArray, key: int, fit: Fit) -> Fit:
        """Return a better fit, if one is found by doing without one parent at a time and then taking it back.

        Single steps stop where two parents would have to be exchanged; forbidding one forces the exchange. It takes
        as many fits as there are parents, so it is kept for orders from which no move gains.
        """
        if (node, key) in self._polished:
            return fit
        self._polished.add((node, key))
        candidates = self._candidates(node, before)
        best = fit
        for parent in fit.parents:
            if parent not in self.required[node]:
                fewer = candidates.copy()
                fewer[parent] = False
                rest = tuple(other for other in fit.parents if other != parent)
                detour = self._climb(node, fewer, rest)
                again = self._climb(node, candidates, detour.parents)
                best = max(best, again, key=lambda one: one.score)
        if best.score > fit.score + LEAST_GAIN:
            self._known[node, key] = best
        return best

    def _candidates(self, node: int, before: BoolArray) -> BoolArray:
        candidates: BoolArray = self.allowed[node].copy()
        candidates[: len(before)] &= before
        return candidates

    def _climb(self, node: int, candidates: BoolArray, parents: Parents) -> Fit:
        while True:
            view = self._look(node, parents)
            within_reach = np.where(candidates, view.adding, -np.inf)
            add = int(within_reach.argmax())
            gain = float(within_reach[add])
            if max(gain, view.drop_gain) <= LEAST_GAIN:
                return view.fit
            parents = view.dropped if view.drop_gain > gain else tuple(sorted((*parents, add)))

    def _look(self, node: int, parents: Parents) -> View:
        known = self._views.get((node, parents))
        if known is None:
            if len(self._views) * len(self.allowed[0]) >= REMEMBERED:
                self._views.clear()
            known = self._views[node, parents] = self._view(node, parents)
        return known

    def _view(self, node: int, parents: Parents) -> View:
        score, adding, dropping = self.evidence.profile(node, parents)
        fixed = self.required[node]
        gains = [-np.inf if parent in fixed else gain for parent, gain in zip(parents, dropping.tolist(), strict=True)]
        best = max(gains, default=-np.inf)
        place = gains.index(best) if gains else 0
        dropped = parents[:place] + parents[place + 1 :]
        variables = len(self.allowed)
        tempting = np.flatnonzero(self.allowed[node, :variables] & (adding[:variables] > LEAST_GAIN))
        return View(Fit(score, parents, frozenset(tempting.tolist())), adding, best, dropped)
