"""Scores against direct computation on small cases."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.linalg import sqrtm

from cotempo.series.metrics import (
    GRU_WIDTH,
    ContextFID,
    correlational,
    discriminative,
    frechet,
    predictive,
    read,
    reader_specs,
)
from cotempo.series.nn.parameters import draw, views


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
    judge = ContextFID.of(real, steps=10)
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


def test_units_do_not_matter_to_recurrent_scores():
    stream = np.random.default_rng(0)
    real, made = stream.uniform(size=(2, 80, 6, 2))
    units = np.array([1e7, 1e-3])
    for score in (discriminative, predictive):
        assert score(real * units, made * units, steps=20) == pytest.approx(score(real, made, steps=20), abs=1e-3)


def test_the_gated_layers_are_those_of_torch():
    """Against `torch.nn.GRU` with the same weights."""
    stream = np.random.default_rng(0)
    specs = reader_specs(3)
    weights = views(torch.tensor(draw(specs, stream, "float64"))[None], specs)
    peer = torch.nn.GRU(3, GRU_WIDTH, num_layers=2, batch_first=True).double()

    def turned(part):
        fresh, reset, keep = part.chunk(3, -1)
        return torch.cat([reset, keep, fresh], dim=-1).T if part.dim() == 2 else torch.cat([reset, keep, fresh])

    with torch.no_grad():
        for layer in (0, 1):
            for ours, theirs in (("input", "ih"), ("state", "hh")):
                for kind in ("weight", "bias"):
                    getattr(peer, f"{kind}_{theirs}_l{layer}").copy_(turned(weights[f"{layer}.{ours}.{kind}"][0]))
        windows = torch.tensor(stream.normal(size=(4, 6, 3)))
        torch.testing.assert_close(read(weights, windows[None])[0], peer(windows)[0])
