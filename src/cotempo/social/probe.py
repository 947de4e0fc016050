"""`similarities` of graph models: cosines of their answers to one random graph (equation 9 of DAMe)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.random import Generator

from cotempo.learners.dual.sega import cosines
from cotempo.social.graph_model.data import embed
from cotempo.typing import Floats, Singles

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
    return cosines(np.stack(pooled))
