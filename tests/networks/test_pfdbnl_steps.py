from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import Bounds, minimize

from cotempo.networks.admm.acyclicity import acyclicity
from cotempo.networks.fdbnl import Penalties
from cotempo.networks.moments import transitions
from cotempo.networks.pfdbnl import own_step, penalised_step


def split_minimum(quadratic, linear, sparsity, penalties) -> tuple[np.ndarray, float]:
    """The papers' form, Z = Z+ - Z-, on all cells but W's diagonal; from zero."""
    count, free = linear.shape[1], np.ones(linear.shape, dtype=bool)
    np.fill_diagonal(free[:count], False)
    price = np.full_like(linear, sparsity[1])
    price[:count] = sparsity[0]
    size = int(free.sum())

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        weights = np.zeros_like(linear)
        weights[free] = flat[:size] - flat[size:]
        cycles, slope = acyclicity(weights[:count])
        gradient = quadratic @ weights - linear
        value = 0.5 * (weights * (gradient - linear)).sum() + price[free] @ (flat[:size] + flat[size:])
        value += penalties.multiplier * cycles + penalties.cycles / 2 * cycles**2
        gradient[:count] += (penalties.multiplier + penalties.cycles * cycles) * slope
        return float(value), np.concatenate([gradient[free] + price[free], price[free] - gradient[free]])

    zeros = np.zeros(2 * size)
    found = minimize(
        objective, zeros, jac=True, method="L-BFGS-B", bounds=Bounds(zeros, np.inf),
        options={"maxiter": 20000, "maxfun": 100000, "ftol": 1e-15, "gtol": 1e-9},
    )  # fmt: skip
    weights = np.zeros_like(linear)
    weights[free] = found.x[:size] - found.x[size:]
    return weights, float(found.fun)


@pytest.mark.parametrize("seed", range(4))
def test_penalised_step_reaches_the_minimum_of_the_papers_split(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = transitions(rng.normal(size=(60, 4)) @ rng.normal(size=(4, 4)), 1)
    gram = rows.T @ rows / len(rows)
    penalties = Penalties(0.3, 1.0)
    expected, value = split_minimum(gram, gram[:, :4], (0.1, 0.2), penalties)
    found = penalised_step(gram, gram[:, :4], np.zeros((8, 4)), (0.1, 0.2), penalties, iterations=2000)
    reached = split_value(found, gram, penalties)
    assert reached <= value + 1e-5
    if np.allclose(found != 0, expected != 0):
        np.testing.assert_allclose(found, expected, atol=2e-3)
    assert (np.diagonal(found[:4]) == 0).all()


def split_value(weights: np.ndarray, gram: np.ndarray, penalties: Penalties) -> float:
    cycles, _ = acyclicity(weights[:4])
    linear = gram[:, :4]
    value = 0.5 * (weights * (gram @ weights)).sum() - (weights * linear).sum()
    value += 0.1 * np.abs(weights[:4]).sum() + 0.2 * np.abs(weights[4:]).sum()
    return float(value + penalties.multiplier * cycles + penalties.cycles / 2 * cycles**2)


@pytest.mark.parametrize("seed", range(3))
def test_own_step_solves_the_clients_problem(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(40, 8)) @ rng.normal(size=(8, 8)) / 3
    gram, tied, mu = rows.T @ rows / 40, rng.normal(size=(8, 4)) * 0.2, 0.3
    np.fill_diagonal(tied[:4], 0.0)
    penalties = Penalties(0.5, 2.0)
    found = own_step(gram, tied, np.zeros((8, 4)), mu, (0.05, 0.1), penalties, iterations=2000)
    expected, _ = split_minimum(gram + 2 * mu * np.eye(8), gram[:, :4] + 2 * mu * tied, (0.05, 0.1), penalties)
    np.testing.assert_allclose(found, expected, atol=2e-3)
