from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import Bounds, approx_fprime, minimize

from cotempo.networks.admm.acyclicity import acyclicity, prune
from cotempo.networks.data.generate import Recipe, make_networks
from cotempo.networks.fdbnl import (
    Penalties,
    client_step,
    decompose,
    dual_step,
    penalty_step,
    residuals,
    server_step,
    soft_threshold,
    within_step,
)
from cotempo.networks.metrics import score_network
from cotempo.networks.moments import Gram, transitions
from cotempo.networks.network import Network


def draw_arrays(recipe: Recipe, clients: int, samples: int, seed: int, **options):
    degrees = {"degree": recipe.degree, "out_degree": recipe.out_degree, "decay": recipe.decay}
    drawn, truth = make_networks(recipe.variables, clients, samples, recipe.lags, seed, **degrees, **options)
    return {name: table.values for name, table in drawn.items()}, truth


def fit(
    parts: list[np.ndarray], lags: int, weights: list[float], sparsity: float = 0.05, rounds: int = 100
) -> tuple[np.ndarray, int]:
    """A bare federated loop, without messages: all that the steps need."""
    variables = parts[0].shape[1]
    own = [Gram.of_rows(transitions(part, lags)) for part in parts]
    mean = sum(one.rows * one.mean for one in own) / sum(one.rows for one in own)
    spectra = [decompose(one.per_row(mean), variables) for one in own]
    shared = np.zeros(((lags + 1) * variables, variables))
    local, dual = [shared] * len(own), [shared] * len(own)
    penalties, before = Penalties(), 0.0
    for number in range(1, rounds + 1):  # noqa: B007
        penalty = penalties.consensus
        dual = [dual_step(u, x, shared, before) for u, x in zip(dual, local, strict=True)]
        local = [client_step(s, u, shared, penalty) for s, u in zip(spectra, dual, strict=True)]
        total = sum(weights)
        average = sum(w * (x + u / penalty) for w, x, u in zip(weights, local, dual, strict=True)) / total
        gap = sum(w * float(((x - shared) ** 2).sum()) for w, x in zip(weights, local, strict=True)) / total
        new = server_step(average, shared, penalties, total, (sparsity, sparsity))
        measured = residuals(new, shared, gap)
        penalties, before = penalty_step(penalties, measured.cycles, 2.0, 1.05), penalty
        shared = new
        if measured.small():
            break
    return shared, number


def shares(parts: list[np.ndarray], lags: int) -> list[float]:
    rows = np.array([len(part) - lags for part in parts], dtype=float)
    return list(rows / rows.sum())


def network_of(shared: np.ndarray, lags: int, threshold: float = 0.15) -> Network:
    variables = shared.shape[1]
    across = np.where(np.abs(shared[variables:]) >= threshold, shared[variables:], 0.0)
    return Network(prune(shared[:variables], threshold), across.reshape(lags, variables, variables))


@pytest.mark.parametrize("lags", [0, 1, 2])
def test_client_step_solves_its_problem(lags: int) -> None:
    rng = np.random.default_rng(lags)
    rows = transitions(rng.normal(size=(40, 3)), lags)
    present, side = rows[:, :3], rows.shape[1]
    dual, shared = rng.normal(size=(side, 3)), rng.normal(size=(side, 3))

    def lagrangian(flat: np.ndarray) -> float:
        candidate = flat.reshape(side, 3)
        loss = ((present - rows @ candidate) ** 2).sum() / (2 * len(rows))
        return float(loss + (dual * (candidate - shared)).sum() + 0.7 / 2 * ((candidate - shared) ** 2).sum())

    found = client_step(decompose(rows.T @ rows / len(rows), 3), dual, shared, penalty=0.7)
    expected = minimize(lagrangian, np.zeros(side * 3), method="BFGS", options={"gtol": 1e-7}).x
    np.testing.assert_allclose(found.ravel(), expected, atol=1e-4)


def test_client_step_has_the_papers_two_blocks() -> None:
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(50, 8))
    gram = rows.T @ rows / 50
    dual, shared, penalty = rng.normal(size=(8, 4)), rng.normal(size=(8, 4)), 1.3
    S, M, N = gram[:4, :4], gram[:4, 4:], gram[4:, 4:]
    P, Q = S + penalty * np.eye(4), N + penalty * np.eye(4)
    b1, b2 = S - dual[:4] + penalty * shared[:4], M.T - dual[4:] + penalty * shared[4:]
    B = np.linalg.solve(P - M @ np.linalg.solve(Q, M.T), b1 - M @ np.linalg.solve(Q, b2))
    D = np.linalg.solve(Q - M.T @ np.linalg.solve(P, M), b2 - M.T @ np.linalg.solve(P, b1))
    np.testing.assert_allclose(client_step(decompose(gram, 4), dual, shared, penalty), np.vstack([B, D]), atol=1e-10)


def split_objective(flat: np.ndarray, mean: np.ndarray, settings: dict[str, float]) -> tuple[float, np.ndarray]:
    """The paper's form, W = W+ - W-, on all cells off the diagonal."""
    size, off = len(flat) // 2, ~np.eye(len(mean), dtype=bool)
    within = np.zeros_like(mean)
    within[off] = flat[:size] - flat[size:]
    cycles, slope = acyclicity(within)
    alpha, rho, penalty, sparsity = (settings[k] for k in ("multiplier", "cycle_penalty", "penalty", "sparsity"))
    gap = (within - mean)[off]
    value = alpha * cycles + rho / 2 * cycles**2 + penalty / 2 * gap @ gap + sparsity * flat.sum()
    gradient = (alpha + rho * cycles) * slope[off] + penalty * gap
    return float(value), np.concatenate([gradient + sparsity, sparsity - gradient])


@pytest.mark.parametrize("seed", range(4))
def test_within_step_reaches_the_minimum_of_the_papers_split(seed: int) -> None:
    mean = np.random.default_rng(seed).normal(size=(5, 5)) * 0.5
    settings = {"sparsity": 0.1, "penalty": 1.5, "multiplier": 0.2, "cycle_penalty": 1.0}
    zeros = np.zeros(40)
    split = minimize(
        split_objective, zeros, args=(mean, settings), jac=True, method="L-BFGS-B", bounds=Bounds(zeros, np.inf),
        options={"maxiter": 2000, "ftol": 1e-14, "gtol": 1e-9},
    )  # fmt: skip
    numeric = approx_fprime(zeros + 0.3, lambda flat: split_objective(flat, mean, settings)[0], 1e-7)
    np.testing.assert_allclose(split_objective(zeros + 0.3, mean, settings)[1], numeric, atol=1e-5)
    cycle = Penalties(settings["multiplier"], settings["cycle_penalty"])
    found = within_step(mean, np.zeros((5, 5)), settings["sparsity"], settings["penalty"], cycle, iterations=2000)
    off = ~np.eye(5, dtype=bool)
    np.testing.assert_allclose(found[off], split.x[:20] - split.x[20:], atol=1e-4)
    assert (np.diagonal(found) == 0).all()


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), sparsity=st.floats(0.0, 0.5), alpha=st.floats(0.0, 100.0))
def test_within_step_never_loses_to_its_start_and_keeps_signs(seed: int, sparsity: float, alpha: float) -> None:
    mean = np.random.default_rng(seed).normal(size=(4, 4))
    before = mean.copy()
    found = within_step(mean, np.zeros((4, 4)), sparsity, 1.0, Penalties(alpha), iterations=50)
    assert (found * mean >= 0).all()
    assert (np.abs(found) <= np.abs(soft_threshold(mean, sparsity)) + 1e-12).all()
    np.testing.assert_array_equal(mean, before)


@given(value=st.floats(-5, 5), threshold=st.floats(0, 2))
def test_soft_threshold_is_the_minimiser(value: float, threshold: float) -> None:
    found = float(soft_threshold(np.array([value]), threshold)[0])
    grid = np.append(np.linspace(-6, 6, 2001), found)
    costs = threshold * np.abs(grid) + (grid - value) ** 2 / 2
    assert costs[-1] <= costs.min() + 1e-12


def test_weighting_only_rescales_the_problem() -> None:
    """Equal clients counted 1 each with K lambda, K alpha and K rho_1 is the same step as counted 1/K each."""
    rng = np.random.default_rng(0)
    mean = rng.normal(size=(6, 3)) * 0.4
    start = np.zeros((6, 3))
    once = server_step(mean, start, Penalties(8 * 0.3, 8.0, 1.2), 8.0, (8 * 0.05, 8 * 0.1), iterations=200)
    shared = server_step(mean, start, Penalties(0.3, 1.0, 1.2), 1.0, (0.05, 0.1), iterations=200)
    np.testing.assert_allclose(once, shared, atol=1e-5)


def test_empty_graph_alone_does_not_stop() -> None:
    empty = np.zeros((2, 2))
    assert not residuals(empty, empty, mean_square_gap=1.0).small()
    assert residuals(empty, empty, mean_square_gap=0.0).small()
    cycle = np.array([[0.0, 0.5], [0.5, 0.0]])
    assert not residuals(cycle, cycle, mean_square_gap=0.0).small()


@pytest.mark.parametrize(("variables", "clients", "limit"), [(20, 8, 4.0), (10, 64, 3.0), (20, 64, 4.0)])
def test_rounds_find_the_true_network(variables: int, clients: int, limit: float) -> None:
    distances = []
    for seed in range(3):
        arrays, truth = draw_arrays(Recipe(variables, 1, 4.0, 1.0, 1.5), clients, 512, seed)
        parts = list(arrays.values())
        shared, rounds = fit(parts, 1, shares(parts, 1))
        assert rounds < 60
        distances.append(score_network(network_of(shared, 1), truth)["within_shd_double"])
    assert np.mean(distances) <= limit


def test_how_rows_are_spread_over_clients_hardly_matters() -> None:
    arrays, _ = draw_arrays(Recipe(8, 1, 3.0, 1.0, 1.5), 1, 600, seed=4)
    whole = arrays["client-0"]
    uneven = [whole[:51], whole[50:201], whole[200:]]
    alone, _ = fit([whole], 1, [1.0])
    together, _ = fit(uneven, 1, shares(uneven, 1))
    np.testing.assert_allclose(together, alone, atol=0.03)


@pytest.mark.parametrize("clients", [2, 64])
@pytest.mark.parametrize("sparsity", [0.05, 0.5])
def test_no_empty_graph_at_the_papers_sparsities(clients: int, sparsity: float) -> None:
    arrays, _ = draw_arrays(Recipe(10, 1, 4.0, 1.0, 1.5), clients, 512, seed=7)
    parts = list(arrays.values())
    shared, _ = fit(parts, 1, shares(parts, 1), sparsity=sparsity / clients)
    assert np.count_nonzero(network_of(shared, 1).within) >= 5


@pytest.mark.parametrize("lags", [0, 3])
def test_other_lag_depths(lags: int) -> None:
    arrays, truth = draw_arrays(Recipe(6, lags, 2.0, 1.0, 1.0), 2, 800, seed=2)
    parts = list(arrays.values())
    shared, _ = fit(parts, lags, shares(parts, lags))
    assert score_network(network_of(shared, lags), truth)["f1"] >= 0.8
