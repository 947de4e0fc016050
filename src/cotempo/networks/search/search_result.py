"""What a search over orders hands back: weights, noise variances and the directions that the data do not tell."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cotempo.networks.search.equivalence import complete_pattern, reversed_member
from cotempo.networks.search.evidence import COLLINEAR, Evidence, Parents
from cotempo.networks.search.prior_knowledge import Knowledge

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

#: Log evidence by which one direction must win to be told: odds of 20 to 1.
TELLING = math.log(20.0)


class Found(NamedTuple):
    """The network found for one Gram matrix.

    Attributes
    ----------
    within : (variables, variables)
        Least-squares weights inside the slice, ``[source, target]``.
    across : (lags, variables, variables)
        Least-squares weights of the lags.
    variance : (variables,)
        Noise variances, free of the bias that chosen parents bring.
    score : float
        Log evidence of the graph with its hyperparameters.
    undirected : (variables, variables) bool
        Edges (symmetric) whose direction the data do not tell: an equivalent graph has them reversed, and is at
        most 20 times less likely.
    order : list of int
        An order of the variables that the graph follows.
    parents : list of tuple of int
        Columns of the Gram that are parents of each variable.
    evidence : Evidence
        With the hyperparameters learned.
    knowledge : Knowledge
        What the search was allowed.
    """

    within: FloatArray
    across: FloatArray
    variance: FloatArray
    score: float
    undirected: BoolArray
    order: list[int]
    parents: list[Parents]
    evidence: Evidence
    knowledge: Knowledge


def describe(evidence: Evidence, parents: list[Parents], order: list[int], knowledge: Knowledge) -> Found:
    """Weigh the edges of a graph by least squares and mark the directions that are not told."""
    count, side = evidence.variables, len(evidence.gram)
    weights = np.zeros((side, count))
    variance = np.empty(count)
    least_squares = evidence.without_shrinkage()
    for node, chosen in enumerate(parents):
        weights[list(chosen), node] = least_squares.slopes(node, chosen)
        free = max(evidence.rows - len(chosen), 1.0)
        residual = max(least_squares.residual(node, chosen), COLLINEAR * evidence.gram[node, node])
        variance[node] = residual / free
    return Found(
        within=weights[:count],
        across=weights[count:].reshape(-1, count, count),
        variance=variance,
        score=evidence.total(parents),
        undirected=untold_edges(evidence, parents, knowledge),
        order=list(order),
        parents=list(parents),
        evidence=evidence,
        knowledge=knowledge,
    )


def in_units(found: Found, unit: FloatArray) -> Found:
    """Bring weights and variances back from columns that were divided by `unit`, `(side,)`."""
    count = len(found.variance)
    ratio = (unit[None, :count] / unit[:, None]).reshape(-1, count, count)
    return found._replace(
        within=found.within * ratio[0], across=found.across * ratio[1:], variance=found.variance * unit[:count] ** 2
    )


def untold_edges(evidence: Evidence, parents: list[Parents], knowledge: Knowledge) -> BoolArray:
    """Return the edges (symmetric) that may as well be reversed.

    The equivalence class says which edges the independences leave open; noise variances that are nearly equal, which
    the evidence has learned, may still tell them.
    """
    count, side = evidence.variables, len(evidence.gram)
    graph = np.zeros((side, count), dtype=np.bool_)
    for node, chosen in enumerate(parents):
        graph[list(chosen), node] = True
    within, across = graph[:count], graph[count:].reshape(-1, count, count)
    # The reversal of [source, target] makes `target` a parent of `source`, which must be allowed.
    fixed = ~knowledge.allowed[:, :count] | required_edges(knowledge)
    pattern = complete_pattern(within, across, fixed)
    untold = np.zeros((count, count), dtype=np.bool_)
    for source, target in np.argwhere(pattern.undirected[:count, :count] & within).tolist():
        other = reversed_member(pattern, within, source, target)
        if _loss(evidence, parents, other) < TELLING:
            untold[source, target] = untold[target, source] = True
    return untold


def required_edges(knowledge: Knowledge) -> BoolArray:
    """Return the required edges of the slice, ``[source, target]``."""
    count = len(knowledge.required)
    edges = np.zeros((count, count), dtype=np.bool_)
    for node, chosen in enumerate(knowledge.required):
        edges[[parent for parent in chosen if parent < count], node] = True
    return edges


def _loss(evidence: Evidence, parents: list[Parents], other: BoolArray) -> float:
    """Return how much score is lost when the slice's edges become `other`."""
    count, loss = evidence.variables, 0.0
    for node, chosen in enumerate(parents):
        lagged = tuple(parent for parent in chosen if parent >= count)
        changed = (*np.flatnonzero(other[:, node]).tolist(), *lagged)
        if changed != chosen:
            loss += evidence.profile(node, chosen).score - evidence.profile(node, changed).score
    return loss
