"""`Block`: the edges that bring a batch its neighbours, sampled from a CSR graph without a dense matrix."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cotempo.typing import Integers

FANOUTS = (800, 100)
"""Neighbours sampled for the last layer and for the one before, as published."""


@dataclass(frozen=True)
class Block:
    """One layer's edges, from `sources`, of which the targets come first, to the first `targets` of them.

    `origin` and `goal` are the positions of each edge's ends in `sources`, ``(edges,)``, sorted by goal.
    """

    sources: Integers
    targets: int
    origin: Integers
    goal: Integers


def sample_neighbours(graph: Any, nodes: Integers, fanout: int, rng: np.random.Generator) -> Block:
    """Draw up to `fanout` neighbours of every node, without replacement; a node with fewer keeps them all.

    `graph` is a CSR matrix with self-loops, ``(posts, posts)``, `nodes` are distinct, ``(targets,)``.
    """
    degree = (graph.indptr[nodes + 1] - graph.indptr[nodes]).astype(np.int64)
    goal = np.repeat(np.arange(len(nodes)), degree)
    offset = np.arange(len(goal)) - np.repeat(np.cumsum(degree) - degree, degree)
    ends = graph.indices[np.repeat(graph.indptr[nodes].astype(np.int64), degree) + offset].astype(np.int64)
    if (degree > fanout).any():
        ends = ends[np.argsort(goal + rng.random(len(goal)))]  # shuffled within each goal, which stays in its place
        kept = offset < fanout  # within a goal, the first `fanout` after shuffling
        goal, ends = goal[kept], ends[kept]
    place = np.full(graph.shape[0], -1, dtype=np.int64)
    place[nodes] = np.arange(len(nodes))
    new = np.unique(ends[place[ends] < 0])
    place[new] = len(nodes) + np.arange(len(new))
    return Block(np.concatenate([nodes, new]), len(nodes), place[ends], goal)


def sample_blocks(
    graph: Any, nodes: Integers, rng: np.random.Generator, fanouts: Sequence[int] = FANOUTS
) -> tuple[Block, ...]:
    """Draw the blocks of several layers, the first layer's first."""
    blocks: list[Block] = []
    for fanout in fanouts:
        block = sample_neighbours(graph, nodes, fanout, rng)
        blocks.insert(0, block)
        nodes = block.sources
    return tuple(blocks)
