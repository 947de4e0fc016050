"""Seasons: columns that follow the clock make false edges, of which fits and checks of networks tell."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest

import cotempo as ct
from cotempo.networks.rhythms import rhythm_chances, say_rhythms


def plants(days: int, height: float, seed: int = 0, zone: str = "Europe/Berlin") -> dict[str, pd.DataFrame]:
    """Return hourly rows of three plants, three of five columns with a wave a day of so many standard deviations."""
    clients, _ = ct.make_networks(variables=5, clients=3, samples=72 * days, seed=seed)
    found = {}
    for name, table in clients.items():
        frame = table.to_frame().drop(columns="sequence")
        columns, hours = list(table.features), np.arange(len(frame))
        waves = np.sin(2 * np.pi * (hours[:, None] - 3 * np.arange(3)) / 24)
        frame[columns[:3]] += height * frame[columns[:3]].std().to_numpy() * waves
        found[name] = frame.assign(time=pd.date_range("2025-03-20", periods=len(frame), freq="1h", tz=zone))
    return found


METHODS = [
    ct.OneRound(compare=False, restarts=0),
    ct.FDBNL(rounds=2, compare=False, lambda_within=0.1, lambda_across=0.1),
    ct.PFDBNL(rounds=2, compare=False, coupling=0.3, lambda_within=0.1, lambda_across=0.1),
    ct.EdgeRanking(score="granger"),
]


@pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)
def test_a_fit_tells_which_columns_follow_the_hour_of_the_day(method: ct.Method) -> None:
    clients = ct.read_series(plants(14, 1.5), unit="h")
    with pytest.warns(ct.DataWarning, match="x0, x1, x2 follow the hour of the day") as told:
        fitted = method.fit(clients, progress=False)
    assert any("follow the hour" in line for line in fitted.advice())
    assert not any("x3" in str(warning.message) for warning in told)


def test_what_is_advised_takes_the_season_out() -> None:
    frames = plants(14, 1.5)
    for frame in frames.values():
        columns = ["x0", "x1", "x2"]
        frame[columns] -= frame.groupby(frame.time.dt.hour)[columns].transform("mean")
    for table in ct.read_series(frames, unit="h").values():
        assert say_rhythms(table) == []


def test_the_day_of_the_week_is_told_of_daily_rows() -> None:
    rng, days = np.random.default_rng(0), pd.date_range("2025-01-06", periods=140, freq="D")
    frame = pd.DataFrame(
        {"time": days, "sold": rng.normal(size=140) + 3 * (days.day_of_week > 4), "cost": rng.normal(size=140)}
    )
    (words,) = say_rhythms(ct.read_series({"shop": frame}, unit="D")["shop"])
    assert words.startswith("sold follows the day of the week")


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York"])
def test_a_rhythm_of_days_is_none_of_weeks(zone: str) -> None:
    for table in ct.read_series(plants(60, 3.0, zone=zone), unit="h").values():
        (words,) = say_rhythms(table)
        assert "the hour of the day" in words


def walks(rng: np.random.Generator, rows: int) -> np.ndarray:
    return rng.normal(size=(rows, 10)).cumsum(axis=0)


def trends(rng: np.random.Generator, rows: int) -> np.ndarray:
    return walks(rng, rows) + np.arange(rows)[:, None]


@pytest.mark.parametrize(("make", "days"), list(itertools.product([walks, trends], [5, 40])))
def test_slow_and_growing_columns_follow_no_clock(make: object, days: int) -> None:
    rng = np.random.default_rng(1)
    for _ in range(5):
        table = ct.Series.from_arrays(make(rng, 24 * days), np.arange(24.0 * days), unit="h")  # type: ignore[operator]
        assert (rhythm_chances(table, 86400.0) > 1e-4).all()


def test_plain_numbers_have_no_clock() -> None:
    frames = {name: frame.assign(time=np.arange(len(frame))) for name, frame in plants(14, 1.5).items()}
    assert all(say_rhythms(table) == [] for table in ct.read_series(frames).values())
