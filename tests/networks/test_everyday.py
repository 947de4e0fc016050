"""What a biologist stumbled on: own networks are judged, whoever is left out is named, logarithms are found."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import cotempo as ct
from cotempo.data import Series
from cotempo.errors import AdviceWarning, DataError
from cotempo.networks.search.orders import minimum_pivots

QUICK = ct.OneRound(restarts=0)


def test_with_personal_networks_the_own_one_is_compared_with_learning_alone() -> None:
    clients, _ = ct.make_networks(variables=3, clients=4, samples=480, seed=1)
    other, _ = ct.make_networks(variables=3, clients=1, samples=120, seed=9)
    clients["client-3"] = other["client-0"]
    plain = ct.Robust("mean", cap=None)
    common, own = (
        ct.OneRound(restarts=0, personal=personal).fit(clients, reducer=plain, progress=False)
        for personal in (False, True)
    )
    assert common.benefit["client-3"].verdict == "harmed"
    assert any("personal=True" in line for line in common.advice())
    assert own.benefit["client-3"].gain > common.benefit["client-3"].gain + 0.1
    assert own.joining.gain == pytest.approx(np.mean([item.gain for item in own.benefit.values()]))


def test_a_client_that_is_left_out_is_named_and_left_out_of_all_that_follows() -> None:
    clients, _ = ct.make_networks(variables=3, clients=6, samples=1200, seed=1)
    clients["client-2"] = replace(clients["client-2"], values=clients["client-2"].values * [1.0, -40.0, 1.0])
    with pytest.warns(AdviceWarning, match=r"client-2 was left out .*Robust\(\"mean\""):
        fitted = QUICK.fit(clients)
    assert fitted.suspects == fitted.state.left_out == ("client-2",)
    lines = fitted.advice()
    assert any("client-2 was left out" in line for line in lines)
    assert not any("not compared" in line for line in lines)
    asked = [record["received"] for record in fitted.history if record["phase"] == "compare"]
    assert asked
    assert all("client-2" not in received for received in asked)


@pytest.mark.parametrize("base", [2.0, np.e, 10.0])
def test_a_survey_finds_logarithms(base: float) -> None:
    rng = np.random.default_rng(0)
    tables = [100 + 12 * rng.normal(size=(120, 3)) for _ in range(5)]
    tables[2] = np.log(tables[2]) / np.log(base)
    found = ct.survey({f"lab-{place}": Series.from_arrays(values) for place, values in enumerate(tables)})
    assert {finding.kind for finding in found["lab-2"]} == {"logarithm"}
    assert not any(found[f"lab-{place}"] for place in (0, 1, 3, 4))


def test_a_truth_in_a_dataframe_is_drawn_and_a_client_prints_in_one_line() -> None:
    clients, truth = ct.make_networks(variables=3, clients=2, samples=200, seed=0)
    fitted = QUICK.fit(clients)
    assert fitted.plot(truth=truth.edges()).axes
    assert "\n" not in repr(fitted["client-0"])


def test_a_fitted_ranking_names_its_surest_edges() -> None:
    clients, truth = ct.make_networks(variables=4, clients=2, samples=200, degree=0, seed=0)
    fitted = ct.EdgeRanking(score="granger").fit(clients)
    source, target, _ = fitted.top(1)[0]
    assert f"{source} → {target}" in fitted.answer()
    assert fitted.compare(truth) == fitted.ranking.compare(truth)
    assert isinstance(fitted.tables()["ranking"], pd.DataFrame)


def test_more_variables_than_rows_overflow_nothing() -> None:
    rows = np.random.default_rng(0).normal(size=(20, 120))
    with np.errstate(all="raise"):
        order, pivots = minimum_pivots(rows.T @ rows, 60, scaled=True)
    assert sorted(order) == list(range(60))
    assert (pivots > 0).all()
    assert pivots.max() <= 2.0


def test_a_table_in_another_unit_is_warned_of_at_once_without_blaming_one_that_is_not() -> None:
    clients = dict(ct.make_networks(variables=4, clients=4, samples=800, seed=3)[0])
    odd = clients["client-3"]
    clients["client-3"] = replace(odd, values=2.0 ** (8.0 + 2.0 * odd.values))  # counts beside logarithms
    with pytest.warns(AdviceWarning, match=r"run cotempo survey") as caught:
        fitted = ct.OneRound().fit(clients, progress=False)
    (said,) = [str(one.message) for one in caught if "cotempo survey" in str(one.message)]
    assert said in fitted.advice()
    assert "client-0, client-1, client-2" in said
    assert "theirs or another's" in said


def hourly(step: float, unit: str = "h") -> ct.Series:
    values = np.random.default_rng(0).normal(size=(120, 3))
    return ct.Series.from_arrays(values, np.arange(120) * step, unit=unit)


@pytest.mark.parametrize("method", [ct.OneRound(lags=2), ct.FDBNL(), ct.PFDBNL(), ct.EdgeRanking()])
def test_clients_whose_rows_are_not_equally_far_apart_are_refused(method: ct.Method) -> None:
    with pytest.raises(DataError, match=r"1 h apart at b, c: a row is no common step; .*resample=\"1h\""):
        method.fit({"a": hourly(0.5), "b": hourly(1), "c": hourly(1)}, progress=False)


@pytest.mark.filterwarnings("ignore")
def test_other_steps_are_not_refused_without_lags_nor_where_time_is_a_plain_number() -> None:
    ct.OneRound(lags=0, compare=False).fit({"a": hourly(0.5), "b": hourly(1)}, progress=False)
    ct.OneRound(lags=1, compare=False).fit({"a": hourly(0.5, ""), "b": hourly(1, "")}, progress=False)


@pytest.mark.parametrize("seed", range(6))
def test_a_variable_that_lags_explain_wholly_has_no_variance_below_zero(seed: int) -> None:
    rows = np.random.default_rng(seed).normal(size=(12, 120))
    rows[:, 60] = rows[:, 0]
    gram = np.round(rows.T @ rows, 3)  # so coarse that rounding leaves less than nothing
    gram[60:, 60:] *= 1 - 1e-5
    with np.errstate(all="raise"):
        order, pivots = minimum_pivots(gram, 60, scaled=True)
    assert sorted(order) == list(range(60))
    assert (pivots > 0).all()
