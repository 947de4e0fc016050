import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotempo.data import Events
from cotempo.events.records.history import decayed_counts, look_back, unroll
from cotempo.events.records.record import Grid, Record, gap_histogram, gap_quantiles, rounded_span

DECAYS = np.array([0.3, 2.0])
TIMES = st.lists(st.floats(0, 10, allow_nan=False), max_size=12).map(sorted)


def record_of(sequences, window=(0.0, 10.0)):
    return Record.of(Events.from_arrays(sequences, window))


@given(st.lists(TIMES, min_size=1, max_size=7))
@settings(max_examples=60, deadline=None)
def test_parts_and_cells_add_up_to_the_whole(sequences):
    record = record_of(sequences)
    split = record.hold_out()
    parts = [split.part(held=held) for held in (False, True)]
    assert sum(part.events for part in parts) == record.events
    assert sum(part.exposure for part in parts) == pytest.approx(record.exposure)
    whole = unroll(record, DECAYS)
    assert (whole.upper - whole.lower).sum() == pytest.approx(record.exposure)
    assert (whole.upper >= whole.lower).all()
    pieces = [unroll(part, DECAYS) for part in parts]
    assert sum((piece.upper - piece.lower).sum() for piece in pieces) == pytest.approx(record.exposure)
    grid = Grid(0.0, 10.0, 13)
    assert sum(grid.expose(part).sum() for part in parts) == pytest.approx(record.exposure)
    assert grid.count(record).sum() == record.events


@given(TIMES)
@settings(max_examples=60, deadline=None)
def test_recency_is_the_sum_it_stands_for(times):
    record = record_of([times, [1.0, 2.0]])
    got = unroll(record, DECAYS)
    # As the record has them: times that look rounded, such as eight zeros, are spread over their step.
    size = record.size.astype(int)
    parts = [np.repeat(record.time[own], size[own]) for own in (record.sequence == 0, record.sequence == 1)]
    assert [len(part) for part in parts] == [len(times), 2]
    for number, part in enumerate(parts):
        mine = got.sequence == number
        at = got.time[mine]
        expected = [[sum(np.exp(-b * (t - s)) for s in part if s < t) for b in DECAYS] for t in at]
        np.testing.assert_allclose(got.recency[mine], np.reshape(expected, (-1, 2)), atol=1e-10)
    seen = look_back(got.time[got.sequence == 0], parts[0], 0.0, DECAYS)
    np.testing.assert_allclose(seen.recency, got.recency[got.sequence == 0], atol=1e-10)
    np.testing.assert_allclose(seen.elapsed, got.elapsed[got.sequence == 0], atol=1e-12)


def test_ties_are_one_time_with_several_events():
    record = record_of([[1.0, 1.0, 1.0, 4.0]])
    assert record.time.tolist() == [1.0, 4.0]
    assert record.count.tolist() == [3.0, 1.0]
    np.testing.assert_allclose(unroll(record, DECAYS).recency[1], 3 * np.exp(-3 * DECAYS))


def test_an_event_that_opens_its_window_is_history_only():
    record = Record.of(Events.from_arrays([[2.0, 3.0, 5.0]]))
    assert record.events == 2
    assert unroll(record, DECAYS).elapsed.tolist() == [0.0, 1.0, 2.0]
    assert len(unroll(record, DECAYS).open) == 0


def test_a_long_sequence_needs_no_loop():
    rng = np.random.default_rng(0)
    elapsed = rng.exponential(size=10**5)
    first = np.zeros(10**5, dtype=bool)
    first[0] = True
    got = decayed_counts(elapsed, np.ones(10**5) * ~first, first, np.array([1.0]))
    assert got[-1, 0] == pytest.approx(np.exp(-np.cumsum(elapsed[:0:-1])).sum())


def test_few_windows_are_cut_and_many_dealt():
    few, many = record_of([[1.0, 1.6, 9.0]]).hold_out(), record_of([[1.0]] * 10).hold_out()
    held = few.part(held=True)
    assert len(few.start) == 25
    assert held.end.tolist() == [2.0, 4.0, 6.0, 8.0, 10.0]
    assert few.held.tolist() == [False, False, False]
    assert record_of([[1.0, 1.8, 9.0]]).hold_out().held.tolist() == [False, True, False]
    assert many.window_held.sum() == 2
    assert len(many.start) == 10


@given(st.lists(TIMES, min_size=1, max_size=7), st.integers(2, 5))
@settings(max_examples=40, deadline=None)
def test_folds_hold_every_event_and_every_stretch_once(sequences, folds):
    record = record_of(sequences)
    parts = record.deal(folds)
    assert sum(part.events for part in parts) == record.events
    assert sum(part.exposure for part in parts) == pytest.approx(record.exposure)
    for part in parts:
        inside = [
            ((part.start < time) & (time <= part.end) & (part.window_sequence == number)).any()
            for time, count, number in zip(part.time, part.count, part.sequence, strict=True)
            if count and time > 0
        ]
        assert all(inside)


@pytest.mark.parametrize("sequences", [1, 4, 5, 6, 20])
def test_what_is_left_can_be_held_out_again(sequences):
    rest = record_of([np.linspace(0.5, 9.5, 30)] * sequences).hold_out().part(held=False).whole()
    again = rest.hold_out()
    train, held = again.part(held=False), again.part(held=True)
    assert held.events > 0
    assert train.events + held.events == rest.events
    assert train.exposure + held.exposure == pytest.approx(rest.exposure)


def test_gaps_are_described_by_their_histogram():
    rng = np.random.default_rng(0)
    record = record_of([np.sort(rng.uniform(0, 10, 2000))])
    span = np.array([0.0, 10.0])
    got = gap_quantiles(gap_histogram(record, span), 1.0, span)
    np.testing.assert_allclose(got, np.quantile(np.diff(record.time), (0.1, 0.4, 0.7, 0.95)), rtol=0.2)
    assert all(np.diff(gap_quantiles(np.zeros(240), 3.0, span)) > 0)


@given(st.floats(-1e9, 1e9), st.floats(1e-3, 1e6))
def test_rounded_spans_hold_the_window(start, length):
    first, last = rounded_span(record_of([[]], (start, start + length)))
    assert first <= start
    assert last >= start + length
    assert last - first <= 1.5 * length


@pytest.mark.parametrize("sequences", [1, 2, 3, 4, 5, 6, 9])
def test_what_is_held_out_is_the_last_part_of_a_cross_validation(sequences):
    record = record_of([np.linspace(0.5, 9.5, 20 + number) for number in range(sequences)])
    held, last = record.hold_out().part(held=True), record.deal()[-1]
    assert held.events == last.events > 0
    assert np.array_equal(held.count, last.count)
