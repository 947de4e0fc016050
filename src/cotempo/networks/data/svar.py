"""`simulate_svar`: the structural vector autoregression of a network, run forward in time.

x_t' = x_t' W + sum_i x_{t-i}' A_i + u_t'   so   x_t' = (sum_i x_{t-i}' A_i + u_t') (I - W)^-1
"""

from collections.abc import Callable

import numpy as np

from cotempo.typing import Floats


def simulate_svar(
    within: Floats,
    across: Floats,
    shocks: Floats,
    history: Floats | None = None,
    effect: Callable[[Floats], Floats] | None = None,
) -> Floats:
    """Run the recursion forward, one row of shocks at a time.

    Parameters
    ----------
    within : (variables, variables)
        W, ``[source, target]``; ``I - W`` must be invertible, as it is for every acyclic W.
    across : (lags, variables, variables)
        A_1 to A_p, ``[source, target]``.
    shocks : (steps, variables)
        u_t, one row per step. Rows of zeros give the forecast.
    history : (at least lags, variables), optional
        What came before, oldest row first; zeros when left out.
    effect : callable, optional
        What the past acts through, elementwise: ``x_{t-i}' A_i`` becomes ``effect(x_{t-i})' A_i``.

    Returns
    -------
    (steps, variables)
        The steps after the history.

    Examples
    --------
    >>> within = np.array([[0.0, 0.5], [0.0, 0.0]])
    >>> simulate_svar(within, np.zeros((0, 2, 2)), np.array([[2.0, 1.0]]))
    array([[2., 2.]])
    """
    lags, variables = across.shape[0], within.shape[0]
    mixing = np.linalg.inv(np.eye(variables) - within)
    # Newest lag last, so that a plain slice of the rows before t lines up with the stacked coefficients.
    transition = across[::-1].reshape(lags * variables, variables) @ mixing
    mixed_shocks = shocks @ mixing
    values = np.zeros((lags + len(shocks), variables))
    if history is not None and lags:
        values[:lags] = history[-lags:]
    for step, shock in enumerate(mixed_shocks):
        past = values[step : step + lags].ravel()
        values[lags + step] = (effect(past) if effect else past) @ transition + shock
    return values[lags:]


def spectral_radius(within: Floats, across: Floats) -> float:
    """Return the largest modulus among the eigenvalues of the companion matrix; below 1 the process is stable.

    Examples
    --------
    >>> spectral_radius(np.zeros((1, 1)), np.array([[[0.5]]]))
    0.5
    """
    lags, variables = across.shape[0], within.shape[0]
    if lags == 0:
        return 0.0
    mixing = np.linalg.inv(np.eye(variables) - within)
    companion = np.eye(lags * variables, k=variables)
    companion[:, :variables] = (across @ mixing).reshape(lags * variables, variables)
    return float(np.abs(np.linalg.eigvals(companion)).max())
