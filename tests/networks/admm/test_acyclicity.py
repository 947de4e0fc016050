from __future__ import annotations

import networkx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import expm
from scipy.optimize import approx_fprime

from cotempo.networks.admm.acyclicity import acyclicity, edges_on_cycles, exponential_less_identity, prune


def random_weights(seed: int, variables: int, scale: float = 1.0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(variables, variables)) * scale * (rng.random((variables, variables)) < 0.4)


@pytest.mark.parametrize("scale", [0.0, 1e-6, 0.1, 1.0, 5.0])
@pytest.mark.parametrize("variables", [1, 2, 7, 30])
def test_exponential_agrees_with_scipy(variables: int, scale: float) -> None:
    matrix = np.random.default_rng(variables).random((variables, variables)) * scale
    expected = expm(matrix) - np.eye(variables)
    found = exponential_less_identity(matrix)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10 * np.linalg.norm(expected) + 1e-15)


def test_h_keeps_its_digits_near_zero() -> None:
    value, _ = acyclicity(np.array([[0.0, 1e-5], [1e-5, 0.0]]))
    assert value == pytest.approx(1e-20, rel=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_gradient_agrees_with_finite_differences(seed: int) -> None:
    weights = random_weights(seed, 6, scale=0.5)
    _, gradient = acyclicity(weights)
    numeric = approx_fprime(weights.ravel(), lambda flat: acyclicity(flat.reshape(6, 6))[0], 1e-7)
    np.testing.assert_allclose(gradient.ravel(), numeric, atol=1e-5)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000), variables=st.integers(1, 9))
def test_h_is_zero_exactly_without_cycles(seed: int, variables: int) -> None:
    weights = random_weights(seed, variables)
    acyclic = networkx.is_directed_acyclic_graph(networkx.DiGraph((weights != 0).astype(int)))
    assert (acyclicity(weights)[0] == 0.0) == acyclic
    assert edges_on_cycles(weights).any() != acyclic


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000), variables=st.integers(1, 9), threshold=st.floats(0.0, 1.0))
def test_pruned_graph_is_acyclic_and_keeps_strong_edges_off_cycles(seed: int, variables: int, threshold: float) -> None:
    weights = random_weights(seed, variables)
    before = weights.copy()
    kept = prune(weights, threshold)
    assert not edges_on_cycles(kept).any()
    assert ((kept == weights) | (kept == 0)).all()
    strong = np.where(np.abs(weights) >= threshold, weights, 0.0)
    safe = (strong != 0) & ~edges_on_cycles(strong)
    np.testing.assert_array_equal(kept[safe], weights[safe])
    np.testing.assert_array_equal(weights, before)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000), variables=st.integers(1, 9), digits=st.integers(0, 2))
def test_pruning_is_as_if_the_weakest_edge_on_a_cycle_went_one_by_one(seed: int, variables: int, digits: int) -> None:
    weights = random_weights(seed, variables).round(digits)
    expected = weights.copy()
    while (cyclic := edges_on_cycles(expected)).any():
        expected.flat[np.argmin(np.where(cyclic, np.abs(expected), np.inf))] = 0.0
    np.testing.assert_array_equal(prune(weights, 0.0), expected)
