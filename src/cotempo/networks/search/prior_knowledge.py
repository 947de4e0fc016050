"""What is known beforehand about a network's edges: which are forbidden, which required, which variables come first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cotempo.errors import ParameterError
from cotempo.networks.search.evidence import Parents

BoolArray = NDArray[np.bool_]


class Edges(NamedTuple):
    """Marked edges, ``[source, target]``.

    Attributes
    ----------
    within : (variables, variables) bool, optional
        Edges inside the slice.
    across : (lags, variables, variables) bool, optional
        Edges from each lag.
    """

    within: BoolArray | None = None
    across: BoolArray | None = None


class Knowledge(NamedTuple):
    """What a search over parents may do.

    Attributes
    ----------
    allowed : (variables, side) bool
        Whether each column of the joint Gram may be a parent of each variable.
    required : list of tuple of int
        The columns that must be parents of each variable.
    """

    allowed: BoolArray
    required: list[Parents]


def combine_knowledge(
    variables: int,
    lags: int,
    forbidden: Edges | None = None,
    required: Edges | None = None,
    tiers: Sequence[int] | None = None,
) -> Knowledge:
    """Join forbidden edges, required edges and tiers, and check that they agree.

    Parameters
    ----------
    variables, lags : int
    forbidden, required : Edges, optional
    tiers : sequence of int, optional
        One number per variable: inside the slice, no edge leads from a higher tier to a lower one.

    Examples
    --------
    >>> combine_knowledge(3, 0, tiers=[0, 0, 1]).allowed.astype(int).tolist()
    [[0, 1, 0], [1, 0, 0], [1, 1, 0]]
    """
    allowed = ~_stack(forbidden, variables, lags, "forbidden")
    allowed[np.arange(variables), np.arange(variables)] = False
    if tiers is not None:
        level = np.asarray(tiers)
        if level.shape != (variables,):
            raise ParameterError(f"tiers must have one number per variable, {variables}; got shape {level.shape}")
        allowed[:, :variables] &= level[None, :] <= level[:, None]
    needed = _stack(required, variables, lags, "required")
    clash = np.argwhere(needed & ~allowed)
    if len(clash):
        target, column = clash[0].tolist()
        raise ParameterError(
            f"a required edge must be allowed; {_name(column, variables)} -> {target} is forbidden, a loop, or leads "
            "to a lower tier: remove one of the two"
        )
    parents = [tuple(np.flatnonzero(row).tolist()) for row in needed]
    arrange(list(range(variables)), parents)
    return Knowledge(allowed, parents)


def arrange(order: Sequence[int], required: list[Parents]) -> list[int]:
    """Return `order` changed as little as needed for required parents to come before their children."""
    variables = len(order)
    waiting = list(order)
    placed: list[int] = []
    while waiting:
        free = [v for v in waiting if all(p >= variables or p in placed for p in required[v])]
        if not free:
            raise ParameterError(
                f"required edges must not make a cycle; those among variables {sorted(waiting)} do: remove one"
            )
        placed.append(free[0])
        waiting.remove(free[0])
    return placed


def _stack(edges: Edges | None, variables: int, lags: int, name: str) -> BoolArray:
    """Return (variables, side) marks, ``[target, column]``."""
    marks = np.zeros((lags + 1, variables, variables), dtype=np.bool_)
    for part, given in (("within", edges and edges.within), ("across", edges and edges.across)):
        if given is None:
            continue
        place = marks[0] if part == "within" else marks[1:]
        if np.shape(given) != place.shape:
            raise ParameterError(f"{name}.{part} must have shape {place.shape}; got {np.shape(given)}")
        place[...] = given
    return marks.reshape(-1, variables).T.copy()


def _name(column: int, variables: int) -> str:
    lag, source = divmod(column, variables)
    return f"{source} at lag {lag}" if lag else f"{source}"
