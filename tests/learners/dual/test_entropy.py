from __future__ import annotations

import itertools

import networkx
import numpy as np
import pytest

from cotempo.errors import DataError
from cotempo.learners.dual.entropy import group_by_entropy, merge_differences, structural_entropy


def partitions(count: int) -> list[tuple[int, ...]]:
    found = [(0,)]
    for _ in range(count - 1):
        found = [(*part, code) for part in found for code in range(max(part) + 2)]
    return found


def direct_entropies(weights: np.ndarray, parts: np.ndarray) -> np.ndarray:
    """The definition for all partitions at once: node terms and cut terms, from degrees and memberships."""
    degree = weights.sum(axis=1)
    volume = degree.sum()
    same = parts[:, :, None] == parts[:, None, :]
    group_volume = same @ degree  # of each node's group, (partitions, nodes)
    leaving = np.where(same, 0.0, weights).sum(axis=2)  # a group's cut is the sum over its nodes
    with np.errstate(divide="ignore", invalid="ignore"):
        nodes = np.nan_to_num(degree * np.log2(degree / group_volume), posinf=0, neginf=0)
        cuts = np.nan_to_num(leaving * np.log2(group_volume / volume), posinf=0, neginf=0)
    return -(nodes + cuts).sum(axis=1) / volume


def graphs(most: int) -> list[np.ndarray]:
    """All graphs up to isomorphism with an edge; structural entropy does not depend on names of nodes."""
    atlas = [graph for graph in networkx.graph_atlas_g() if 2 <= len(graph) <= most and graph.number_of_edges()]
    return [networkx.to_numpy_array(graph) for graph in atlas]


def merges(parts: list[tuple[int, ...]]) -> list[list[tuple[int, int, int]]]:
    """For each partition every pair of groups, and which partition merging them gives."""
    place = {part: number for number, part in enumerate(parts)}
    found = []
    for part in parts:
        rows = []
        for first, second in itertools.combinations(range(max(part) + 1), 2):
            joined = [first if code == second else code for code in part]
            order = list(dict.fromkeys(joined))
            rows.append((first, second, place[tuple(order.index(code) for code in joined)]))
        found.append(rows)
    return found


def test_value_and_merge_differences_equal_direct_computation() -> None:
    rng = np.random.default_rng(0)
    parts = {count: partitions(count) for count in range(2, 7)}
    pairs = {count: merges(parts[count]) for count in parts}
    for number, weights in enumerate(graphs(6)):
        if number % 2:  # every other graph with uneven weights
            scale = rng.uniform(0.1, 2, weights.shape)
            weights = weights * (scale + scale.T)
        count, volume = len(weights), weights.sum()
        expected = direct_entropies(weights, np.array(parts[count]))
        found = [structural_entropy(weights, np.array(part)) for part in parts[count]]
        np.testing.assert_allclose(found, expected, atol=1e-10)
        for place, part in enumerate(parts[count]):
            if not pairs[count][place]:
                continue
            first, second, after = np.array(pairs[count][place]).T
            member = np.eye(max(part) + 1)[list(part)]
            between = member.T @ weights @ member
            inside = between.sum(axis=1)
            difference = merge_differences(inside, inside - np.diag(between), between, volume)[first, second]
            assert np.abs(difference - (expected[after] - expected[place])).max() < 1e-10


def test_greedy_never_ends_above_where_it_began_and_its_excess_is_small() -> None:
    excess = []
    for weights in graphs(6):
        values = direct_entropies(weights, np.array(partitions(len(weights))))
        found = structural_entropy(weights, group_by_entropy(weights))
        assert found <= structural_entropy(weights, np.arange(len(weights))) + 1e-12
        excess.append((found - min(values)) / max(min(values), 1e-12))
    assert np.mean(np.array(excess) < 1e-9) > 0.6
    assert max(excess) < 0.2


def test_blocks_are_found() -> None:
    rng = np.random.default_rng(0)
    truth = np.repeat(np.arange(4), 20)
    chance = np.where(truth[:, None] == truth, 0.6, 0.02)
    upper = np.triu(rng.random(chance.shape) < chance, 1)
    weights = (upper | upper.T).astype(float)
    found = group_by_entropy(weights)
    same = truth[:, None] == truth
    assert ((found[:, None] == found) == same).mean() > 0.97


def test_nodes_without_weight_stay_alone() -> None:
    weights = np.zeros((4, 4))
    weights[0, 1] = weights[1, 0] = 1.0
    groups = group_by_entropy(weights)
    assert groups[2] not in groups[[0, 1, 3]]
    assert groups[3] not in groups[:3]
    assert group_by_entropy(np.zeros((3, 3))).tolist() == [0, 1, 2]


@pytest.mark.parametrize("bad", [np.ones((2, 3)), np.array([[0, -1.0], [-1.0, 0]]), np.array([[0, 1.0], [0, 0]])])
def test_what_is_no_adjacency_is_refused(bad: np.ndarray) -> None:
    with pytest.raises(DataError, match="adjacency must be"):
        group_by_entropy(bad)
