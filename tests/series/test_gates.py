from __future__ import annotations

import numpy as np
import pytest

from cotempo.series.filling.gaps import BESIDE, EMPTY, KINDS, LONG_BESIDE, LONG_EMPTY, UNSEEN, kinds_of
from cotempo.series.filling.gates import Trial, choose_gates, cross_fitted_errors, prove, take_best, weigh
from cotempo.series.filling.stages import Filler
from cotempo.series.release import membership, nearest_distance, release
from cotempo.series.settings import SeriesSettings
from cotempo.series.windows import Scale, SeriesRows


class Guessed:
    """A stage that fills every cell with a number."""

    def __init__(self, *numbers: float, names: tuple[str, ...] = ("teacher", "own")):
        self.numbers, self.names = numbers, names

    def fill(self, rows: SeriesRows, sizes: SeriesSettings) -> np.ndarray:
        return np.stack([np.full(rows.values.shape, number) for number in self.numbers])


SCALE = Scale(-np.ones(2), np.ones(2), np.zeros(2), np.ones(2))
TWO = Filler.closed(SCALE, (Guessed(0, 0),), 1)


def make_trial(taught: float, own: float, count: int = 400) -> Trial:
    """Cells of two features with truth 0, interpolated at 1, and filled at the given distances."""
    cells = np.arange(count)
    fillings = np.repeat(np.array([1.0, taught, own])[:, None], count, axis=1)
    return Trial(np.zeros(count), fillings, cells % 2, cells // 2 % 2, cells // 4, cells // 8 % 2)


def test_the_better_stage_is_trusted():
    gates = choose_gates(TWO, make_trial(0.2, 0.0), make_trial(0.2, 0.2), ("teacher",))
    assert gates[0, :2].tolist() == [[1, 1], [1, 1]]
    assert not gates[:, 2:].any()
    gates = choose_gates(TWO, make_trial(2.0, 5.0), make_trial(2.0, 2.0), ("teacher",))
    assert not gates.any()
    # Where the teacher is better on its own trial it is let in for the common feature only.
    gates = choose_gates(TWO, make_trial(5.0, 5.0), make_trial(0.2, 0.2), ("teacher",))
    assert gates[:, 0].tolist() == [[1, 0], [0, 0]]


def test_with_too_few_cells_what_was_trusted_before_stands():
    assert not choose_gates(TWO, make_trial(0.0, 0.0, 8)).any()
    trusting = Filler(SCALE, TWO.stages, TWO.gates + np.array([1.0, 0.0]), 1)
    assert np.array_equal(choose_gates(trusting, make_trial(9.0, 9.0, 8)), trusting.gates)
    assert not choose_gates(trusting, make_trial(9.0, 9.0))[:, :2].any()


def test_a_gated_error_is_never_far_above_interpolation():
    stream = np.random.default_rng(0)
    cells = np.arange(4000)
    fillings = stream.normal(size=(3, 4000)) * np.array([1.0, 1.5, 2.0])[:, None]
    trial = Trial(np.zeros(4000), fillings, cells % 2, cells // 2 % 2, cells // 4, cells // 4 % 2)
    assert cross_fitted_errors(TWO, trial).mean() < 1.02 * np.abs(fillings[0]).mean()


def test_of_closed_forms_the_best_is_taken_and_what_is_trusted_stands_where_nothing_was_tried():
    values = np.sin(np.arange(200.0))[:, None] * [1.0, 0.5]
    rows, sizes, scale = SeriesRows(values, (200,)), SeriesSettings(window=8), Scale.of(values)

    class Known(Guessed):
        def fill(self, rows: SeriesRows, sizes: SeriesSettings) -> np.ndarray:
            truth = np.tile(scale.apply(values), (len(rows.values) // 200, 1))
            return np.stack([truth + number for number in self.numbers])

    def gates(worse: float, better: float, rows: SeriesRows) -> np.ndarray:
        stages = (Known(worse, better, names=("first", "second")),)
        filler = Filler.closed(scale, stages, trusted="second")
        return take_best(filler, rows, sizes, np.random.default_rng(0)).gates

    tried = [EMPTY, BESIDE]
    assert gates(0.1, 0.01, rows)[:, tried].tolist() == [[[1, 1]] * 2] * 2
    assert gates(0.01, 0.1, rows)[:, tried, 1].tolist() == [[0, 0]] * 2
    assert (gates(9.0, 9.0, rows)[:, tried] == 0).all()
    nothing = SeriesRows(values[:0], ())
    assert (gates(9.0, 9.0, nothing) == [0, 1]).all()


def test_a_filler_followed_by_other_stages_fills_as_before_until_they_are_let_in():
    base = Filler(SCALE, (Guessed(4.0, 2.0),), TWO.gates + np.array([1.0, 0.5]), 1)
    longer = base.followed_by(Guessed(4.0, 2.0, 9.0, names=("teacher", "own", "third")))
    rows = SeriesRows(np.array([[0.1, np.nan], [np.nan, 0.2], [0.3, 0.4]]), (3,))
    assert longer.names == ("teacher", "own", "third")
    np.testing.assert_array_equal(longer.rows(rows, SeriesSettings()), base.rows(rows, SeriesSettings()))


def sure_gains(*given) -> np.ndarray:
    gain, error = weigh(*given)
    return gain - 2 * error


def test_what_could_be_chance_is_no_gain():
    stream = np.random.default_rng(0)
    gains, blocks, one = stream.normal(size=400), np.arange(400) // 4, np.zeros(400, dtype=np.intp)
    errors = np.ones(400)
    assert sure_gains(gains, errors, one, blocks, 1) < 0
    assert sure_gains(gains + 1, errors, one, blocks, 1) > 0.5
    alike = np.repeat(stream.normal(size=100), 4)
    assert sure_gains(alike, errors, one, blocks, 1) < sure_gains(stream.permutation(alike), errors, one, blocks, 1)


def test_features_that_agree_prove_it_together_and_others_stand_for_themselves():
    stream = np.random.default_rng(1)
    feature, block = np.tile(np.arange(8), 100), np.repeat(np.arange(100), 8)
    noise, errors = stream.normal(size=800), np.full(800, 2.0)
    alone = [
        float(sure_gains(noise[feature == k] + 0.3, errors[:100], block[:100] * 0, np.arange(100), 1)[0])
        for k in range(8)
    ]
    together = sure_gains(noise + 0.3, errors, feature, block, 9)
    assert np.mean(np.array(alone) > 0) < 0.9
    assert (together > 0).all()
    apart = sure_gains(noise + np.where(feature == 3, -1.0, 1.0), errors, feature, block, 9)
    assert apart[3] < 0 < np.delete(apart, [3, 8]).min()
    assert apart[8] < 0


def test_a_stage_is_let_in_where_held_out_rows_prove_it():
    """Truth is zero at one feature and a line at the other: filling by zero is right once and wrong once."""
    stream = np.random.default_rng(2)
    values = np.column_stack([1e-2 * stream.normal(size=1200), np.linspace(-1, 1, 1200)])
    filler, halves = prove(
        Filler.closed(SCALE, (Guessed(0.0, names=("zero",)),)), SeriesRows(values, (600, 600)), SeriesSettings(), stream
    )
    assert filler.gates[0, :3, 0].all()
    assert not filler.gates[1, :4].any()
    holes = np.where(stream.random((1200, 2)) < 0.3, np.nan, values)
    filled = filler.rows(SeriesRows(holes, (600, 600)), SeriesSettings())
    assert np.abs(filled - values)[np.isnan(holes)].max() < 6e-2
    assert len(halves) == 2


def test_kinds_of_gaps():
    values = np.ones((200, 2))
    values[3] = values[20:40] = np.nan
    values[50, 0] = values[60:80, 0] = values[100:, 1] = np.nan
    kinds = kinds_of(SeriesRows(values, (200,)), 32)
    assert KINDS == 5
    assert [kinds[3, 0], kinds[50, 0], kinds[30, 0], kinds[70, 0]] == [EMPTY, BESIDE, LONG_EMPTY, LONG_BESIDE]
    assert [kinds[101, 1], kinds[199, 1]] == [LONG_BESIDE, UNSEEN]


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
    assert gate.membership <= 0.6
    assert gate.kept[:200].mean() < 0.2 < 0.5 < gate.kept[200:].mean()
    apart = release(trained + 3.0, trained, others + 100.0)
    assert not apart.kept.any()
    assert apart.membership == 0.5


def test_the_reported_score_is_not_the_one_that_was_looked_at():
    """Of windows that know nothing a score comes out on either side of a half, beyond what the gate would let pass."""
    stream = np.random.default_rng(3)
    scores = [release(*stream.normal(size=(3, 30, 2, 1))).membership for _ in range(60)]
    assert np.mean(scores) == pytest.approx(0.5, abs=0.03)
    assert max(scores) > 0.6


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
