"""A clock turns dates into numbers and back, and never mixes dates with and without a zone."""

import datetime

import numpy as np
import pandas as pd
import pytest

from cotempo.data.clock import Clock, parse_date
from cotempo.errors import DataError

BERLIN = Clock("h", "Europe/Berlin")
NAIVE = Clock("s")


@pytest.mark.parametrize(
    "when",
    [
        "2025-03-05 07:00+01:00",
        pd.Timestamp("2025-03-05 06:00", tz="UTC"),
        datetime.datetime(2025, 3, 5, 6, tzinfo=datetime.UTC),
        483654,
    ],
)
def test_a_time_may_come_in_any_form(when):
    assert BERLIN.number(when) == 483654.0


def test_dates_come_back_in_their_zone():
    dates = pd.date_range("2025-03-29 22:00", periods=6, freq="h", tz="Europe/Berlin")  # over the change of hours
    numbers = BERLIN.numbers(dates)
    assert np.array_equal(np.diff(numbers), np.ones(5))
    assert (BERLIN.dates_of(numbers) == dates).all()
    assert BERLIN.text(numbers[-1]) == "2025-03-30 04:00:00+02:00"
    assert Clock("D", "+05:30").text(20000.25) == "2024-10-04 11:30:00+05:30"


def test_columns_and_arrays_of_dates_and_microseconds():
    dates = pd.to_datetime(["2025-03-05 01:02:03.000004", "1969-12-31 23:59:59.5"])
    for given in (dates, pd.Series(dates), dates.to_numpy(), [str(date) for date in dates]):
        assert (NAIVE.dates_of(NAIVE.numbers(given)) == dates).all()


def test_plain_numbers_stay_numbers():
    clock = Clock()
    assert clock.numbers([1, 2.5]).tolist() == [1.0, 2.5]
    assert clock.dates_of([1.0]).tolist() == [1.0]
    assert (clock.date(2), clock.text(2.5), clock.label, clock.rate_label) == (2.0, "2.5", "time", "per unit of time")


@pytest.mark.parametrize(
    ("clock", "when", "match"),
    [
        (NAIVE, pd.Timestamp("2025-03-05", tz="UTC"), "no time zone.*write '2025-03-05 00:00', or"),
        (BERLIN, "2025-03-05", "have a time zone, as those of the table"),
        (BERLIN, "2025-05-12 22:00", r"write '2025-05-12 22:00\+02:00', or use tz_localize"),
        (Clock(), "2025-03-05", "must be numbers"),
        (NAIVE, "rubbish", "numbers or dates"),
        (BERLIN, ["2025-03-05 01:00+01:00", "2025-03-05"], "all with a zone or all without"),
    ],
)
def test_what_does_not_fit_is_refused(clock, when, match):
    with pytest.raises(DataError, match=match):
        clock.numbers(when) if isinstance(when, list) else clock.number(when)


@pytest.mark.parametrize(
    ("unit", "zone"), [("min", ""), ("s", "Berlin"), ("s", "../../etc"), ("s", "+1"), ("h", "Europe")]
)
def test_units_and_zones_must_exist(unit, zone):
    with pytest.raises(DataError, match="the unit of time must be s, h, D or empty, and the zone"):
        Clock(unit, zone)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("04.05.2025", "2025-05-04 or 2025-04-05"),
        ("04/05/2025 08:00", "2025-05-04 08:00:00 or 2025-04-05 08:00:00"),
        ("13.05.2025", "2025-05-13"),
        ("2025-02-30", ""),
    ],
)
def test_dates_of_another_order_are_refused_with_their_readings(text, meant):
    with pytest.raises(DataError, match=f"ISO 8601.*got '{text}'{', which could be ' + meant if meant else ''}$"):
        NAIVE.number(text)


def test_dates_in_a_known_format_are_read_by_it_and_by_no_other():
    german = ["%d.%m.%Y %H:%M"]
    assert parse_date("04.05.2025 08:30", german) == pd.Timestamp(2025, 5, 4, 8, 30)
    assert parse_date("04.05.2025", german) == pd.Timestamp(2025, 5, 4)
    assert parse_date("2025-05-04", german) == pd.Timestamp(2025, 5, 4)
    with pytest.raises(DataError, match=r"or '%d\.%m\.%Y %H:%M', got '04/05/2025', which could be"):
        parse_date("04/05/2025", german)
    with pytest.raises(DataError, match=r"which could be 2025-05-04 or 2025-04-05$"):  # two sites, two orders
        parse_date("04/05/2025", ["%d/%m/%Y", "%m/%d/%Y"])


def test_full_steps_count_from_midnight():
    start = BERLIN.number("2025-03-05 07:13+01:00")
    assert BERLIN.text(BERLIN.full_step(start, 0.5)) == "2025-03-05 07:30:00+01:00"
    assert BERLIN.text(BERLIN.full_step(start, 24.0)) == "2025-03-06 00:00:00+01:00"
    hour = BERLIN.number("2025-03-05 07:00+01:00")
    assert BERLIN.full_step(hour, 1.0) == hour
    assert Clock().full_step(3.3, 1.0) == 3.3


def test_steps_from_midnight_stay_there_when_clocks_are_changed() -> None:
    clock = Clock("h", "Europe/Berlin")
    ends = (clock.number("2025-10-20 05:00+02:00"), clock.number("2025-11-02 00:00+01:00"))
    half_days = clock.dates_of(clock.steps(*ends, 12.0))
    assert {date.hour for date in half_days} == {0, 12}
    assert str(half_days[0]) == "2025-10-20 12:00:00+02:00"
    assert str(half_days[-1]) == "2025-11-02 00:00:00+01:00"
    assert len(clock.steps(*ends, 1.0)) == ends[1] - ends[0] + 1
