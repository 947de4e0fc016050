"""Times cut down to 5 minutes, an hour or a day: events are anywhere in their step, and curves have no spikes."""

import numpy as np
import pandas as pd
import pytest

import cotempo as ct
from cotempo.data import Events
from cotempo.data.clock import Clock
from cotempo.errors import DataError
from cotempo.events.records.record import read_record
from cotempo.events.sigmoid_cox import SigmoidCox

WEEKS = 4
LEVELS = {"a": 1.0, "b": 0.6, "c": 0.4}


def rate(hours):
    return 1 + 0.6 * np.sin(2 * np.pi * (hours - 12) / 24)


def draw(level, rng, length=WEEKS * 168.0):
    times = np.sort(rng.uniform(0, length, rng.poisson(1.6 * level * length)))
    return times[rng.uniform(0, 1.6, len(times)) < rate(times)]


def cut(times, step):
    return np.floor(times / step) * step


def table(times, unit="h", zone=""):
    return Events.from_arrays([times], (0.0, WEEKS * 168.0), unit=unit, zone=zone)


@pytest.mark.parametrize(
    ("step", "words"),
    [(1 / 60, "1 minute"), (1 / 12, "5 minutes"), (1 / 4, "15 minutes"), (1, "1 hour"), (24, "1 day")],
)
def test_check_names_the_step(step, words):
    events = table(cut(draw(1.0, np.random.default_rng(0)), step))
    assert any(f"times are in steps of {words}" in line for line in events.describe().warnings)


def test_exact_regular_and_few_times_have_no_step():
    exact = draw(1.0, np.random.default_rng(0))
    for times in (exact, np.arange(1.0, 200.0), cut(exact[:5], 1.0)):
        assert not any("steps" in line for line in table(times).describe().warnings)
        assert np.array_equal(read_record(table(times)).time, np.unique(times))


def test_some_times_off_the_grid_stay_where_they_are():
    times = cut(draw(1.0, np.random.default_rng(0)), 0.25)
    times[::8] += 0.01
    events = table(np.sort(times))
    spread = events.spread()
    assert np.isin(np.unique(times[::8]), spread.time).all()
    assert len(np.unique(spread.time)) > 0.99 * len(times)


def test_spread_times_stay_in_their_step_in_order_and_in_the_window():
    times = cut(draw(2.0, np.random.default_rng(1)), 1.0)
    times = np.sort(np.append(times, [WEEKS * 168.0, 0.0]))
    events = Events.from_arrays(
        [times], (0.0, WEEKS * 168.0), [["x", "y"] * (len(times) // 2) + ["x"] * (len(times) % 2)]
    )
    spread = events.spread()
    assert np.array_equal(cut(spread.time, 1.0), times)
    assert (np.diff(spread.time) >= 0).all()
    assert spread.time[0] == 0.0  # a window that begins with its event was opened by it
    assert np.array_equal(np.bincount(spread.mark), np.bincount(events.mark))
    assert np.array_equal(spread.time, events.spread().time)


def test_steps_of_a_zone_begin_where_its_clocks_do():
    rng, clock = np.random.default_rng(2), Clock("h", "Asia/Kolkata")
    start = clock.number("2025-03-01 00:00+05:30")
    times = start + cut(draw(1.0, rng), 1.0)
    events = Events.from_arrays([times], (start, start + WEEKS * 168), unit="h", zone=clock.zone)
    assert any("steps of 1 hour" in line for line in events.describe().warnings)


def test_days_of_a_zone_with_summer_time_are_days():
    days = pd.date_range("2025-03-01", "2025-05-01", tz="Europe/Berlin")
    frame = pd.DataFrame({"time": np.sort(np.random.default_rng(3).choice(days, 150))})
    frame["time"] = pd.DatetimeIndex(frame["time"])
    events = ct.read_events(frame, unit="h", zone="Europe/Berlin")["client"]
    assert any("steps of 1 day" in line for line in events.describe().warnings)


@pytest.mark.slow
@pytest.mark.parametrize("step", [1 / 12, 1.0])
def test_curves_and_counts_are_those_of_exact_times(step):
    """Five minutes made a week of 168 events one of 3144, 153 to 2726, and its band held the truth nowhere."""
    rng, grid = np.random.default_rng(3), np.arange(0.5, 24, 0.5)
    exact = {name: draw(level, rng) for name, level in LEVELS.items()}
    method = ct.FedPP(kernel="time", period=24.0, compare=False, cells=288)
    fitted = method.fit({name: table(cut(times, step)) for name, times in exact.items()}, progress=False)
    for name, level in LEVELS.items():
        band, count = fitted[name].intensity(grid), fitted[name].predict_count(168, 336)
        truth = level * rate(grid)
        assert ((band.lower <= truth) & (truth <= band.upper)).mean() > 0.75
        assert np.sqrt(np.mean((band.mean - truth) ** 2)) < 0.2 * level
        assert count.lower <= count.mean <= count.upper
        assert 0.8 < count.mean / (168 * level) < 1.2


def test_a_model_alone_sees_no_spikes():
    times = cut(draw(1.0, np.random.default_rng(4)), 1 / 4)
    model = SigmoidCox().fit(table(times))
    at = np.linspace(200.0, 300.0, 2000)
    assert model.intensity(at).mean.max() < 3 * len(times) / (WEEKS * 168)
    count = model.predict_count(0, WEEKS * 168)
    assert abs(count.mean / len(times) - 1) < 0.1


def test_gaps_are_not_zero_where_times_tie():
    times = cut(draw(1.0, np.random.default_rng(5)), 1.0)
    record = read_record(table(times))
    assert (np.diff(times) == 0).mean() > 0.2
    assert (np.diff(record.time) > 0).all()
    assert record.count.max() == 1


def test_a_count_holds_its_mean_even_of_almost_nothing():
    fitted = SigmoidCox().fit(table(draw(0.05, np.random.default_rng(6))))
    count = fitted.predict_count(10.0, 10.01)
    assert count.lower <= count.mean <= count.upper


@pytest.mark.slow
def test_a_period_is_that_of_each_clients_own_clock():
    """Sites in two zones with one rhythm of their local day: bands held 55 % of the truth."""
    rng, clients = np.random.default_rng(7), {}
    for name, zone in {"a": "Europe/Berlin", "b": "America/Phoenix", "c": "-05:00"}.items():
        clock = Clock("h", zone)
        start = clock.number(pd.Timestamp("2025-01-06", tz=zone if zone[0] != "-" else "Etc/GMT+5"))
        times = start + draw(1.0, rng)
        clients[name] = Events.from_arrays([times], (start, start + WEEKS * 168), unit="h", zone=zone)
    fitted = ct.FedPP(kernel="time", period=24.0, compare=False, cells=96).fit(clients, progress=False)
    hours = np.arange(0.5, 24)
    for name, events in clients.items():
        mean = fitted[name].intensity(events.start[0] + 168 + hours).mean
        assert np.corrcoef(mean, rate(hours))[0, 1] > 0.95
    assert any("zones differ" in line for line in ct.describe(clients).warnings)


@pytest.mark.slow
def test_a_model_of_history_counts():
    rng = np.random.default_rng(8)
    clients = {name: Events.from_arrays([np.sort(rng.uniform(0, 60, 60))], (0.0, 60.0)) for name in "ab"}
    method = ct.FedPP(kernel="history", base="poisson", rounds=1, refit_rounds=0, inducing=4, compare=False)
    model = method.fit(clients, progress=False)["a"]
    count = model.predict_count(50.0, 56.0, history=clients["a"].time[clients["a"].time < 50])
    assert count.lower <= count.mean <= count.upper
    assert 2.0 < count.mean < 12.0
    with pytest.raises(ct.CotempoError, match="must lie before"):
        model.predict_count(50.0, 51.0, history=[55.0])


def test_figures_say_how_many_clients_are_left_out():
    rng = np.random.default_rng(9)
    clients = {name: table(draw(0.2, rng)) for name in "abcde"}
    fitted = ct.FedPP(kernel="time", period=24.0, compare=False, cells=48).fit(clients, progress=False)
    assert any("4 of 5" in title for title in fitted.figures())
    assert "4 of 5" in fitted.plot(clients).get_suptitle()
    (axes,) = fitted.plot(["e"]).axes
    assert axes.get_title(loc="left") == "e"


@pytest.mark.parametrize("reducer", [None, ct.Robust("mean", cap=None)])  # left out as unlike, or taken in
def test_the_client_most_unlike_the_others_is_among_those_drawn(reducer):
    rng = np.random.default_rng(9)

    def daily(peak):
        times = np.sort(rng.uniform(0, WEEKS * 168.0, 2400))
        return table(times[rng.uniform(0, 1.8, 2400) < 1 + 0.8 * np.cos(2 * np.pi * (times - peak) / 24)])

    clients = {**{name: daily(12) for name in "abcd"}, "e": daily(0)}
    method = ct.FedPP(kernel="time", period=24.0, compare=False, cells=48)
    fitted = method.fit(clients, progress=False, reducer=reducer)
    assert fitted.suspects == (() if reducer else ("e",))
    titles = [[axes.get_title(loc="left") for axes in figure.axes] for figure in (fitted.plot(), fitted.plot(clients))]
    titles.append([axes.get_title(loc="left") for axes in next(iter(fitted.figures().values())).axes])
    assert titles == [["a", "b", "c", "e"]] * 3


def test_an_event_at_midnight_does_not_make_a_window_unknown():
    times = np.append(0.0, draw(0.2, np.random.default_rng(10)))
    events = Events.from_arrays([times], (0.0, WEEKS * 168.0), unit="h")
    assert not any("as if unknown" in line for line in events.describe().warnings)
    events = Events.from_arrays([times], unit="h")
    assert any("as if unknown" in line for line in events.describe().warnings)


def test_a_missing_mark_does_not_hide_a_date_outside_its_window():
    times = ["2025-01-02", "2052-01-01", "2025-01-03"]
    frame = pd.DataFrame({"time": pd.to_datetime(times), "mark": ["x", "y", None]})
    windows = pd.DataFrame({"start": [pd.Timestamp("2025-01-01")], "end": [pd.Timestamp("2025-02-01")]})
    with pytest.raises(DataError) as caught:
        ct.read_events(frame, windows=windows)
    assert {problem.column for problem in caught.value.problems} == {"time", "mark"}


@pytest.mark.parametrize("dated", [1, 3])
def test_a_site_that_records_only_dates_has_the_day_of_the_others(dated):
    rng, hours = np.random.default_rng(4), np.arange(56 * 24)
    day = 1 + 0.6 * np.sin(2 * np.pi * (hours + 0.5) / 24)
    sites = {}
    for number in range(5):
        drawn = rng.poisson(0.5 * day)
        times = np.repeat(hours, drawn) + rng.uniform(size=drawn.sum())
        times = np.sort(np.floor(times / 24) * 24 if number < dated else times)
        sites[f"site {number}"] = Events.from_arrays([times], (0.0, 56 * 24.0), unit="h", zone="UTC")
    fitted = ct.FedPP(kernel="time", period=24.0, cells=96).fit(sites, progress=False)
    assert not fitted.failures
    for name in ("site 0", "site 4"):
        found = fitted[name].intensity(56 * 24 + np.arange(24) + 0.5).mean
        assert np.polyfit(day[:24], found / found.mean(), 1)[0] == pytest.approx(1, abs=0.25)
    assert not any(benefit.verdict == "harmed" for benefit in fitted.benefit.values())


def test_nobody_is_told_to_remove_what_dates_alone_make_equal():
    rng = np.random.default_rng(5)
    times = np.sort(np.floor(np.repeat(rng.uniform(0, 98, 60), rng.geometric(0.1, 60))))  # bursts
    events = Events.from_arrays([times], (0.0, 98.0), unit="D", zone="UTC")
    told = [line for line in events.describe().warnings if "equal to another" in line]
    assert told
    assert "drop_duplicates" not in told[0]
