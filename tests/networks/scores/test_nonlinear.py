from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

import cotempo as ct
from cotempo.errors import ParameterError
from cotempo.networks import Network
from cotempo.networks.fitted import edges_of
from cotempo.networks.scores.copula import BINS, edges, hidden_correlations, hidden_scores, histogram
from cotempo.networks.scores.features import JointRows, draw_waves
from cotempo.runs.experiment import Experiment, load_clients


def auroc(clients: dict[str, ct.Series], truth: Network, **settings: object) -> float:
    return ct.rank_edges(clients, **settings).compare(truth)["auroc"]


def mixed(clients: dict[str, ct.Series]) -> dict[str, ct.Series]:
    """Every third column binary, every third skewed."""
    tables = {}
    for name, series in clients.items():
        values = series.values.copy()
        values[:, 0::3] = values[:, 0::3] > 0.8
        values[:, 1::3] = np.exp(2.0 * values[:, 1::3])
        tables[name] = ct.Series.from_arrays(values, features=series.features)
    return tables


def test_fourier_features_see_what_linear_scores_do_not() -> None:
    found = []
    for seed in range(3):
        clients, truth = ct.make_networks(10, 5, 500, seed=seed, degree=0, out_degree=2, nonlinear="cosine")
        assert isinstance(truth, Network)
        found.append([auroc(clients, truth, score=score, seed=seed) for score in ("granger", "lagged", "fourier")])
    granger, lagged, fourier = np.mean(found, axis=0)
    assert max(granger, lagged) < 0.65
    assert fourier > 0.97


def test_saturating_effects_are_seen_by_both() -> None:
    clients, truth = ct.make_networks(10, 5, 500, seed=0, degree=0, out_degree=2, nonlinear="saturating")
    assert isinstance(truth, Network)
    assert min(auroc(clients, truth, score=score) for score in ("lagged", "fourier")) > 0.98


def test_the_copula_ranks_mixed_columns_as_if_they_were_gaussian() -> None:
    found = []
    for seed in range(3):
        clients, truth = ct.make_networks(12, 5, 500, seed=seed, degree=0, out_degree=2)
        assert isinstance(truth, Network)
        tables = mixed(clients)
        found.append([auroc(tables, truth, score="lagged", copula=copula) for copula in (False, True)])
    linear, copula = np.mean(found, axis=0)
    assert linear < 0.9
    assert copula > 0.98


@pytest.mark.parametrize("truth", [-0.8, 0.0, 0.3, 0.9])
def test_hidden_correlations_are_found_whatever_the_columns_are(truth: float) -> None:
    rng = np.random.default_rng(0)
    hidden = rng.multivariate_normal(np.zeros(4), np.eye(4) * (1 - abs(truth)) + abs(truth), size=40_000)
    hidden[:, 1::2] *= np.sign(truth) or 1.0
    values = np.column_stack(
        [hidden[:, 0] > 0.5, hidden[:, 1] > -0.3, np.exp(hidden[:, 2]), np.round(2 * hidden[:, 3])]
    )
    standard = (values - values.mean(axis=0)) / values.std(axis=0)
    counts = histogram(standard)
    scores = hidden_scores(standard, counts)
    found = hidden_correlations(np.cov(scores.T), counts)
    expected = np.corrcoef(hidden.T)
    np.testing.assert_allclose(found, expected, atol=0.02)
    assert np.linalg.eigvalsh(found)[0] > 0


def test_two_binary_columns_give_the_tetrachoric_correlation() -> None:
    thresholds, truth = (0.3, -0.6), 0.55
    both = multivariate_normal(cov=[[1, truth], [truth, 1]]).cdf([-thresholds[0], -thresholds[1]])
    shares = norm.cdf([-thresholds[0], -thresholds[1]])
    low, high = np.searchsorted(edges(), [-1.0, 1.0])
    counts = np.zeros((2, BINS))
    counts[:, low], counts[:, high] = 1e6 * (1 - shares), 1e6 * shares
    spread = np.sqrt(shares * (1 - shares))
    covariance = (both - shares[0] * shares[1]) / spread[0] / spread[1]
    found = hidden_correlations(np.array([[1.0, covariance], [covariance, 1.0]]), counts)
    assert found[0, 1] == pytest.approx(truth, abs=1e-4)


def test_histograms_of_split_clients_add_up_and_ranks_do_not_change() -> None:
    clients, _ = ct.make_networks(4, 1, 200, seed=1)
    rows = mixed(clients)["client-0"].values
    standard = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    parts = np.array_split(standard, 3)
    np.testing.assert_array_equal(histogram(standard), sum(histogram(part) for part in parts))
    split = {f"c{index}": ct.Series.from_arrays(part) for index, part in enumerate(np.array_split(rows, 3))}
    whole = {"all": ct.Series.from_arrays(rows)}
    off = ~np.eye(4, dtype=bool)
    found = [ct.rank_edges(one, score="within", copula=True).scores[off] for one in (split, whole)]
    np.testing.assert_allclose(*found, rtol=1e-6)


def test_hidden_scores_keep_the_order_and_the_holes() -> None:
    values = np.array([[0.3], [-1.0], [np.nan], [2.0]])
    scores = hidden_scores(values, histogram(values))
    assert scores[1, 0] < scores[0, 0] < scores[3, 0]
    assert np.isnan(scores[2, 0])
    np.testing.assert_allclose(np.nanmean(scores), 0.0, atol=1e-12)


def test_designs_name_the_columns_they_make() -> None:
    waves = draw_waves(3, np.random.default_rng(0))
    design = JointRows(2, 2, products=True, waves=waves)
    piece = np.random.default_rng(1).normal(size=(6, 2))
    rows = design.rows(piece)
    assert rows.shape == (4, len(design.columns))
    for column, values in zip(design.columns, rows.T, strict=True):
        sources = [piece[2 - column.lag : 6 - column.lag, source] for source in column.sources]
        if column.kind in ("now", "lag"):
            np.testing.assert_array_equal(values, sources[0])
        elif column.kind == "square":
            np.testing.assert_array_equal(values, sources[0] ** 2)
        elif column.kind == "product":
            np.testing.assert_array_equal(values, sources[0] * sources[1])
        else:
            assert any(np.allclose(values, 2**0.5 * np.cos(w * sources[0] + c)) for w, c in waves.T)


def test_the_rule_that_chooses_finds_lorenz96() -> None:
    for seed in range(3):
        clients, truth = ct.make_lorenz96(seed=seed)
        ranking = ct.rank_edges(clients)
        assert ranking.choice.startswith("products")
        assert ranking.compare(truth)["auroc"] >= 0.98


def test_lorenz96_can_be_named_in_an_experiment() -> None:
    data = {"generate": "lorenz96", "options": {"variables": 5, "clients": 2, "samples": 40}}
    clients, truth = load_clients(Experiment(method="EdgeRanking", data=data))
    assert {len(table.values) for table in clients.values()} == {20}
    assert truth.across.sum() == 20


def test_lorenz96_is_a_ring_and_follows_its_equation() -> None:
    clients, truth = ct.make_lorenz96(variables=5, clients=2, samples=60, step=0.001, noise=0.0)
    assert edges_of(truth)[:, 3].tolist() == [False, True, True, True, True]
    values = np.vstack([series.values for series in clients.values()])
    now = values[1:-1]
    slope = (values[2:] - values[:-2]) / 0.002
    expected = (np.roll(now, -1, axis=1) - np.roll(now, 2, axis=1)) * np.roll(now, 1, axis=1) - now + 10.0
    np.testing.assert_allclose(slope, expected, rtol=1e-3, atol=1e-2)
    with pytest.raises(ParameterError, match="variables must be a whole number of at least 4"):
        ct.make_lorenz96(variables=3)


def test_nonlinear_networks_follow_their_equation() -> None:
    clients, truth = ct.make_networks(4, 1, 3000, seed=0, out_degree=2, nonlinear="cosine")
    assert isinstance(truth, Network)
    values = clients["client-0"].values
    shocks = values[1:] @ (np.eye(4) - truth.within) - 2**0.5 * np.cos(2 * values[:-1]) @ truth.across[0]
    np.testing.assert_allclose(np.cov(shocks.T), np.eye(4), atol=0.1)
    with pytest.raises(ParameterError, match="did you mean 'cosine'"):
        ct.make_networks(nonlinear="cosin")
    with pytest.raises(ParameterError, match="standardised must be off"):
        ct.make_networks(nonlinear="cosine", standardised=True)
