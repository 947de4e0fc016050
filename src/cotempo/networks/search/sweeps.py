"""`Ordered`: an order of the variables that sweeps improve, each variable tried at every position.

Moving v past one neighbour w changes only two sets of predecessors, v's and w's. And a fit changes only when it loses
a parent or gains a candidate that would improve it, so walking v through all positions costs a handful of fits.
"""

from collections.abc import Iterator

import numpy as np

from cotempo.networks.admm.acyclicity import random_topological
from cotempo.networks.search.evidence import Parents
from cotempo.networks.search.parents import LEAST_GAIN, Fit, ParentSearch, drop
from cotempo.typing import Indices

#: One step of a walk: the position reached, the neighbour whose parents changed (or none), and the mover's own fit.
Step = tuple[int, tuple[int, Fit] | None, Fit]


class Ordered:
    """An order of the variables, with the best parents found for each among those before it.

    The order must place required parents before their children; `start` are the parents to begin from, by default the
    required ones.
    """

    def __init__(self, search: ParentSearch, order: list[int], start: list[Parents] | None = None):
        self.search = search
        self._arrange(list(order))
        begin = search.required if start is None else start
        found = {v: search.fit(v, self.position < k, self.prefix[k], begin[v]) for k, v in enumerate(order)}
        self.fits = [found[v] for v in range(len(order))]

    @property
    def score(self) -> float:
        """Sum of the variables' scores."""
        return sum(fit.score for fit in self.fits)

    @property
    def parents(self) -> list[Parents]:
        """Parents of each variable."""
        return [fit.parents for fit in self.fits]

    def climb(self, rng: np.random.Generator) -> None:
        """Sweep over all variables, in random order, until none gains by moving."""
        while sum(self._move(v) for v in rng.permutation(len(self.order)).tolist()) > LEAST_GAIN:
            pass

    def climb_with_restarts(self, rng: np.random.Generator, restarts: int, thorough: bool) -> None:
        """Climb, and again from other orders of the same graph, until `restarts` of them bring no gain.

        `thorough` exchanges parents wherever no move gains.
        """
        self._climb_fully(rng, thorough)
        idle = 0
        while idle < restarts:
            before = self.score
            self.reorder(rng)
            self._climb_fully(rng, thorough)
            idle = 0 if self.score > before + LEAST_GAIN else idle + 1

    def reorder(self, rng: np.random.Generator) -> None:
        """Go to a random order that the present graph also follows: it costs nothing and opens other moves."""
        self._arrange(random_topological(self.parents, rng))
        for k, v in enumerate(self.order):
            fit = self.fits[v]
            if any(self.prefix[k] >> candidate & 1 for candidate in fit.improving):
                better = self.search.fit(v, self.position < k, self.prefix[k], fit.parents)
                self.fits[v] = max(fit, better, key=lambda one: one.score)

    def _climb_fully(self, rng: np.random.Generator, thorough: bool) -> None:
        self.climb(rng)
        while thorough and self._swap_parents():
            self.climb(rng)

    def _swap_parents(self) -> bool:
        before = self.score
        for k, v in enumerate(self.order):
            self.fits[v] = self.search.swap_parents(v, self.position < k, self.prefix[k], self.fits[v])
        return self.score > before + LEAST_GAIN

    def _arrange(self, order: list[int]) -> None:
        self.order = order
        self.position: Indices = np.argsort(order)
        self.prefix = [0]
        for v in order:
            self.prefix.append(self.prefix[-1] | 1 << v)

    def _move(self, v: int) -> float:
        """Put v where the score is highest; return the gain."""
        now = int(self.position[v])
        best_gain, best_place = LEAST_GAIN, now
        best_fits: dict[int, Fit] = {}
        later = self._walk(v, range(now + 1, len(self.order)), later=True)
        earlier = self._walk(v, range(now - 1, -1, -1), later=False)
        for walk in (later, earlier):
            changed: dict[int, Fit] = {}
            passed = 0.0
            for place, neighbour, own in walk:
                if neighbour is not None:
                    w, fit = neighbour
                    passed += fit.score - self.fits[w].score
                    changed[w] = fit
                gain = passed + own.score - self.fits[v].score
                if gain > best_gain:
                    best_gain, best_place, best_fits = gain, place, {**changed, v: own}
        if not best_fits:
            return 0.0
        for w, fit in best_fits.items():
            self.fits[w] = fit
        others = self.order[:now] + self.order[now + 1 :]
        self._arrange([*others[:best_place], v, *others[best_place:]])
        return best_gain

    def _walk(self, v: int, places: range, *, later: bool) -> Iterator[Step]:
        """Walk v past its neighbours: towards the end they lose it and it gains them, else the reverse."""
        own, bit = self.fits[v], 1 << v
        for k in places:
            w = self.order[k]
            if (v in self.search.required[w]) if later else (w in self.search.required[v]):
                return
            neighbour, passed = None, self.fits[w]
            if v in (passed.parents if later else passed.improving):
                before = self.position < k
                before[v] = not later
                prefix = self.prefix[k] & ~bit if later else self.prefix[k] | bit
                neighbour = w, self.search.fit(w, before, prefix, drop(passed.parents, v))
            changed = w in (own.improving if later else own.parents)
            if changed:
                before = self.position < k + later
                before[v] = False
                own = self.search.fit(v, before, self.prefix[k + later] & ~bit, drop(own.parents, w))
            if changed or neighbour:
                yield k, neighbour, own
