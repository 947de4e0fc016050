from __future__ import annotations

import numpy as np
import pytest

from cotempo.errors import ParameterError
from cotempo.networks.data.generate import Recipe, draw_network
from cotempo.networks.moments import transitions
from cotempo.networks.network import simulate_svar
from cotempo.networks.search.edge_confidence import draw_wishart, edge_confidence
from cotempo.networks.search.orders import learn_order
from cotempo.networks.search.prior_knowledge import PriorKnowledge


def learn(variables, rows, seed):
    rng = np.random.default_rng(seed)
    truth = draw_network(Recipe(variables, 1, degree=2.0, out_degree=1.0, decay=1.5), rng)
    joined = transitions(simulate_svar(truth.within, truth.across, rng.normal(size=(rows + 101, variables)))[100:], 1)
    joined = joined - joined.mean(axis=0)
    return learn_order(joined.T @ joined, rows, PriorKnowledge.empty(variables, 1), rng), truth


@pytest.mark.parametrize("rows", [3, 40])
def test_wishart_draws_have_the_right_mean_and_spread(rows):
    rng = np.random.default_rng(0)
    root = rng.normal(size=(5, 5))
    gram = rows * root @ root.T
    draws = np.array([draw_wishart(gram, rows, rng) for _ in range(4000)])
    assert draws.mean(axis=0) == pytest.approx(gram, abs=0.05 * gram.max())
    variance = (gram**2 + np.outer(gram.diagonal(), gram.diagonal())) / rows
    assert draws.var(axis=0) == pytest.approx(variance, rel=0.25)


def test_confidence_is_a_reproducible_probability():
    found, _ = learn(6, 100, 0)
    first, second = (edge_confidence(found, np.random.default_rng(1), draws=10) for _ in range(2))
    assert (first.within == second.within).all()
    assert first.within.shape == (6, 6)
    assert first.across.shape == (1, 6, 6)
    for part in first:
        assert (part >= 0).all()
        assert (part <= 1).all()
    assert (first.within + first.within.T <= 1 + 1e-12).all()
    assert not first.within.diagonal().any()


def test_clear_edges_are_sure_and_open_directions_are_not():
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(2, 3000))
    chain = np.column_stack([first, 0.6 * first + 0.8 * second])
    found = learn_order(chain.T @ chain, 3000, PriorKnowledge.empty(2, 0), rng)
    confidence = edge_confidence(found, rng, draws=20).within
    assert confidence[0, 1] + confidence[1, 0] == pytest.approx(1.0)
    assert found.undirected[0, 1]
    assert 0.3 < confidence[0, 1] < 0.7


def test_draws_must_be_positive():
    found, _ = learn(3, 50, 0)
    with pytest.raises(ParameterError, match="draws"):
        edge_confidence(found, np.random.default_rng(0), draws=0)


@pytest.mark.slow
def test_edges_stated_as_sure_are_right():
    """Of edges stated at .85 to .95, 80 to 100 % are right over 50 data sets."""
    stated, right = [], []
    for seed in range(50):
        found, truth = learn(6, 120, seed)
        confidence = edge_confidence(found, np.random.default_rng(seed), draws=20)
        for part, edges in zip(confidence, (truth.within, truth.across), strict=True):
            stated.append(part.ravel())
            right.append((edges != 0).ravel())
    stated, right = np.concatenate(stated), np.concatenate(right)
    sure = (stated >= 0.85) & (stated <= 0.95)
    assert sure.sum() > 50
    assert 0.8 <= right[sure].mean() <= 1.0
    assert right[stated < 0.05].mean() < 0.05
