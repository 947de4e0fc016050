"""SEGA: groups of clients by the structural entropy of their likeness, and weights in them (equations 10 to 13)."""

from typing import Any, Literal

import numpy as np

from cotempo.learners.dual.entropy import group_by_entropy
from cotempo.typing import Floats, Indices


def cosines(rows: Any) -> Floats:
    """Return the cosines between rows, ``(rows, rows)``; a row of zeros is like none."""
    unit = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
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
