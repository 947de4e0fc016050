"""SEGA: `similarities` of clients' answers to one random graph, their groups and weights (equations 9 to 13)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.random import Generator

from cotempo.social.entropy import group_by_entropy
from cotempo.social.graph_model.data import embed
from cotempo.typing import Floats, Indices, Singles

if TYPE_CHECKING:
    from torch import nn

BLOCKS, NODES, INSIDE, BETWEEN = 4, 25, 0.3, 0.02


def probe_graph(inputs: int, rng: Generator) -> tuple[Singles, Any]:
    """Draw a block-model graph with random features: ``(nodes, inputs)`` and CSR edges with self-loops."""
    from scipy import sparse

    block = np.repeat(np.arange(BLOCKS), NODES)
    chance = np.where(block[:, None] == block, INSIDE, BETWEEN)
    upper = np.triu(rng.random(chance.shape) < chance, 1)
    edges = sparse.csr_matrix((upper | upper.T | np.eye(len(block), dtype=bool)).astype(np.float32))
    centres = rng.normal(size=(BLOCKS, inputs))
    features = (centres[block] + rng.normal(size=(len(block), inputs))) / np.sqrt(inputs) * 2.5
    return features.astype(np.float32), edges


def similarities(models: Singles, make: Callable[[Singles], nn.Module], inputs: int, rng: Generator) -> Floats:
    """Return cosines of the models' pooled answers to one random graph (equation 9), ``(clients, clients)``."""
    import torch

    features, edges = probe_graph(inputs, rng)
    rows = np.arange(len(features))
    pooled = []
    for row in models:
        model = make(row)
        given = torch.from_numpy(features).to(next(model.parameters()).device)
        pooled.append(embed(model, given, edges, rows).mean(axis=0))
    unit = np.stack(pooled) / np.maximum(np.linalg.norm(pooled, axis=1, keepdims=True), 1e-12)
    return np.asarray(unit @ unit.T, dtype=np.float64)


def group_clients(similarity: Floats, kind: Literal["paper", "centred"]) -> Indices:
    """Group clients by greedy merging that lowers the structural entropy of their graph (equations 10 and 11).

    The kind ``"paper"`` takes the cosines, ``(clients, clients)``, as weights, clipped at 0; as they all lie near 1,
    groups are weak. ``"centred"`` subtracts their median first: a client unlike the rest is left without weight, and
    alone.
    """
    weight = similarity.copy()
    if kind == "centred" and len(weight) > 2:
        weight -= np.median(weight[np.triu_indices(len(weight), 1)])
    weight = np.maximum((weight + weight.T) / 2, 0.0)
    np.fill_diagonal(weight, 0.0)
    linked = np.flatnonzero(weight.sum(axis=1) > 0)
    groups = np.arange(len(weight)) + len(linked)
    # Clients without weight have no volume, for which the entropy is not defined.
    groups[linked] = group_by_entropy(weight[np.ix_(linked, linked)])
    return np.asarray(np.unique(groups, return_inverse=True)[1], dtype=np.intp)


def group_weights(similarity: Floats, groups: Indices) -> Floats:
    """Return the weight each client gives to each: a softmax of similarities inside its group (equation 13).

    Examples
    --------
    >>> group_weights(np.ones((3, 3)), np.array([0, 0, 1])).tolist()
    [[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]
    """
    raised = np.where(groups[:, None] == groups, np.exp(similarity), 0.0)
    return np.asarray(raised / raised.sum(axis=1, keepdims=True))
