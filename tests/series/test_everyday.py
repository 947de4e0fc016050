"""What people do every day: fill rows, read intervals off a dataframe, forecast, compare, draw, wait."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import cotempo as ct
from cotempo.data import Series
from cotempo.data.clock import LABELS
from cotempo.errors import DataError, DataWarning, ParameterError
from cotempo.progress import Progress
from cotempo.series import FedTDD

HOUR = 406_000.0


def sensors(rows: int, seed: int = 0) -> Series:
    """Hourly: a load with a day's cycle, and a temperature that follows it."""
    stream, hour = np.random.default_rng(seed), np.arange(rows)
    load = 10 + 4 * np.sin(hour * np.pi / 12) + stream.normal(size=rows)
    warm = 0.5 * load + np.cumsum(0.1 * stream.normal(size=rows))
    values, time = np.column_stack([load, warm]), HOUR + hour
    return Series.from_arrays(values, time, ("load", "warm"), "h", "Europe/Berlin")


@pytest.fixture(scope="module")
def plant() -> Series:
    return sensors(1200)


@pytest.fixture(scope="module")
def moments(plant):
    return ct.SeriesMoments(window=24).fit(plant)


@pytest.mark.parametrize("owner", ["moments", "diffusion"])
def test_missing_rows_are_filled_as_well_as_cells(owner, plant, moments, small):
    model = moments if owner == "moments" else small.fit(plant.select(np.arange(300)))
    whole = plant.select(np.arange(200))
    holes = whole.select(np.r_[0:50, 56:200])
    holes = replace(holes, values=np.where(np.arange(194)[:, None] == 10, np.nan, holes.values))
    filled = model.impute(holes)
    assert np.array_equal(filled.time, whole.time)
    assert np.flatnonzero(filled.missing.all(axis=1)).tolist() == [10, *range(50, 56)]
    assert np.array_equal(filled.values[~filled.missing], whole.values[~filled.missing])
    assert np.abs(filled.values - whole.values)[50:56, 0].mean() < 3
    assert (filled.low[50:56] < filled.high[50:56]).all()


def test_times_off_any_grid_stay_as_they_are_and_that_is_said(moments, plant):
    stream = np.random.default_rng(0)
    time = np.cumsum(stream.uniform(0.3, 1.0, 200))
    time[100:] += 50
    holes = replace(plant.select(np.arange(200)), time=time)
    with pytest.warns(UserWarning, match=r"rows missing in time stay missing: steps of time must be multiples"):
        assert moments.impute(holes).rows == 200


def test_several_levels_and_dates_stand_in_the_dataframe(moments, plant):
    holes = plant.select(np.r_[0:50, 56:200])
    filled = moments.impute(holes, level=(0.9, 0.5))
    assert filled.low.shape == (2, 200, 2)
    frame = filled.to_frame()
    assert list(frame.columns) == [
        "sequence", "time", "load", "load_low_50", "load_high_50", "load_low_90", "load_high_90", "warm",
        "warm_low_50", "warm_high_50", "warm_low_90", "warm_high_90",
    ]  # fmt: skip
    assert frame["time"][50] == pd.Timestamp(HOUR * 3600 + 50 * 3600, unit="s", tz="Europe/Berlin")
    gap = frame.iloc[50:56]
    assert (gap.load_low_90 < gap.load_low_50).all()
    assert (gap.load_high_50 < gap.load_high_90).all()
    single = moments.impute(holes, level=0.5)
    assert np.allclose(single.to_frame()["warm_low"], frame["warm_low_50"])
    assert np.array_equal(filled.select(np.arange(50, 56)).high, filled.high[:, 50:56])
    assert moments.impute(holes.to_frame()).rows == 200
    assert "load_low" not in moments.impute(holes, level=()).to_frame()
    with pytest.raises(ParameterError, match=r"level in \(0, 0.995\], got 1 and \(0.5, 1\)"):
        moments.impute(holes, level=(0.5, 1))


def test_forecasts_go_on_beyond_the_window(moments, plant):
    ahead = moments.forecast(plant, 24 * 7, draws=3, level=(0.5, 0.9))
    assert ahead.rows == 168
    assert np.allclose(ahead.time, plant.time[-1] + np.arange(1, 169))
    assert np.abs(ahead.values - sensors(1368).values[1200:])[:, 0].mean() < 1.5
    assert (np.diff(ahead.high[1, :, 1] - ahead.low[1, :, 1]) > -1e-9).all()
    assert ahead.draws.shape == (3, 168, 2)
    two = Series.from_arrays([plant.values[:400], plant.values[400:800]], features=plant.features)
    assert np.allclose(moments.forecast(two, 40).values[40:], moments.forecast(two.take([1]), 40).values)


@pytest.mark.parametrize("pull", [0.0, 0.2])
@pytest.mark.parametrize("horizon", [12, 60])
def test_forecasts_hold_what_they_promise(pull, horizon):
    """Random walks and processes that return to their mean, inside the window and far beyond it."""
    stream = np.random.default_rng(1)
    walks = np.zeros((4000, 2))
    for row in range(1, 4000):
        walks[row] = (1 - pull) * walks[row - 1] + stream.normal(size=2)
    model = ct.SeriesMoments(window=12).fit(Series.from_arrays(walks[:2500]))
    found = model.compare(Series.from_arrays(walks[2500:]), horizon)
    assert 0.8 < found.inside.mean() < 0.98


def test_a_baseline_that_wins_is_named():
    stream = np.random.default_rng(2)
    day = np.tile(stream.normal(size=(24, 1)), (50, 1)) + 0.01 * stream.normal(size=(1200, 1))
    series = Series.from_arrays(day, HOUR + np.arange(1200), ("load",), "h")
    model = ct.SeriesMoments(window=4).fit(series.select(np.arange(800)))
    test = series.select(np.arange(800, 1200))
    for found, task in ((model.compare(test, 24), "Forecasts of 24 rows"), (model.compare(test), "Filling gaps of 6")):
        (row,) = found.to_frame().to_dict("records")
        assert row["better"] == row["best_baseline"] == "mean of every 24th row"
        assert row["mean of every 24th row"] < row["24 rows before"] < 0.05 < row["model"]
        assert task in repr(found)
        assert "mean of every 24th row is better, use it, for load" in found.verdict


def test_a_model_that_wins_or_not_is_told_so(moments):
    found = moments.compare(sensors(800, seed=3), gap=4)
    assert dict(zip(found.features, found.columns()["better"], strict=True))["warm"] == "model"
    assert found.columns()["change"][1] < 0
    assert found.plot().axes[0].get_ylabel() == "error, % of best baseline"
    assert "better" in found._repr_html_()
    walk = np.random.default_rng(4).normal(size=(1500, 1)).cumsum(axis=0)
    model = ct.SeriesMoments(window=8).fit(Series.from_arrays(walk[:900]))
    assert "no difference shown for x0" in model.compare(Series.from_arrays(walk[900:]), 5).verdict
    with pytest.raises(DataError, match="more than two horizons, 1000 rows, the longest has 600"):
        model.compare(Series.from_arrays(walk[900:]), 500)
    with pytest.raises(ParameterError, match="gap must be at least 1"):
        model.compare(Series.from_arrays(walk[900:]), gap=0)


@pytest.mark.parametrize("verb", ["fit", "impute", "forecast"])
def test_what_is_no_table_is_refused_in_words(verb, moments, plant):
    act = {"fit": ct.SeriesMoments().fit, "impute": moments.impute, "forecast": lambda x: moments.forecast(x, 2)}[verb]
    with pytest.raises(DataError, match="got a dict of north, south; take one of them, or learn from all by FedMom"):
        act({"north": plant, "south": plant})
    with pytest.raises(DataError, match=r"got ndarray; use Series\.from_arrays"):
        act(plant.values)
    frame = plant.to_frame()
    with pytest.raises(DataError, match="got clients a, b; take one"):
        act(pd.concat([frame.assign(client="a"), frame.assign(client="b")]))
    with pytest.raises(DataError, match="got a table of events"):
        act(ct.make_events(clients=1)[0]["client-0"])


def test_reprs_are_short(moments, plant):
    filled, ahead = moments.impute(plant.select(np.r_[0:50, 52:99])), moments.forecast(plant, 3)
    assert repr(moments) == "MomentsModel(features load, warm; windows of 24 rows)"
    assert repr(filled).endswith("4 cells filled, intervals of 90 %)")
    assert repr(ahead).startswith("Forecast(3 rows")
    assert all("<table>" in thing._repr_html_() for thing in (moments, filled, ahead))


def test_pictures_have_dates(moments, plant):
    holes = plant.select(np.r_[0:700, 720:1200])
    for figure in (moments.plot(holes, truth=plant, rows=200), moments.forecast(plant, 30).plot()):
        axes = figure.axes[-1]
        assert axes.get_xlabel().startswith("time (Europe/Berlin)")
        assert "Date" in type(axes.xaxis.get_major_formatter()).__name__
        figure.savefig("/dev/null", format="svg")
    shown = moments.plot(holes, rows=200).axes[0]
    assert shown.get_xlim()[1] - shown.get_xlim()[0] < 10  # days
    assert len(moments.plot().axes) == 2
    assert moments.plot().axes[0].get_xlabel() == LABELS[plant.unit] != "row"


def test_progress_of_one_owner_counts_all_phases_and_ends(small, table, monkeypatch):
    said = []
    monkeypatch.setattr(Progress, "__call__", lambda self, done, total, news: said.append((done, total, news)))
    small.fit(table, progress=False)
    done, totals, phases = zip(*said, strict=True)
    assert list(dict.fromkeys(phases)) == ["correction", "imputer", "diffusion model"]
    assert list(done) == sorted(done)
    assert done[0] == 0
    assert {done[-1]} == set(totals)


def test_the_work_of_fedtdd_is_known(federation, fitted):
    method, _, _ = federation
    places = [replace(fitted.state, place=place) for place in range(len(list(method.plan())) + 1)]
    done, totals = zip(*(method.work(state) for state in places), strict=True)
    assert (done[0], done[-1]) == (0, totals[0])
    assert list(done) == sorted(done)
    assert len(set(totals)) == 1
    assert method.work(fitted.state) == (totals[0], totals[0])
    # The steps of the server count most by default, those of tokens only as long as there are any.
    usual = FedTDD(common=("x0",)).work(replace(fitted.state, place=0))[1]
    assert usual > FedTDD(common=("x0",), token_steps=0).work(fitted.state)[1] + 15_000


def test_a_report_shows_filled_gaps_and_what_was_released(federation, fitted, tmp_path):
    figures = fitted.figures()
    assert {"Synthetic windows of client-0", "Gaps of client-0, filled"} <= set(figures)
    assert len(figures["Gaps of client-1, filled"].axes) == 2
    page = fitted.report(tmp_path / "page.html").read_text()
    assert "synthetic windows withheld" in page
    assert "membership score" in page
    assert "error of filling hidden cells" in fitted.plot().axes[0].get_xlabel().replace("\n", " ")


def test_series_diffusion_forecasts_and_compares(model, table):
    ahead = model.forecast(table, 20, draws=3)
    assert np.isfinite(ahead.draws).all()
    assert (ahead.low < ahead.high).all()
    assert len(model.compare(table, gap=2).to_frame()) == 3


def test_clients_whose_rows_are_not_equally_far_apart_are_told():
    hourly, slow = sensors(120), sensors(120, 1)
    half = replace(slow, time=HOUR + np.arange(120) / 2)
    words = r"rows are 1 h apart at berlin, 0\.5 h apart at chennai: .*; take means first"
    with pytest.warns(ct.DataWarning, match=words):
        ct.FedMoments(window=4).fit({"berlin": hourly, "chennai": half})
    told = ct.describe({"berlin": hourly, "chennai": half})
    assert "a row every 0.5 h" in told.lines()[3]
    assert any(warning.startswith("rows are 1 h apart at berlin") for warning in told.warnings)
    assert not any("apart" in warning for warning in ct.describe({"berlin": hourly, "other": slow}).warnings)


def test_synthetic_windows_count_the_time_of_the_owner(moments, plant):
    assert moments.sample(2).time.tolist() == [*range(24)] * 2
    half = replace(plant.select(np.arange(200)), time=HOUR + np.arange(200) / 2)
    model = ct.SeriesMoments(window=4).fit(half)
    assert model.sample(1).time.tolist() == [0, 0.5, 1, 1.5]
    released = model.release(half, 30)
    assert released.to_frame().equals(released.windows.to_frame())
    with pytest.raises(DataError, match="all 3 were withheld"):
        replace(released, windows=None, withheld=3).to_frame()


def test_the_report_of_moments_shows_a_filled_gap_and_says_where_nothing_was_joined(tmp_path):
    whole = {name: sensors(160, seed) for seed, name in enumerate(("berlin", "houston"))}
    holes = {
        name: replace(table, values=np.where(np.arange(160)[:, None] % 40 < 3, np.nan, table.values))
        for name, table in whole.items()
    }
    fitted = ct.FedMoments(window=6).fit(holes)
    assert {"Gaps of berlin, filled", "Gaps of houston, filled"} <= fitted.figures().keys()
    excerpt = fitted.outcome.memories["berlin"].excerpt
    assert excerpt[0, 0] == HOUR * 3600
    lines = [memory.lines for memory in fitted.outcome.memories.values()]
    assert lines[0] > fitted.benefit["berlin"].together
    assert f", by linear interpolation {np.mean(lines):.3g}" in fitted.answer()
    own = replace(fitted.outcome.memories["berlin"], compared=np.array([0.2, 0.2, 0.0]))
    same = replace(fitted.outcome, memories=dict.fromkeys(fitted.names, own))
    assert "joining changed nothing, each client follows its own rows" in type(fitted)(same).answer()


def test_a_missing_parameter_is_named_in_words():
    with pytest.raises(ParameterError, match="FedTDD must be given 'common': features that all clients"):
        FedTDD(window=24)


def test_levels_may_be_a_list(moments, plant):
    holes = replace(plant, values=np.where(np.arange(1200)[:, None] % 50 == 0, np.nan, plant.values))
    one, two = (moments.impute(holes, level=level) for level in ([0.5, 0.9], (0.5, 0.9)))
    assert list(one.to_frame().columns) == list(two.to_frame().columns)
    assert np.array_equal(one.low, two.low)
    assert moments.forecast(plant, 3, level=[0.9]).low.shape == (1, 3, 2)
    with pytest.raises(ParameterError, match="level"):
        moments.impute(holes, level="wide")


def test_a_horizon_may_be_a_duration(moments, plant):
    assert moments.forecast(plant, "24h").rows == 24
    assert moments.forecast(plant, pd.Timedelta(days=2)).rows == 48
    assert moments.compare(plant, "6h").task == "Forecasts of 6 rows"
    for wrong in ("90min", "10min", "soon", 1.5):
        with pytest.raises((ParameterError, DataError), match=r"whole|length of time"):
            moments.forecast(plant, wrong)


def test_another_unit_is_warned_of(moments, plant):
    holes = replace(plant, values=np.where(np.arange(1200)[:, None] % 50 == 0, np.nan, plant.values))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        moments.impute(holes)
        moments.impute(holes.select(np.arange(48)))
    for other in (plant.values * np.array([1000, 1]), plant.values + np.array([0, 273.15])):
        with pytest.warns(UserWarning, match="another unit or sensor"):
            moments.impute(replace(plant, values=other))


def test_fahrenheit_and_gallons_are_warned_of_where_ranges_do_not_meet():
    learned, new = sensors(1200, seed=2), sensors(300, seed=3)
    learned, new = (replace(part, values=60 + 10 * part.values) for part in (learned, new))
    model = ct.SeriesMoments(window=24).fit(learned)
    for factor, offset in ((1.8, 32), (4.403, 0)):
        other = new.values.copy()
        other[:, 0] = factor * other[:, 0] + offset
        with pytest.warns(DataWarning, match="another unit or sensor"):
            model.forecast(replace(new, values=other), 3)


@pytest.mark.parametrize("seed", range(3))
def test_a_season_later_is_no_other_unit(seed):
    rng = np.random.default_rng(seed)
    hours, wind = np.arange(8760), np.zeros(8760)
    for hour in range(1, 8760):
        wind[hour] = 0.985 * wind[hour - 1] + 0.7 * rng.normal()
    air = 10 - 10 * np.cos(2 * np.pi * hours / 8760) + 4 * np.sin(2 * np.pi * (hours - 9) / 24) + wind
    winter = Series.from_arrays(air[:1440, None], 3600.0 * hours[:1440], ("air",))
    model = ct.SeriesMoments(window=24).fit(winter)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for day in (75, 105, 150, 180, 240):
            part = slice(24 * day, 24 * day + 300)
            model.forecast(Series.from_arrays(air[part, None], 3600.0 * hours[part], ("air",)), 3)


def test_the_mean_at_the_time_of_day_is_a_baseline(moments):
    fresh = sensors(900, seed=5)
    ahead = moments.compare(fresh, 24)
    assert "mean of every 24th row" in ahead.errors
    # A cycle and noise: what a day ago was has the noise twice.
    assert ahead.errors["mean of every 24th row"][:, 0].mean() < ahead.errors["24 rows before"][:, 0].mean()
    assert len(moments.compare(fresh).plot().axes[0].containers) == 5


def test_a_report_has_errors_by_sensor(tmp_path):
    clients = {name: sensors(200, seed) for seed, name in enumerate("ab")}
    clients["a"] = replace(clients["a"], values=np.where(np.arange(200)[:, None] % 9 == 0, np.nan, clients["a"].values))
    fitted = ct.FedMoments(window=6).fit(clients, progress=False)
    frame = fitted.tables()["sensors, errors in their own units"]
    assert frame[["client", "sensor"]].to_numpy().tolist() == [
        ["a", "load"],
        ["a", "warm"],
        ["b", "load"],
        ["b", "warm"],
    ]
    assert frame["missing, %"].tolist() == pytest.approx([11.5, 11.5, 0, 0])
    assert (frame["error of filling"] > 0).all()
    assert "in standard deviations of each sensor" in fitted.answer()
    assert "error of a straight line" in fitted.report(tmp_path / "page.html").read_text()


@pytest.mark.parametrize(("minutes", "warned"), [(15, True), (14, True), (10.2, False)])
def test_steps_that_differ_by_more_than_a_twentieth_are_warned_of(minutes: float, warned: bool):
    stream, seconds = np.random.default_rng(0), 60 * np.arange(200)
    tables = {
        name: Series.from_arrays(stream.normal(size=(200, 2)).cumsum(axis=0), time=step * seconds, unit="s")
        for name, step in (("graz", 10.0), ("ulm", minutes))
    }
    told = [each for each in ct.describe(tables).warnings if "no common step" in each]
    assert bool(told) == warned
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        ct.FedMoments(window=4).fit(tables, progress=False)
    assert any("no common step" in str(each.message) for each in found) == warned
    if minutes == 15:
        assert told[0].endswith('resample="0.5h"')


@pytest.mark.parametrize("unit", ["s", "h", "D"])
def test_times_of_a_forecast_are_as_whole_as_those_learned_from(unit):
    time = pd.date_range("2025-03-24", periods=600, freq="5min", tz="Europe/Berlin")
    values = np.sin(np.arange(600) / 9) + np.random.default_rng(0).normal(size=600)
    series = ct.read_series({"plant": pd.DataFrame({"a": values}, index=time)}, unit=unit)["plant"]
    ahead = ct.SeriesMoments(window=8).fit(series).forecast(series, 72).to_frame()
    expected = pd.date_range(time[-1], periods=73, freq="5min")[1:]
    assert (pd.DatetimeIndex(ahead["time"]) == expected).all()
