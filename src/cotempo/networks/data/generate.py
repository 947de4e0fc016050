"""`make_networks` and `make_lorenz96`: series whose network is known."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from cotempo.data import Series, client_names
from cotempo.data.argument_checks import check_choice, check_counts, check_number
from cotempo.errors import ParameterError
from cotempo.networks.admm.acyclicity import random_topological
from cotempo.networks.network import Network, simulate_svar, spectral_radius, variable_names
from cotempo.typing import Bools, Floats

_BURN_IN = 200
# 0.95 to the power of a burn-in of 200 steps is 3e-5: what is left of an arbitrary start cannot be seen.
_LARGEST_RADIUS = 0.95
_TRIES = 200
_LORENZ_BURN_IN = 1000  # sampled steps
_LONGEST_STEP = 0.01  # of the integration
_EFFECTS: dict[str, Callable[[Floats], Floats]] = {
    "cosine": lambda past: 2**0.5 * np.cos(2.0 * past),
    "saturating": lambda past: 1.5 * np.tanh(past),
}


def make_networks(
    variables: int = 20,
    clients: int = 8,
    samples: int = 512,
    lags: int = 1,
    seed: int = 0,
    *,
    degree: float = 4.0,
    out_degree: float = 1.0,
    decay: float = 1.5,
    noise: str = "equal",
    standardised: bool = False,
    shared: float = 1.0,
    missing: float = 0.0,
    nonlinear: str = "",
) -> tuple[dict[str, Series], Network | dict[str, Network]]:
    """Draw a true network (or one per client) and series that follow it exactly.

    ``x_t' = x_t' W + sum_i x_{t-i}' A_i + u_t'``: W is a randomly ordered Erdos-Renyi DAG with ``degree`` edges per
    variable (in and out together), each A_i an Erdos-Renyi graph with ``out_degree`` edges out of a variable, and
    weights are uniform on +-[.3, .5], divided by ``decay^(i - 1)`` at lag i. Networks that are not stable are
    drawn again. The noise is Gaussian.

    Parameters
    ----------
    variables, clients, samples, lags : int
        ``samples`` is the TOTAL number of transitions. One long series is cut into parts that overlap by ``lags``
        rows, so that the clients' transitions add up to exactly ``samples`` and do not depend on their number.
    seed : int
        The same arguments give the same bits.
    degree, out_degree, decay : float
        See above.
    noise : {"equal", "unequal"}
        Standard deviation 1 for all, or uniform on [.5, 2] for each variable.
    standardised : bool
        Divide every variable by its standard deviation; the truth is rescaled with it. It removes what the
        variances reveal about the order.
    shared : float
        Share of edges (and weights) common to all clients. Below 1 each client has its own network and its own
        series, and the truth is a mapping from client to Network.
    missing : float
        Share of cells made missing, at random.
    nonlinear : {"", "cosine", "saturating"}
        What the past acts through, ``f(x_{t-i})' A_i``: ``sqrt(2) cos(2 x)``, which a linear model does not see, or
        ``1.5 tanh(x)``, which it does. Effects inside a time step stay linear.

    Returns
    -------
    clients : dict from str to Series
    truth : Network, or dict from str to Network when ``shared`` is below 1

    Examples
    --------
    >>> clients, truth = make_networks(variables=5, clients=2, samples=40, seed=1)
    >>> list(clients), truth.within.shape, truth.across.shape, truth.is_acyclic
    (['client-0', 'client-1'], (5, 5), (1, 5, 5), True)
    """
    check_counts(variables=variables, clients=clients)
    check_counts(clients, samples=samples)
    check_counts(0, lags=lags)
    for name, number, low in (("degree", degree, 0), ("out_degree", out_degree, 0), ("decay", decay, 1)):
        check_number(name, number, low)
    check_choice("noise", noise, ("equal", "unequal"))
    check_number("shared", shared, 0, 1)
    if not 0 <= missing < 1:
        raise ParameterError(f"missing must be at least 0 and below 1, got {missing}")
    check_choice("nonlinear", nonlinear, ("", *_EFFECTS))
    if nonlinear and standardised:
        raise ParameterError(
            "standardised must be off for nonlinear networks: their weights do not rescale with the variables"
        )
    recipe = Recipe(variables, lags, degree, out_degree, decay)
    for_structure, for_noise, for_holes = np.random.default_rng(seed).spawn(3)
    spread = for_noise.uniform(0.5, 2.0, variables) if noise == "unequal" else np.ones(variables)
    parts = [len(part) for part in np.array_split(np.arange(samples), clients)]
    names, features = client_names(clients), variable_names(variables)

    def draw(network: Network, transitions: int, rng: np.random.Generator) -> tuple[Floats, Network]:
        shocks = rng.normal(size=(_BURN_IN + transitions + lags, variables)) * spread
        values = simulate_svar(network.within, network.across, shocks, effect=_EFFECTS.get(nonlinear))[_BURN_IN:]
        return _standardise(values, network) if standardised else (values, network)

    truth: Network | dict[str, Network]
    if shared == 1.0:
        whole, truth = draw(draw_network(recipe, for_structure), samples, for_noise)
        starts = np.cumsum([0, *parts])
        # Holes are made before cutting, so that the rows two clients share miss the same cells.
        whole = _make_holes(whole, missing, for_holes)
        series = [whole[start : start + part + lags] for start, part in zip(starts[:-1], parts, strict=True)]
    else:
        relatives = draw_relatives(recipe, clients, shared, for_structure)
        own = [draw(*one) for one in zip(relatives, parts, for_noise.spawn(clients), strict=True)]
        series = [_make_holes(values, missing, for_holes) for values, _ in own]
        truth = {name: network for name, (_, network) in zip(names, own, strict=True)}
    drawn = {name: Series.from_arrays(values, features=features) for name, values in zip(names, series, strict=True)}
    return drawn, truth


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
    """
    count, lags = recipe.variables, recipe.lags
    earlier = _earlier(rng.permutation(count))
    within = earlier & (rng.random((count, count)) < recipe.degree / max(count - 1, 1))
    across = rng.random((lags, count, count)) < recipe.out_degree / count
    return _weigh(recipe, np.concatenate([within[None], across]), rng)


def draw_relatives(recipe: Recipe, clients: int, shared: float, rng: np.random.Generator) -> list[Network]:
    """Draw one network per client: a share of edges and their weights common to all, the rest each client's own.

    Every relative has as many edges as the common ancestor. A client's own edges follow an order of the variables
    that is random but for the common edges, so that nothing but those is shared.
    """
    stacked = draw_network(recipe, rng).stacked
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
    return _weigh(recipe, structure, rng, common)


def _weigh(recipe: Recipe, structure: Bools, rng: np.random.Generator, common: Floats | float = 0.0) -> Network:
    """Draw weights, but for the `common` ones, until the network is stable."""
    decay = recipe.decay ** -np.maximum(np.arange(recipe.lags + 1) - 1.0, 0.0)
    for _ in range(_TRIES):
        weights = rng.uniform(0.3, 0.5, structure.shape) * rng.choice([-1.0, 1.0], structure.shape)
        weights = np.where(common != 0, common, weights * structure * decay[:, None, None])
        if spectral_radius(weights[0], weights[1:]) < _LARGEST_RADIUS:
            return Network(weights[0], weights[1:])
    raise ParameterError(
        f"the network must be stable, and {_TRIES} draws of its weights were not; "
        f"lower degree ({recipe.degree}) or out_degree ({recipe.out_degree})"
    )


def _earlier(order: ArrayLike) -> Bools:
    position = np.argsort(order)
    return np.asarray(position[:, None] < position[None, :], dtype=np.bool_)


def _standardise(values: Floats, network: Network) -> tuple[Floats, Network]:
    """Divide by the standard deviations s; ``W_ij`` then becomes ``W_ij s_i / s_j``."""
    scale = values.std(axis=0)
    factor = scale[:, None] / scale[None, :]
    return values / scale, Network(network.within * factor, network.across * factor, network.variables)


def _make_holes(values: Floats, missing: float, rng: np.random.Generator) -> Floats:
    return np.where(rng.random(values.shape) < missing, np.nan, values) if missing > 0 else values


def make_lorenz96(
    variables: int = 10,
    clients: int = 5,
    samples: int = 500,
    seed: int = 0,
    *,
    force: float = 10.0,
    step: float = 0.1,
    noise: float = 0.1,
) -> tuple[dict[str, Series], Network]:
    """Draw a series of the Lorenz-96 model, cut into clients.

    ``dx_i/dt = (x_{i+1} - x_{i-2}) x_{i-1} - x_i + force``, indices on a ring, integrated by Runge-Kutta, sampled
    every ``step`` and observed with Gaussian noise.

    Parameters
    ----------
    variables, clients, samples, seed : int
        ``samples`` is the TOTAL number of rows; clients get consecutive parts.
    force : float
        The larger, the wilder; 10 and 40 are usual.
    step, noise : float
        Time between two rows, and the standard deviation of what is added to every observation.

    Returns
    -------
    clients : dict from str to Series
    truth : Network
        Edges of lag 1 with weight 1: into i from i - 2, i - 1, i and i + 1.

    References
    ----------
    Lorenz (1996), Predictability: a problem partly solved. Tank et al. (2021), Neural Granger causality.

    Examples
    --------
    >>> clients, truth = make_lorenz96(variables=6, clients=2, samples=40)
    >>> len(clients["client-0"].values), int(truth.across.sum())
    (20, 24)
    """
    check_counts(4, variables=variables)
    check_counts(clients=clients)
    check_counts(clients, samples=samples)
    check_number("step", step, 0, open_low=True)
    check_number("noise", noise, 0)
    for_start, for_noise = np.random.default_rng(seed).spawn(2)
    start = force + for_start.normal(scale=0.01, size=variables)
    path = _integrate(start, force, step, _LORENZ_BURN_IN + samples)[_LORENZ_BURN_IN:]
    values = path + noise * for_noise.normal(size=path.shape)
    features, parts = variable_names(variables), np.array_split(values, clients)
    tables = [Series.from_arrays(part, features=features) for part in parts]
    drawn = dict(zip(client_names(clients), tables, strict=True))
    across = sum(np.roll(np.eye(variables), shift, axis=1) for shift in (-1, 0, 1, 2))
    return drawn, Network(np.zeros((variables, variables)), np.asarray(across)[None], features)


def _integrate(start: Floats, force: float, step: float, count: int) -> Floats:
    pieces = int(np.ceil(step / _LONGEST_STEP))
    width = step / pieces
    ring = np.arange(len(start))
    before, two_before, after = np.roll(ring, 1), np.roll(ring, 2), np.roll(ring, -1)

    def slope(x: Floats) -> Floats:
        found: Floats = (x[after] - x[two_before]) * x[before] - x + force
        return found

    path = np.empty((count, len(start)))
    now = start
    for row in range(count):
        for _ in range(pieces):
            first = slope(now)
            second = slope(now + width / 2 * first)
            third = slope(now + width / 2 * second)
            fourth = slope(now + width * third)
            now = now + width / 6 * (first + 2 * second + 2 * third + fourth)
        path[row] = now
    return path
