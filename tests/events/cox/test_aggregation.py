import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from cotempo.errors import ParameterError
from cotempo.events.cox.aggregation import Normal, aggregate, divergence, from_sums


def posteriors(seed, clients=6, weights=3):
    rng = np.random.default_rng(seed)
    return rng.normal(0, 2, (clients, weights)), rng.uniform(0.2, 1.5, (clients, weights))


def summed(rule, r, delta, prior):
    return float(divergence(rule, torch.as_tensor(r), torch.as_tensor(delta), prior).sum())


@pytest.mark.parametrize("rule", ["kl", "wasserstein"])
@given(seed=st.integers(0, 10**6))
@settings(max_examples=10, deadline=None)
def test_closed_forms_equal_a_numeric_minimiser(rule, seed):
    r, delta = posteriors(seed)

    def objective(x):
        return summed(rule, r, delta, Normal(x[:3], np.exp(x[3:])))

    found = minimize(objective, np.zeros(6), method="BFGS", options={"gtol": 1e-9})
    closed = aggregate(r, delta, rule)
    np.testing.assert_allclose(closed.mean, found.x[:3], atol=2e-5)
    np.testing.assert_allclose(closed.deviation, np.exp(found.x[3:]), rtol=2e-5)
    assert abs(objective(np.append(closed.mean, np.log(closed.deviation))) - found.fun) < 1e-6


def test_fedavg_is_a_plain_mean():
    r, delta = posteriors(0)
    got = aggregate(r, delta, "fedavg")
    np.testing.assert_allclose(got.mean, r.mean(axis=0))
    np.testing.assert_allclose(got.deviation**2, (delta**2).mean(axis=0))


@pytest.mark.parametrize("seed", range(5))
def test_mmd_is_within_1e6_of_the_best_of_20_starts(seed):
    r, delta = posteriors(seed)
    got = aggregate(r, delta, "mmd")
    rng = np.random.default_rng(seed)
    for weight in range(3):
        one, spread = r[:, weight : weight + 1], delta[:, weight : weight + 1]

        def objective(x, one=one, spread=spread):
            return summed("mmd", one, spread, Normal(x[:1], np.exp(x[1:])))

        starts = np.column_stack([rng.uniform(-5, 5, 20), rng.uniform(-2, 1, 20)])
        best = min(minimize(objective, start, method="BFGS").fun for start in starts)
        mine = objective(np.array([got.mean[weight], np.log(got.deviation[weight])]))
        assert mine <= best + 1e-6


@pytest.mark.parametrize("rule", ["kl", "wasserstein", "fedavg", "mmd"])
def test_equal_clients_are_their_own_aggregate(rule):
    got = aggregate(np.full((4, 2), 0.7), np.full((4, 2), 0.3), rule)
    np.testing.assert_allclose(got.mean, 0.7, atol=1e-7)
    np.testing.assert_allclose(got.deviation, 0.3, atol=1e-6)
    assert summed(rule, np.full((1, 2), 0.7), np.full((1, 2), 0.3), got) == pytest.approx(0, abs=1e-9)


def test_two_sums_are_enough():
    r, delta = posteriors(1)
    sums = {"first": r.sum(axis=0), "second": (delta**2 + r**2).sum(axis=0)}
    np.testing.assert_array_equal(from_sums("kl", sums, 6).mean, aggregate(r, delta, "kl").mean)


@pytest.mark.parametrize(
    ("means", "deviations", "rule"),
    [([[0.0]], [[0.0]], "kl"), ([[0.0]], [[1.0, 1.0]], "kl"), ([[0.0]], [[1.0]], "wasserstien"), ([0.0], [1.0], "kl")],
)
def test_wrong_input_is_refused(means, deviations, rule):
    with pytest.raises(ParameterError):
        aggregate(means, deviations, rule)
