"""What people say about edges, by name, turned into what the search understands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cotempo.errors import ParameterError, nearest
from cotempo.networks.search.prior_knowledge import Edges, combine_knowledge

BoolArray = NDArray[np.bool_]


@dataclass(frozen=True)
class Wishes:
    """Forbidden and required edges, `(lags + 1, variables, variables)` with `[lag, source, target]`, and tiers."""

    forbidden: BoolArray
    required: BoolArray
    tiers: tuple[int, ...] | None

    @classmethod
    def read(
        cls,
        names: tuple[str, ...],
        lags: int,
        forbidden: Sequence[tuple[Any, ...]],
        required: Sequence[tuple[Any, ...]],
        tiers: Sequence[Sequence[str]],
    ) -> Wishes:
        """Read `(source, target)` or `(source, target, lag)` and groups of names; what cannot hold is refused.

        Examples
        --------
        >>> Wishes.read(("a", "b"), 1, [("a", "b")], [("b", "a", 1)], []).required[1].tolist()
        [[False, False], [True, False]]
        """
        wishes = cls(
            _marks(names, lags, forbidden, "forbidden"),
            _marks(names, lags, required, "required"),
            _levels(names, tiers),
        )
        combine_knowledge(len(names), lags, **wishes.arguments)
        return wishes

    def without(self, unseen: BoolArray) -> Wishes:
        """Forbid edges between columns that were never seen together, `unseen` being `(side, side)`."""
        lags, count = self.forbidden.shape[0] - 1, self.forbidden.shape[1]
        pairs = unseen[:, :count].reshape(lags + 1, count, count)
        return replace(self, forbidden=self.forbidden | pairs)

    def only(self, held: NDArray[np.intp]) -> Wishes:
        """The same of some variables."""
        inside = np.ix_(np.arange(len(self.forbidden)), held, held)
        tiers = None if self.tiers is None else tuple(self.tiers[index] for index in held)
        return Wishes(self.forbidden[inside], self.required[inside], tiers)

    @property
    def arguments(self) -> dict[str, Any]:
        """As `learn_order` takes them."""
        return {
            "forbidden": Edges(self.forbidden[0], self.forbidden[1:]),
            "required": Edges(self.required[0], self.required[1:]),
            "tiers": self.tiers,
        }


def _marks(names: tuple[str, ...], lags: int, edges: Sequence[tuple[Any, ...]], word: str) -> BoolArray:
    marks = np.zeros((lags + 1, len(names), len(names)), np.bool_)
    for edge in edges:
        if len(edge) not in (2, 3):
            raise ParameterError(f"{word}: an edge is (source, target) or (source, target, lag), was given {edge!r}")
        source, target, lag = (*edge, 0)[:3]
        if not isinstance(lag, int) or not 0 <= lag <= lags:
            raise ParameterError(f"{word}: the lag of {edge!r} must be a whole number from 0 to {lags}")
        marks[lag, _place(names, source, word), _place(names, target, word)] = True
    return marks


def _levels(names: tuple[str, ...], tiers: Sequence[Sequence[str]]) -> tuple[int, ...] | None:
    if not tiers:
        return None
    level = {_place(names, name, "tiers"): number for number, group in enumerate(tiers) for name in group}
    missing = [name for index, name in enumerate(names) if index not in level]
    if missing:
        raise ParameterError(f"tiers must name every variable, {missing[0]!r} is in none")
    return tuple(level[index] for index in range(len(names)))


def _place(names: tuple[str, ...], name: Any, word: str) -> int:
    if name not in names:
        raise ParameterError(f"{word}: there is no variable {name!r}{nearest(str(name), names)}")
    return names.index(name)
