"""`structural_entropy` of a weighted graph in two dimensions, and `group_by_entropy`, which lowers it greedily.

With ``vol`` the sum of all degrees, ``V_X`` that of a group and ``g_X`` the weight that leaves it,

``H = - sum_X [ sum_{i in X} d_i / vol log2(d_i / V_X) + g_X / vol log2(V_X / vol) ]``.

References
----------
Li and Pan, Structural information and dynamical complexity of networks, IEEE Trans. Inf. Theory 62 (2016).
"""

import numpy as np

from cotempo.errors import DataError
from cotempo.typing import Floats, Indices


def structural_entropy(adjacency: Floats, groups: Indices) -> float:
    """Return the two-dimensional structural entropy of a partition, in bits (equation 10).

    `adjacency` holds symmetric weights of at least zero, ``(nodes, nodes)``, whose diagonal counts once; `groups` the
    group of each node, ``(nodes,)``.

    Examples
    --------
    >>> pair = np.array([[0.0, 1.0], [1.0, 0.0]])
    >>> structural_entropy(pair, np.array([0, 0])), structural_entropy(pair, np.array([0, 1]))
    (1.0, 1.0)
    """
    groups = np.unique(groups, return_inverse=True)[1]
    degree = np.asarray(adjacency.sum(axis=1), dtype=np.float64)
    volume = float(degree.sum())
    if volume == 0:
        return 0.0
    member = np.eye(int(groups.max()) + 1)[groups]
    inside = degree @ member
    cut = inside - ((adjacency @ member) * member).sum(axis=0)
    nodes = float((degree * (_log2(degree) - _log2(inside[groups]))).sum())
    return -(nodes + float((cut * (_log2(inside) - np.log2(volume))).sum())) / volume


def merge_differences(inside: Floats, cut: Floats, between: Floats, volume: float) -> Floats:
    """Return by how much merging changes the entropy (equation 11).

    ``vol dH = V log V - V_X log V_X - V_Y log V_Y - g log(V / vol) + g_X log(V_X / vol) + g_Y log(V_Y / vol)`` with
    ``V = V_X + V_Y`` and ``g = g_X + g_Y - 2 w_XY``. `inside` is the volume of the groups and `cut` the weight leaving
    them, ``(groups,)`` each, `between` the weight between each two, ``(groups, groups)``.
    """
    return _differences((inside[:, None], cut[:, None]), (inside, cut), between, volume)


def _differences(one: tuple[Floats, Floats], other: tuple[Floats, Floats], between: Floats, volume: float) -> Floats:
    """Return the differences for pairs of groups, each given by its volume and the weight leaving it."""

    def term(inside: Floats, cut: Floats) -> Floats:
        return np.asarray(inside * _log2(inside) - cut * (_log2(inside) - np.log2(volume)))

    merged = term(one[0] + other[0], one[1] + other[1] - 2 * between)
    return np.asarray((merged - term(*one) - term(*other)) / volume)


def group_by_entropy(adjacency: Floats) -> Indices:
    """Merge the pair of groups that lowers the entropy most, from single nodes, until none does.

    Each row keeps its smallest difference, so a merge looks at one row and those whose best partner has gone: a
    thousand nodes take about a second. Nodes without weight stay alone. Groups are numbered in order of appearance.
    """
    adjacency = _check_adjacency(adjacency)
    count = len(adjacency)
    groups = np.arange(count)
    volume = float(adjacency.sum())
    if count < 2 or volume == 0:
        return groups
    weight = adjacency.copy()
    inside = weight.sum(axis=1)
    cut = inside - np.diag(weight)
    np.fill_diagonal(weight, 0.0)
    difference = merge_differences(inside, cut, weight, volume)
    # Groups without a common edge never gain by merging; the same mark stands for rows that are gone.
    difference[weight <= 0] = np.inf
    best = difference.argmin(axis=1)
    value = difference[np.arange(count), best]
    while True:
        first = int(value.argmin())
        if value[first] >= -1e-12:
            return np.unique(groups, return_inverse=True)[1]  # a group's number so far is that of its first node
        second = int(best[first])
        kept, gone = min(first, second), max(first, second)
        groups[groups == gone] = kept
        inside[kept] += inside[gone]
        cut[kept] += cut[gone] - 2 * weight[kept, gone]
        weight[kept] += weight[gone]
        weight[:, kept] = weight[kept]
        weight[kept, kept] = 0.0
        weight[gone] = weight[:, gone] = 0.0
        difference[gone] = difference[:, gone] = value[gone] = np.inf
        near = np.flatnonzero(weight[kept] > 0)
        own, others = (inside[[kept]], cut[[kept]]), (inside[near], cut[near])
        difference[kept] = difference[:, kept] = np.inf
        difference[kept, near] = difference[near, kept] = _differences(own, others, weight[kept, near], volume)
        _renew_minima(difference, best, value, near, kept, gone)


def _renew_minima(difference: Floats, best: Indices, value: Floats, near: Indices, kept: int, gone: int) -> None:
    """Renew the row minima that a merge touches, in place."""
    better = near[difference[near, kept] < value[near]]
    best[better], value[better] = kept, difference[better, kept]
    stale = np.flatnonzero(np.isfinite(value) & ((best == kept) | (best == gone)))
    stale = np.union1d(stale, [kept]).astype(np.intp)
    best[stale] = difference[stale].argmin(axis=1)
    value[stale] = difference[stale, best[stale]]


def _check_adjacency(adjacency: Floats) -> Floats:
    """Return the matrix as floats; raise unless it is square, symmetric and not negative."""
    matrix = np.asarray(adjacency, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise DataError(f"adjacency must be a square matrix, got shape {matrix.shape}")
    if not np.isfinite(matrix).all() or (matrix < 0).any() or not np.allclose(matrix, matrix.T):
        raise DataError("adjacency must be finite, symmetric and not negative; clip similarities at 0 first")
    return matrix


def _log2(values: Floats) -> Floats:
    """Return the logarithm, zero at zero, so that ``0 log 0 = 0``."""
    return np.log2(values, out=np.zeros_like(values, dtype=np.float64), where=values > 0)
