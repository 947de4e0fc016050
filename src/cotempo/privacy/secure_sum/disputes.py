"""Disputes: a client says that what a peer sent it through the server cannot be used; who is left out for it.

Nobody but the two can tell which of them lies. Two honest clients never dispute, so that a liar is in every dispute:
whoever has disputed with most others in the run is left out of the step; of two who have disputed with equally many,
the accuser. So a false accusation costs its sender only. One liar that sends a single peer what it cannot open keeps
that peer out; with a second one it is left out itself, from then on. Failures name both, for people to look at.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from cotempo.errors import MessageError
from cotempo.typing import Array

PEERS = np.uint16


class Accusation(MessageError):  # noqa: N818 - it says what it is
    """What some peers sent cannot be used; `accused` are their places among the client's neighbours, in name order."""

    def __init__(self, neighbours: Sequence[str], names: Sequence[str]):
        super().__init__(f"what peers send must be signed and sealed by them, this is not: {', '.join(names)}")
        self.accused: Array = np.array([neighbours.index(name) for name in names], PEERS)


class Disputes:
    """Who has disputed with whom in a run."""

    def __init__(self) -> None:
        self.pairs: set[frozenset[str]] = set()

    def settle(self, accusations: Iterable[tuple[str, str]]) -> list[str]:
        """Return who is left out, given pairs of an accuser and one it accuses.

        Examples
        --------
        >>> disputes = Disputes()
        >>> disputes.settle([("ash", "birch")]), disputes.settle([("cedar", "birch")])
        (['ash'], ['birch'])
        """
        unsettled = {*accusations}
        self.pairs |= {frozenset(pair) for pair in unsettled}
        met = Counter(name for pair in self.pairs for name in pair)
        found = []
        while unsettled:
            accusers = {accuser for accuser, _ in unsettled}
            names = sorted({name for pair in unsettled for name in pair})
            worst = max(names, key=lambda name: (met[name], name in accusers))
            found.append(worst)
            unsettled = {pair for pair in unsettled if worst not in pair}
        return found
