"""Fills and forecasts keep to the ends of ranges, and counters are named."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

import cotempo as ct
from cotempo.data import Series
from cotempo.series.filling.limits import Limits


def plant(rows: int = 900, seed: int = 11) -> pd.DataFrame:
    """Air, a pump that runs when the load is high, and a flow with noise that is never below zero."""
    stream, hours = np.random.default_rng(seed), np.arange(rows) / 2
    air = 12 + 4 * np.sin(hours * np.pi / 12) + stream.normal(size=rows)
    load = 50 + 9 * np.sin((hours - 6) * np.pi / 12) + 2 * stream.normal(size=rows)
    pump = (load > 52) * 60.0
    flow = np.clip(2 * (load - 47) + stream.normal(size=rows), 0, None)
    dates = pd.date_range("2025-01-06", periods=rows, freq="30min", tz="UTC")
    return pd.DataFrame({"air": air, "pump": pump, "flow": flow}, index=dates)


def with_gap(frame: pd.DataFrame) -> pd.DataFrame:
    gone = frame.copy()
    gone.iloc[300:380, 1:] = np.nan
    gone.iloc[500:560, 1] = np.nan
    gone.iloc[600:650, 2] = np.nan
    return gone


def fitted(frame: pd.DataFrame, name: str) -> tuple:
    tables = ct.read_series({"a": frame, "b": plant(seed=12)}, unit="h")
    if name == "alone":
        return ct.SeriesMoments(window=24).fit(tables["a"]), tables["a"]
    joined = ct.FedMoments(window=24).fit(tables, progress=False)
    return (joined["a"] if name == "joined" else joined.pooled("a")), tables["a"]


@pytest.mark.parametrize("name", ["alone", "joined", "pooled"])
def test_fills_and_forecasts_keep_to_the_ends_of_a_range_and_to_on_and_off(name: str):
    truth = plant()
    model, table = fitted(with_gap(truth), name)
    for found in (
        model.impute(table, draws=3, level=(0.5, 0.9)),
        model.forecast(table, horizon="24h", draws=3, level=(0.5, 0.9)),
    ):
        pump, flow = found.features.index("pump"), found.features.index("flow")
        for part in (found.values, found.low, found.high, found.draws):
            assert {*np.unique(part[..., pump])} <= {0.0, 60.0}
            assert part[..., flow].min() >= 0
        assert (found.low <= found.values).all()
        assert (found.values <= found.high).all()
    assert np.isinf(model.known_limits().low[0])


def test_an_interval_of_two_values_holds_the_truth_as_often_as_it_says():
    truth = plant()
    model, table = fitted(with_gap(truth), "alone")
    found = model.impute(table)
    gone = found.missing[:, 1]
    inside = (found.low[:, 1] <= truth["pump"]) & (truth["pump"] <= found.high[:, 1])
    assert inside[gone].mean() > 0.85


def test_what_a_new_table_measures_widens_the_limits():
    limits = Limits.of(np.repeat([0.0, 1.0], 40)[:, None]).widen(np.array([[0.0], [2.0], [np.nan]]))
    assert limits.two.tolist() == [False]
    assert limits.keep(np.array([[1.4], [3.0]])).ravel().tolist() == [1.4, 2.0]


def test_a_column_without_a_hard_end_is_not_held():
    values = np.random.default_rng(0).normal(size=(500, 1))
    assert np.isinf([Limits.of(values).low, Limits.of(values).high]).all()
    assert np.isinf(Limits.of(np.ones((50, 1))).low).all()


def test_a_counter_is_named_by_check_and_by_fit():
    stream = np.random.default_rng(2)
    count = np.cumsum(30 + 5 * stream.normal(size=600)) % 7000
    series = Series.from_arrays(np.column_stack([count, stream.normal(size=600)]), features=("total", "load"))
    words = "column 'total' only grows, but for 2 resets: a counter?"
    assert any(words in line for line in ct.describe({"a": series}).lines())
    with pytest.warns(UserWarning, match="column 'total' only grows.*leave it out, or give differences"):
        ct.SeriesMoments(window=8).fit(series)
    with pytest.warns(UserWarning, match="a: column 'total' only grows"):
        ct.FedMoments(window=8).fit({"a": series, "b": series}, progress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ct.SeriesMoments(window=8).fit(series.select(features=["load"]))


def test_a_long_gap_is_filled_without_jumps_and_warned_of():
    truth = plant()[["air", "flow"]]
    truth["flow"] = 0.5 * truth["air"] + np.random.default_rng(1).normal(size=len(truth)).cumsum() / 5
    gone = truth.copy()
    gone.iloc[300:560] = np.nan
    table = ct.read_series({"a": gone}, unit="h")["a"]
    model = ct.SeriesMoments(window=24).fit(table)
    words = (
        r"'air' is missing in 260 rows, from 2025-01-12 06:00.* to .*, more than a window of 24 shows: .* a sequence"
    )
    with pytest.warns(UserWarning, match=words):
        found = model.impute(table)
    steps = np.abs(np.diff(found.values[300:560], axis=0))
    assert (steps.max(axis=0) < np.abs(np.diff(truth.to_numpy(), axis=0)).max(axis=0)).all()
    assert (steps[40:-40].max(axis=0) < 0.1 * truth.std().to_numpy()).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        short = truth.iloc[:300].copy()
        short[short.index.hour == 3] = np.nan
        model.impute(ct.read_series({"a": short}, unit="h")["a"])
