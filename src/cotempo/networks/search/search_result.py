"""`SearchResult` of a search over orders: weights, noise variances and the edges without a direction."""

import math
from typing import NamedTuple

import numpy as np

from cotempo.networks.search.equivalence import complete_pattern, reversed_member
from cotempo.networks.search.evidence import COLLINEAR, Evidence, Parents
from cotempo.networks.search.prior_knowledge import Constraints
from cotempo.typing import Bools, Floats

#: Log evidence by which one direction must win to be reported: odds of 20 to 1.
LOG_ODDS_DIRECTED = math.log(20.0)


class SearchResult(NamedTuple):
    """The network found for one Gram matrix.

    Weights, ``[source, target]``, are by least squares; noise variances are free of the bias that chosen parents bring;
    `score` is the log evidence of the graph with its hyperparameters. `undirected` edges (symmetric) are those whose
    direction the data leave open: an equivalent graph has them reversed, and is at most 20 times less likely.
    """

    within: Floats
    across: Floats
    variance: Floats
    score: float
    undirected: Bools
    order: list[int]
    parents: list[Parents]
    evidence: Evidence
    constraints: Constraints


def describe(evidence: Evidence, parents: list[Parents], order: list[int], constraints: Constraints) -> SearchResult:
    """Weigh the edges of a graph by least squares and mark those without a direction."""
    count, side = evidence.variables, len(evidence.gram)
    weights = np.zeros((side, count))
    variance = np.empty(count)
    least_squares = evidence.without_shrinkage()
    for node, chosen in enumerate(parents):
        weights[list(chosen), node] = least_squares.slopes(node, chosen)
        free = max(evidence.rows - len(chosen), 1.0)
        residual = max(least_squares.residual(node, chosen), COLLINEAR * evidence.gram[node, node])
        variance[node] = residual / free
    return SearchResult(
        within=weights[:count],
        across=weights[count:].reshape(-1, count, count),
        variance=variance,
        score=evidence.total(parents),
        undirected=undirected_edges(evidence, parents, constraints),
        order=list(order),
        parents=list(parents),
        evidence=evidence,
        constraints=constraints,
    )


def in_units(found: SearchResult, unit: Floats) -> SearchResult:
    """Bring weights and variances back from columns that were divided by `unit`, `(side,)`."""
    count = len(found.variance)
    ratio = (unit[None, :count] / unit[:, None]).reshape(-1, count, count)
    return found._replace(
        within=found.within * ratio[0], across=found.across * ratio[1:], variance=found.variance * unit[:count] ** 2
    )


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


def edge_matrix(parents: list[Parents], side: int) -> Bools:
    """Return the edges of a graph, ``[source, target]``, `(side, variables)`."""
    edges = np.zeros((side, len(parents)), dtype=np.bool_)
    for node, chosen in enumerate(parents):
        edges[list(chosen), node] = True
    return edges


def _loss(evidence: Evidence, parents: list[Parents], other: Bools) -> float:
    """Return how much score is lost when the slice's edges become `other`."""
    count, loss = evidence.variables, 0.0
    for node, chosen in enumerate(parents):
        lagged = tuple(parent for parent in chosen if parent >= count)
        changed = (*np.flatnonzero(other[:, node]).tolist(), *lagged)
        if changed != chosen:
            loss += evidence.profile(node, chosen).score - evidence.profile(node, changed).score
    return loss
