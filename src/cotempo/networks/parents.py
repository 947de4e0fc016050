"""The best parents of one variable among those an order allows: forward and backward steps until none gains."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cotempo.networks.evidence import Evidence, Parents
from cotempo.networks.knowledge import Knowledge

BoolArray = NDArray[np.bool_]

#: A step must gain more than this, so that rounding cannot make a search run in circles.
LEAST_GAIN = 1e-7

#: Fits remembered before the memory is emptied: bounds it at some hundred megabytes.
REMEMBERED = 200_000


class Fit(NamedTuple):
    """Parents of one variable that no single addition or removal improves.

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
            if len(self._known) >= REMEMBERED:
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
        candidates = self.allowed[node].copy()
        candidates[: len(before)] &= before
        return candidates

    def _climb(self, node: int, candidates: BoolArray, parents: Parents) -> Fit:
        barred = ~candidates
        fixed = self.required[node]
        while True:
            score, adding, dropping = self.evidence.profile(node, parents)
            for place, parent in enumerate(parents):
                if parent in fixed:
                    dropping[place] = -np.inf
            drop = int(dropping.argmax()) if parents else -1
            within_reach = np.where(barred, -np.inf, adding)
            add = int(within_reach.argmax())
            gain = within_reach[add]
            if parents and dropping[drop] > max(gain, LEAST_GAIN):
                parents = parents[:drop] + parents[drop + 1 :]
            elif gain > LEAST_GAIN:
                parents = (*parents, add)
            else:
                variables = len(self.allowed)
                open_ = self.allowed[node, :variables] & (adding[:variables] > LEAST_GAIN)
                return Fit(score, tuple(sorted(parents)), frozenset(np.flatnonzero(open_).tolist()))
