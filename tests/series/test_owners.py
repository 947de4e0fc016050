"""What an owner does with a fitted model: dates and steps like those learned from, synthetic windows, and to share."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import cotempo as ct
from cotempo.data import Series
from cotempo.errors import DataError, ParameterError

NAMES = ("load", "oil", "flow")


def frame(zone: str | None, rows: int = 400, seed: int = 0, level: float = 0.0) -> pd.DataFrame:
    stream, hours = np.random.default_rng(seed), np.arange(rows)
    load = level + 10 + 4 * np.sin(hours * np.pi / 12) + np.cumsum(0.2 * stream.normal(size=rows))
    found = pd.DataFrame({"load": load, "oil": 40 + 2 * load + stream.normal(size=rows)})
    found["flow"] = np.exp(0.1 * load + 0.05 * stream.normal(size=rows))
    found.index = pd.date_range("2025-03-03", periods=rows, freq="h", tz=zone)
    found.iloc[50:55, 1] = np.nan
    return found


def read(*tables: pd.DataFrame) -> dict[str, Series]:
    return ct.read_series({f"plant-{k}": table for k, table in enumerate(tables)}, unit="h")


@pytest.fixture(scope="module", params=["alone", "together"])
def model(request: pytest.FixtureRequest) -> Any:
    """A model of the first of two plants that differ in level."""
    plants = read(frame("Europe/Berlin"), frame("Europe/Berlin", seed=1, level=10.0))
    if request.param == "alone":
        return ct.SeriesMoments(window=24).fit(plants["plant-0"])
    return ct.FedMoments(window=24).fit(plants, progress=False)["plant-0"]


VERBS = {
    "impute": lambda model, table: model.impute(table),
    "forecast": lambda model, table: model.forecast(table, 3),
    "compare": lambda model, table: model.compare(table, gap=3),
    "release": lambda model, table: model.release(table, 3),
}


@pytest.mark.parametrize("verb", VERBS)
def test_dates_without_a_zone_are_refused_after_dates_with_one(model: Any, verb: str):
    naive = frame("Europe/Berlin").tz_localize(None)
    with pytest.raises(DataError, match=r"have a time zone, as those learned from did \(Europe/Berlin\), got none"):
        VERBS[verb](model, read(naive)["plant-0"])
    VERBS[verb](model, read(frame("UTC"))["plant-0"])


def test_dates_with_a_zone_are_refused_after_dates_without():
    naive = ct.SeriesMoments(window=12).fit(read(frame(None))["plant-0"])
    with pytest.raises(DataError, match="have no time zone, got UTC"):
        naive.impute(read(frame("UTC"))["plant-0"])


@pytest.mark.parametrize("verb", VERBS)
def test_another_step_of_time_is_refused(model: Any, verb: str):
    rare = read(frame("Europe/Berlin").iloc[::6])["plant-0"]
    with pytest.raises(
        DataError, match=r"1 h apart, as those the model learned from, got 6 h; series.regular\('3600s'\)"
    ):
        VERBS[verb](model, rare)
    assert model.impute(rare.regular("3600s")).rows == 397
    often = frame("Europe/Berlin")
    often.index = pd.date_range("2025-03-03", periods=len(often), freq="15min", tz="Europe/Berlin")
    with pytest.raises(DataError, match=r"got 0\.25 h; take means"):
        VERBS[verb](model, read(often)["plant-0"])


def test_a_saved_model_knows_its_dates(model: Any, tmp_path):
    again = ct.load(model.save(tmp_path / "model"))
    with pytest.raises(DataError, match="time zone"):
        again.impute(read(frame(None))["plant-0"])


@pytest.mark.parametrize("horizon", [24.5, 0, True])
def test_a_horizon_is_a_whole_number_of_rows(model: Any, horizon: Any):
    for verb in (model.forecast, model.compare):
        with pytest.raises(ParameterError, match="horizon must be a whole number of rows, at least 1, got"):
            verb(read(frame("UTC"))["plant-0"], horizon)


def test_synthetic_windows_are_like_the_owners_data(model: Any):
    """Deviations, ranges and correlations of the owner's table, whatever the other plant's level."""
    real = frame("Europe/Berlin")
    drawn = model.sample(200)
    values = pd.DataFrame(drawn.values, columns=drawn.features)
    for name in NAMES:
        assert values[name].min() >= real[name].min()
        assert values[name].max() <= real[name].max()
        assert values[name].mean() == pytest.approx(real[name].mean(), abs=0.15 * real[name].std())
        assert values[name].std() == pytest.approx(real[name].std(), rel=0.1)
    assert np.abs(values.corr() - real.corr()).to_numpy().max() < 0.07
    steps = pd.DataFrame(np.diff(drawn.values.reshape(200, 24, 3), axis=1).reshape(-1, 3), columns=drawn.features)
    assert (np.abs(steps.std() / real.diff().std() - 1) < 0.35).all()


def test_windows_to_share_are_not_too_near_to_real_ones(model: Any):
    table = read(frame("Europe/Berlin"))["plant-0"]
    later = read(frame("Europe/Berlin", seed=2))["plant-0"]
    found = model.release(table, 60)
    assert found.membership is None
    assert found.nearness > 0.5
    assert len(found.windows.sequence_names()) + found.withheld == 60
    judged = model.release(table, 60, others=later)
    assert 0 <= judged.membership <= 0.6


def test_copies_of_real_windows_are_withheld(model: Any, monkeypatch: pytest.MonkeyPatch):
    table = read(frame("Europe/Berlin"))["plant-0"]
    real = model.impute(table).select(features=NAMES).values
    monkeypatch.setattr(type(model), "_sample", lambda self, count, *_: np.concatenate([real[100:124]] * count))
    found = model.release(table, 4)
    assert found.windows is None
    assert found.withheld == 4


def test_every_fit_takes_progress():
    assert ct.SeriesMoments(window=8).fit(read(frame(None))["plant-0"], progress=False).window == 8


def test_a_plot_of_a_part_says_so(model: Any):
    filled = model.impute(read(frame("UTC"))["plant-0"])
    assert filled.plot(rows=100).axes[-1].get_xlabel().endswith("; the 100 rows with most gaps of 400")
    assert filled.plot().axes[-1].get_xlabel() == "time (UTC)"


def test_common_features_are_a_list():
    with pytest.raises(ParameterError, match=r"common must be a list of features, got 'load'; write \['load'\]"):
        ct.FedTDD(common="load")


def test_advice_names_what_learns_alone():
    """A plant that joining harmed can follow the advice as it is written."""
    for method in (ct.FedMoments(), ct.FedTDD(common=("load",))):
        name = method.learns_alone.partition("(")[0]
        assert method.learns_alone == f"{name}().fit(table)"
        assert callable(getattr(ct, name)().fit)
