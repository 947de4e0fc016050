"""Which directions inside the slice the independences of the data cannot tell.

Graphs with the same neighbours and the same colliders between unjoined parents imply the same independences. Effects
of the past are directed by time, and Meek's four rules carry what colliders and time direct on to other edges.

References
----------
C. Meek. "Causal inference and causal explanation with background knowledge". UAI 1995.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

BoolArray = NDArray[np.bool_]


class Pattern(NamedTuple):
    """A partly directed graph over the slice (first) and the lags.

    Attributes
    ----------
    directed : (side, side) bool
    undirected : (side, side) bool
        Symmetric.
    """

    directed: BoolArray
    undirected: BoolArray


def undirected_edges(within: BoolArray, across: BoolArray, fixed: BoolArray | None = None) -> BoolArray:
    """Return the edges of the slice whose reversal some equivalent graph has.

    Parameters
    ----------
    within : (variables, variables) bool
        Edges ``[source, target]``, acyclic.
    across : (lags, variables, variables) bool
    fixed : (variables, variables) bool, optional
        Edges that prior knowledge directs.

    Returns
    -------
    (variables, variables) bool
        Symmetric.

    Examples
    --------
    >>> import numpy as np
    >>> chain = np.array([[0, 1, 0], [0, 0, 1], [0, 0, 0]], dtype=bool)
    >>> undirected_edges(chain, np.zeros((0, 3, 3), dtype=bool)).astype(int).tolist()
    [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    >>> collider = np.array([[0, 1, 0], [0, 0, 0], [0, 1, 0]], dtype=bool)
    >>> int(undirected_edges(collider, np.zeros((0, 3, 3), dtype=bool)).sum())
    0
    """
    count = len(within)
    return complete_pattern(within, across, fixed).undirected[:count, :count]


def complete_pattern(within: BoolArray, across: BoolArray, fixed: BoolArray | None = None) -> Pattern:
    """Return the pattern of all graphs equivalent to the given one."""
    count, side = len(within), (len(across) + 1) * len(within)
    graph = np.zeros((side, side), dtype=np.bool_)
    graph[:count, :count] = within
    graph[count:, :count] = np.reshape(across, (-1, count))
    known = graph & _product(_unjoined(graph | graph.T), graph)
    known[count:] = graph[count:]
    if fixed is not None:
        known[:count, :count] |= within & fixed
    open_ = graph & ~known
    return _close(Pattern(known, open_ | open_.T))


def reversed_member(pattern: Pattern, within: BoolArray, source: int, target: int) -> BoolArray:
    """Return the within edges of an equivalent graph that has ``target -> source``, like `within` where it can be.

    Parameters
    ----------
    pattern : Pattern
        Of `within`; ``source - target`` is one of its undirected edges.
    within : (variables, variables) bool
    source, target : int
        An edge of `within`.
    """
    count = len(within)
    current = _direct(pattern, target, source)
    while True:
        left = np.argwhere(current.undirected[:count, :count] & within)
        if not len(left):
            return current.directed[:count, :count]
        current = _direct(current, int(left[0, 0]), int(left[0, 1]))


def _direct(pattern: Pattern, source: int, target: int) -> Pattern:
    directed, undirected = pattern.directed.copy(), pattern.undirected.copy()
    directed[source, target] = True
    undirected[source, target] = undirected[target, source] = False
    return _close(Pattern(directed, undirected))


def _close(pattern: Pattern) -> Pattern:
    """Apply Meek's rules until none directs another edge."""
    directed, undirected = pattern.directed.copy(), pattern.undirected.copy()
    apart = _unjoined(directed | directed.T | undirected)
    while True:
        told = undirected & (_product(directed.T, apart) | _product(directed, directed))
        for source, target in np.argwhere(undirected & ~told):
            told[source, target] = _told_by_pairs(directed, undirected, apart, source, target)
        told &= ~told.T
        if not told.any():
            return Pattern(directed, undirected)
        directed |= told
        undirected &= ~(told | told.T)


def _told_by_pairs(directed: BoolArray, undirected: BoolArray, apart: BoolArray, source: int, target: int) -> bool:
    """Meek's third and fourth rule for one edge ``source - target``."""
    between = undirected[source] & directed[:, target]
    if apart[np.ix_(between, between)].any():
        return True
    joined = ~apart[source] & directed[:, target]
    first = undirected[source] & apart[:, target]
    return bool(directed[np.ix_(first, joined)].any())


def _unjoined(joined: BoolArray) -> BoolArray:
    return ~joined & ~np.eye(len(joined), dtype=np.bool_)


def _product(left: BoolArray, right: BoolArray) -> BoolArray:
    """Boolean matrix product, through floats because those are multiplied fast."""
    return np.asarray(left.astype(np.float32) @ right.astype(np.float32) > 0, dtype=np.bool_)
