"""Scores against direct computation on small cases."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import sqrtm

from cotempo.series.metrics import (
    ContextFID,
    correlational,
    crps,
    discriminative,
    frechet,
    predictive,
)


def test_crps_is_the_mean_over_pairs():
    stream = np.random.default_rng(0)
    truth, draws = stream.normal(size=(4, 2)), stream.normal(size=(6, 4, 2))
    gone = np.ones((4, 2), dtype=bool)
    pairs = np.mean([np.abs(draws[i] - draws[j]) for i in range(6) for j in range(6) if i != j], axis=0)
    expected = (np.abs(draws - truth).mean(axis=0) - pairs / 2).mean()
    assert crps(truth, draws, gone) == pytest.approx(expected)
    assert crps(truth, draws[:1], gone) == pytest.approx(np.abs(draws[0] - truth).mean())


def test_correlational_is_the_sum_over_pairs():
    stream = np.random.default_rng(0)
    real, made = stream.normal(size=(2, 30, 5, 3))
    one, two = (np.corrcoef(part.reshape(-1, 3), rowvar=False) for part in (real, made))
    assert correlational(real, made) == pytest.approx(np.abs(one - two).sum() / 10)


def test_frechet_is_the_formula():
    stream = np.random.default_rng(0)
    one, two = stream.normal(size=(40, 3)), stream.normal(size=(50, 3)) * 2 + 1
    covariances = [np.cov(part, rowvar=False) for part in (one, two)]
    root = sqrtm(covariances[0] @ covariances[1]).real
    expected = ((one.mean(0) - two.mean(0)) ** 2).sum() + np.trace(covariances[0] + covariances[1] - 2 * root)
    assert frechet(one, two) == pytest.approx(expected)


def test_context_fid_orders_generators():
    stream = np.random.default_rng(0)
    real, same = stream.normal(size=(2, 150, 12, 2)).cumsum(axis=2)
    judge = ContextFID(real, steps=10)
    near, far = judge.score(same), judge.score(same[:, ::-1] * 1.5)
    assert near < far
    assert 0 <= judge.floor() < far
    assert judge.score(real) == pytest.approx(0, abs=1e-3)


def test_recurrent_scores_know_good_from_bad():
    stream = np.random.default_rng(0)
    start = stream.uniform(size=(160, 1, 1))
    real = start + 0.05 * np.arange(8)[None, :, None]
    noise = stream.uniform(size=real.shape)
    assert discriminative(real, noise, steps=150) > 0.2
    assert discriminative(real[:80], real[80:], steps=60) < 0.25
    assert predictive(real, real, steps=100) < predictive(real, noise, steps=100)
