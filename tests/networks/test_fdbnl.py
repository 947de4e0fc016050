from __future__ import annotations

import numpy as np
import pytest

import cotempo as ct
from cotempo.errors import DataError, ParameterError
from cotempo.federation.registry import find_method
from cotempo.networks.admm.trial_then_fit import SPARSITIES, choose_candidate, sum_densities
from cotempo.networks.fdbnl import FDBNL


def scores_of(method: FDBNL, seeds: range, **data: object) -> dict[str, float]:
    found = []
    for seed in seeds:
        clients, truth = ct.make_networks(seed=seed, **data)
        found.append(ct.score_network(method.fit(clients, progress=False).network, truth))
    return {name: float(np.mean([one[name] for one in found])) for name in found[0]}


def test_known_by_its_other_name() -> None:
    assert find_method("fPTN") is FDBNL


@pytest.mark.parametrize(("clients", "limit"), [(8, 4.0), (64, 4.0)])
def test_finds_the_true_network_and_unshrunken_weights(clients: int, limit: float) -> None:
    tables, truth = ct.make_networks(variables=20, clients=clients, samples=512, seed=1)
    fitted = FDBNL(scaled=False, compare=False).fit(tables, progress=False)
    scores = ct.score_network(fitted.network, truth)
    assert scores["within_shd_double"] <= limit
    assert scores["across_shd"] <= limit
    both = (fitted.network.within != 0) & (truth.within != 0)
    bias = np.abs(truth.within[both]) - np.abs(fitted.network.within[both])
    assert abs(bias.mean()) < 0.02


def test_static_networks() -> None:
    scores = scores_of(
        FDBNL(lags=0, scaled=False, compare=False), range(3), variables=8, clients=4, samples=800, lags=0, degree=2.0
    )
    assert scores["within_shd_double"] <= 2
    tables, _ = ct.make_networks(variables=4, clients=2, samples=100, lags=0, seed=0)
    assert FDBNL(lags=0).fit(tables, progress=False).network.across.shape == (0, 4, 4)


def test_three_lags_keep_the_weak_third() -> None:
    data = {"variables": 10, "clients": 4, "samples": 1000, "lags": 3}
    usual = scores_of(FDBNL(lags=3, scaled=False, compare=False), range(2), **data)
    high = scores_of(FDBNL(lags=3, threshold_across=0.15, scaled=False, compare=False), range(2), **data)
    assert usual["within_shd_double"] <= 3
    assert usual["across_shd"] <= 5
    assert usual["across_shd"] < high["across_shd"]


def test_paper_preset_gets_5_to_30_edges_wrong_at_20_variables() -> None:
    assert FDBNL(preset="paper").lambda_within == 0.5
    scores = scores_of(FDBNL(preset="paper", compare=False), range(3), variables=20, clients=8, samples=512)
    assert 5 <= scores["within_shd_double"] <= 30


@pytest.mark.parametrize("clients", [2, 8, 64])
@pytest.mark.parametrize("sparsity", [0.05, 0.5])
def test_no_empty_graph_at_the_papers_sparsities(clients: int, sparsity: float) -> None:
    tables, truth = ct.make_networks(variables=10, clients=clients, samples=512, seed=7)
    method = FDBNL(lambda_within=sparsity / clients, lambda_across=sparsity / clients, scaled=False, compare=False)
    network = method.fit(tables, progress=False).network
    assert np.count_nonzero(network.within) >= np.count_nonzero(truth.within) / 3


def test_automatic_sparsity_beats_a_fixed_one_on_few_rows() -> None:
    data = {"variables": 10, "clients": 5, "samples": 50}
    auto = scores_of(FDBNL(compare=False), range(3), **data)
    fixed = scores_of(FDBNL(lambda_within=0.05, lambda_across=0.05, compare=False), range(3), **data)
    assert auto["shd_double"] < fixed["shd_double"]


def test_automatic_sparsity_follows_the_common_unit() -> None:
    """Data in another common unit have the same network, scaled or not: weights are ratios."""
    tables, _ = ct.make_networks(variables=5, clients=3, samples=300, seed=2)
    larger = {name: ct.Series.from_arrays(1000 * t.values + 7, features=t.features) for name, t in tables.items()}
    one, other = (FDBNL(scaled=False, compare=False).fit(t, progress=False) for t in (tables, larger))
    np.testing.assert_allclose(one.network.within, other.network.within, atol=1e-6)


def test_choice_takes_the_sparsest_within_one_error() -> None:
    rng = np.random.default_rng(0)
    common = rng.normal(size=400)
    density = np.array([common, common + 0.001 * rng.normal(size=400), common - 0.5, common - 1.0])
    said = [sum_densities(part[:, :, None]) for part in (density[:, :200], density[:, 200:])]
    assert choose_candidate(**{name: said[0][name] + said[1][name] for name in said[0]}) == 1


def test_candidates_fill_in_only_what_is_automatic() -> None:
    candidates = FDBNL(lambda_within=0.2)._candidates(0.5, unit=2.0, clients=3)
    np.testing.assert_allclose(candidates[:, 0], 0.1)
    np.testing.assert_allclose(candidates[:, 1], 0.5 * np.array(SPARSITIES))
    assert len(FDBNL(lambda_within=0.2, lambda_across=0.1)._candidates(0.5, unit=1.0, clients=3)) == 1


def test_clients_too_small_to_hold_rows_out() -> None:
    tables, _ = ct.make_networks(variables=4, clients=20, samples=80, seed=0)
    fitted = FDBNL().fit(tables, progress=False)
    assert fitted.benefit == {}
    assert fitted.network.is_acyclic


def test_saved_and_loaded(tmp_path) -> None:
    tables, _ = ct.make_networks(variables=4, clients=3, samples=120, seed=0)
    fitted = FDBNL(rounds=5).fit(tables, progress=False)
    again = ct.load(fitted.save(tmp_path / "fitted"))
    np.testing.assert_array_equal(again.network.within, fitted.network.within)
    assert set(fitted.benefit) == set(tables)


def spoiled(change) -> dict[str, ct.Series]:
    tables, _ = ct.make_networks(variables=3, clients=3, samples=60, seed=0)
    values = tables["client-1"].values.copy()
    return {**tables, "client-1": ct.Series.from_arrays(change(values), features=tables["client-1"].features)}


def constant(values: np.ndarray) -> np.ndarray:
    return np.column_stack([values[:, 0], np.full(len(values), 4.5), values[:, 2]])


def missing(values: np.ndarray) -> np.ndarray:
    return np.column_stack([values[:, 0], np.full(len(values), np.nan), values[:, 2]])


BAD = [
    (constant, "client client-1, column x1: values must vary"),
    (missing, "client client-1, column x1: at least one value must not be missing"),
    (lambda values: values[:2], "client client-1: at least 2 stretches of 3 rows"),
    (lambda values: values[:3], "client client-1: at least 2 stretches of 3 rows .* there are 1"),
]


@pytest.mark.parametrize("method", [ct.FDBNL(lags=2), ct.PFDBNL(lags=2)], ids=["FDBNL", "PFDBNL"])
@pytest.mark.parametrize(("change", "message"), BAD)
def test_bad_tables_are_refused_by_client(method, change, message: str) -> None:
    with pytest.raises(DataError, match=message):
        method.fit(spoiled(change), progress=False)


def test_bad_parameters_are_refused() -> None:
    for wrong in ({"lambda_within": -1.0}, {"lambda_across": "automatic"}, {"lags": -1}, {"lamda_within": 0.1}):
        with pytest.raises(ParameterError, match=r"lambda_within|lambda_across|lags"):
            FDBNL(**wrong)


def test_without_waiting_for_stragglers_the_graph_is_the_same_in_half_the_time():
    """Two of ten clients are ten times slower; both loops with the same parameters, on an easy network."""
    clients, truth = ct.make_networks(variables=5, clients=10, samples=4000, degree=2.0, seed=0)
    method = ct.FDBNL(lambda_within=0.05, lambda_across=0.05, scaled=False, compare=False, cycle_growth=1.3)
    slow = ct.Delays(stragglers=0.2, slowdown=10)
    waited, late = (ct.simulate_delays(method, clients, delays=slow, buffer=buffer)[-1] for buffer in (None, "auto"))
    one, other = (step.step.state.shared[0] for step in (waited, late))
    np.testing.assert_allclose(one, other, atol=0.03)
    np.testing.assert_array_equal(np.abs(other[:5]) >= method.threshold, truth.within != 0)
    np.testing.assert_array_equal(np.abs(one) >= 0.15, np.abs(other) >= 0.15)
    assert late.seconds <= waited.seconds / 2


def test_the_preset_paper_has_the_papers_numbers():
    """Appendix: lambda_W = lambda_A = .5 in general; section 4.2 and Figure 2: phi_1 1.6, phi_2 1.1, tau .3."""
    paper = FDBNL(preset="paper")
    assert (paper.lambda_within, paper.lambda_across) == (0.5, 0.5)
    assert (paper.cycle_growth, paper.consensus_growth) == (1.6, 1.1)
    assert (paper.threshold, paper.threshold_across, paper.weighting) == (0.3, 0.3, "clients")
    assert (paper.centred, paper.scaled, paper.refit) == (False, False, False)
