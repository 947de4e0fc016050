from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotempo.errors import ParameterError
from cotempo.networks.data.generate import Recipe, draw_network, make_networks
from cotempo.networks.moments import transitions
from cotempo.networks.network import Network

RECIPE = Recipe(variables=6, lags=2, degree=3.0, out_degree=1.0, decay=1.5)


def draw_arrays(recipe: Recipe, clients: int, samples: int, seed: int, **options):
    degrees = {"degree": recipe.degree, "out_degree": recipe.out_degree, "decay": recipe.decay}
    drawn, truth = make_networks(recipe.variables, clients, samples, recipe.lags, seed, **degrees, **options)
    return {name: table.values for name, table in drawn.items()}, truth


def test_tables_carry_names_and_values() -> None:
    clients, truth = make_networks(variables=5, clients=3, samples=31, lags=1, seed=2)
    assert list(clients) == ["client-0", "client-1", "client-2"]
    assert isinstance(truth, Network)
    assert {series.features for series in clients.values()} == {truth.variables}
    assert sum(len(series.values) - 1 for series in clients.values()) == 31


@settings(max_examples=20, deadline=None)
@given(clients=st.integers(1, 20), samples=st.integers(20, 90), lags=st.integers(0, 3))
def test_transitions_add_up_and_do_not_depend_on_the_clients(clients: int, samples: int, lags: int) -> None:
    recipe = Recipe(3, lags, 1.0, 1.0, 1.5)
    parts, _ = draw_arrays(recipe, clients, samples, seed=0)
    whole, _ = draw_arrays(recipe, 1, samples, seed=0)
    cut = np.vstack([transitions(part, lags) for part in parts.values()])
    np.testing.assert_array_equal(cut, transitions(whole["client-0"], lags))
    assert len(cut) == samples


def test_same_seed_same_bits_other_seed_other_network() -> None:
    first, truth = draw_arrays(RECIPE, 2, 50, seed=1)
    again, _ = draw_arrays(RECIPE, 2, 50, seed=1)
    other, other_truth = draw_arrays(RECIPE, 2, 50, seed=2)
    assert all((first[name] == again[name]).all() for name in first)
    assert (first["client-0"] != other["client-0"]).any()
    assert isinstance(truth, Network)
    assert isinstance(other_truth, Network)
    assert (truth.within != other_truth.within).any()


def test_degrees_weights_and_decay_are_as_stated() -> None:
    recipe = Recipe(variables=20, lags=2, degree=4.0, out_degree=1.0, decay=1.5)
    networks = [draw_network(recipe, np.random.default_rng(seed)) for seed in range(60)]
    assert all(network.is_acyclic and network.is_stable for network in networks)
    assert np.mean([np.count_nonzero(network.within) for network in networks]) == pytest.approx(40, abs=2.5)
    for lag in (0, 1):
        found = np.concatenate([network.across[lag][network.across[lag] != 0] for network in networks])
        assert len(found) / 60 == pytest.approx(20, abs=2)
        low, high = np.abs(found).min(), np.abs(found).max()
        assert 0.3 / 1.5**lag <= low <= high <= 0.5 / 1.5**lag
        assert abs(np.mean(found > 0) - 0.5) < 0.1
    orders = [np.triu(network.within).astype(bool).sum() for network in networks]
    assert np.mean(orders) == pytest.approx(20, abs=2.5)


@pytest.mark.parametrize("standardised", [False, True])
def test_least_squares_on_true_parents_recovers_the_weights(standardised: bool) -> None:
    arrays, truth = draw_arrays(RECIPE, 1, 20_000, seed=3, standardised=standardised)
    assert isinstance(truth, Network)
    values = arrays["client-0"]
    rows = transitions(values, 2)
    weights = np.vstack([truth.within, *truth.across])
    for target in range(6):
        parents = np.flatnonzero(weights[:, target])
        found = np.linalg.lstsq(rows[:, parents], rows[:, target], rcond=None)[0]
        np.testing.assert_allclose(found, weights[parents, target], atol=0.04)
    if standardised:
        np.testing.assert_allclose(values.std(axis=0), 1.0)


def test_noise_spread_is_equal_or_not() -> None:
    for noise, low, high in (("equal", 0.95, 1.05), ("unequal", 0.45, 2.1)):
        arrays, truth = draw_arrays(RECIPE, 1, 8000, seed=5, noise=noise)
        assert isinstance(truth, Network)
        rows = transitions(arrays["client-0"], 2)
        spread = (rows[:, :6] - rows @ np.vstack([truth.within, *truth.across])).std(axis=0)
        assert low < spread.min() < spread.max() < high
    assert spread.max() > 1.3 * spread.min()


@pytest.mark.parametrize("shared", [0.0, 0.8])
def test_relatives_share_the_stated_edges_and_weights(shared: float) -> None:
    recipe = Recipe(10, 1, 4.0, 1.0, 1.5)
    arrays, truth = draw_arrays(recipe, 6, 180, seed=1, shared=shared)
    assert isinstance(truth, dict)
    assert list(truth) == list(arrays)
    stacked = np.array([np.vstack([network.within, *network.across]) for network in truth.values()])
    sizes = np.count_nonzero(stacked, axis=(1, 2))
    assert len(set(sizes)) == 1
    common = (stacked != 0).all(axis=0)
    assert common.sum() == pytest.approx(shared * sizes[0], abs=1.5)
    assert (stacked[:, common] == stacked[0, common]).all()
    assert all(network.is_acyclic and network.is_stable for network in truth.values())
    assert sum(len(values) - 1 for values in arrays.values()) == 180


def test_missing_cells_are_missing_at_both_sides_of_a_cut() -> None:
    arrays, _ = draw_arrays(RECIPE, 4, 4000, seed=0, missing=0.2)
    parts = list(arrays.values())
    assert np.mean([np.isnan(part).mean() for part in parts]) == pytest.approx(0.2, abs=0.01)
    for before, after in pairwise(parts):
        np.testing.assert_array_equal(before[-2:], after[:2])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"variables": 0}, "variables must be a whole number of at least 1"),
        ({"clients": 0}, "clients must be a whole number of at least 1"),
        ({"clients": 9, "samples": 8}, "samples must be a whole number of at least 9"),
        ({"lags": -1}, "lags must be a whole number of at least 0"),
        ({"decay": 0.5}, "decay must be a number, at least 1"),
        ({"noise": "equall"}, "did you mean 'equal'"),
        ({"shared": 1.5}, "shared must be a number, at least 0 and at most 1"),
        ({"missing": 1.0}, "missing must be at least 0 and below 1"),
    ],
)
def test_wrong_options_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        make_networks(**changes)  # type: ignore[arg-type]


def test_a_hopelessly_unstable_recipe_says_what_to_lower() -> None:
    with pytest.raises(ParameterError, match="lower degree"):
        make_networks(variables=12, out_degree=12.0)
