"""Times are dates where dates went in: at every verb, in frames and figures, after saving; times never seen are not
answered in silence."""

import io
import warnings

import numpy as np
import pandas as pd
import pytest

import cotempo as ct
from cotempo.data import Events, make_events
from cotempo.data.clock import Clock
from cotempo.errors import DataError, DataWarning, ParameterError
from cotempo.events import FedNeural, FedPointProcess, FedPP, NextEvent, SigmoidCox

BERLIN, HOURS = "Europe/Berlin", 1008.0
BEGIN = pd.Timestamp("2025-03-05", tz=BERLIN)


def frame(seed: int, rate: float, zone: str | None = BERLIN) -> pd.DataFrame:
    """Six weeks, twice as busy in the second half."""
    rng = np.random.default_rng(seed)
    hours = np.sort(rng.uniform(0, HOURS, rng.poisson(rate * HOURS)))
    hours = hours[rng.uniform(size=len(hours)) < np.where(hours < HOURS / 2, 0.5, 1.0)]
    begin = BEGIN.tz_localize(None).tz_localize(zone)
    time = begin + pd.to_timedelta(hours, unit="h")
    return pd.DataFrame({"time": time, "start": begin, "end": begin + pd.Timedelta(hours=HOURS)})


@pytest.fixture(scope="module")
def tables() -> dict[str, Events]:
    frames = [frame(1, 0.8).assign(client="nord"), frame(2, 0.5).assign(client="sued")]
    return ct.read_events(pd.concat(frames), unit="h")


@pytest.fixture(scope="module")
def fitted(tables):
    return FedPP(kernel="time", cells=126, compare=False).fit(tables)


@pytest.fixture(scope="module")
def alone(tables):
    return SigmoidCox().fit(tables["nord"])


@pytest.mark.parametrize("which", ["fitted", "alone"])
def test_dates_and_their_numbers_get_the_same_answer(which, tables, request):
    model = request.getfixturevalue(which)
    model = model["nord"] if which == "fitted" else model
    dates = pd.date_range("2025-03-06", "2025-04-14", periods=5, tz=BERLIN)
    numbers = tables["nord"].clock.numbers(dates)
    expected = model.intensity(numbers).mean
    assert expected[-1] > 1.5 * expected[0]
    for form in (dates, list(dates), dates.to_pydatetime(), [str(date) for date in dates], dates.tz_convert("UTC")):
        np.testing.assert_allclose(model.intensity(form).mean, expected)
    assert model.predict_count(dates[0], dates[1]).mean == model.predict_count(*numbers[:2]).mean
    drawn = model.sample(dates[0], dates[1], seed=3)
    assert drawn.to_frame()["time"].between(dates[0], dates[1]).all()
    assert str(drawn.to_frame()["time"].dtype) == "datetime64[us, Europe/Berlin]"


def test_the_next_event_is_a_date(alone):
    after = pd.Timestamp("2025-04-10 12:00", tz=BERLIN)
    ahead, numbers = alone.predict_next(after), alone.predict_next(alone.clock.number(after))
    assert after < ahead.quantile(0.1) < ahead.quantile(0.5) < ahead.mean() < after + pd.Timedelta(hours=5)
    assert ahead.chance(by=ahead.quantile(0.5)) == pytest.approx(0.5, abs=1e-6)
    assert ahead.chance() == numbers.chance()
    assert ahead.times[0] == after
    assert ahead.to_frame()["time"].iloc[0] == after
    assert "0.5 by 2025-04-10 1" in repr(ahead)
    assert "2025-04-10" in ahead._repr_html_()
    with pytest.raises(ParameterError, match=r"by must lie in \[2025-04-10 12:00:00\+02:00"):
        ahead.chance(by="2025-04-09 00:00+02:00")


def test_no_next_event_is_no_date():
    quiet = NextEvent(np.array([0.0, 1.0]), np.array([1.0, 0.7]), Clock("h"))
    with pytest.warns(
        DataWarning, match=r"not known where it lies after 1970-01-01 01:00:00.*chance 0.3; pass a later"
    ):
        assert quiet.quantile(0.5) is pd.NaT
    with pytest.warns(DataWarning):
        assert NextEvent(quiet.numbers, quiet.survival).quantile(0.5) == np.inf
    assert repr(NextEvent(quiet.numbers, quiet.survival)) == "NextEvent(0.1 by 0.333333333333, 0.3 by 1)"


def test_frames_and_figures_have_dates(fitted, tables):
    curve = fitted["nord"].to_frame(level=0.5)
    assert list(curve.columns) == ["time", "mean", "lower", "upper"]
    assert curve["time"].dt.tz is not None
    assert (curve["lower"] <= curve["mean"]).all()
    wide = fitted["nord"].to_frame(curve["time"])
    assert (wide["upper"] >= curve["upper"] - 1e-12).all()
    figure = fitted.plot(tables)
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["nord", "sued"]
    figure.savefig(io.BytesIO())
    axes = figure.axes[0]
    assert axes.get_xlabel() == "time (Europe/Berlin)"
    assert axes.get_ylabel() == "events per hour\nand sequence"
    assert "2025" in axes.xaxis.get_offset_text().get_text()
    assert len(fitted["nord"].predict_next(BEGIN).plot().axes) == 1


def test_dates_survive_disk(fitted, tmp_path):
    fitted.save(tmp_path)
    again = ct.load(tmp_path)["nord"]
    assert again.predict_next(BEGIN).quantile(0.5) == fitted["nord"].predict_next(BEGIN).quantile(0.5)
    assert again.clock == fitted["nord"].clock


def test_every_client_has_its_own_zone():
    frames = [frame(1, 0.3).assign(client="b"), frame(2, 0.3, "America/New_York").assign(client="n")]
    tables = {name: ct.read_events(part, unit="h")[name] for name, part in zip("bn", frames, strict=True)}
    fitted = FedPP(kernel="time", cells=48, compare=False).fit(tables)
    quantiles = [fitted[name].predict_next("2025-03-20 00:00Z").quantile(0.5) for name in "bn"]
    assert [str(quantile.tz) for quantile in quantiles] == [BERLIN, "America/New_York"]


@pytest.mark.parametrize("which", ["fitted", "alone"])
def test_times_far_from_those_learned_are_refused(which, request):
    model = request.getfixturevalue(which)
    model = model["nord"] if which == "fitted" else model
    message = r"in or near \[2025-03-0.*got 1970-01-01 02:00:00\+01:00; numbers count hours since 1970-01-01 UTC"
    for ask in (model.intensity, model.predict_next, lambda time: model.predict_count(time, 2.0).mean):
        with pytest.raises(ParameterError, match=message):
            ask(1.0)
    with pytest.raises(ParameterError, match="in or near"):
        model.intensity(pd.date_range("2025-03-05", "2025-03-06", freq="6h").astype("int64").to_numpy())


def test_times_just_outside_are_warned_of(alone):
    week_later = BEGIN + pd.Timedelta(hours=HOURS + 168)
    with pytest.warns(DataWarning, match=r"should lie in \[2025-03-05.*goes to its mean level there.*period="):
        alone.intensity([week_later])
    with pytest.warns(DataWarning, match="goes to its mean level"):
        alone.predict_next(BEGIN, until=week_later)


@pytest.mark.parametrize(
    "method",
    [
        FedPP(kernel="time", cells=48, period=24.0, compare=False),
        FedPointProcess(process="hawkes1", rounds=2),
        FedPointProcess(process="profile", period=24.0),
    ],
)
def test_what_repeats_or_does_not_depend_on_time_knows_all_times(method, tables):
    model = method.fit(tables)["nord"]
    later = {"history": [], "start": "2027-01-01 00:00+01:00"} if hasattr(model, "given") else {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = model.intensity(["2027-01-01 07:00+01:00"], **later).mean
    assert 0.1 < found[0] < 2


@pytest.mark.parametrize(
    "method",
    [
        FedPP(kernel="history", rounds=1, base_rounds=1, inducing=5, refit_rounds=0, compare=False),
        FedPP(preset="paper", kernel="history", rounds=1, epochs=1, inducing=5, base="hawkes", base_rounds=1),
        FedPointProcess(process="hawkes1", rounds=2),
        FedNeural(rounds=1),
    ],
)
def test_histories_are_dates(method, tables):
    model, table = method.fit(tables)["nord"], tables["nord"]
    past = table.to_frame()["time"][:20]
    until = past.iloc[-1] + pd.Timedelta(hours=9)
    at = past.iloc[-1] + pd.to_timedelta([0.5, 3], unit="h")
    numbers = table.clock.numbers(past)
    np.testing.assert_allclose(
        model.intensity(at, past).mean, model.intensity(table.clock.numbers(at), numbers).mean, rtol=1e-5
    )
    ahead = model.predict_next(past, until=until)
    assert past.iloc[-1] < ahead.quantile(0.2) < until
    assert "2025-0" in repr(model)
    drawn = model.sample(past.iloc[0], past.iloc[5], seed=1)
    assert drawn.clock == table.clock
    figure = model.plot(table)
    assert figure.axes[0].get_ylabel() == "events per hour\nand sequence"
    with pytest.raises(DataError, match=r"before 2025.*pass start="):
        model.intensity(at, [pd.Timestamp("2025-02-03", tz=BERLIN), *past])


def test_naive_and_aware_dates_never_mix(alone, tables):
    with pytest.raises(DataError, match="must have a time zone"):
        alone.intensity(["2025-03-06"])
    with pytest.raises(DataError, match="hours of dates with a zone, as those learned from, got seconds of dates"):
        alone.score(ct.read_events(frame(1, 0.3), unit="s")["client"])
    with pytest.raises(DataError, match="got plain numbers"):
        alone.score(Events.from_arrays([[1.0, 2.0]], (0, 3)))
    naive = SigmoidCox().fit(ct.read_events(frame(1, 0.3, None), unit="h")["client"])
    with pytest.raises(DataError, match="must have no time zone"):
        naive.intensity([BEGIN])
    assert naive.predict_next("2025-03-06").mean().tz is None


def test_scores_take_dates_and_dataframes(alone, tables):
    table = tables["nord"]
    expected = alone.score(table)
    frame = table.to_frame()
    assert alone.score(frame) == pytest.approx(expected)
    window = (frame["start"].iloc[0], frame["end"].iloc[0])
    assert alone.score(pd.DatetimeIndex(frame["time"]), window) == pytest.approx(expected)
    more = alone.update(frame.iloc[:100])
    assert more.clock == table.clock
    assert more.seen[0] == alone.seen[0] + 100


def test_one_client_alone_takes_a_dataframe_or_dates(tables):
    part = frame(1, 0.3)
    by_frame = SigmoidCox().fit(part)
    by_dates = SigmoidCox().fit(pd.DatetimeIndex(part["time"]), (part["start"][0], part["end"][0]))
    assert by_frame.seen == by_dates.seen
    assert by_frame.clock == by_dates.clock
    assert by_frame.span == by_dates.span


def test_what_is_no_table_is_refused_in_words(tables):
    both = pd.concat([table.to_frame().assign(client=name) for name, table in tables.items()])
    with pytest.raises(DataError, match="one client, got a mapping of nord, sued"):
        SigmoidCox().fit(tables)
    with pytest.raises(DataError, match="one client, got 2: nord, sued"):
        SigmoidCox().fit(both)
    with pytest.raises(DataError, match="got int"):
        SigmoidCox().fit(3)
    with pytest.raises(DataError, match=r"mapping from client name to table .* got a table of events; pass"):
        FedPP().fit(tables["nord"])


def test_figures_of_histories_need_the_events():
    clients, _ = make_events(clients=2, sequences=5, kind="hawkes", seed=0)
    method = FedPP(kernel="history", base="hawkes", base_rounds=2, rounds=1, inducing=5, compare=False)
    fitted = method.fit(clients)
    with pytest.raises(DataError, match="clients must hold tables"):
        fitted.plot()
    assert len(fitted.plot(clients).axes) == 2


def test_a_day_is_shown_from_midnight_to_midnight(tables):
    fitted = FedPP(kernel="time", cells=48, period=24.0, compare=False).fit(tables)
    time = fitted["nord"].to_frame()["time"]
    assert time.iloc[0] == time.iloc[0].normalize()
    assert time.iloc[-1] - time.iloc[0] == pd.Timedelta(days=1)
    axes = fitted.plot(tables).axes[0]
    rug = axes.lines[-1].get_xdata()
    assert time.iloc[0] <= min(rug)
    assert max(rug) <= time.iloc[-1]
    assert axes.get_xlabel() == "time of day (Europe/Berlin)"
    assert [label.get_text() for label in axes.get_xticklabels()][1:3] == ["04:00", "08:00"]
    assert "2025" not in fitted.answer()


def test_reprs_are_short(fitted, alone):
    assert repr(fitted).startswith("<FedPP: 2 clients, 2 rounds, ")
    for model in (fitted["nord"], alone):
        assert len(repr(model)) < 150
        assert "per hour and sequence; 2025-03-0" in repr(model)
        assert "learned from" in model._repr_html_()


def test_a_period_in_the_wrong_unit_is_doubted() -> None:
    times = pd.date_range("2025-03-03", periods=60, freq="80min")
    table = ct.read_events(pd.DataFrame({"time": times}))["client"]
    method = FedPP(kernel="time", cells=48, period=24.0, compare=False)
    with pytest.warns(ct.DataWarning, match=r"period 24 s is far shorter than the usual gap between events, 4\.8e\+03"):
        method.prepare(table)
