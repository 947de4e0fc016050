"""Weeks of sites whose days differ: pictures show the whole week by its days, counts are as sure as they can be."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import poisson

import cotempo as ct
from cotempo.data import Events
from cotempo.data.clock import Clock
from cotempo.events import FedPP

CLOCK = Clock("h", "Europe/Vienna")
WEDNESDAY = CLOCK.number("2025-01-08 00:00+01:00")
MONDAY = WEDNESDAY - 48
PEAKS = {"a": 11, "b": 11, "c": 17}
WEEKS = 6


def rate(time, peak):
    hour = time - MONDAY
    return 0.7 * (1 + 0.7 * np.cos(2 * np.pi * (hour - peak) / 24)) * np.where(hour // 24 % 7 >= 5, 0.6, 1.16)


def fit(seed):
    rng, clients, window = np.random.default_rng(seed), {}, (WEDNESDAY, WEDNESDAY + WEEKS * 168)
    for name, peak in PEAKS.items():
        times = np.sort(rng.uniform(*window, rng.poisson(1.4 * WEEKS * 168)))
        kept = times[rng.uniform(0, 1.4, len(times)) < rate(times, peak)]
        clients[name] = Events.from_arrays([kept], window, unit="h", zone=CLOCK.zone)
    return FedPP(kernel="time", period=168.0, cells=168, compare=False).fit(clients), clients


@pytest.fixture(scope="module")
def fitted():
    return fit(1000)


def test_a_week_is_drawn_whole_by_its_days(fitted):
    result, clients = fitted
    for figure in (result.plot(clients), result.figures()["Intensity with its 95 % band"]):
        for axes in figure.axes:
            begin, *_, end = axes.lines[0].get_xdata()
            assert (begin, end) == (
                pd.Timestamp("2025-01-13", tz=CLOCK.zone),
                pd.Timestamp("2025-01-20", tz=CLOCK.zone),
            )
            labels = [label.get_text() for label in axes.get_xticklabels()]
            assert [label for label in labels if label][:7] == ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
            assert axes.get_xlabel() == "day of the week (Europe/Vienna)"


def test_the_answer_names_a_day_of_the_week(fitted):
    words = fitted[0].answer()
    assert "for a on " in words
    assert "2025" not in words
    day = words.partition("for a on ")[2].split("s at ")[0]
    assert day in ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")  # weekends have half as many


def test_bands_hold_where_the_days_of_sites_differ(fitted):
    """One site's day peaks six hours later: its band held 18 to 48 % of the truth, and nothing said so."""
    grid = MONDAY + np.arange(0.25, 168, 0.5)
    for name, peak in PEAKS.items():
        band, truth = fitted[0][name].intensity(grid), rate(grid, peak)
        assert ((band.lower <= truth) & (truth <= band.upper)).mean() > 0.85
        assert abs(grid[np.argmax(band.mean[:48])] - MONDAY - peak) < 4  # two of the coarse cells of deviations


def check_counts(result):
    """Counts of a week and of a day to come hold about 95 % of what the true rate brings, and not far more: six weeks
    do not say for sure that the level does not move."""
    for name, peak in PEAKS.items():
        for first, last in ((0, 168), (24, 48)):
            begin = MONDAY + 8 * 168
            expected = rate(begin + np.arange(first + 0.05, last, 0.1), peak).sum() / 10
            found = result[name].predict_count(begin + first, begin + last)
            assert 0.9 < poisson.cdf(found.upper, expected) - poisson.cdf(found.lower - 1, expected) < 0.999
            assert found.upper - found.lower < 1.7 * np.ptp(poisson.ppf([0.025, 0.975], expected))


def test_counts_are_as_sure_where_the_days_of_sites_differ(fitted):
    """Deviations of hours drawn as if they all moved together made a week twice as wide, which held .9999."""
    check_counts(fitted[0])


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_counts_are_as_sure_on_other_weeks(seed):
    check_counts(fit(seed)[0])


def test_what_a_report_says_first_is_of_the_largest_clients():
    rng = np.random.default_rng(0)
    sizes = {"a": 20, "b": 300, "c": 50, "d": 400}
    clients = {name: Events.from_arrays([np.sort(rng.uniform(0, 96, n))], (0.0, 96.0)) for name, n in sizes.items()}
    said = FedPP(kernel="time", compare=False, cells=48).fit(clients, progress=False).answer()
    assert said.index("for d ") < said.index("for b ")
    assert "for a " not in said


def test_what_a_report_says_first_names_who_is_unlike_the_largest():
    rng, clients = np.random.default_rng(0), {}
    for name, size, peak in (("a", 4000, 15), ("b", 3000, 15), ("c", 2000, 15), ("night", 1500, 3)):
        times = np.sort(rng.uniform(0, 28 * 24, size))
        kept = times[rng.uniform(0, 1.9, size) < 1 + 0.9 * np.cos(2 * np.pi * (times - peak) / 24)]
        clients[name] = Events.from_arrays([kept], (0.0, 28 * 24.0))
    said = FedPP(kernel="time", period=24, compare=False, cells=48).fit(clients, progress=False).answer()
    assert "for a " in said
    assert "for night " in said
    assert "for c " not in said


def test_what_is_not_here_is_told_where_it_is():
    with pytest.raises(AttributeError, match=r"cotempo has no 'FedNeural'; it is cotempo\.events\.FedNeural"):
        ct.FedNeural  # noqa: B018
