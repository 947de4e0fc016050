"""`make_lorenz96`: a chaotic ring of variables whose effects are products, the usual test of nonlinear networks."""

import numpy as np

from cotempo.data import Series, client_names
from cotempo.data.argument_checks import check_count, check_number
from cotempo.networks.network import Network, variable_names
from cotempo.typing import Floats

_BURN_IN = 1000  # sampled steps
_LONGEST_STEP = 0.01  # of the integration


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
    check_count("variables", variables, 4)
    check_count("clients", clients)
    check_count("samples", samples, clients)
    check_number("step", step, 0, open_low=True)
    check_number("noise", noise, 0)
    for_start, for_noise = np.random.default_rng(seed).spawn(2)
    start = force + for_start.normal(scale=0.01, size=variables)
    path = _integrate(start, force, step, _BURN_IN + samples)[_BURN_IN:]
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
