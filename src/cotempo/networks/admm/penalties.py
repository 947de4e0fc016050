"""The steps of FDBNL, each a function of what it is given; the rounds that call them live elsewhere.

With client weights w_k (their total is 1 when a client counts ``n_k / n``, and K when each counts once, as in
the paper), the problem and its augmented Lagrangian are

    min  sum_k w_k l_k(Z_k) + lambda_W |W|_1 + lambda_A |A|_1     subject to  h(W) = 0,  Z_k = Z = [W; A]

    sum_k w_k { l_k(Z_k) + <dual_k, Z_k - Z> + rho_2/2 |Z_k - Z|^2 }
        + lambda_W |W|_1 + lambda_A |A|_1 + alpha h(W) + rho_1/2 h(W)^2

with ``l_k(Z_k) = |X - [X, Y] Z_k|^2 / (2 n_k)``, where ``Z_k`` stacks the client's ``B_k`` on ``D_k`` and ``dual_k``
stacks ``beta_k`` on ``gamma_k``. The weight stands before a client's whole brace, penalty and dual included: the
constraint ``Z_k = Z`` is the same whatever multiplies it, and this choice lets w_k cancel from the client's own
step and from its dual's. The server's step is left with

    sum_k w_k rho_2/2 |Z - (Z_k + dual_k / rho_2)|^2 = total rho_2/2 |Z - mean|^2 + constant,

so it needs only the weighted mean of ``Z_k + dual_k / rho_2`` and the total weight: clients send that array with
their weight beside it, and a sum that hides the single clients is enough.

References
----------
Federated dynamic Bayesian network learning (FDBNL), also published as fPTN: Algorithm 1, equations (2) to (4).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, minimize

from cotempo.networks.admm.acyclicity import acyclicity

FloatArray = NDArray[np.float64]

_LARGEST_CYCLE_PENALTY = 1e16  # beyond it, rho_1 h(W)^2 drowns everything else in rounding


class Penalties(NamedTuple):
    """alpha, rho_1 and rho_2 of the augmented Lagrangian."""

    multiplier: float = 0.0
    cycles: float = 1.0
    consensus: float = 1.0

    def updated(self, cycles: float, cycle_growth: float, consensus_growth: float) -> Penalties:
        """Return the next round's, equation (4): ``alpha + rho_1 h(W)``, ``phi_1 rho_1``, ``phi_2 rho_2``.

        Examples
        --------
        >>> Penalties().updated(0.5, cycle_growth=2.0, consensus_growth=1.05)
        Penalties(multiplier=0.5, cycles=2.0, consensus=1.05)
        """
        return Penalties(
            multiplier=self.multiplier + self.cycles * cycles,
            cycles=min(self.cycles * cycle_growth, _LARGEST_CYCLE_PENALTY),
            consensus=self.consensus * consensus_growth,
        )


class Spectrum(NamedTuple):
    """A client's joint Gram per row, ``G = [S M; M' N] = V diag(values) V'``, decomposed once for all rounds.

    Like every client's array here it may have a leading axis of clients: then all of them step at once.
    """

    values: FloatArray
    vectors: FloatArray
    variables: int


def decompose(gram: FloatArray, variables: int) -> Spectrum:
    """Decompose the joint Gram, of side ``(lags + 1) variables``, that `cotempo.networks.moments.centre` returns."""
    values, vectors = np.linalg.eigh(gram)
    return Spectrum(np.maximum(values, 0.0), vectors, variables)


def client_step(spectrum: Spectrum, dual: FloatArray, shared: FloatArray, penalty: float) -> FloatArray:
    """Solve a client's problem (2) in closed form.

    The paper's two formulas for B_k and D_k are the two blocks of one solution,

        Z_k = (G + rho_2 I)^-1 ([S; M'] - dual_k + rho_2 Z),

    and with ``G = V diag(values) V'`` a new rho_2 costs two products instead of a new inverse.

    Parameters
    ----------
    spectrum : Spectrum
        From `decompose`.
    dual, shared : (..., (lags + 1) variables, variables)
        dual_k and Z.
    penalty : float
        rho_2, above 0.

    Returns
    -------
    ((lags + 1) variables, variables)
        Z_k.

    Examples
    --------
    >>> import numpy as np
    >>> gram = np.array([[2.0, 1.0], [1.0, 2.0]])
    >>> client_step(decompose(gram, 2), np.zeros((2, 2)), np.zeros((2, 2)), penalty=1.0).round(3)
    array([[0.625, 0.125],
           [0.125, 0.625]])
    """
    values, vectors = spectrum.values[..., :, None], spectrum.vectors
    rotation = np.swapaxes(vectors, -1, -2)
    explained = values * rotation[..., : spectrum.variables]
    return vectors @ ((explained + rotation @ (penalty * shared - dual)) / (values + penalty))


def dual_step(dual: FloatArray, local: FloatArray, shared: FloatArray, penalty: float | FloatArray) -> FloatArray:
    """Return ``dual_k + rho_2 (Z_k - Z)``, the client's multiplier after the server's new Z, equation (4)."""
    return dual + penalty * (local - shared)


def soft_threshold(values: FloatArray, threshold: float) -> FloatArray:
    """Shrink every value towards zero by the threshold: the minimiser of ``threshold |z| + (z - value)^2 / 2``.

    Examples
    --------
    >>> import numpy as np
    >>> soft_threshold(np.array([-3.0, 0.5, 2.0]), 1.0)
    array([-2.,  0.,  1.])
    """
    return np.sign(values) * np.maximum(np.abs(values) - threshold, 0.0)


def server_step(
    mean: FloatArray,
    previous: FloatArray,
    penalties: Penalties,
    total_weight: float,
    sparsity: tuple[float, float],
    iterations: int = 10,
) -> FloatArray:
    """Solve the server's problem (3).

    h touches W only, so the two parts separate: A is a soft threshold at ``lambda_A / (total rho_2)``, exactly,
    and W is `within_step`.

    Parameters
    ----------
    mean : ((lags + 1) variables, variables)
        The weighted mean over clients of ``Z_k + dual_k / rho_2``.
    previous : ((lags + 1) variables, variables)
        The last Z; W's search starts there.
    penalties : Penalties
        alpha, rho_1, rho_2.
    total_weight : float
        Sum of the client weights.
    sparsity : (float, float)
        lambda_W and lambda_A.
    iterations : int
        Limit for L-BFGS-B in this round; the next round goes on from where it stopped.

    Examples
    --------
    >>> import numpy as np
    >>> mean = np.array([[0.9, 0.5], [0.1, 0.9], [0.5, 0.0], [0.0, 0.5]])
    >>> server_step(mean, np.zeros((4, 2)), Penalties(), total_weight=1.0, sparsity=(0.2, 0.1)).round(3)
    array([[0. , 0.3],
           [0. , 0. ],
           [0.4, 0. ],
           [0. , 0.4]])
    """
    variables = mean.shape[1]
    penalty = total_weight * penalties.consensus
    shared = soft_threshold(mean, sparsity[1] / penalty)
    shared[:variables] = within_step(
        mean[:variables],
        previous[:variables],
        sparsity=sparsity[0],
        penalty=penalty,
        multiplier=penalties.multiplier,
        cycle_penalty=penalties.cycles,
        iterations=iterations,
    )
    return shared


def within_step(
    mean: FloatArray,
    start: FloatArray,
    *,
    sparsity: float,
    penalty: float,
    multiplier: float,
    cycle_penalty: float,
    iterations: int = 10,
) -> FloatArray:
    """Minimise ``alpha h(W) + rho_1/2 h(W)^2 + lambda |W|_1 + penalty/2 |W - mean|^2`` over W with a zero diagonal.

    The paper writes W = W+ - W- and hands twice d^2 bounded numbers to L-BFGS. Half of them are known
    beforehand: h grows with every ``|W_ij|`` and ignores signs, so at the minimum W_ij has the sign of mean_ij
    and lies between 0 and ``reach = soft_threshold(mean, lambda / penalty)``. On that box

        lambda |W_ij| + penalty/2 (W_ij - mean_ij)^2 = penalty/2 (|W_ij| - |reach_ij|)^2 + constant,

    a smooth problem in the few magnitudes with a reach above zero: the same minimum, in a fifth of the time.

    Parameters
    ----------
    mean, start : (variables, variables)
        The clients' weighted mean, and where to start.
    sparsity, penalty, multiplier, cycle_penalty : float
        lambda_W, total weight times rho_2, alpha, rho_1.
    iterations : int
        Limit for L-BFGS-B.

    Examples
    --------
    >>> import numpy as np
    >>> mean = np.array([[0.9, 0.5], [0.4, 0.9]])
    >>> within_step(
    ...     mean, np.zeros((2, 2)), sparsity=0.1, penalty=1.0, multiplier=1e3, cycle_penalty=1.0, iterations=100
    ... ).round(2)
    array([[0. , 0.4],
           [0. , 0. ]])
    """
    reach = soft_threshold(mean, sparsity / penalty)
    np.fill_diagonal(reach, 0.0)
    active = np.flatnonzero(reach)
    if len(active) == 0:
        return reach
    ceiling = np.abs(reach.ravel()[active])
    signs = np.sign(reach.ravel()[active])
    magnitudes = np.zeros_like(reach)

    def objective(candidate: FloatArray) -> tuple[float, FloatArray]:
        magnitudes.ravel()[active] = candidate
        cycles, gradient = acyclicity(magnitudes)
        gap = candidate - ceiling
        value = (multiplier + 0.5 * cycle_penalty * cycles) * cycles + 0.5 * penalty * float(gap @ gap)
        return value, (multiplier + cycle_penalty * cycles) * gradient.ravel()[active] + penalty * gap

    found = minimize(
        objective,
        np.clip(start.ravel()[active] * signs, 0.0, ceiling),
        jac=True,
        method="L-BFGS-B",
        bounds=Bounds(np.zeros_like(ceiling), ceiling),
        options={"maxiter": iterations, "ftol": 1e-10, "gtol": 1e-6},
    )
    within = np.zeros_like(reach)
    within.ravel()[active] = signs * found.x
    return within
