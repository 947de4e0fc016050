"""One odd plant does no harm to the others, and is named; alone is alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import cotempo as ct
from cotempo.data import Series
from cotempo.report.content import benefit_table
from cotempo.series.moments.moments import find_units, sum_units
from cotempo.series.moments.personal import hide_alike
from cotempo.series.windows import SeriesRows

NAMES = ("feed", "temp")


def plant(seed: int, rows: int = 300) -> tuple[np.ndarray, np.ndarray]:
    """A feed with a day's cycle and a temperature that follows it; with a tenth of the cells missing, and whole."""
    stream, hours = np.random.default_rng(seed), np.arange(rows)
    feed = 100 + 20 * np.sin(hours * np.pi / 12) + np.cumsum(0.5 * stream.normal(size=rows))
    values = np.column_stack([feed, 200 + feed / 2 + stream.normal(size=rows)])
    return np.where(stream.random(values.shape) < 0.1, np.nan, values), values


def table(values: np.ndarray) -> Series:
    return Series.from_arrays(values, features=NAMES)


def odd(values: np.ndarray, kind: str) -> np.ndarray:
    values = values.copy()
    if kind == "sign of missing":
        return np.where(np.isnan(values), -9999.0, values)
    if kind == "unit":
        values[:, 0] *= 1000
    if kind == "spikes":
        values[::100, 1] = 1e6
    return values


def plants(kind: str) -> dict[str, Series]:
    holes = {name: plant(seed)[0] for seed, name in enumerate("abcd")}
    return {name: table(odd(part, kind) if name == "d" else part) for name, part in holes.items()}


def test_a_stuck_sensor_tells_nothing_of_other_cells():
    _, truth = plant(0, 800)
    model = ct.SeriesMoments(window=8).fit(table(truth))
    given, blank = truth.copy(), truth.copy()
    given[300:360, 1] = blank[300, 1] = truth[300, 1] + 1
    blank[301:360, 1] = np.nan
    for part in (given, blank):
        part[310:350, 0] = np.nan
    expected = model.impute(table(blank))
    with pytest.warns(UserWarning, match=r"60 rows, from 300 to 359: a stuck sensor\? .* are kept"):
        kept = model.impute(table(given), draws=3)
    np.testing.assert_array_equal(kept.values[:, 0], expected.values[:, 0])
    np.testing.assert_array_equal(kept.values[300:360, 1], given[300:360, 1])
    assert (kept.low[300:360, 1] == kept.high[300:360, 1]).all()
    assert not kept.missing[300:360, 1].any()
    with pytest.warns(UserWarning, match="are filled"):
        filled = model.impute(table(given), fill_stuck=True)
    np.testing.assert_array_equal(filled.values, expected.values)
    end = given[:360].copy()
    with pytest.warns(UserWarning, match="not looked at"):
        ahead = model.forecast(table(end), 3)
    np.testing.assert_array_equal(ahead.values, model.forecast(table(blank[:360]), 3).values)


@pytest.mark.parametrize("kind", ["sign of missing", "unit", "spikes"])
@pytest.mark.filterwarnings("ignore::cotempo.errors.DataWarning")
def test_an_odd_plant_harms_nobody(kind: str):
    clients = plants(kind)
    fitted = ct.FedMoments(window=8).fit(clients, progress=False)
    for seed, name in enumerate("abc"):
        holes, truth = plant(seed)
        alone = ct.SeriesMoments(window=8).fit(clients[name])
        gone = np.isnan(holes)
        ours, own = (
            (np.abs(m.impute(clients[name]).values - truth) / truth.std(axis=0))[gone].mean()
            for m in (fitted[name], alone)
        )
        assert ours < 1.1 * own
    named = " ".join(fitted.advice())
    assert "d: " in named
    assert {"sign of missing": "-9999", "unit": "feed moves over 16 times", "spikes": "1e+06"}[kind] in named


@pytest.mark.filterwarnings("ignore::cotempo.errors.DataWarning")
def test_alone_is_what_a_model_of_the_own_table_does_whoever_else_takes_part():
    found = []
    for kind in ("none", "unit"):
        two = {name: each for name, each in plants(kind).items() if name in "ad"}
        found.append(ct.FedMoments(window=8).fit(two, progress=False).benefit["a"].alone)
    assert found[0] == found[1]
    values = plant(0)[0]
    rows = SeriesRows(values, (len(values),))
    hidden = hide_alike(find_units(**sum_units(rows)).rows(rows))
    left = table(np.where(hidden, np.nan, values))
    filled = ct.SeriesMoments(window=8).fit(left).impute(left).values
    error = (np.abs(filled - values) / np.nanstd(values, axis=0))[hidden].mean()
    assert found[0] == pytest.approx(error, rel=1e-9)


def test_a_client_that_others_would_harm_keeps_its_own_model_and_that_is_said():
    clients = plants("none")
    stream = np.random.default_rng(9)
    first = np.cumsum(stream.normal(size=300))
    other = np.column_stack([first, -3 * first + 0.1 * stream.normal(size=300)])
    holes = table(np.where(stream.random(other.shape) < 0.1, np.nan, other))
    fitted = ct.FedMoments(window=8).fit({**clients, "west": holes}, progress=False)
    own = ct.SeriesMoments(window=8).fit(holes).impute(holes)
    ours = fitted["west"].impute(holes)
    assert np.array_equal(ours.values, own.values)
    assert np.array_equal(ours.high, own.high)
    assert fitted.benefit["west"].gain == 0
    assert any("would harm" in line and "west" in line for line in fitted.advice())
    verdicts = fitted.tables()["benefit"].set_index("client")["verdict"]
    assert verdicts["west"] == "kept its own model"
    assert "kept its own model" in fitted._repr_html_()
    assert any("kept its own model" in map(str, row) for row in benefit_table(fitted).rows)


def test_a_larger_unit_at_one_client_leaves_the_common_scale():
    clients = plants("none")
    usual = ct.FedMoments(window=8).fit({name: clients[name] for name in "abc"}, progress=False).state.units
    found = ct.FedMoments(window=8).fit(plants("unit"), progress=False).state.units
    assert found.step[0] == pytest.approx(usual.step[0], rel=1e-12)
    assert found.centre[0] == pytest.approx(usual.centre[0], abs=usual.step[0])  # as d's temperatures say


def test_a_stuck_sensor_is_named_and_does_not_narrow_intervals():
    holes, truth = plant(0, 800)
    stuck = holes.copy()
    stuck[300:500, 1] = 251.37
    stuck[700:, 1] = 252.41
    with pytest.warns(UserWarning, match=r"column 'temp' is the same 251.37 in 200 rows, from 300 to 499"):
        model = ct.SeriesMoments(window=8).fit(table(stuck))
    fine = ct.SeriesMoments(window=8).fit(table(holes))
    probe = truth[:200].copy()
    probe[50:54, 1] = np.nan
    wide, usual = ((f := m.impute(table(probe))).high[51, 1] - f.low[51, 1] for m in (model, fine))
    assert wide > 0.85 * usual
    described = ct.describe({"p": table(stuck)}).warnings
    assert any(line.startswith("p: column 'temp' is the same 252.41 in 100 rows") for line in described)


@pytest.mark.parametrize("kind", ["rain", "rounded", "setpoint", "constant"])
def test_columns_that_often_repeat_values_are_not_stuck(kind: str):
    stream = np.random.default_rng(2)
    column = {
        "rain": np.where(np.repeat(stream.random(40) < 0.8, 25), 0.0, stream.exponential(size=1000)),
        "rounded": np.round(np.cumsum(0.05 * stream.normal(size=1000)), 1),
        "setpoint": np.repeat(stream.normal(size=20), 50),
        "constant": np.full(1000, 3.0),
    }[kind]
    assert not any("stuck" in words for words in table(np.column_stack([column, column])).faults())


@pytest.mark.parametrize("kind", ["heavy", "on and off", "two machines"])
def test_wide_columns_have_nothing_far_off(kind: str):
    stream = np.random.default_rng(3)
    column = {
        "heavy": np.exp(1.5 * stream.normal(size=2000)),
        "on and off": (stream.random(2000) < 0.1).astype(float),
        "two machines": np.where(stream.random(2000) < 0.5, 10.0, 100.0) + stream.normal(size=2000),
    }[kind]
    assert not any("far from" in words for words in table(np.column_stack([column, column])).faults())


def test_far_off_values_do_not_change_what_is_learned_much():
    holes, truth = plant(0)
    spiked = holes.copy()
    spiked[::97, 0] = 1e7
    with pytest.warns(UserWarning, match="1e\\+07 in 4 rows, far from all others"):
        model = ct.SeriesMoments(window=8).fit(table(spiked))
    probe = truth.copy()
    probe[100:103] = np.nan
    fine = ct.SeriesMoments(window=8).fit(table(holes))
    ours, usual = (np.abs(m.impute(table(probe)).values - truth)[100:103].mean() for m in (model, fine))
    assert ours < 2 * usual


def test_warnings_of_a_fit_stay_in_the_result_and_its_report(tmp_path):
    clients = {name: each for name, each in plants("spikes").items() if name in "ad"}
    with pytest.warns(UserWarning, match="far from all others"):
        fitted = ct.FedMoments(window=6).fit(clients, progress=False)
    again = ct.load(fitted.save(tmp_path / "saved"))
    assert again.advice() == fitted.advice()
    page = fitted.report(tmp_path / "page.html").read_text()
    assert "1e+06 in 3 rows, far from all others" in page
    assert "none noted by the method" not in page
    half = replace(clients["a"], time=clients["a"].time / 2)
    hours = {name: replace(each, unit="h") for name, each in {"a": half, "b": clients["d"]}.items()}
    with pytest.warns(UserWarning, match="a row is no common step"):
        mixed = ct.FedMoments(window=6).fit(hours, progress=False)
    assert any("a row is no common step" in line for line in mixed.advice())


def test_one_liar_whose_moments_nobody_can_use_is_named_and_ends_nothing() -> None:
    clients = dict(ct.make_series(clients=8, length=160, features=3, seed=1010)[0])
    lie = ct.Attack("alie", clients=("client-3",))
    fitted = ct.FedMoments().fit(clients, attack=lie, seed=1010, progress=False)
    assert {failure["client"] for failure in fitted.failures} == {"client-3"}
    assert fitted.failures[0]["kind"] == "LinAlgError"


def test_advice_names_the_one_plant_whose_sensors_go_together_unlike_the_others():
    holes = {name: plant(seed, 400)[0] for seed, name in enumerate(["graz", "lugo", "odd", "ulm", "wien"], start=20)}
    holes["odd"][:, 1] = 500 - holes["odd"][:, 1]
    fitted = ct.FedMoments(window=12).fit({name: table(part) for name, part in holes.items()}, progress=False)
    (line,) = [line for line in fitted.advice() if "would harm" in line]
    assert "odd is unlike the others: 'feed' and 'temp' are correlated -" in line
    assert "learn again without it" in line
    assert "survey" not in line


def test_advice_names_nobody_where_no_plant_stands_apart():
    holes = {name: plant(seed, 400)[0] for seed, name in enumerate("abcd", start=30)}
    for part in (holes["a"], holes["b"]):
        part[:, 1] = 500 - part[:, 1]
    fitted = ct.FedMoments(window=12).fit({name: table(part) for name, part in holes.items()}, progress=False)
    assert not any("is unlike the others" in line for line in fitted.advice())


def test_a_spike_tells_nothing_of_other_cells_and_is_kept():
    _, truth = plant(0, 800)
    model = ct.SeriesMoments(window=8).fit(table(truth))
    given, blank = truth.copy(), truth.copy()
    given[330, 1], blank[330, 1] = 1e4, np.nan
    for part in (given, blank):
        part[310:350, 0] = np.nan
    expected, kept = model.impute(table(blank)), model.impute(table(given))
    np.testing.assert_array_equal(kept.values[:, 0], expected.values[:, 0])
    assert kept.values[330, 1] == 1e4
    given[-1, 1], blank[-1, 1] = 1e4, np.nan
    np.testing.assert_array_equal(model.forecast(table(given), 5).values, model.forecast(table(blank), 5).values)
