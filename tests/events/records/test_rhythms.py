"""Counts that follow the clock: FedPP without a period tells of them, and seldom of anything else."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import cotempo as ct
from cotempo.cli.tables import check
from cotempo.data import Events
from cotempo.events.records.rhythms import say_rhythms

DAYS = 98


def thinned(rng: np.random.Generator, count: float, shape: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Return about so many hours of events whose rate has a shape of at most 2."""
    times = np.sort(rng.uniform(0, 24 * DAYS, rng.poisson(2 * count)))
    return times[2 * rng.uniform(size=len(times)) < shape(times)]


def daily(rng: np.random.Generator) -> np.ndarray:
    return thinned(rng, 400, lambda t: 1 + 0.6 * np.sin(2 * np.pi * t / 24))


def weekly(rng: np.random.Generator) -> np.ndarray:
    return thinned(rng, 800, lambda t: 1 + 0.6 * np.sin(2 * np.pi * t / 168))


def flat(rng: np.random.Generator) -> np.ndarray:
    return thinned(rng, 400, np.ones_like)


def growing(rng: np.random.Generator) -> np.ndarray:
    return thinned(rng, 400, lambda t: 2 * t / (24 * DAYS))


def bursts(rng: np.random.Generator) -> np.ndarray:
    """Return a Hawkes process: each event sets off .8 others, within hours."""
    found, young = [], flat(rng)[::5]
    while len(young):
        found.append(young)
        young = np.repeat(young, rng.poisson(0.8, len(young)))
        young = young + rng.exponential(6.0, len(young))
    times = np.sort(np.concatenate(found))
    return times[times < 24 * DAYS]


def dated(times: np.ndarray, zone: str = "Europe/Berlin") -> Events:
    start = 490_000.0
    return Events.from_arrays([start + times], (start, start + 24 * DAYS), unit="h", zone=zone)


def told(make: Callable[[np.random.Generator], np.ndarray], tables: int = 40) -> list[str]:
    return [line for seed in range(tables) for line in say_rhythms(dated(make(np.random.default_rng(seed))))]


def test_a_day_and_a_week_are_told_with_the_period_to_pass() -> None:
    days, weeks = told(daily), told(weekly)
    assert len(days) >= 39
    assert len(weeks) >= 39
    assert all(line.startswith("counts follow the hour of the day,") and "period=24" in line for line in days)
    assert sum(line.startswith("counts follow the day of the week,") and "period=168" in line for line in weeks) >= 39


@pytest.mark.parametrize("make", [flat, growing, bursts])
def test_of_other_data_hardly_anything_is_told(make: Callable[[np.random.Generator], np.ndarray]) -> None:
    assert len(told(make)) <= 1


def test_dates_alone_have_no_hour_and_numbers_no_clock() -> None:
    times = daily(np.random.default_rng(0))
    assert say_rhythms(dated(np.floor(times / 24) * 24 + 8, "")) == []
    assert say_rhythms(Events.from_arrays([times], (0.0, 24.0 * DAYS))) == []


def test_fit_and_check_tell_where_no_period_was_passed(tmp_path: object) -> None:
    clients = {name: dated(daily(np.random.default_rng(seed))) for seed, name in enumerate(("nord", "ost"))}
    with pytest.warns(ct.DataWarning, match=r"nord: counts follow the hour of the day.*period=24"):
        fitted = ct.FedPP(kernel="time", compare=False, cells=48).fit(clients, progress=False)
    assert any("period=24" in line for line in fitted.advice())
    assert ct.FedPP(kernel="time", period=24).misled_by(clients["nord"]) == []
    ct.write_clients(clients, f"{tmp_path}/clients.csv")
    text = f"""name = "wards"\nmethod = "FedPP"\n[data]\nsource = "{tmp_path}/clients.csv"\nunit = "h"\n"""
    with open(f"{tmp_path}/wards.toml", "w") as file:
        file.write(text)
    assert any("nord, ost: counts follow" in line for line in check(f"{tmp_path}/wards.toml").lines)
