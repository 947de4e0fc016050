"""`draw_network`: Erdos-Renyi graphs with weights, redrawn until the process they describe is stable."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from cotempo.errors import ParameterError
from cotempo.networks.admm.acyclicity import random_topological
from cotempo.networks.data.svar import spectral_radius
from cotempo.networks.network import Network
from cotempo.typing import Bools, Floats

# 0.95 to the power of a burn-in of 200 steps is 3e-5: what is left of an arbitrary start cannot be seen.
_LARGEST_RADIUS = 0.95
_TRIES = 200


@dataclass(frozen=True)
class Recipe:
    """Sizes, mean degrees and the decay of weights over lags, from which networks are drawn."""

    variables: int
    lags: int
    degree: float
    out_degree: float
    decay: float


def draw_network(recipe: Recipe, rng: np.random.Generator) -> Network:
    """Draw one stable network.

    W: every pair is joined with chance ``degree / (variables - 1)``, which makes ``degree`` the expected number of
    neighbours, and a random order of the variables directs the edges. A_i: every cell, the diagonal included, is
    an edge with chance ``out_degree / variables``.

    Examples
    --------
    >>> recipe = Recipe(variables=5, lags=1, degree=2.0, out_degree=1.0, decay=1.5)
    >>> draw_network(recipe, np.random.default_rng(0)).is_acyclic
    True
    """
    count, lags = recipe.variables, recipe.lags
    earlier = _earlier(rng.permutation(count))
    within = earlier & (rng.random((count, count)) < recipe.degree / max(count - 1, 1))
    across = rng.random((lags, count, count)) < recipe.out_degree / count
    return _weigh(recipe, within, across, rng)


def draw_relatives(recipe: Recipe, clients: int, shared: float, rng: np.random.Generator) -> list[Network]:
    """Draw one network per client: a share of edges and their weights common to all, the rest each client's own.

    Every relative has as many edges as the common ancestor. A client's own edges follow an order of the variables
    that is random but for the common edges, so that nothing but those is shared.
    """
    ancestor = draw_network(recipe, rng)
    stacked = ancestor.stacked
    edges = np.argwhere(stacked != 0)
    own = rng.permutation(len(edges))[round(shared * len(edges)) :]
    common = stacked.copy()
    common[tuple(edges[own].T)] = 0.0
    return [_draw_relative(recipe, common, stacked, stream) for stream in rng.spawn(clients)]


def _draw_relative(recipe: Recipe, common: Floats, ancestor: Floats, rng: np.random.Generator) -> Network:
    structure = common != 0
    for lag, (fixed, whole) in enumerate(zip(common, ancestor, strict=True)):
        free = fixed == 0
        if lag == 0:
            parents = [tuple(np.flatnonzero(column).tolist()) for column in fixed.T]
            free &= _earlier(random_topological(parents, rng))
        slots = np.flatnonzero(free)
        extra = np.count_nonzero(whole) - np.count_nonzero(fixed)
        structure[lag].ravel()[rng.permutation(slots)[:extra]] = True
    return _weigh(recipe, structure[0], structure[1:], rng, common)


def _weigh(
    recipe: Recipe, within: Bools, across: Bools, rng: np.random.Generator, common: Floats | None = None
) -> Network:
    structure = np.concatenate([within[None], across])
    decay = recipe.decay ** -np.maximum(np.arange(recipe.lags + 1) - 1.0, 0.0)
    for _ in range(_TRIES):
        weights = rng.uniform(0.3, 0.5, structure.shape) * rng.choice([-1.0, 1.0], structure.shape)
        weights *= structure * decay[:, None, None]
        if common is not None:
            weights = np.where(common != 0, common, weights)
        if spectral_radius(weights[0], weights[1:]) < _LARGEST_RADIUS:
            return Network(weights[0], weights[1:])
    raise ParameterError(
        f"the network must be stable, and {_TRIES} draws of its weights were not; "
        f"lower degree ({recipe.degree}) or out_degree ({recipe.out_degree})"
    )


def _earlier(order: ArrayLike) -> Bools:
    position = np.argsort(order)
    return np.asarray(position[:, None] < position[None, :], dtype=np.bool_)
