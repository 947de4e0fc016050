"""`undirected_edges`: the edges inside the slice whose direction the data leave open.

Graphs with the same neighbours and the same colliders between unjoined parents imply the same independences. Effects
of the past are directed by time, and Meek's four rules (1995, Causal inference and causal explanation with background
knowledge) carry what colliders and time direct on to other edges.
"""

import math
from typing import NamedTuple

import numpy as np

from cotempo.networks.search.evidence import Evidence, Parents
from cotempo.networks.search.prior_knowledge import Constraints
from cotempo.typing import Bools

#: Log evidence by which one direction must win to be reported: odds of 20 to 1.
LOG_ODDS_DIRECTED = math.log(20.0)


def undirected_edges(evidence: Evidence, parents: list[Parents], constraints: Constraints) -> Bools:
    """Return the edges (symmetric) that may as well be reversed.

    The equivalence class shows which edges the independences leave open; noise variances that are nearly equal, which
    the evidence has learned, may still direct them.
    """
    count, side = evidence.variables, len(evidence.gram)
    graph = edge_matrix(parents, side)
    within, across = graph[:count], graph[count:].reshape(-1, count, count)
    # The reversal of [source, target] makes `target` a parent of `source`, which must be allowed.
    fixed = ~constraints.allowed[:, :count] | edge_matrix(constraints.required, side)[:count]
    pattern = complete_pattern(within, across, fixed)
    undirected = np.zeros((count, count), dtype=np.bool_)
    for source, target in np.argwhere(pattern.undirected[:count, :count] & within).tolist():
        other = reversed_member(pattern, within, source, target)
        if _loss(evidence, parents, other) < LOG_ODDS_DIRECTED:
            undirected[source, target] = undirected[target, source] = True
    return undirected


def _loss(evidence: Evidence, parents: list[Parents], other: Bools) -> float:
    """Return how much score is lost when the slice's edges become `other`."""
    count, loss = evidence.variables, 0.0
    for node, chosen in enumerate(parents):
        lagged = tuple(parent for parent in chosen if parent >= count)
        changed = (*np.flatnonzero(other[:, node]).tolist(), *lagged)
        if changed != chosen:
            loss += evidence.profile(node, chosen).score - evidence.profile(node, changed).score
    return loss


def edge_matrix(parents: list[Parents], side: int) -> Bools:
    """Return the edges of a graph, ``[source, target]``, `(side, variables)`."""
    edges = np.zeros((side, len(parents)), dtype=np.bool_)
    for node, chosen in enumerate(parents):
        edges[list(chosen), node] = True
    return edges


class Pattern(NamedTuple):
    """A partly directed graph over the slice (first) and the lags; `undirected` is symmetric, both are (side, side)."""

    directed: Bools
    undirected: Bools


def complete_pattern(within: Bools, across: Bools, fixed: Bools | None = None) -> Pattern:
    """Return the pattern of all graphs equivalent to the given one.

    Edges are ``[source, target]``, `within` and `fixed` ones `(variables, variables)`, `across` ones with an axis of
    lags before them; `fixed` are those that prior knowledge directs.
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
