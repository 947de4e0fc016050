"""Private networks: what one time point moves is what the noise is sized for, and networks are found all the same."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import cotempo as ct
from cotempo.errors import DataError, DataWarning, MessageError, ParameterError, SchemaError
from cotempo.federation import Message, Question, Rng, Shield
from cotempo.networks.moments import Gram, transitions
from cotempo.networks.private import Moments, PrivateNetwork
from cotempo.privacy.histograms import histograms, locate
from cotempo.privacy.noise import Noise
from cotempo.privacy.settings import Privacy
from cotempo.testing import check_method
from cotempo.testing.sensitivity import question_of, sensitivity_used

pytestmark = pytest.mark.filterwarnings("ignore:.*agreed range")
COMMON = Message({"centre": np.array([0.5, -1.0]), "scale": np.array([1.0, 2.0])})
LIMITS = Message({"low": np.full(2, -3.0), "high": np.full(2, 3.0)})


def form(method: Any = None, **changes: Any) -> PrivateNetwork:
    private = (method or ct.OneRound()).private(Privacy(epsilon=1, ranges=(-3, 3), seeded=True, **changes))
    assert isinstance(private, PrivateNetwork)
    return private


def moved(method: PrivateNetwork, values: np.ndarray, place: int) -> tuple[float, float]:
    """How much of each phase's claim one missing time point uses."""
    without = values.copy()
    without[place] = np.nan
    tables = ct.Series.from_arrays(values), ct.Series.from_arrays(without)
    return sensitivity_used(method, "ranges", tables, LIMITS), sensitivity_used(method, "moments", tables, COMMON)


@settings(max_examples=60, deadline=None)
@given(
    values=arrays(np.float64, (12, 2), elements=st.floats(-1e4, 1e4, width=32)),
    place=st.integers(0, 11),
    lags=st.integers(0, 3),
    clip=st.sampled_from([None, 0.5, 30.0]),
)
def test_a_time_point_moves_no_message_by_more_than_is_claimed(
    values: np.ndarray, place: int, lags: int, clip: float | None
) -> None:
    values = values + np.arange(24.0).reshape(12, 2)[::-1] * 1e-3  # columns must vary
    if any(len(np.unique(np.delete(column, place))) < 2 for column in values.T):
        return
    method = form(ct.OneRound(lags=lags, minimum_rows=1), clip=clip)
    assert max(moved(method, values, place)) <= 1 + 1e-9


def test_the_claim_is_tight() -> None:
    """Equal points at the clipping bound use all that is claimed for products, so that noise is not larger than due."""
    point = np.array([3.0, 4.0]) * 1e3
    values = COMMON["centre"] + np.tile(point, (9, 1)) * COMMON["scale"]
    values[0] += 1.0
    method = form(ct.OneRound(lags=1))
    assert moved(method, values, 4)[1] == pytest.approx(1.0, abs=0.02)
    assert moved(method, values, 4)[0] == pytest.approx(1.0)


def test_without_noise_and_clipping_moments_are_those_of_all_transitions() -> None:
    clients, _ = ct.make_networks(variables=3, clients=1, samples=4000, lags=2, seed=3)
    (table,) = clients.values()
    found = Moments.of_points([table.values], 2, math.inf).gram(0.0)
    exact = Gram.of_rows(transitions(table.values, 2))
    assert (
        np.abs(found.gram / found.rows - exact.gram / exact.rows).max() < 0.02 * np.abs(exact.gram).max() / exact.rows
    )
    assert found.rows == exact.rows


def test_points_next_to_a_gap_or_with_a_missing_cell_make_no_pairs() -> None:
    values = np.arange(10.0).reshape(5, 2)
    values[2, 0] = np.nan
    assert Moments.of_points([values], 1, math.inf).counts.tolist() == [4, 2]
    assert Moments.of_points([values[:2], values[3:]], 1, math.inf).counts.tolist() == [4, 2]


def test_histograms_locate_columns_roughly() -> None:
    values = np.random.default_rng(0).normal([1.0, -2.0], [0.5, 3.0], size=(4000, 2))
    low, high = np.full(2, -20.0), np.full(2, 20.0)
    centre, scale = locate(histograms(values, low, high), low, high)
    assert np.abs(centre - [1.0, -2.0]).max() < 0.2
    assert np.abs(scale / [0.5, 3.0] - 1).max() < 0.2


@pytest.mark.parametrize("method", [ct.OneRound(), ct.FDBNL(scaled=False)], ids=["OneRound", "FDBNL"])
def test_networks_are_found_from_noised_moments(method: Any) -> None:
    clients, truth = ct.make_networks(variables=5, clients=5, samples=20_000, seed=1)
    private = method.private(Privacy(epsilon=2, ranges=(-15, 15), seeded=True, secure_sum=True))
    fitted = private.fit(clients, shields=[Noise(private, lambda question: 4)])
    scores = ct.score_network(fitted.network, truth)
    assert scores["within_shd"] <= 1
    assert type(fitted) is type(method.fit(clients))


def test_rows_fall_with_noise_and_reach_the_true_number_without() -> None:
    clients, _ = ct.make_networks(variables=4, clients=1, samples=3000, seed=0)
    points = next(iter(clients.values())).values
    moments = Moments.of_points([points / points.std(axis=0)], 1, 3.0)
    rows = [moments.gram(deviation).rows for deviation in (0.0, 10.0, 100.0)]
    assert rows[0] == len(points) - 1
    assert rows[0] > rows[1] > rows[2] > 1


def test_pure_noise_gives_hardly_any_edge() -> None:
    """Edges are judged against the noise: at a tiny epsilon there is nothing to find, and nothing is made up."""
    clients, _ = ct.make_networks(variables=6, clients=3, samples=300, seed=0)
    private = ct.OneRound().private(Privacy(epsilon=0.01, ranges=(-15, 15), seeded=True))
    network = private.fit(clients, shields=[Noise(private)]).network
    assert np.count_nonzero(network.within) + np.count_nonzero(network.across) <= 3


def test_rankings_and_own_networks_rest_on_the_same_claim() -> None:
    values = np.random.default_rng(0).normal(size=(40, 2)) * 5
    for method in (ct.EdgeRanking(score="granger", lags=2), ct.PFDBNL(lags=2)):
        assert max(moved(form(method), values, 7)) <= 1 + 1e-9
        assert max(moved(form(method, clip=0.1), values, 7)) > 0.5


@pytest.mark.parametrize("score", ["granger", "lagged"])
def test_edges_are_ranked_from_noised_moments(score: Any) -> None:
    clients, truth = ct.make_networks(variables=5, clients=4, samples=4000, degree=0, seed=0)
    method = ct.EdgeRanking(score=score, lags=1)
    privacy = Privacy(epsilon=3, ranges=(-15, 15), seeded=True, secure_sum=True)
    assert method.fit(clients, privacy=privacy).scores(truth)["auroc"] > 0.95
    assert method.fit(clients, privacy=privacy.model_copy(update={"epsilon": 0.01})).scores(truth)["auroc"] < 0.9


def test_clients_own_networks_stay_with_them_and_gain_from_the_common_one() -> None:
    clients, truth = ct.make_networks(variables=4, clients=6, samples=1800, shared=0.8, seed=1)
    heard: list[tuple[str, int]] = []

    class Heard(Shield):
        def protect(self, message: Message, question: Question, rng: Rng) -> Message:
            heard.append((question.phase, len(message)))
            return message

    privacy = Privacy(epsilon=8, ranges=(-15, 15), seeded=True, secure_sum=True)
    fitted = ct.PFDBNL(scaled=False).fit(clients, privacy=privacy, shields=[Heard()])
    assert {phase for phase, fields in heard if fields} == {"ranges", "moments"}
    assert {phase for phase, _ in heard} == {"ranges", "moments", "own"}
    own = [ct.score_network(fitted[name].network, truth[name])["within_f1"] for name in clients]
    common = [ct.score_network(fitted.network, truth[name])["within_f1"] for name in clients]
    assert np.mean(own) >= np.mean(common)
    assert np.mean(own) > 0.8
    assert len({fitted[name].network.within.tobytes() for name in clients}) == len(clients)


def test_scores_that_need_more_than_moments_are_refused() -> None:
    for method in (ct.EdgeRanking(), ct.EdgeRanking(score="granger"), ct.EdgeRanking(score="skewness", lags=1)):
        with pytest.raises(ParameterError, match="a score that follows from moments"):
            method.private(Privacy(epsilon=1, ranges=(0, 1)))


def test_agreed_ranges_are_asked_for_in_words() -> None:
    clients, _ = ct.make_networks(variables=2, clients=3, samples=60, seed=0)
    with pytest.raises(ParameterError, match="epsilon needs ranges"):
        ct.OneRound().private(Privacy(epsilon=1)).fit(clients)
    with pytest.raises(ParameterError, match="x1 has none"):
        ct.OneRound().private(Privacy(epsilon=1, ranges={"x0": (0, 1)})).fit(clients)
    with pytest.raises(ParameterError, match="personal and half_life"):
        ct.OneRound(personal=True).private(Privacy(epsilon=1, ranges=(0, 1)))


def test_what_the_method_refuses_its_private_form_refuses_too() -> None:
    with pytest.raises(DataError, match="at least 5 rows"):
        form().fit({"a": ct.Series.from_arrays(np.random.default_rng(0).normal(size=(4, 2)))})


@pytest.mark.slow
def test_the_private_form_keeps_the_contract(tmp_path: Path) -> None:
    clients, _ = ct.make_networks(variables=2, clients=3, samples=60, seed=0)
    check_method(form(ct.OneRound(restarts=0)), clients)
    check_method(form(ct.PFDBNL(rounds=4)), clients)


def test_ranges_that_do_not_suit_are_noticed_where_the_rows_are() -> None:
    """With p53 from -605 to 559 and a range of 20, wrong edges were stated as sure and nobody was warned."""
    rng = np.random.default_rng(0)
    table = ct.Series.from_arrays(rng.normal(size=(200, 3)) * [300.0, 0.02, 1.0], features=("p53", "il6", "myc"))
    method = ct.OneRound().private(Privacy(epsilon=8, ranges=(-20, 20), seeded=True))
    with pytest.warns(DataWarning) as found:
        method.prepare(table)
    lines = [str(one.message) for one in found]
    assert [line.split(":")[0] for line in lines] == ["p53", "il6"]
    assert "lie outside the agreed range (-20, 20)" in lines[0]
    assert "hardly vary" in lines[1]
    ranges = {"p53": (-1500.0, 1500.0), "il6": (-0.1, 0.1), "myc": (-5.0, 5.0)}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ct.OneRound().private(Privacy(epsilon=8, ranges=ranges, seeded=True)).prepare(table)


def test_labs_that_lack_variables_are_told_that_epsilon_is_the_reason() -> None:
    clients, _ = ct.make_networks(variables=3, clients=3, samples=60, seed=0)
    clients["client-1"] = clients["client-1"].select(features=["x0", "x2"])
    with pytest.raises(SchemaError, match=r"with epsilon all clients need the same columns.*needs the 2 that all hold"):
        ct.OneRound().fit(clients, privacy=Privacy(epsilon=1, ranges=(-9, 9)))


def test_a_private_result_says_why_nobody_was_compared() -> None:
    clients, _ = ct.make_networks(variables=3, clients=3, samples=60, seed=0)
    fitted = ct.OneRound().fit(clients, privacy=Privacy(epsilon=5, ranges=(-9, 9), seeded=True))
    (line,) = [line for line in fitted.advice() if "not compared" in line]
    assert "OneRound with epsilon compares nobody" in line


def test_noise_that_drowns_the_edges_is_named(tmp_path: Path) -> None:
    """ "Found 0 edges" was all that the result, its advice and its report said."""
    clients, _ = ct.make_networks(variables=6, clients=3, samples=210, seed=0)
    ranges = Privacy(epsilon=1, ranges=(-9, 9), seeded=True)
    fitted = ct.OneRound().fit(clients, privacy=ranges)
    (line,) = [line for line in fitted.advice() if "noise of epsilon 1" in line]
    assert "a missing edge says nothing" in fitted.answer()
    assert line.split(":")[0][1:] in fitted.report(tmp_path / "page.html").read_text()
    assert ct.OneRound().fit(clients).answer().count("oise") == 0


@pytest.mark.parametrize("phase", ["ranges", "moments"])
def test_no_shape_of_the_servers_choice_counts_a_row_more_than_once(phase: str) -> None:
    """A centre for each of a hundred rows was stretched over a piece of one row, which then counted a hundred times."""
    rng, method = np.random.default_rng(0), form(ct.OneRound(lags=1))
    prepared = method.prepare(ct.Series.from_arrays([rng.normal(size=(100, 2)), rng.normal(size=(1, 2))]))
    for first, second in [((100, 2), (2,)), ((2,), (100, 2)), ((1, 2), (2,)), ((), ())]:
        names = ("low", "high") if phase == "ranges" else ("centre", "scale")
        common = Message(dict(zip(names, (np.zeros(first), np.ones(second)), strict=True)))
        with pytest.raises(MessageError, match="one number for each of the 2 columns"):
            method.answer(question_of(phase, common), prepared, None, Rng(0))


@pytest.mark.parametrize("method", [ct.OneRound(), ct.FDBNL(), ct.PFDBNL(), ct.EdgeRanking(score="granger", lags=1)])
def test_no_value_of_a_row_decides_whether_a_table_is_refused(method: Any) -> None:
    """A column that is constant but for one row, or five complete rows: without that row the table was refused."""
    rng, private = np.random.default_rng(0), form(method)
    constant, few = rng.normal(size=(2, 40, 2))
    constant[1:, 1], few[6:] = 0.0, np.nan
    for values in (constant, few, np.full((40, 2), np.nan)):
        without = values.copy()
        without[0] = np.nan
        tables = ct.Series.from_arrays(values), ct.Series.from_arrays(without)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)
            assert sensitivity_used(private, "ranges", tables, LIMITS) <= 1 + 1e-9
            assert sensitivity_used(private, "moments", tables, COMMON) <= 1 + 1e-9
    constant[0] = np.nan
    with pytest.warns(DataWarning, match=r"would be refused without epsilon.*x1: values must vary"):
        private.prepare(ct.Series.from_arrays(constant))
