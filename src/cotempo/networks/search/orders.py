"""OneRound's search at the server: the order of the variables and their parents, from one summed Gram matrix.

    for start in {free:  a = .5, min-pivot order of the scaled innovations,
                  equal: a = 50, min-pivot order of the innovations as they are}:
        repeat at most `passes` times:
            sweep until no gain: each variable tried at all positions, the best kept        (`sweeps`)
            go to another order of the same graph and sweep again, until `restarts` of them bring no gain
            refit the hyperparameters                                                       (`hyperparameters`)
    keep the start with the higher evidence and repeat, now exchanging parents as well (`parents`) and beginning from
    random orders too
    with few rows, average over the graphs around the one found                             (`posterior`)

Whether noise variances are equal, which would tell directions, is no option: their spread is learned with the graph.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cotempo.errors import ParameterError, nearest
from cotempo.networks.moments import DIGITS
from cotempo.networks.search.evidence import Evidence, Parents
from cotempo.networks.search.hyperparameters import refit
from cotempo.networks.search.parents import LEAST_GAIN, ParentSearch
from cotempo.networks.search.posterior import average_graphs
from cotempo.networks.search.prior_knowledge import Edges, Knowledge, arrange, combine_knowledge
from cotempo.networks.search.search_result import Found, describe, in_units
from cotempo.networks.search.sweeps import Ordered, random_topological

FloatArray = NDArray[np.float64]

EVIDENCES = ("auto", "penalty", "bayes")

#: Below this many rows per log m the penalty misses weak edges; above, the Bayesian evidence takes too many.
ROWS_PER_LOG_SIDE = 50.0


#: Random orders tried, times variables.
SMALL = 40


class Prior(NamedTuple):
    """Rows borrowed from others: their Gram, counted as if it were summed over `rows` rows of one's own.

    Attributes
    ----------
    gram : (side, side)
        n0 G_others.
    rows : float
        n0.
    """

    gram: FloatArray
    rows: float


class Graph(NamedTuple):
    """A graph that follows an order, and the evidence with its most likely hyperparameters."""

    evidence: Evidence
    parents: list[Parents]
    order: list[int]


def learn_order(
    gram: FloatArray,
    rows: float,
    variables: int,
    lags: int,
    rng: np.random.Generator,
    *,
    gamma: float = 1.0,
    restarts: int = 1,
    passes: int = 4,
    evidence: str = "auto",
    forbidden: Edges | None = None,
    required: Edges | None = None,
    tiers: Sequence[int] | None = None,
    prior: Prior | None = None,
    averaged: bool = True,
    scaled: bool = False,
    quick: bool = False,
) -> Found:
    """Learn a network from one summed Gram matrix.

    Parameters
    ----------
    gram : (side, side)
        Centred and summed over rows, of ``[x_t, x_{t-1}, ..., x_{t-p}]``; side = (lags + 1) variables. A column of
        zeros, of what does not vary, has no edges.
    rows : float
        Number of rows summed.
    variables, lags : int
    rng : numpy.random.Generator
        Decides in which order moves are tried.
    gamma : float
        Strength of the extended information criterion's penalty; no effect under the Bayesian evidence.
    restarts : int
        Further orders of the same graph tried without gain before a search ends.
    passes : int
        Most times the hyperparameters are refitted.
    evidence : {"auto", "penalty", "bayes"}
        `auto` takes the Bayesian one below ``50 log(side)`` rows.
    forbidden, required : Edges, optional
    tiers : sequence of int, optional
        Inside the slice, no edge leads from a higher tier to a lower one.
    prior : Prior, optional
        Others' rows to borrow, for a personal network.
    averaged : bool
        Under the Bayesian evidence, keep the edges that are likely on average over graphs, not those of the single
        most likely graph; slower.
    scaled : bool
        Search with every column divided by its standard deviation, so that units do not matter; weights and variances
        come back in the Gram's units, the score does not.
    quick : bool
        Climb from the free start only, without restarts: a quarter of the time. Some directions are lost by it,
        hardly any of how well the network predicts.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> first = rng.normal(size=500)
    >>> rows = np.column_stack([first, 0.8 * first + rng.normal(size=500)])
    >>> learn_order(rows.T @ rows, 500, 2, 0, rng).within.round(1).tolist()
    [[0.0, 0.8], [0.0, 0.0]]
    """
    _check(gram, rows, variables, lags, evidence)
    if prior is not None:
        gram, rows = gram + prior.gram, rows + prior.rows
    spread = gram.diagonal()
    # As wide as the others and independent of them, what does not vary is searched like all else.
    gram = gram + np.diag(np.where(spread > 0, 0.0, spread.mean() or rows))
    unit = np.sqrt(gram.diagonal() / rows) if scaled else np.ones(len(gram))
    if scaled:
        gram = rows * np.round(gram / (rows * np.outer(unit, unit)), DIGITS)
    knowledge = combine_knowledge(variables, lags, forbidden, required, tiers)
    bayes = evidence == "bayes" or (evidence == "auto" and rows < ROWS_PER_LOG_SIDE * math.log(len(gram)))
    if quick:
        restarts = 0
    graphs = []
    for shape, free in ((0.5, True),) if quick else ((0.5, True), (50.0, False)):
        order = arrange(minimum_pivots(gram, variables, free)[0], knowledge.required)
        first = first_evidence(gram, rows, variables, shape, bayes, gamma)
        graphs.append(search_orders(first, knowledge, order, rng, restarts, passes))
    best = max(graphs, key=lambda graph: graph.evidence.total(graph.parents))
    if not quick:
        best = search_orders(best.evidence, knowledge, best.order, rng, restarts, passes, best.parents, thorough=True)
    if quick or not (bayes and averaged):
        return in_units(describe(best.evidence, best.parents, best.order, knowledge), unit)
    likely = average_graphs(best.evidence, knowledge, best.parents, rng)
    return in_units(describe(best.evidence, likely, random_topological(likely, rng), knowledge), unit)


def search_orders(
    evidence: Evidence,
    knowledge: Knowledge,
    order: list[int],
    rng: np.random.Generator,
    restarts: int,
    passes: int,
    parents: list[Parents] | None = None,
    thorough: bool = False,
) -> Graph:
    """Alternate between searching orders and refitting hyperparameters, until the graph stays the same.

    Parameters
    ----------
    order, parents
        Where to begin; without parents, from none but the required ones.
    restarts, passes : int
        See `learn_order`.
    thorough : bool
        Exchange parents and begin from random orders too.
    """
    graph = Graph(evidence, parents if parents is not None else knowledge.required, order)
    for turn in range(passes):
        found = Ordered(ParentSearch(graph.evidence, knowledge), graph.order, graph.parents)
        found.climb_on(rng, restarts, thorough)
        if thorough and turn == 0:
            found = _from_elsewhere(found, knowledge, rng, restarts)
        same = found.parents == graph.parents
        graph = Graph(refit(graph.evidence, found.parents), found.parents, found.order)
        if same:
            break
    return graph


def _from_elsewhere(found: Ordered, knowledge: Knowledge, rng: np.random.Generator, restarts: int) -> Ordered:
    """Climb from random orders too; from more of them the fewer variables there are, for small graphs cost nothing."""
    best = found
    for _ in range(restarts + SMALL // len(found.order)):
        order = arrange(rng.permutation(len(found.order)).tolist(), knowledge.required)
        other = Ordered(found.search, order)
        other.climb_on(rng, restarts=1, thorough=True)
        if other.score > best.score + LEAST_GAIN:
            best = other
    return best


def minimum_pivots(gram: FloatArray, variables: int, scaled: bool) -> tuple[list[int], FloatArray]:
    """Order variables by taking, each time, the one with the least variance given the lags and those taken.

    With equal noise variances this is the true order in the limit of many rows; `scaled` innovations, to variance 1,
    make it a guess that does not depend on units.

    Returns
    -------
    order : list of int
    pivots : (variables,)
        The variances, summed over rows.

    References
    ----------
    W. Chen, M. Drton, Y. S. Wang. "On causal discovery with an equal-variance assumption". Biometrika 2019.
    """
    left = _innovations(gram, variables)
    if scaled:
        spread = np.sqrt(left.diagonal())
        left = left / np.outer(spread, spread)
    order: list[int] = []
    pivots = np.empty(variables)
    smallest = 1e-6 * left.diagonal()
    for place in range(variables):
        remaining = left.diagonal().copy()
        remaining[order] = np.inf
        chosen = int(remaining.argmin())
        pivots[place] = max(remaining[chosen], smallest[chosen])
        left = left - np.outer(left[:, chosen], left[chosen]) / pivots[place]
        order.append(chosen)
    return order, pivots


def _innovations(gram: FloatArray, variables: int) -> FloatArray:
    """Return the Gram of what the lags leave unexplained; a slight ridge keeps short series solvable."""
    now, past = gram[:variables, :variables], gram[variables:, variables:]
    if not len(past):
        return now
    mixed = gram[variables:, :variables]
    ridge = 1e-6 * np.diag(past.diagonal())
    left: FloatArray = now - mixed.T @ np.linalg.solve(past + ridge, mixed)
    return left


def first_evidence(gram: FloatArray, rows: float, variables: int, shape: float, bayes: bool, gamma: float) -> Evidence:
    """Return the evidence to begin with, before its hyperparameters are refitted.

    Under `bayes` an edge has odds 1 to d and slopes a standard deviation of half their noise's.
    """
    side = len(gram)
    scale = shape * float(minimum_pivots(gram, variables, scaled=False)[1].mean()) / rows
    if bayes:
        return Evidence(gram, rows, variables, shape, scale, np.full(side, math.log(variables)), precision=4.0)
    price = (math.log(rows) + 2.0 * gamma * math.log(side)) / 2.0
    return Evidence(gram, rows, variables, shape, scale, np.full(side, price))


def _check(gram: FloatArray, rows: float, variables: int, lags: int, evidence: str) -> None:
    side = (lags + 1) * variables
    if gram.shape != (side, side):
        raise ParameterError(f"gram must have side (lags + 1) variables = {side}; got shape {gram.shape}")
    if not np.allclose(gram, gram.T) or (gram.diagonal() < 0).any():
        raise ParameterError("gram must be symmetric, with no number below 0 on its diagonal")
    if not rows > 1:
        raise ParameterError(f"rows must be above 1; got {rows}")
    if evidence not in EVIDENCES:
        raise ParameterError(f"evidence must be one of {EVIDENCES}; got {evidence!r}{nearest(evidence, EVIDENCES)}")
