"""Integer noise has the distribution it claims, at small and large deviations."""

import math

import numpy as np
import pytest
from scipy import stats

from cotempo.errors import ParameterError
from cotempo.privacy.discrete_gaussian import discrete_gaussian, share_deviation, system_uniforms


def seeded(seed: int):
    generator = np.random.default_rng(seed)
    return lambda count: generator.uniform(2.0**-54, 1 - 2.0**-54, count)


@pytest.mark.parametrize("deviation", [0.4, 1.0, 2.7])
def test_chances_are_those_of_the_discrete_gaussian(deviation):
    draws = discrete_gaussian(deviation, (200_000,), seeded(1))
    places = np.arange(-40, 41)
    chances = np.exp(-(places**2) / (2 * deviation**2))
    chances /= chances.sum()
    counts = np.array([(draws == place).sum() for place in places])
    often = chances * draws.size >= 10
    rest = [counts[~often].sum()], [chances[~often].sum() * draws.size]
    observed = np.concatenate([counts[often], rest[0]])
    expected = np.concatenate([chances[often] * draws.size, rest[1]])
    kept = expected > 1
    expected = expected[kept] * observed[kept].sum() / expected[kept].sum()
    assert stats.chisquare(observed[kept], expected).pvalue > 1e-3


@pytest.mark.parametrize("deviation", [50.0, 3e6, 2.0**45])
def test_large_deviations_are_normal(deviation):
    draws = discrete_gaussian(deviation, (50_000,), seeded(2))
    within = seeded(3)(draws.size) - 0.5  # a continuous distribution, for a test that needs one
    assert stats.kstest((draws + within) / deviation, "norm").pvalue > 1e-3


def test_shares_add_up_to_the_deviation_wanted():
    shares = sum(discrete_gaussian(share_deviation(30.0, 9), (40_000,), seeded(seed)) for seed in range(9))
    assert np.std(shares) == pytest.approx(30.0, rel=0.02)


def test_noise_comes_from_the_operating_system(monkeypatch):
    monkeypatch.setattr("secrets.token_bytes", bytes)
    assert set(system_uniforms(3)) == {2.0**-54}


def test_system_uniforms_are_uniform_and_never_0_or_1():
    drawn = system_uniforms(50_000)
    assert drawn.min() > 0
    assert drawn.max() < 1
    assert stats.kstest(drawn, "uniform").pvalue > 1e-6


def test_no_deviation_is_no_noise_and_nonsense_is_refused():
    assert not discrete_gaussian(0.0, (3, 2)).any()
    for deviation in (-1.0, math.nan, math.inf):
        with pytest.raises(ParameterError, match="deviation"):
            discrete_gaussian(deviation, (3,))
    with pytest.raises(ParameterError, match="at least one client"):
        share_deviation(1.0, 0)
