from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, f1_score, precision_score, recall_score, roc_auc_score

from cotempo.errors import DataError, DataWarning
from cotempo.networks.metrics import score_network
from cotempo.networks.network import Network


def random_dag(seed: int, variables: int = 6, lags: int = 2) -> Network:
    rng = np.random.default_rng(seed)
    order = rng.permutation(variables)
    weights = np.triu(rng.normal(size=(variables, variables)) * (rng.random((variables, variables)) < 0.5), 1)
    within = np.zeros((variables, variables))
    within[np.ix_(order, order)] = weights
    across = rng.normal(size=(lags, variables, variables)) * (rng.random((lags, variables, variables)) < 0.3)
    return Network(within, across)


def count_pair_by_pair(found: np.ndarray, truth: np.ndarray) -> tuple[int, int]:
    single = double = 0
    for one in range(len(truth)):
        for other in range(one):
            have = (found[one, other] != 0, found[other, one] != 0)
            want = (truth[one, other] != 0, truth[other, one] != 0)
            if have != want:
                single += 1
                double += 2 if any(have) and any(want) else 1
    return single, double


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_distances_agree_with_counting_pairs(seed: int) -> None:
    found, truth = random_dag(seed), random_dag(seed + 1)
    scores = score_network(found, truth)
    single, double = count_pair_by_pair(found.within, truth.within)
    lagged = int(((found.across != 0) != (truth.across != 0)).sum())
    assert (scores["within_shd"], scores["within_shd_double"]) == (single, double)
    assert scores["across_shd"] == scores["across_shd_double"] == lagged
    assert (scores["shd"], scores["shd_double"]) == (single + lagged, double + lagged)


@pytest.mark.parametrize("seed", range(10))
def test_rates_and_areas_agree_with_sklearn(seed: int) -> None:
    found, truth = random_dag(seed), random_dag(seed + 100)
    scores = score_network(found, truth)
    off = ~np.eye(6, dtype=bool)
    cells = {
        ("within_", ""): (found.within[off], truth.within[off]),
        ("across_", ""): (found.across.ravel(), truth.across.ravel()),
        ("across_", "_off_diagonal"): (found.across[:, off].ravel(), truth.across[:, off].ravel()),
    }
    for (prefix, suffix), (guess, true) in cells.items():
        assert scores[f"{prefix}auroc{suffix}"] == pytest.approx(roc_auc_score(true != 0, np.abs(guess)))
        assert scores[f"{prefix}aupr{suffix}"] == pytest.approx(average_precision_score(true != 0, np.abs(guess)))
        if not suffix:
            assert scores[f"{prefix}tpr"] == pytest.approx(recall_score(true != 0, guess != 0))
            assert scores[f"{prefix}fdr"] == pytest.approx(1 - precision_score(true != 0, guess != 0))
            assert scores[f"{prefix}f1"] == pytest.approx(f1_score(true != 0, guess != 0))


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_truth_against_itself_is_perfect(seed: int) -> None:
    truth = random_dag(seed)
    scores = score_network(truth, truth)
    assert scores["shd"] == scores["shd_double"] == scores["fdr"] == 0
    assert scores["tpr"] == scores["f1"] == 1
    assert np.isnan(scores["within_auroc"]) or scores["within_auroc"] == 1


def test_empty_networks_are_scored_not_divided_by_zero() -> None:
    empty = Network(np.zeros((3, 3)), np.zeros((1, 3, 3)))
    scores = score_network(empty, empty)
    assert (scores["shd"], scores["tpr"], scores["fdr"], scores["f1"]) == (0, 1, 0, 1)
    assert np.isnan(scores["within_auroc"])
    assert score_network(empty, random_dag(0, 3, 1))["within_tpr"] == 0


def test_many_clients_are_averaged() -> None:
    truth = {"a": random_dag(0), "b": random_dag(1)}
    found = {"a": random_dag(2), "b": random_dag(3)}
    apart = [score_network(found[name], truth[name]) for name in truth]
    together = score_network(found, truth)
    assert together["within_shd"] == np.mean([score["within_shd"] for score in apart])
    one_for_all = score_network(found["a"], truth)
    assert one_for_all["within_shd"] == np.mean(
        [score_network(found["a"], truth[name])["within_shd"] for name in truth]
    )


def test_networks_are_compared_by_the_names_of_their_variables() -> None:
    found, truth = random_dag(0, 4), random_dag(1, 4)
    turned = truth.among(["x3", "x0", "x2", "x1"])
    assert score_network(found, turned) == score_network(found, truth)
    assert turned.among(truth.variables).edge_list() == truth.edge_list()
    few = found.among(["x2", "x0"])
    with pytest.warns(DataWarning, match="not learned: x1, x3"):
        assert score_network(few, truth) == score_network(few, truth.among(["x2", "x0"]))


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(DataError, match="lacks x4"):
        score_network(random_dag(0, 5), random_dag(0, 4))
    with pytest.raises(DataError, match="same clients"):
        score_network({"a": random_dag(0)}, {"b": random_dag(0)})
    with pytest.raises(DataError, match="at least one"):
        score_network({}, random_dag(0))


def test_a_truth_of_ones_own_becomes_a_network_and_else_the_error_says_how() -> None:
    """A dataframe gave `'Series' object has no attribute 'variables'`, an array `unhashable type`."""
    pandas = pytest.importorskip("pandas")
    truth = Network([[0, 0, 0]] * 3, [[[0, 1, 0], [0, 0, 1], [0, 0, 0]]], ("a", "b", "c"))
    square = pandas.DataFrame(truth.across[0], ["a", "b", "c"], ["a", "b", "c"])
    for frame in (square, square.iloc[::-1], truth.edges(), truth.edges()[["source", "target"]]):
        made = Network.from_frame(frame, variables=truth.variables)
        assert score_network(truth, made)["shd"] == 0.0
    assert Network.from_frame(truth.edges("polars"), lags=2).lags == 2
    for wrong in (square, truth.across[0]):
        with pytest.raises(DataError, match=r"truth must be a Network.*Network\.from_frame"):
            score_network(truth, wrong)
        with pytest.raises(DataError, match="found must be a Network"):
            score_network({"lab": wrong}, truth)
    with pytest.raises(DataError, match="as many lags, got 1 and 2"):
        score_network(truth, Network.from_frame(square, lags=2))
    with pytest.raises(DataError, match="none called 'c'"):
        Network.from_frame(square, variables=("a", "b"))
    with pytest.raises(DataError, match="between 0 and lags=0, got 1"):
        Network.from_frame(truth.edges(), lags=0)
    with pytest.raises(DataError, match="must have the columns source and target"):
        Network.from_frame(square.reset_index())
