"""`make_networks`: random networks and series drawn from them."""

from collections.abc import Callable

import numpy as np

from cotempo.data import Series, numbered
from cotempo.errors import ParameterError, nearest
from cotempo.networks.data.structure import Recipe, draw_network, draw_relatives
from cotempo.networks.data.svar import simulate_svar
from cotempo.networks.network import Network, variable_names
from cotempo.typing import Floats

_BURN_IN = 200
_NOISES = ("equal", "unequal")
_DISTRIBUTIONS = ("gaussian", "laplace", "uniform", "exponential")
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
    distribution: str = "gaussian",
    shared: float = 1.0,
    missing: float = 0.0,
    nonlinear: str = "",
) -> tuple[dict[str, Series], Network | dict[str, Network]]:
    """Draw a true network (or one per client) and series that follow it exactly.

    ``x_t' = x_t' W + sum_i x_{t-i}' A_i + u_t'``: W is a randomly ordered Erdos-Renyi DAG with ``degree`` edges per
    variable (in and out together), each A_i an Erdos-Renyi graph with ``out_degree`` edges out of a variable, and
    weights are uniform on +-[.3, .5], divided by ``decay^(i - 1)`` at lag i. Networks that are not stable are
    drawn again.

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
    distribution : {"gaussian", "laplace", "uniform", "exponential"}
        Of the noise, centred and scaled to the same variance.
    shared : float
        Share of edges (and weights) common to all clients. Below 1 each client has its own network and its own
        series, and the truth is a mapping from client to Network.
    missing : float
        Share of cells made missing, at random.
    nonlinear : {"", "cosine", "saturating"}
        What the past acts through, ``f(x_{t-i})' A_i``: ``sqrt(2) cos(2 x)``, which a linear model does not see, or
        ``1.5 tanh(x)``, which it does. Both are bounded. Effects inside a time step stay linear.

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
    recipe = Recipe(variables, lags, degree, out_degree, decay)
    _check(recipe, clients, samples, noise, distribution, shared, missing)
    _check_effect(nonlinear, standardised)
    for_structure, for_noise, for_holes = np.random.default_rng(seed).spawn(3)
    spread = for_noise.uniform(0.5, 2.0, variables) if noise == "unequal" else np.ones(variables)
    parts = [len(part) for part in np.array_split(np.arange(samples), clients)]
    names = [f"client-{number}" for number in numbered(clients)]

    def draw(network: Network, transitions: int, rng: np.random.Generator) -> tuple[Floats, Network]:
        shocks = draw_noise(rng, (_BURN_IN + transitions + lags, variables), distribution) * spread
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
        own = [
            draw(network, part, rng)
            for network, part, rng in zip(relatives, parts, for_noise.spawn(clients), strict=True)
        ]
        series = [_make_holes(values, missing, for_holes) for values, _ in own]
        truth = {name: network for name, (_, network) in zip(names, own, strict=True)}
    features = variable_names(variables)
    drawn = {name: Series.from_arrays(values, features=features) for name, values in zip(names, series, strict=True)}
    return drawn, truth


def draw_noise(rng: np.random.Generator, shape: tuple[int, ...], distribution: str) -> Floats:
    """Draw noise with mean 0 and variance 1.

    Examples
    --------
    >>> draw_noise(np.random.default_rng(0), (2, 3), "laplace").shape
    (2, 3)
    """
    if distribution == "laplace":
        return rng.laplace(scale=0.5**0.5, size=shape)
    if distribution == "uniform":
        return rng.uniform(-(3**0.5), 3**0.5, size=shape)
    if distribution == "exponential":
        return rng.exponential(size=shape) - 1.0
    return rng.normal(size=shape)


def _standardise(values: Floats, network: Network) -> tuple[Floats, Network]:
    """Divide by the standard deviations s; ``W_ij`` then becomes ``W_ij s_i / s_j``."""
    scale = values.std(axis=0)
    factor = scale[:, None] / scale[None, :]
    return values / scale, Network(network.within * factor, network.across * factor, network.variables)


def _make_holes(values: Floats, missing: float, rng: np.random.Generator) -> Floats:
    return np.where(rng.random(values.shape) < missing, np.nan, values) if missing > 0 else values


def _check(
    recipe: Recipe, clients: int, samples: int, noise: str, distribution: str, shared: float, missing: float
) -> None:
    for name, value, least in (
        ("variables", recipe.variables, 1),
        ("clients", clients, 1),
        ("samples", samples, clients),
        ("lags", recipe.lags, 0),
        ("degree", recipe.degree, 0),
        ("out_degree", recipe.out_degree, 0),
        ("decay", recipe.decay, 1),
    ):
        if not value >= least:
            raise ParameterError(f"{name} must be at least {least}, got {value}")
    for name, word, words in (("noise", noise, _NOISES), ("distribution", distribution, _DISTRIBUTIONS)):
        if word not in words:
            raise ParameterError(f"{name} must be one of {words}, got {word!r}{nearest(word, words)}")
    if not 0 <= shared <= 1:
        raise ParameterError(f"shared must lie between 0 and 1, got {shared}")
    if not 0 <= missing < 1:
        raise ParameterError(f"missing must be at least 0 and below 1, got {missing}")


def _check_effect(nonlinear: str, standardised: bool) -> None:
    if nonlinear and nonlinear not in _EFFECTS:
        raise ParameterError(
            f"nonlinear must be empty or one of {tuple(_EFFECTS)}, got {nonlinear!r}{nearest(nonlinear, _EFFECTS)}"
        )
    if nonlinear and standardised:
        raise ParameterError(
            "standardised must be off for nonlinear networks: their weights do not rescale with the variables"
        )
