"""`edge_confidence`: the probability of each edge, from parametric-bootstrap draws of the Gram matrix.

Of n Gaussian rows with the covariance found, the Gram is ``Wishart(n, K / n)``. Drawing from it needs nothing but K
itself, so that confidence costs no further message.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from cotempo.errors import ParameterError
from cotempo.networks.search.equivalence import edge_matrix, undirected_edges
from cotempo.networks.search.orders import SearchResult
from cotempo.networks.search.parents import ParentSearch
from cotempo.networks.search.prior_knowledge import arrange
from cotempo.networks.search.sweeps import Ordered
from cotempo.typing import Floats

#: The shape of a prior that leaves noise variances free.
FREE = 0.5


class Confidence(NamedTuple):
    """Probability of each edge, ``[source, target]``: (variables, variables) and (lags, variables, variables)."""

    within: Floats
    across: Floats


def edge_confidence(
    found: SearchResult, rng: np.random.Generator, draws: int = 100, *, filled: bool = False, design: float = 1.0
) -> Confidence:
    """Return the share of Wishart draws in which each edge is found again.

    Every draw is searched from the graph found, under the hyperparameters found. Where a draw leaves the direction of
    an edge open, each direction gets half of it. A Gram that is `filled` says nothing of which noise is as large as
    which, and what the search began with must not decide: then noise variances are free, and draws are searched from
    random orders. `design` rows, the design effect, count as one.
    """
    if draws < 1:
        raise ParameterError(f"draws must be at least 1, got {draws}")
    count, side = found.evidence.variables, len(found.evidence.gram)
    seen = np.zeros((side, count))
    base = replace(found.evidence, gram=found.evidence.gram / design, rows=found.evidence.rows / design)
    if filled:
        base = replace(base, shape=FREE, scale=FREE * base.scale / base.shape)
    for stream in rng.spawn(draws):
        evidence = replace(base, gram=draw_wishart(base.gram, base.rows, stream))
        search = ParentSearch(evidence, found.constraints)
        if filled:
            ordered = Ordered(search, arrange(stream.permutation(count).tolist(), found.constraints.required))
        else:
            ordered = Ordered(search, found.order, found.parents)
        ordered.climb_with_restarts(stream, restarts=1, thorough=False)
        edges = edge_matrix(ordered.parents, side).astype(np.float64)
        edges[:count][undirected_edges(evidence, ordered.parents, found.constraints)] = 0.5
        seen += edges
    seen /= draws
    return Confidence(seen[:count], seen[count:].reshape(-1, count, count))


def draw_wishart(gram: Floats, rows: float, rng: np.random.Generator) -> Floats:
    """Draw the Gram of n new rows, ``R A A' R' / n`` with ``K = R R'``.

    A is Bartlett's factor: below the diagonal standard normal, on it chi with n, n - 1, ... degrees of freedom. Fewer
    rows than columns leave no such factor; then A is n columns of normals.
    """
    side = len(gram)
    values, vectors = np.linalg.eigh(gram)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    if rows > side:
        factor = np.tril(rng.normal(size=(side, side)), -1)
        factor[np.diag_indices(side)] = np.sqrt(rng.chisquare(rows - np.arange(side)))
    else:
        factor = rng.normal(size=(side, max(round(rows), 1)))
    drawn = root @ factor
    return np.asarray(drawn @ drawn.T / rows)
