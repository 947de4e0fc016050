"""A clock turns dates into numbers and back, and never mixes dates with and without a zone."""

import datetime

import numpy as np
import pandas as pd
import pytest

from cotempo.data.clock import Clock
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
        (NAIVE, pd.Timestamp("2025-03-05", tz="UTC"), "no time zone"),
        (BERLIN, "2025-03-05", "have a time zone, as those of the table"),
        (Clock(), "2025-03-05", "must be numbers"),
        (NAIVE, "rubbish", "numbers or dates"),
        (BERLIN, ["2025-03-05 01:00+01:00", "2025-03-05"], "all with a zone or all without"),
    ],
)
def test_what_does_not_fit_is_refused(clock, when, match):
    with pytest.raises(DataError, match=match):
        clock.numbers(when) if isinstance(when, list) else clock.number(when)
