"""DYNOTEARS from a Gram matrix, and the problem it shares with PFDBNL's clients.

Both minimise a quadratic with sparsity and a penalty on cycles over Z = [W; A],

    1/2 <Z, H Z> - <b, Z> + lambda_W |W|_1 + lambda_A |A|_1 + alpha h(W) + rho_1/2 h(W)^2,

with ``H = G`` and ``b = G[:, :d]`` for the squared loss alone, G being the Gram per row. Nothing grows with the
number of rows.

References
----------
Pamfil et al., DYNOTEARS: Structure Learning from Time-Series Data, AISTATS 2020.
"""

import numpy as np
from scipy.optimize import Bounds, minimize

from cotempo.networks.admm.acyclicity import acyclicity
from cotempo.networks.admm.penalties import LARGEST_CYCLE_PENALTY, Penalties
from cotempo.typing import Floats

ROUNDS = 20
CYCLE_GROWTH = 10.0  # of rho_1, each round
NO_CYCLE = 1e-8  # h(W) below which the rounds end


def penalised_step(
    quadratic: Floats,
    linear: Floats,
    start: Floats,
    sparsity: tuple[float, float],
    penalties: Penalties,
    iterations: int = 100,
    passes: int = 20,
) -> Floats:
    """Minimise the objective above over Z with a zero diagonal of W, from a start.

    The papers write Z = Z+ - Z- and hand twice as many bounded numbers to L-BFGS. Most of them stay at zero. Here a
    pass fixes the signs: those of the nonzero weights, and for weights at zero the one in which the objective falls,
    if it does; the other weights rest. On that orthant the objective is smooth, and L-BFGS-B works on the few
    magnitudes that move. Passes end when no resting weight wants to move: the same stationary points, in less time.

    Parameters
    ----------
    quadratic, linear
        H, positive semidefinite, and b.
    sparsity : (float, float)
        lambda_W and lambda_A.
    penalties : Penalties
        alpha and rho_1; rho_2 is not used.
    iterations, passes : int
        Limits for L-BFGS-B in one pass, and for passes; a step that is taken again soon needs few.

    Examples
    --------
    >>> gram = np.array([[1.0, 0.5], [0.5, 1.25]])
    >>> found = penalised_step(gram, gram, np.zeros((2, 2)), (0.1, 0.1), Penalties(multiplier=1e6))
    >>> found.round(2).tolist()
    [[0.0, 0.4], [0.0, 0.0]]
    """
    variables = linear.shape[1]
    weight = np.full_like(linear, sparsity[1])
    weight[:variables] = sparsity[0]
    may_move = np.ones(linear.shape, dtype=np.bool_)
    np.fill_diagonal(may_move[:variables], False)
    found = np.where(may_move, start, 0.0)
    value = np.inf
    for _ in range(passes):
        slope = quadratic @ found - linear  # h adds nothing to it where W is zero
        signs = np.where(found != 0, np.sign(found), np.where(np.abs(slope) > weight, -np.sign(slope), 0.0))
        signs[~may_move] = 0.0
        found, reached = _solve_orthant(quadratic, linear, found, signs, weight, penalties, iterations)
        if value - reached <= 1e-9 * max(1.0, abs(reached)):
            break
        value = reached
    return found


def _solve_orthant(
    quadratic: Floats,
    linear: Floats,
    start: Floats,
    signs: Floats,
    weight: Floats,
    penalties: Penalties,
    iterations: int,
) -> tuple[Floats, float]:
    """Minimise over weights of the given signs; those with sign 0 are zero."""
    variables = linear.shape[1]
    active = np.flatnonzero(signs)
    sign, price = signs.ravel()[active], weight.ravel()[active]
    candidate = np.zeros_like(linear)

    def objective(magnitudes: Floats) -> tuple[float, Floats]:
        candidate.ravel()[active] = sign * magnitudes
        cycles, cycle_slope = acyclicity(candidate[:variables])
        image = quadratic @ candidate - linear
        value = 0.5 * float((candidate * (image - linear)).sum()) + float(price @ magnitudes)
        value += (penalties.multiplier + 0.5 * penalties.cycles * cycles) * cycles
        image[:variables] += (penalties.multiplier + penalties.cycles * cycles) * cycle_slope
        return value, sign * image.ravel()[active] + price

    solved = minimize(
        objective,
        np.abs(start.ravel()[active]),
        jac=True,
        method="L-BFGS-B",
        bounds=Bounds(np.zeros(len(active)), np.inf),
        options={"maxiter": iterations, "ftol": 1e-10, "gtol": 1e-6},
    )
    found = np.zeros_like(linear)
    found.ravel()[active] = sign * solved.x
    return found, float(solved.fun)


def dynotears(gram: Floats, variables: int, sparsity: tuple[float, float] = (0.05, 0.05)) -> Floats:
    """Learn Z = [W; A] from a Gram per row: the penalty on cycles grows until none is left.

    Parameters
    ----------
    gram : ((lags + 1) variables, (lags + 1) variables)
        From `Gram.per_row`.
    sparsity : (float, float)
        lambda_W and lambda_A.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> cause = rng.normal(size=1000)
    >>> rows = np.column_stack([cause, 0.8 * cause + rng.normal(size=1000)])
    >>> dynotears(rows.T @ rows / 1000, variables=2).round(1).tolist()
    [[0.0, 0.8], [0.0, 0.0]]
    """
    linear = gram[:, :variables]
    found = np.zeros_like(linear)
    penalties = Penalties()
    for _ in range(ROUNDS):
        found = penalised_step(gram, linear, found, sparsity, penalties, passes=2)
        cycles, _ = acyclicity(found[:variables])
        growing = min(penalties.cycles * CYCLE_GROWTH, LARGEST_CYCLE_PENALTY)
        penalties = Penalties(penalties.multiplier + penalties.cycles * cycles, growing)
        if cycles <= NO_CYCLE:
            break
    return found
