"""Bounds from one run agree with jax_privacy's, hold where epsilon is known, and are large where nothing is hidden."""

import numpy as np
import pytest

from cotempo.auditing.bounds import (
    Guesses,
    area,
    bound_membership,
    caught,
    one_run_epsilon,
    one_run_gaussian_epsilon,
    one_run_p_value,
)
from cotempo.errors import ParameterError
from cotempo.privacy.accounting import gaussian_epsilon, gaussian_multiplier

# Canaries, guesses, right ones, delta; epsilon by jax_privacy 2.0.0: auditing._epsilon_one_run and _epsilon_one_run_fdp
# at a significance of .05, which `CanaryScoreAuditor` calls with the guesses that a threshold of the scores makes.
ORACLE = [
    (100, 100, 100, 1e-6, 3.492691, 9.070892),
    (100, 100, 100, 1e-3, 3.202304, 6.148632),
    (100, 50, 45, 1e-6, 1.393523, 3.1415),
    (100, 50, 45, 1e-3, 1.30379, 1.94139),
    (1000, 1000, 700, 1e-6, 0.731984, 1.560997),
    (1000, 1000, 700, 1e-3, 0.69611, 0.905078),
    (1000, 200, 190, 1e-6, 2.397449, 4.380073),
    (1000, 200, 190, 1e-3, 1.407995, 2.78671),
    (64, 16, 16, 1e-6, 1.580116, 3.283416),
    (400, 100, 70, 1e-6, 0.471571, 0.876219),
    (20, 20, 20, 1e-3, 1.759375, 3.412646),
]


@pytest.mark.parametrize(("canaries", "made", "right", "delta", "epsilon", "gaussian"), ORACLE)
def test_bounds_are_those_of_jax_privacy(canaries, made, right, delta, epsilon, gaussian):
    guesses = Guesses(canaries, made, right)
    assert one_run_epsilon(guesses, delta) == pytest.approx(epsilon, rel=1e-4)
    assert one_run_gaussian_epsilon(guesses, delta) == pytest.approx(gaussian, rel=1e-4)


def test_the_p_value_is_that_of_the_theorem_written_out():
    """Theorem 5.2 of Steinke et al. with its sums over a binomial, term by term."""
    from scipy.stats import binom

    guesses, epsilon, delta = Guesses(60, 40, 31), 0.8, 1e-4
    chance = np.exp(epsilon) / (1 + np.exp(epsilon))
    mass = [binom.pmf(count, 40, chance) for count in range(41)]
    slope = max(sum(mass[31 - i : 31]) / i for i in range(1, 32))
    assert one_run_p_value(guesses, epsilon, delta) == pytest.approx(sum(mass[31:]) + 2 * 60 * delta * slope, rel=1e-9)


def gaussian_scores(epsilon, stream, canaries=200):
    """Scores of a Gaussian mechanism with this epsilon at 1e-6, each canary seen by itself, and who is in."""
    included = stream.random(canaries) < 0.5
    noise = gaussian_multiplier(epsilon, 1e-6) if epsilon else 0.0
    return included + noise * stream.normal(size=canaries), included


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 8.0])
def test_a_bound_does_not_exceed_the_epsilon_that_is_true(epsilon):
    stream = np.random.default_rng(0)
    found = [bound_membership(*gaussian_scores(epsilon, stream), 1e-6) for _ in range(20)]
    assert sum(max(one.epsilon, one.gaussian_epsilon) > epsilon for one in found) <= 2  # one in twenty may by chance
    assert max(one.gaussian_epsilon for one in found) > epsilon / 10


def test_a_promise_that_was_not_kept_is_contradicted():
    """Noise for an epsilon of 8, where 1 was promised."""
    stream = np.random.default_rng(1)
    found = [bound_membership(*gaussian_scores(8.0, stream), 1e-6) for _ in range(10)]
    assert all(one.gaussian_epsilon > 1 for one in found)


def test_without_noise_all_are_found_and_the_bound_is_what_so_many_canaries_can_show():
    found = bound_membership(*gaussian_scores(0, np.random.default_rng(2)), 1e-6)
    assert (found.auc, found.true_positives, found.guesses) == (1.0, 1.0, (200, 200, 200))
    assert found.epsilon == pytest.approx(one_run_epsilon(Guesses(200, 200, 200), 1e-6, 1 - 0.05 / 4))


def test_more_right_guesses_mean_more_and_a_smaller_delta_too():
    bounds = [one_run_epsilon(Guesses(80, 80, right), 1e-6) for right in (40, 55, 65, 75, 80)]
    assert bounds == sorted(bounds)
    assert bounds[0] == 0
    assert one_run_epsilon(Guesses(80, 80, 75), 1e-3) < bounds[3]


def test_scores_by_chance_tell_nothing():
    stream = np.random.default_rng(3)
    found = [bound_membership(stream.random(100), stream.random(100) < 0.5, 1e-6) for _ in range(20)]
    assert np.mean([one.epsilon for one in found]) < 0.05
    assert abs(np.mean([one.auc for one in found]) - 0.5) < 0.05


def test_area_and_members_caught_of_scores_written_out():
    scores, included = np.array([0.9, 0.8, 0.7, 0.1]), np.array([True, False, True, False])
    assert area(scores, included) == 0.75
    assert caught(scores, included) == 0.5


def test_guesses_that_cannot_be_are_refused():
    with pytest.raises(ParameterError, match="at most the guesses made"):
        one_run_p_value(Guesses(10, 5, 6), 1.0, 1e-6)
    with pytest.raises(ParameterError, match="others not in it"):
        bound_membership(np.zeros(4), np.ones(4, bool), 1e-6)


def test_the_gaussian_bound_speaks_of_the_same_delta():
    """What it returns is the epsilon of a Gaussian whose curve the guesses contradict, at this delta."""
    guesses = Guesses(300, 300, 210)
    multipliers = [gaussian_multiplier(one_run_gaussian_epsilon(guesses, delta), delta) for delta in (1e-6, 1e-3)]
    assert multipliers[0] == pytest.approx(multipliers[1], rel=1e-3)
    assert gaussian_epsilon(multipliers[0], 1e-6) > gaussian_epsilon(multipliers[0], 1e-3)
