from __future__ import annotations

import numpy as np

from cotempo.series.gates import Trial, choose_gates, fair_error, sure_gain
from cotempo.series.release import membership, nearest_distance, release


def make_trial(taught: float, own: float, count: int = 400) -> Trial:
    """Cells with truth 0, interpolated at 1, and filled at the given distances by teacher and own imputer."""
    cells = np.arange(count)
    stages = np.repeat(np.array([1.0, taught, taught, own])[:, None], count, axis=1)
    return Trial(np.zeros(count), stages, cells % 2, cells // 2 % 2, cells, cells // 4 % 2)


def test_the_better_stage_is_trusted():
    gates = choose_gates(make_trial(0.2, 0.2), make_trial(0.2, 0.0))
    assert gates[0, :2].tolist() == [[1, 0, 1], [1, 0, 1]]
    gates = choose_gates(make_trial(2.0, 2.0), make_trial(2.0, 5.0))
    assert gates[0].tolist() == [[0, 0, 0], [0, 0, 0], [1, 0, 0]]
    assert gates[1].tolist() == [[0, 0, 0]] * 3


def test_with_too_few_cells_interpolation_stands():
    gates = choose_gates(make_trial(0.0, 0.0, 8), make_trial(0.0, 0.0, 8))
    assert gates[:, :2].tolist() == [[[0, 0, 0]] * 2] * 2


def test_a_gated_error_is_never_far_above_interpolation():
    stream = np.random.default_rng(0)
    count = 4000
    cells = np.arange(count)
    stages = stream.normal(size=(4, count)) * np.array([1.0, 1.5, 1.5, 2.0])[:, None]
    trial = Trial(np.zeros(count), stages, cells % 2, cells // 2 % 2, cells, cells // 4 % 2)
    assert fair_error(trial, trial) < 1.02 * np.abs(stages[0]).mean()


def test_what_could_be_chance_is_no_gain():
    stream = np.random.default_rng(0)
    gains = stream.normal(size=400)
    blocks = np.arange(400) // 4
    assert sure_gain(gains, blocks) < 0
    assert sure_gain(gains + 1, blocks) > 0.5
    alike = np.repeat(stream.normal(size=100), 4)
    assert sure_gain(alike, blocks) < sure_gain(stream.permutation(alike), blocks)


def test_copies_are_withheld_and_told_apart():
    stream = np.random.default_rng(0)
    trained, others, fresh = stream.normal(size=(3, 200, 6, 2))
    copies = trained[:50] + 1e-3
    gate = release(np.concatenate([copies, fresh]), trained, others)
    assert not gate.kept[:50].any()
    assert gate.kept[50:].mean() > 0.9
    assert abs(gate.membership - 0.5) < 0.08
    assert membership(trained + 1e-3, trained, others) > 0.99


def test_copies_of_windows_set_apart_are_withheld_too():
    trained, others, fresh = np.random.default_rng(0).normal(size=(3, 50, 4, 1))
    gate = release(np.concatenate([others[:5] + 1e-4, fresh]), trained, others)
    assert not gate.kept[:5].any()
    assert gate.kept[5:].mean() > 0.9


def test_what_tells_members_apart_is_withheld():
    """Neighbours of windows trained on, too far off to be copies: the gate moves until what leaves tells nothing."""
    stream = np.random.default_rng(0)
    trained, others, fresh = stream.normal(size=(3, 200, 16, 1))
    beside = trained + 0.6 * stream.normal(size=trained.shape)
    assert membership(beside, trained, others) > 0.9
    gate = release(np.concatenate([beside, fresh]), trained, others)
    assert gate.membership <= 0.55
    assert gate.kept[:200].mean() < 0.2 < 0.5 < gate.kept[200:].mean()
    apart = release(trained + 3.0, trained, others + 100.0)
    assert not apart.kept.any()
    assert apart.membership == 0.5


def test_distances_are_those_of_a_direct_computation():
    stream = np.random.default_rng(0)
    one, two = stream.normal(size=(7, 4, 2)), stream.normal(size=(300, 4, 2))
    direct = [min(np.sqrt(((a - b) ** 2).mean()) for b in two) for a in one]
    np.testing.assert_allclose(nearest_distance(one, two), direct)


def test_membership_is_the_auc():
    stream = np.random.default_rng(1)
    released, trained, others = (
        stream.normal(size=(5, 3, 1)),
        stream.normal(size=(9, 3, 1)),
        stream.normal(size=(8, 3, 1)),
    )
    inside, outside = nearest_distance(trained, released), nearest_distance(others, released)
    direct = np.mean([[float(a < b) for b in outside] for a in inside])
    assert abs(membership(released, trained, others) - direct) < 1e-12
