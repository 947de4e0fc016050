"""`PriorKnowledge`: edges that are forbidden or required, and variables that come first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from cotempo.errors import ParameterError, nearest
from cotempo.networks.search.evidence import Parents
from cotempo.typing import Bools, Indices


class Constraints(NamedTuple):
    """What a search over parents may do.

    `allowed`, `(variables, side)`, says which columns of the joint Gram may be parents of each variable, `required`
    which ones must be.
    """

    allowed: Bools
    required: list[Parents]


@dataclass(frozen=True)
class PriorKnowledge:
    """What is known about edges beforehand: `forbidden` and `required` ones, ``[lag, source, target]``."""

    forbidden: Bools
    required: Bools
    names: tuple[str, ...] = ()

    @classmethod
    def empty(cls, variables: int, lags: int) -> PriorKnowledge:
        """Return no knowledge at all."""
        return cls(*np.zeros((2, lags + 1, variables, variables), np.bool_))

    @classmethod
    def read(
        cls,
        names: tuple[str, ...],
        lags: int,
        forbidden: Sequence[tuple[Any, ...]],
        required: Sequence[tuple[Any, ...]],
        tiers: Sequence[Sequence[str]],
    ) -> PriorKnowledge:
        """Read `(source, target)` or `(source, target, lag)` and groups of names; refuse what cannot hold.

        A pair without a lag is forbidden at every lag; a required one must say its lag, unless there are no lags. At no
        lag does an edge lead from a later one of the groups, `tiers`, to an earlier one.
        """
        knowledge = cls(_marks(names, lags, forbidden, "forbidden"), _marks(names, lags, required, "required"), names)
        if tiers:
            level = {_place(names, name, "tiers"): number for number, group in enumerate(tiers) for name in group}
            missing = [name for index, name in enumerate(names) if index not in level]
            if missing:
                raise ParameterError(f"tiers must name every variable, {missing[0]!r} is in none")
            levels = np.array([level[index] for index in range(len(names))])
            knowledge.forbidden[:] |= levels[:, None] > levels
        knowledge.constraints()
        return knowledge

    @property
    def variables(self) -> int:
        """How many variables there are."""
        return int(self.forbidden.shape[1])

    @property
    def lags(self) -> int:
        """How many lags there are."""
        return len(self.forbidden) - 1

    def without(self, unseen: Bools | None) -> PriorKnowledge:
        """Forbid edges between columns that were never seen together, `unseen` being `(side, side)`."""
        if unseen is None:
            return self
        pairs = unseen[:, : self.variables].reshape(self.forbidden.shape)
        return replace(self, forbidden=self.forbidden | pairs)

    def only(self, held: Indices) -> PriorKnowledge:
        """Return the same of some variables."""
        inside = np.ix_(np.arange(self.lags + 1), held, held)
        names = tuple(self.names[place] for place in held) if self.names else ()
        return PriorKnowledge(self.forbidden[inside], self.required[inside], names)

    def constraints(self) -> Constraints:
        """Join forbidden and required edges; raise `ParameterError` where they contradict each other."""
        count = self.variables
        allowed = ~self.forbidden.reshape(-1, count).T.copy()
        allowed[np.arange(count), np.arange(count)] = False
        needed = self.required.reshape(-1, count).T
        clash = np.argwhere(needed & ~allowed)
        if len(clash):
            target, column = clash[0].tolist()
            lag, source = divmod(column, count)
            source, target = (self.names[place] if self.names else place for place in (source, target))
            raise ParameterError(
                f"a required edge must be allowed; {source}{f' at lag {lag}' if lag else ''} -> {target} is forbidden, "
                "a loop, or leads to a lower tier: remove one of the two"
            )
        parents = [tuple(np.flatnonzero(row).tolist()) for row in needed]
        arrange(list(range(count)), parents, self.names)
        return Constraints(allowed, parents)


def arrange(order: Sequence[int], required: list[Parents], names: Sequence[str] = ()) -> list[int]:
    """Return `order` changed as little as needed for required parents to come before their children."""
    variables, waiting = len(order), list(order)
    placed: list[int] = []
    while waiting:
        free = [v for v in waiting if all(p >= variables or p in placed for p in required[v])]
        if not free:
            some = ", ".join(names[v] if names else str(v) for v in sorted(waiting))
            raise ParameterError(f"required edges must not make a cycle; those among {some} do: remove one")
        placed.append(free[0])
        waiting.remove(free[0])
    return placed


def _marks(names: tuple[str, ...], lags: int, edges: Sequence[tuple[Any, ...]], word: str) -> Bools:
    marks = np.zeros((lags + 1, len(names), len(names)), np.bool_)
    for edge in edges:
        if len(edge) not in (2, 3):
            raise ParameterError(f"{word}: an edge must be (source, target) or (source, target, lag), got {edge!r}")
        if len(edge) == 2 and lags and word == "required":
            raise ParameterError(
                f"required: an edge must say its lag, 0 (within a time step) to {lags}, got {edge!r}; "
                f"for one step later write {(*edge, 1)!r}"
            )
        if len(edge) == 3 and (not isinstance(edge[2], int) or not 0 <= edge[2] <= lags):
            raise ParameterError(f"{word}: the lag must be a whole number from 0 to {lags}, got {edge!r}")
        at = edge[2] if len(edge) == 3 else slice(None)
        marks[at, _place(names, edge[0], word), _place(names, edge[1], word)] = True
    return marks


def _place(names: tuple[str, ...], name: Any, word: str) -> int:
    if name not in names:
        raise ParameterError(f"{word}: there is no variable {name!r}{nearest(str(name), names)}")
    return names.index(name)
