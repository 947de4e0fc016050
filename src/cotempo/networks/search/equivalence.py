"""`complete_pattern`: the directions inside the slice that the independences of the data leave open.

Graphs with the same neighbours and the same colliders between unjoined parents imply the same independences. Effects
of the past are directed by time, and Meek's four rules carry what colliders and time direct on to other edges.

References
----------
C. Meek. "Causal inference and causal explanation with background knowledge". UAI 1995.
"""

from typing import NamedTuple

import numpy as np

from cotempo.typing import Bools


class Pattern(NamedTuple):
    """A partly directed graph over the slice (first) and the lags; `undirected` is symmetric, both are (side, side)."""

    directed: Bools
    undirected: Bools


def complete_pattern(within: Bools, across: Bools, fixed: Bools | None = None) -> Pattern:
    """Return the pattern of all graphs equivalent to the given one.

    Parameters
    ----------
    within : (variables, variables) bool
        Edges ``[source, target]``, acyclic.
    across : (lags, variables, variables) bool
    fixed : (variables, variables) bool, optional
        Edges that prior knowledge directs.

    Examples
    --------
    >>> chain = np.array([[0, 1, 0], [0, 0, 1], [0, 0, 0]], dtype=bool)
    >>> complete_pattern(chain, np.zeros((0, 3, 3), dtype=bool)).undirected.astype(int).tolist()
    [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    """
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


def reversed_member(pattern: Pattern, within: Bools, source: int, target: int) -> Bools:
    """Return the within edges of an equivalent graph that has ``target -> source``, like `within` where it can be.

    ``source - target`` must be an undirected edge of the pattern of `within`.
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
        known = undirected & (_product(directed.T, apart) | _product(directed, directed))
        for source, target in np.argwhere(undirected & ~known):
            known[source, target] = _directed_by_pairs(directed, undirected, apart, source, target)
        known &= ~known.T
        if not known.any():
            return Pattern(directed, undirected)
        directed |= known
        undirected &= ~(known | known.T)


def _directed_by_pairs(directed: Bools, undirected: Bools, apart: Bools, source: int, target: int) -> bool:
    """Apply Meek's third and fourth rule to one edge ``source - target``."""
    between = undirected[source] & directed[:, target]
    if apart[np.ix_(between, between)].any():
        return True
    joined = ~apart[source] & directed[:, target]
    first = undirected[source] & apart[:, target]
    return bool(directed[np.ix_(first, joined)].any())


def _unjoined(joined: Bools) -> Bools:
    return ~joined & ~np.eye(len(joined), dtype=np.bool_)


def _product(left: Bools, right: Bools) -> Bools:
    """Return the Boolean matrix product, through floats because those are multiplied fast."""
    return np.asarray(left.astype(np.float32) @ right.astype(np.float32) > 0, dtype=np.bool_)
