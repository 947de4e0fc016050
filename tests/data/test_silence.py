"""Outages: a stretch without events that a site's own rhythm makes impossible is told before anything is learned."""

import numpy as np
import pandas as pd
import pytest

import cotempo as ct
from cotempo.data import Events
from cotempo.data.clock import Clock

ZONE, WEEKS = "Europe/Berlin", 13
START = pd.Timestamp("2025-09-01", tz=ZONE)
END = START + pd.DateOffset(weeks=WEEKS)


def draw(seed: int, rate: float, *, opens: tuple[int, int] = (0, 24), days: int = 7) -> pd.DatetimeIndex:
    """Thirteen weeks with a day of their own, perhaps closed at night and on weekends."""
    rng, hours = np.random.default_rng(seed), (END - START) / pd.Timedelta("1h")
    at = START + pd.to_timedelta(np.sort(rng.uniform(0, hours, rng.poisson(1.8 * rate * hours))), unit="h")
    likely = (1 + 0.8 * np.cos(2 * np.pi * (at.hour - 15) / 24)) / 1.8
    shut = (at.hour < opens[0]) | (at.hour >= opens[1]) | (at.day_of_week >= days)
    return at[(rng.uniform(size=len(at)) < likely) & ~shut]


def table(at: pd.DatetimeIndex) -> Events:
    window = {"start": [START], "end": [END]}
    return ct.read_events(pd.DataFrame({"time": at}), windows=pd.DataFrame(window), unit="h")["client"]


@pytest.mark.parametrize("rate", [4.0, 0.12])
def test_two_weeks_that_are_missing_are_told(rate):
    at, lost = draw(0, rate), (pd.Timestamp("2025-10-06", tz=ZONE), pd.Timestamp("2025-10-20", tz=ZONE))
    assert table(at).faults() == []
    (words,) = table(at[(at < lost[0]) | (at >= lost[1])]).faults()
    assert "no event from 2025-10-0" in words
    assert "to 2025-10-20" in words
    assert words in table(at[(at < lost[0]) | (at >= lost[1])]).describe().warnings


@pytest.mark.parametrize("hours", [{"opens": (7, 18), "days": 5}, {"opens": (6, 22)}, {}])
def test_who_closes_at_night_and_on_weekends_is_not_silent(hours):
    assert not any(table(draw(seed, 2.0, **hours)).faults() for seed in range(10))


def test_bursts_are_not_silences():
    clients, _ = ct.make_events(clients=5, sequences=2, length=300.0, kind="hawkes")
    assert not any(found.faults() for found in clients.values())


def test_who_stopped_before_the_end_is_silent():
    at = draw(3, 2.0)
    (words,) = table(at[at < pd.Timestamp("2025-11-10", tz=ZONE)]).faults()
    assert f"to {Clock('h', ZONE).text(Clock('h', ZONE).number(END))}" in words


def test_fit_warns_of_an_outage():
    at = draw(0, 1.0)
    with pytest.warns(
        ct.errors.DataWarning, match="site: no event from .*, where about .* were usual: closed, or lost"
    ):
        ct.FedPP(kernel="time", period=168, cells=48, compare=False).fit(
            {"site": table(at[(at.month != 10)])}, progress=False
        )
