from __future__ import annotations

import numpy as np

from cotempo.learners.dual.sega import group_clients, group_weights

ALIKE = np.array(
    [[1.0, 0.99, 0.98, 0.95], [0.99, 1.0, 0.985, 0.94], [0.98, 0.985, 1.0, 0.945], [0.95, 0.94, 0.945, 1.0]]
)


def test_centred_similarities_leave_the_odd_one_alone() -> None:
    groups = group_clients(ALIKE, "centred")
    assert (groups == groups[3]).sum() == 1
    assert len(set(group_clients(ALIKE, "paper"))) < 4


def test_weights_are_shares_inside_the_group() -> None:
    weights = group_weights(ALIKE, np.array([0, 0, 1, 1]))
    np.testing.assert_allclose(weights.sum(axis=1), 1)
    assert weights[0, 2] == weights[3, 1] == 0
    assert weights[0, 0] > weights[0, 1] > 0


def test_one_or_two_clients() -> None:
    assert group_clients(np.ones((1, 1)), "centred").tolist() == [0]
    assert len(group_clients(np.ones((2, 2)), "centred")) == 2
