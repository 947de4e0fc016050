from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from cotempo.networks.search.evidence import Evidence
from cotempo.networks.search.graph_average import GraphChain, likely_graph
from cotempo.networks.search.prior_knowledge import PriorKnowledge


def test_chain_visits_graphs_in_proportion_to_their_probability():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(20, 3)) @ (np.eye(3) + 0.4 * np.triu(np.ones((3, 3)), 1))
    evidence = Evidence(rows.T @ rows, 20, 3, 3.0, 3.0, np.full(3, 0.7), precision=5.0)
    weights, graphs = [], []
    for marks in product([0, 1], repeat=6):
        within = np.zeros((3, 3))
        within[~np.eye(3, dtype=bool)] = marks
        if not np.linalg.matrix_power(within, 3).any():
            graphs.append(within)
            chosen = [tuple(np.flatnonzero(within[:, node]).tolist()) for node in range(3)]
            weights.append(evidence.total(chosen))
    share = np.exp(np.array(weights) - max(weights))
    exact = np.tensordot(share / share.sum(), np.array(graphs), 1)
    chain = GraphChain(evidence, PriorKnowledge.empty(3, 0).constraints(), [(), (), ()])
    assert chain.probabilities(rng, 60_000) == pytest.approx(exact, abs=0.03)


def test_chain_respects_constraints():
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(30, 3))
    required = np.zeros((3, 3), dtype=bool)
    required[2, 0] = True
    constraints = PriorKnowledge(np.triu(np.ones((1, 3, 3), dtype=bool)), required[None]).constraints()
    evidence = Evidence(rows.T @ rows, 30, 3, 3.0, 3.0, np.zeros(3), precision=5.0)
    share = GraphChain(evidence, constraints, list(constraints.required)).probabilities(rng, 3000)
    assert share[2, 0] == 1.0
    assert not np.triu(share).any()


def test_likely_edges_never_close_a_cycle():
    circle = np.array([[0.0, 0.9, 0.0], [0.0, 0.0, 0.8], [0.7, 0.0, 0.0], [0.6, 0.4, 0.0]])
    assert likely_graph(circle, [(), (), ()]) == [(3,), (0,), (1,)]
    assert likely_graph(circle, [(), (), (0,)]) == [(3,), (0,), (0, 1)]
