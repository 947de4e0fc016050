"""Series whose rows are not equally far apart are told of, by check and by a fit."""

from __future__ import annotations

import numpy as np
import pytest

import cotempo as ct
from cotempo import data


def sampled(step: float, kept: float, unit: str = "", seed: int = 0) -> ct.Series:
    rng = np.random.default_rng(seed)
    time = np.flatnonzero(rng.random(600) < kept) * step
    return ct.Series.from_arrays(rng.normal(size=(len(time), 2)), time, unit=unit)


def test_steps_shorter_than_the_median_are_told_of_with_the_step_to_pass() -> None:
    table = sampled(0.5, 0.45)
    (words,) = table.faults()
    assert "of the steps are about 0.5, where 1 is usual" in words
    assert words.endswith("pass table.regular(step=0.5), or resample=0.5 in reading")
    even = table.regular(step=0.5)
    assert not even.faults()
    np.testing.assert_array_equal(even.values, table.resample(0.5).values)
    assert words in data.describe({"lab": table}).warnings[0]
    with pytest.warns(UserWarning, match="lab: .* are about 0.5, where 1 is usual"):
        fitted = ct.OneRound().fit({"lab": table, "other": table.regular(step=0.5)}, progress=False)
    assert any(words in line for line in fitted.advice())


def test_the_step_of_dates_is_told_as_a_duration() -> None:
    (words,) = sampled(0.5, 0.45, unit="h").faults()
    assert 'table.regular(step="0.5h")' in words


def test_steps_on_no_grid_are_to_be_averaged() -> None:
    time = np.cumsum(np.random.default_rng(0).exponential(size=300))
    (words,) = ct.Series.from_arrays(np.random.default_rng(1).normal(size=(300, 1)), time).faults()
    assert "means over equal times" in words


@pytest.mark.parametrize("kept", [1.0, 0.9, 0.7])
def test_rows_that_are_missing_here_and_there_are_gaps(kept: float) -> None:
    assert not sampled(0.5, kept).faults()


def test_times_that_jitter_are_even() -> None:
    time = np.arange(300) + np.random.default_rng(0).uniform(-0.2, 0.2, 300)
    assert not ct.Series.from_arrays(np.random.default_rng(1).normal(size=(300, 1)), time).faults()


def test_clients_whose_plain_numbers_are_other_steps_apart_are_told_of() -> None:
    rng = np.random.default_rng(0)
    tables = {
        name: ct.Series.from_arrays(rng.normal(size=(60, 2)), np.arange(60.0) * step)
        for name, step in (("kyoto", 1.0), ("lima", 4.0))
    }
    words = (
        "rows are 1 apart at kyoto, 4 apart at lima: a row is no common step; if all count the same unit, take means"
    )
    assert any(words in line for line in ct.describe(tables).warnings)
    with pytest.warns(ct.DataWarning, match="1 apart at kyoto, 4 apart at lima"):
        ct.OneRound(restarts=0).fit(tables, progress=False)
