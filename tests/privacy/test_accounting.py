"""Epsilon agrees with dp-accounting 0.6 (its PLD accountant), whose figures stand here; noise and epsilon invert."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from cotempo.errors import ParameterError
from cotempo.privacy.accounting import (
    compose,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_multiplier,
    sampled_epsilon,
    sampled_multiplier,
)  # fmt: skip

# noise multiplier, releases, delta, epsilon by dp_accounting.pld.PLDAccountant
GAUSSIAN = [
    (1.0, 1, 1e-05, 4.377178),
    (1.0, 1, 1e-06, 4.886554),
    (3.2, 1, 1e-05, 1.183803),
    (3.2, 1, 1e-06, 1.350108),
    (0.7, 2, 1e-05, 10.122495),
    (0.7, 2, 1e-06, 11.132314),
    (10, 50, 1e-05, 2.943225),
    (10, 50, 1e-06, 3.307601),
    (25, 1, 1e-05, 0.125422),
    (25, 1, 1e-06, 0.14906),
]
# noise multiplier, sampling rate, steps, delta, epsilon by the same
SAMPLED = [
    (1.0, 0.01, 1000, 1e-05, 1.828244),
    (1.0, 0.01, 1000, 1e-06, 2.124523),
    (0.7, 0.01, 500, 1e-05, 3.59694),
    (0.7, 0.01, 500, 1e-06, 4.352508),
    (1.1, 0.004, 10000, 1e-05, 1.841037),
    (1.1, 0.004, 10000, 1e-06, 2.095067),
    (2.0, 0.1, 200, 1e-05, 3.359661),
    (2.0, 0.1, 200, 1e-06, 3.805876),
    (0.8, 0.5, 20, 1e-05, 21.407425),
    (0.8, 0.5, 20, 1e-06, 23.761459),
    (5.0, 0.05, 3000, 1e-05, 2.246203),
    (5.0, 0.05, 3000, 1e-06, 2.538014),
]
# noise multiplier of a release of all rows, and of sampled ones, rate, steps, delta, epsilon of both by the same
BESIDE = [
    (2.0, 1.0, 0.01, 1000, 1e-06, 3.130482),
    (5.0, 2.0, 0.2, 200, 1e-06, 8.300195),
    (3.0, 0.9, 0.05, 300, 1e-05, 7.362451),
    (1.5, 5.0, 0.5, 100, 1e-06, 6.133453),
    (8.0, 4.0, 0.25, 160, 1e-06, 3.972827),
]


@pytest.mark.parametrize(("multiplier", "releases", "delta", "epsilon"), GAUSSIAN)
def test_gaussian_releases_as_dp_accounting_has_them(multiplier, releases, delta, epsilon):
    assert gaussian_epsilon(compose([multiplier] * releases), delta) == pytest.approx(epsilon, rel=1e-3)


@pytest.mark.parametrize(("multiplier", "rate", "steps", "delta", "epsilon"), SAMPLED)
def test_sampled_releases_as_dp_accounting_has_them(multiplier, rate, steps, delta, epsilon):
    ours = sampled_epsilon(multiplier, delta, rate=rate, steps=steps)
    assert epsilon * 0.999 <= ours <= epsilon * 1.01  # never below what holds, within a percent above


@pytest.mark.parametrize(("beside", "multiplier", "rate", "steps", "delta", "epsilon"), BESIDE)
def test_sampled_releases_beside_one_of_all_rows(beside, multiplier, rate, steps, delta, epsilon):
    ours = sampled_epsilon(multiplier, delta, rate=rate, steps=steps, beside=beside)
    assert epsilon * 0.999 <= ours <= epsilon * 1.01


@given(st.floats(0.05, 20), st.sampled_from([1e-9, 1e-6, 1e-3]), st.integers(1, 100))
def test_noise_spends_exactly_the_epsilon_it_was_made_for(epsilon, delta, releases):
    multiplier = gaussian_multiplier(epsilon, delta, releases)
    assert gaussian_epsilon(compose([multiplier] * releases), delta) == pytest.approx(epsilon, rel=1e-6)


def test_delta_is_the_chance_mass_that_epsilon_leaves_unexplained():
    x = np.linspace(-30, 31, 400_001)
    one, other = stats.norm.pdf(x, 1, 2.0), stats.norm.pdf(x, 0, 2.0)
    direct = np.maximum(one - math.exp(0.8) * other, 0).sum() * (x[1] - x[0])
    assert gaussian_delta(2.0, 0.8) == pytest.approx(direct, rel=1e-4)


def test_sampled_noise_inverts_and_is_less_than_unsampled():
    multiplier = sampled_multiplier(3.0, 1e-6, rate=0.02, steps=200)
    assert sampled_epsilon(multiplier, 1e-6, rate=0.02, steps=200) == pytest.approx(3.0, rel=2e-3)
    assert multiplier < gaussian_multiplier(3.0, 1e-6, 200) / 3


def test_no_release_tells_nothing_and_nonsense_is_refused():
    assert gaussian_epsilon(compose([]), 1e-6) == 0
    for epsilon, delta in [(0.0, 1e-6), (math.nan, 1e-6), (math.inf, 1e-6), (1.0, 0.0), (1.0, 1.0), (1.0, math.nan)]:
        with pytest.raises(ParameterError, match="must"):
            gaussian_multiplier(epsilon, delta)
    with pytest.raises(ParameterError, match="must leave some of epsilon"):
        sampled_multiplier(1.0, 1e-6, rate=0.1, steps=3, beside=1.0)
    with pytest.raises(ParameterError, match="rate"):
        sampled_epsilon(1.0, 1e-6, rate=0.0, steps=3)
