"""What comes next: the next event and counts beyond the data, rhythms that close, and changes of clocks."""

import warnings

import numpy as np
import pandas as pd
import pytest

import cotempo as ct
from cotempo.data import Events
from cotempo.data.clock import Clock
from cotempo.errors import DataWarning, ParameterError
from cotempo.events import FedPP, SigmoidCox
from cotempo.events.curves import density, piecewise, shapes, timeline

BERLIN, WEEKS = "Europe/Berlin", 4
BEGIN, END = pd.Timestamp("2025-03-10", tz=BERLIN), pd.Timestamp("2025-04-07", tz=BERLIN)  # clocks change on 30 March


def rate_by_clock(hour):
    """Busy at noon, quiet at midnight: the mean is 1."""
    return 1 - 0.9 * np.cos(2 * np.pi * hour / 24)


def draw(seed: int, level: float = 1.0) -> pd.DataFrame:
    """Four weeks whose rhythm is that of local clocks."""
    rng = np.random.default_rng(seed)
    days = [BEGIN + pd.DateOffset(days=day) for day in range(7 * WEEKS)]
    times = []
    for day in days:
        hours = np.sort(rng.uniform(0, 24, rng.poisson(2 * level * 24)))
        hours = hours[rng.uniform(0, 2, len(hours)) < rate_by_clock(hours)]
        local = day.tz_localize(None) + pd.to_timedelta(hours, unit="h")
        times.append(local.tz_localize(BERLIN, ambiguous="NaT", nonexistent="NaT").dropna())
    return pd.DataFrame({"time": times[0].append(times[1:]), "start": BEGIN, "end": END})


@pytest.fixture(scope="module")
def tables() -> dict[str, Events]:
    return ct.read_events({"nord": draw(0), "süd": draw(1, 0.5)}, unit="h")


@pytest.fixture(scope="module")
def rhythm(tables):
    return FedPP(kernel="time", period=24, compare=False).fit(tables)


@pytest.fixture(scope="module")
def curve(tables):
    return FedPP(kernel="time", compare=False).fit(tables)


@pytest.mark.parametrize("after", ["2025-04-07 00:00+02:00", "2025-04-06 23:30+02:00", "2026-01-01 00:00+01:00"])
def test_a_rhythm_looks_for_the_next_event_until_it_comes(rhythm, after):
    model = rhythm["süd"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ahead = model.predict_next(after)
        mean, quantiles = ahead.mean(), ahead.quantile([0.05, 0.5, 0.95])
    assert ahead.chance() > 0.9999
    assert ahead.quantile(0.5) == quantiles[1]
    start = model.clock.number(after)
    drawn = model.sample(after, pd.Timestamp(after) + pd.Timedelta(days=10), seed=0, count=400)
    first = np.array([times[0] for _, times, *_ in drawn.sequences()]) - start
    assert model.clock.number(mean) - start == pytest.approx(first.mean(), abs=4 * first.std() / 20)
    known = model.clock.numbers(quantiles) - start
    assert known == pytest.approx(np.quantile(first, [0.05, 0.5, 0.95]), rel=0.35, abs=0.3)


def test_a_mean_that_leaves_events_out_says_so(rhythm, tables):
    short = rhythm["süd"].predict_next("2025-04-07 00:00+02:00", until="2025-04-07 02:00+02:00")
    with pytest.warns(DataWarning, match=r"leaves out events after 2025-04-07 02:00:00\+02:00, by when .* chance 0\."):
        short.mean()
    alone = SigmoidCox().fit(tables["süd"])
    with pytest.warns(DataWarning, match="goes to its mean level"):
        ahead = alone.predict_next("2025-04-06 23:30+02:00")
    assert ahead.chance() > 0.9999
    with pytest.raises(ParameterError, match="share must lie between 0 and 1"):
        ahead.quantile([0.5, 1.5])


def test_the_next_event_of_a_history_needs_no_end():
    past = np.cumsum(np.random.default_rng(0).exponential(1.0, 300))
    model = ct.FedPointProcess(process="renewal", rounds=5).fit({"a": Events.from_arrays([past], (0.0, past[-1]))})["a"]
    ahead = model.predict_next(past)
    assert ahead.chance() > 0.9999
    assert ahead.mean() - past[-1] == pytest.approx(1.0, rel=0.3)


def test_the_far_future_has_the_mean_level(tables, curve):
    for name, truth in (("nord", 168.0), ("süd", 84.0)):
        for model in (curve[name], SigmoidCox().fit(tables[name])):
            with pytest.warns(DataWarning):
                found = model.predict_count("2025-04-07 00:00+02:00", "2025-04-14 00:00+02:00")
            assert found.mean == pytest.approx(truth, rel=0.15)
            assert found.lower < truth < found.upper


def test_beyond_its_end_a_curve_goes_on_from_its_last_value_to_its_level():
    times = np.sort(np.random.default_rng(0).uniform(0, 100, 4000))
    times = times[np.random.default_rng(1).uniform(size=4000) < np.where(times < 50, 0.2, 1.0)]
    model = SigmoidCox().fit(times, (0.0, 100.0))
    with pytest.warns(DataWarning):
        near, middle, far = model.intensity([101.0, 140.0, 199.9]).mean
    level = len(times) / 100
    assert near == pytest.approx(model.intensity([99.0]).mean[0], rel=0.02)
    assert middle == pytest.approx(40, rel=0.1)  # the last forty are all busy
    assert far == pytest.approx(level, rel=0.02)
    with pytest.warns(DataWarning):
        band = model.intensity([199.9])
    assert band.lower[0] < 10 < 35 < band.upper[0]  # it may stay as it is, or return
    with pytest.warns(DataWarning):
        before = model.intensity([-99.9]).mean[0]
    assert before == pytest.approx(level, rel=0.02)


def test_scores_beyond_the_span_are_those_of_the_intensity(curve):
    model, first = curve["nord"], curve["nord"].span[1]
    later = np.linspace(first + 1, first + 99, 80)
    found = model.score(later, (first, first + 100))
    with pytest.warns(DataWarning):
        expected = model.predict_count(first, first + 100).mean
    assert found["count_ratio"] * 80 == pytest.approx(expected, rel=0.01)
    with pytest.warns(DataWarning):
        fit = np.log(model.intensity(later).mean).sum() - expected
    own = model.seen[0] / model.seen[1]
    assert found["gain"] * 80 == pytest.approx(fit - 80 * np.log(own) + 100 * own, abs=1.0)
    waits = np.concatenate(model.rescale(later, (first, first + 100)))
    with pytest.warns(DataWarning):
        assert waits.sum() == pytest.approx(model.predict_count(first, later[-1]).mean, rel=0.01)


def test_every_call_is_warned_of_at_the_line_that_made_it(curve):
    with warnings.catch_warnings(record=True) as caught:
        for name in ("nord", "süd", "nord"):
            curve[name].predict_count("2025-04-07 00:00+02:00", "2025-04-14 00:00+02:00")
    assert len(caught) == 3
    assert {warning.filename for warning in caught} == {__file__}


def test_a_count_has_an_interval_for_chance_and_doubt():
    inside, widths = [], []
    for seed in range(25):
        times = np.sort(np.random.default_rng(seed).uniform(0, 100, 100))
        found = SigmoidCox().fit(times, (0.0, 100.0)).predict_count(0.0, 100.0)
        inside.append(found.lower <= np.random.default_rng([seed, 1]).poisson(100) <= found.upper)
        widths.append(found.upper - found.lower)
    assert np.mean(inside) > 0.8
    assert np.mean(widths) > 1.2 * 2 * 1.96 * 10  # wider than Poisson's alone
    assert SigmoidCox().fit([1.0], (0.0, 2.0)).predict_count(1.0, 1.0) == (0.0, 0.0, 0.0)


def test_many_periods_are_counted_as_one_is(rhythm):
    year, day = (
        rhythm["nord"].predict_count("2026-01-01 00:00+01:00", end).mean
        for end in ("2027-01-01 00:00+01:00", "2026-01-02 00:00+01:00")
    )
    assert year == pytest.approx(365 * day, rel=0.005)


def test_a_rhythm_is_that_of_the_local_clock_in_summer_too(rhythm):
    found = {}
    for month in ("03-18", "01-14", "04-03", "07-15"):
        hours = pd.date_range(f"2025-{month} 00:30", periods=24, freq="h", tz=BERLIN)
        found[month] = rhythm["nord"].intensity(hours).mean
        # After the data the level is that of late: every hour is the same times as high.
        assert np.ptp(found[month] / found["03-18"]) < 1e-6
    assert found["04-03"] == pytest.approx(found["03-18"], rel=1e-6)
    assert found["04-03"] == pytest.approx(rate_by_clock(np.arange(24) + 0.5), abs=0.35)
    score = rhythm["nord"].score(ct.read_events(draw(7), unit="h")["client"])
    assert score["count_ratio"] == pytest.approx(1, abs=0.15)


@pytest.mark.parametrize(("day", "hours"), [("2025-10-26", 25), ("2025-11-02", 24), ("2025-03-30", 23)])
def test_a_day_on_which_clocks_change_counts_all_its_hours(rhythm, day, hours):
    """Ends read as local times made 24 hours of each day: the hour that came twice was lost."""
    first, last = pd.Timestamp(day, tz=BERLIN), pd.Timestamp(day, tz=BERLIN) + pd.DateOffset(days=1)
    grid = pd.date_range(first, last, freq="2min", inclusive="left") + pd.Timedelta("1min")
    whole = rhythm["nord"].predict_count(first, last).mean
    assert len(grid) == 30 * hours
    assert whole == pytest.approx(rhythm["nord"].intensity(grid).mean.sum() / 30, rel=2e-3)
    middle = first + pd.Timedelta("150min")
    parts = [rhythm["nord"].predict_count(*ends).mean for ends in ((first, middle), (middle, last))]
    assert whole == pytest.approx(sum(parts))


def test_local_clocks():
    clock = Clock("h", BERLIN)
    winter, summer = (
        clock.number(f"2025-{month}-15 08:00{zone}") for month, zone in (("01", "+01:00"), ("07", "+02:00"))
    )
    assert (clock.local(np.array([winter, summer])) % 24).tolist() == [8.0, 8.0]
    assert clock.local(np.array([winter]))[0] == winter + 1
    for other, ahead in ((Clock("h"), 0), (Clock("h", "+02:00"), 2), (Clock(), 0)):
        assert other.local(np.array([summer]))[0] == summer + ahead


def cells_of_a_day(seed: int, per_cell: float = 3.0) -> np.ndarray:
    """Counts of 1,008 cells of a smooth day that is busiest where the cells begin."""
    middles = (np.arange(1008) + 0.5) / 1008
    return np.random.default_rng(seed).poisson(per_cell * (1 + 0.6 * np.cos(2 * np.pi * middles))).astype(float)


@pytest.mark.parametrize("name", ["density", "steps", "histogram", "average"])
def test_a_closed_curve_does_not_care_where_its_cells_begin(name):
    count, ones = cells_of_a_day(0), np.ones(1008)
    plain = timeline.fit_curve(name, 1.0, count, ones, closed=True)
    turned = timeline.fit_curve(name, 1.0, np.roll(count, 300), ones, closed=True)
    assert np.roll(turned, -300) == pytest.approx(plain, rel=0.02)
    if name in ("density", "average"):
        steps = np.abs(np.diff(plain, append=plain[0]))
        assert steps[-1] < 3 * np.median(steps) + 1e-3


def test_smooth_kernels_of_a_period_are_what_they_say():
    count = np.random.default_rng(0).poisson(2.0, 60).astype(float)
    away = np.arange(60) / 60
    kernel = sum(np.exp(-0.5 * ((away + turn) / 0.05) ** 2) for turn in range(-3, 4))
    matrix = np.stack([np.roll(kernel, k) for k in range(60)]) / kernel.sum()
    found = density.smooth_by(count, np.ones(60), 0.05, closed=True)
    own = matrix[0, 0]
    assert found.rate == pytest.approx((matrix @ count + 0.5 * own) / (1 + 0.5 * own / count.mean()), rel=1e-6)


def test_the_band_of_a_day_holds_the_truth_where_its_cells_begin():
    place = np.array([0.002, 0.5, 0.998])
    truth = 0.3 * (1 + 0.6 * np.cos(2 * np.pi * place))
    inside = []
    for seed in range(20):
        found = shapes.learn_shapes(cells_of_a_day(seed, 0.3), np.ones(1008), 1008, closed=True)
        low, high = np.quantile(shapes.draws_at(place, found), [0.025, 0.975], axis=0)
        inside.append((low <= truth) & (truth <= high))
        assert shapes.mean_at(np.array([0.0]), found) == pytest.approx(shapes.mean_at(np.array([1.0]), found))
    assert np.mean(inside, axis=0)[[0, 2]].min() >= 0.8


def test_a_day_with_a_shift_is_cut_at_its_change():
    count = np.random.default_rng(0).poisson(np.where((np.arange(1008) + 200) % 1008 < 336, 9.0, 3.0)).astype(float)
    seam = piecewise.find_seam(count, np.ones(1008))
    assert min(abs(seam - 136), abs(seam - 808)) <= 3


def test_shapes_are_short_to_read():
    shown = repr(SigmoidCox().fit([1.0, 2.0, 5.0], (0.0, 6.0)).shapes)
    assert "weight" in shown
    assert "0x" not in shown
    assert "array" not in shown


def test_a_model_of_history_says_where_it_was_given_none():
    clients, _ = ct.make_events(clients=2, sequences=6, kind="hawkes")
    model = ct.FedPointProcess(process="hawkes1", rounds=3).fit(clients, progress=False)["client-0"]
    for answer in (lambda **given: model.intensity([1.0], **given), lambda **given: model.predict_count(0, 2, **given)):
        with pytest.warns(DataWarning, match="begins as if no event had come before, and the model looks back"):
            silent = answer()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            told = answer(history=[])
        assert told[0] == silent[0]
    frame = model.to_frame([1.0, 2.0], [0.5])
    assert list(frame) == ["time", "mean", "lower", "upper"]
    assert frame["mean"].tolist() == model.intensity([1.0, 2.0], [0.5]).mean.tolist()
    poisson = ct.FedPointProcess(process="poisson").fit(clients, progress=False)["client-0"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        poisson.predict_count(0, 2)
