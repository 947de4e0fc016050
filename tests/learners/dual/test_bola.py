from __future__ import annotations

import numpy as np
import pytest

from cotempo.learners.dual.bola import expected_improvement, posterior, search_weight


@pytest.mark.parametrize("peak", [0.6, 0.73, 0.9, 1.0])
def test_the_peak_is_found(peak: float) -> None:
    rng = np.random.default_rng(0)
    search = search_weight(lambda weight: -((weight - peak) ** 2) * 10 + 0.005 * rng.normal(), 0.6, 20)
    assert abs(search.weight - peak) < 0.06
    assert search.tried.min() >= 0.6
    assert search.tried.max() <= 1.0
    assert len(set(search.tried)) == 20


def test_the_process_passes_near_what_was_seen() -> None:
    tried, scores = np.array([0.6, 0.8, 1.0]), np.array([0.1, 0.5, 0.2])
    mean, deviation = posterior(tried, scores, np.array([0.6, 0.8, 1.0, 0.7]))
    np.testing.assert_allclose(mean[:3], scores, atol=0.05)
    assert deviation[3] >= deviation[:3].max() - 1e-9


def test_improvement_is_what_sampling_says() -> None:
    draws = np.random.default_rng(0).normal(0.3, 0.2, 200_000)
    expected = np.maximum(draws - 0.4, 0).mean()
    assert expected_improvement(np.array([0.3]), np.array([0.2]), 0.4)[0] == pytest.approx(expected, rel=0.02)


def test_a_flat_score_and_a_single_probe() -> None:
    assert search_weight(lambda weight: 0.5, 0.6, 8).weight == 1.0
    assert search_weight(lambda weight: 0.5, 0.6, 1).weight == 1.0


def test_as_published_the_weight_is_the_one_with_the_highest_score() -> None:
    rng = np.random.default_rng(1)
    noisy = [search_weight(lambda weight: float(rng.normal()), 0.6, 12, cautious=False) for _ in range(20)]
    assert all(search.weight == search.tried[search.scores.argmax()] for search in noisy)
    rng = np.random.default_rng(1)
    careful = [search_weight(lambda weight: float(rng.normal()), 0.6, 12) for _ in range(20)]
    assert np.mean([search.weight == 1.0 for search in careful]) > np.mean([search.weight == 1.0 for search in noisy])
