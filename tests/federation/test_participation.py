"""Cohorts: their size, their period, and what they depend on."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotempo.errors import ParameterError
from cotempo.federation import Participation

NAMES = [f"client-{index}" for index in range(10)]


def test_everyone_by_default_in_name_order() -> None:
    assert Participation().cohort(3, ["b", "a"], seed=0) == ("a", "b")


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 15), st.integers(1, 5), st.integers(1, 30), st.integers(0, 99), st.permutations(NAMES))
def test_a_cohort_has_its_size_and_depends_on_seed_and_period_only(
    size: int, period: int, round: int, seed: int, names: list[str]
) -> None:
    cohort = Participation(size, period).cohort(round, names, seed)
    assert len(set(cohort)) == len(cohort) == min(size, len(NAMES))
    assert list(cohort) == sorted(cohort)
    assert set(cohort) <= set(NAMES)
    first_of_period = (round - 1) // period * period + 1
    assert cohort == Participation(size, period).cohort(first_of_period, NAMES, seed)


def test_a_cohort_stays_for_its_period_and_then_changes() -> None:
    cohorts = [Participation(3, period=4).cohort(round, NAMES, seed=0) for round in range(1, 41)]
    periods = [cohorts[start : start + 4] for start in range(0, 40, 4)]
    assert all(len(set(period)) == 1 for period in periods)
    assert len({period[0] for period in periods}) > 5


def test_everybody_has_the_same_chance() -> None:
    counts = Counter(name for round in range(2000) for name in Participation(3).cohort(round, NAMES, seed=1))
    # Binomial with mean 600 and standard deviation 20.5: five of them.
    assert all(abs(counts[name] - 600) < 103 for name in NAMES)


def test_another_seed_gives_other_cohorts() -> None:
    drawn = [[Participation(3).cohort(round, NAMES, seed) for round in range(5)] for seed in range(5)]
    assert all(one != other for number, one in enumerate(drawn) for other in drawn[:number])


@pytest.mark.parametrize(("size", "period"), [(0, 1), (-1, 1), (2, 0), (None, -3)])
def test_impossible_cohorts_are_refused(size: int | None, period: int) -> None:
    with pytest.raises(ParameterError, match="greater than or equal to 1"):
        Participation(size, period)
