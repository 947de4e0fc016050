"""`learn_order`: OneRound's search for the order of the variables and their parents, from one summed Gram matrix.

    for start in {free:  a = .5, min-pivot order of the scaled innovations,
                  equal: a = 50, min-pivot order of the innovations as they are}:
        repeat at most `PASSES` times:
            sweep until no gain: each variable tried at all positions, the best kept        (`sweeps`)
            go to another order of the same graph and sweep again, until `restarts` of them bring no gain
            refit the hyperparameters                                                       (`evidence`)
    keep the start with the higher evidence and repeat, now exchanging parents as well (`parents`) and beginning from
    random orders too
    with few rows, average over the graphs around the one found                             (`graph_average`)

Whether noise variances are equal, which identifies directions, is no option: their spread is learned with the graph.
"""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from cotempo.data.argument_checks import check_choice
from cotempo.errors import ParameterError
from cotempo.networks.admm.acyclicity import random_topological
from cotempo.networks.moments import DIGITS
from cotempo.networks.search.equivalence import undirected_edges
from cotempo.networks.search.evidence import COLLINEAR, Evidence, Parents, refit
from cotempo.networks.search.graph_average import average_graphs
from cotempo.networks.search.parents import LEAST_GAIN, ParentSearch
from cotempo.networks.search.prior_knowledge import Constraints, PriorKnowledge, arrange
from cotempo.networks.search.sweeps import Ordered
from cotempo.typing import Bools, Floats

#: Below this many rows per log m the penalty misses weak edges; above, the Bayesian evidence takes too many.
ROWS_PER_LOG_SIDE = 50.0

#: Strength of the extended information criterion's penalty.
GAMMA = 1.0

#: Limit on refits of the hyperparameters.
PASSES = 4

#: Random orders tried, times variables.
RANDOM_STARTS_TIMES_VARIABLES = 40


@dataclass(frozen=True)
class SearchOptions:
    """Options of `learn_order`.

    `evidence` is "auto", "penalty" or "bayes"; `auto` takes the Bayesian one below ``50 log(side)`` rows. `restarts` is
    how many further orders of the same graph are tried without gain before a search ends. `averaged`, under the
    Bayesian evidence, keeps the edges that are likely on average over graphs, not those of the most likely graph.
    `scaled` searches with every column divided by its standard deviation, so that units do not matter; weights and
    variances come back in the Gram's units, the score does not. `quick` climbs from the free start only, without
    restarts, in a quarter of the time; some directions are lost by it, hardly any of how well the network predicts.
    """

    evidence: str = "auto"
    restarts: int = 1
    averaged: bool = True
    scaled: bool = False
    quick: bool = False


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


class Graph(NamedTuple):
    """A graph that follows an order, and the evidence with its most likely hyperparameters."""

    evidence: Evidence
    parents: list[Parents]
    order: list[int]


def learn_order(
    gram: Floats, rows: float, knowledge: PriorKnowledge, rng: np.random.Generator, options: SearchOptions | None = None
) -> SearchResult:
    """Learn a network from one summed Gram matrix.

    The Gram, of ``[x_t, x_{t-1}, ..., x_{t-p}]``, is centred and summed over `rows` rows. A column of zeros, of what
    does not vary, has no edges. `rng` decides in which order moves are tried.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> first = rng.normal(size=500)
    >>> rows = np.column_stack([first, 0.8 * first + rng.normal(size=500)])
    >>> learn_order(rows.T @ rows, 500, PriorKnowledge.empty(2, 0), rng).within.round(1).tolist()
    [[0.0, 0.8], [0.0, 0.0]]
    """
    options, variables = options or SearchOptions(), knowledge.variables
    _check(gram, rows, (knowledge.lags + 1) * variables, options.evidence)
    spread = gram.diagonal()
    # As wide as the others and independent of them, what does not vary is searched like all else.
    gram = gram + np.diag(np.where(spread > 0, 0.0, spread.mean() or rows))
    unit = np.sqrt(gram.diagonal() / rows) if options.scaled else np.ones(len(gram))
    if options.scaled:
        gram = rows * np.round(gram / (rows * np.outer(unit, unit)), DIGITS)
    constraints = knowledge.constraints()
    few = rows < ROWS_PER_LOG_SIDE * math.log(len(gram))
    bayes = options.evidence == "bayes" or (options.evidence == "auto" and few)
    restarts = 0 if options.quick else options.restarts
    graphs = []
    for shape, free in ((0.5, True),) if options.quick else ((0.5, True), (50.0, False)):
        order = arrange(minimum_pivots(gram, variables, free)[0], constraints.required)
        first = first_evidence(gram, rows, variables, shape, bayes)
        graphs.append(search_orders(first, constraints, order, rng, restarts))
    best = max(graphs, key=lambda graph: graph.evidence.total(graph.parents))
    if not options.quick:
        best = search_orders(best.evidence, constraints, best.order, rng, restarts, PASSES, best.parents, thorough=True)
    if bayes and options.averaged and not options.quick:
        likely = average_graphs(best.evidence, constraints, best.parents, rng)
        best = Graph(best.evidence, likely, random_topological(likely, rng))
    return describe(best, constraints, unit)


def search_orders(
    evidence: Evidence,
    constraints: Constraints,
    order: list[int],
    rng: np.random.Generator,
    restarts: int,
    passes: int = PASSES,
    parents: list[Parents] | None = None,
    thorough: bool = False,
) -> Graph:
    """Alternate between searching orders and refitting hyperparameters, until the graph stays the same.

    Begin from an order and parents, by default the required ones. `thorough` exchanges parents and begins from random
    orders too. At most `passes` times; for `restarts` see `SearchOptions`.
    """
    graph = Graph(evidence, parents if parents is not None else constraints.required, order)
    for turn in range(passes):
        found = Ordered(ParentSearch(graph.evidence, constraints), graph.order, graph.parents)
        found.climb_with_restarts(rng, restarts, thorough)
        if thorough and turn == 0:
            found = _from_elsewhere(found, constraints, rng, restarts)
        same = found.parents == graph.parents
        graph = Graph(refit(graph.evidence, found.parents), found.parents, found.order)
        if same:
            break
    return graph


def _from_elsewhere(found: Ordered, constraints: Constraints, rng: np.random.Generator, restarts: int) -> Ordered:
    """Climb from random orders too; from more of them the fewer variables there are, for small graphs cost nothing."""
    best = found
    for _ in range(restarts + RANDOM_STARTS_TIMES_VARIABLES // len(found.order)):
        order = arrange(rng.permutation(len(found.order)).tolist(), constraints.required)
        other = Ordered(found.search, order)
        other.climb_with_restarts(rng, restarts=1, thorough=True)
        if other.score > best.score + LEAST_GAIN:
            best = other
    return best


def minimum_pivots(gram: Floats, variables: int, scaled: bool) -> tuple[list[int], Floats]:
    """Order variables by taking, each time, the one with the least variance given the lags and those taken.

    With equal noise variances this is the true order in the limit of many rows (Chen, Drton and Wang 2019, On causal
    discovery with an equal-variance assumption); `scaled` innovations, to variance 1, make it a guess that does not
    depend on units. The order comes with these variances, summed over rows.
    """
    left, past, mixed = gram[:variables, :variables], gram[variables:, variables:], gram[variables:, :variables]
    if len(past):  # take off what the lags explain; a slight ridge keeps short series solvable
        left = left - mixed.T @ np.linalg.solve(past + 1e-6 * np.diag(past.diagonal()), mixed)
    # Rounding may leave less than nothing of what the lags explain wholly, where rows are few.
    least = 10.0**-DIGITS * gram.diagonal()[:variables] + 1e-300
    some = left.diagonal() > least
    left = np.where(np.outer(some, some), left, np.diag(least))
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
        if remaining[chosen] > smallest[chosen]:  # else those before explain it wholly, and rounding is left
            left = left - np.outer(left[:, chosen], left[chosen]) / pivots[place]
        order.append(chosen)
    return order, pivots


def first_evidence(gram: Floats, rows: float, variables: int, shape: float, bayes: bool) -> Evidence:
    """Return the evidence to begin with, before its hyperparameters are refitted.

    Under `bayes` an edge has odds 1 to d and slopes a standard deviation of half their noise's.
    """
    side = len(gram)
    scale = shape * float(minimum_pivots(gram, variables, scaled=False)[1].mean()) / rows
    if bayes:
        return Evidence(gram, rows, variables, shape, scale, np.full(side, math.log(variables)), precision=4.0)
    price = (math.log(rows) + 2.0 * GAMMA * math.log(side)) / 2.0
    return Evidence(gram, rows, variables, shape, scale, np.full(side, price))


def _check(gram: Floats, rows: float, side: int, evidence: str) -> None:
    if gram.shape != (side, side):
        raise ParameterError(f"gram must have side (lags + 1) variables = {side}, got shape {gram.shape}")
    if not np.allclose(gram, gram.T) or (gram.diagonal() < 0).any():
        raise ParameterError("gram must be symmetric, with no number below 0 on its diagonal")
    if not rows > 1:
        raise ParameterError(f"rows must be above 1, got {rows}")
    check_choice("evidence", evidence, ("auto", "penalty", "bayes"))


def describe(graph: Graph, constraints: Constraints, unit: Floats) -> SearchResult:
    """Weigh the edges of a graph by least squares and mark those without a direction.

    Weights and variances are brought back from columns that were divided by `unit`, `(side,)`.
    """
    evidence, parents, order = graph
    count = evidence.variables
    weights, variance = np.zeros((len(unit), count)), np.empty(count)
    least_squares = replace(evidence, precision=0.0)
    for node, chosen in enumerate(parents):
        weights[list(chosen), node] = least_squares.slopes(node, chosen)
        free = max(evidence.rows - len(chosen), 1.0)
        residual = max(least_squares.residual(node, chosen), COLLINEAR * evidence.gram[node, node])
        variance[node] = residual / free
    weights *= unit[None, :count] / unit[:, None]
    return SearchResult(
        within=weights[:count],
        across=weights[count:].reshape(-1, count, count),
        variance=variance * unit[:count] ** 2,
        score=evidence.total(parents),
        undirected=undirected_edges(evidence, parents, constraints),
        order=list(order),
        parents=list(parents),
        evidence=evidence,
        constraints=constraints,
    )
