from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotempo.data import Series
from cotempo.errors import DataError
from cotempo.series.windows import Cover, Scale, SeriesRows, need_rows, windows_of


def test_windows_never_cross_a_gap_or_a_sequence():
    time = [np.array([0, 1, 2, 3, 9, 10, 11.0]), np.arange(4.0)]
    values = [np.arange(7.0)[:, None], 100 + np.arange(4.0)[:, None]]
    rows = SeriesRows.of(Series.from_arrays(values, time=time))
    assert rows.lengths == (4, 3, 4)
    assert rows.windows(3)[..., 0].tolist() == [[0, 1, 2], [1, 2, 3], [4, 5, 6], [100, 101, 102], [101, 102, 103]]


@given(st.lists(st.integers(1, 40), min_size=1, max_size=8), st.integers(2, 12), st.integers(1, 12))
@settings(max_examples=60, deadline=None)
def test_a_cover_returns_what_it_took(lengths, length, stride):
    values = np.random.default_rng(0).normal(size=(sum(lengths), 2))
    cover = Cover(SeriesRows(values, tuple(lengths)), length, min(stride, length))
    np.testing.assert_allclose(cover.blend(cover.take(values)), values)


@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.parametrize("lengths", [(100,), (20, 20, 20, 20, 20, 20), (9,), (30, 5), (7, 7, 7, 7, 9)])
def test_a_split_keeps_every_row_once(lengths, every):
    values = np.arange(sum(lengths), dtype=float)[:, None]
    kept, held = SeriesRows(values, lengths).split(0.2, 8, every)
    if lengths[0] == 20:
        assert held.lengths == (20,)
    assert sorted(np.concatenate([kept.values, held.values]).ravel()) == values.ravel().tolist()
    assert sum(kept.lengths) == len(kept.values)
    assert sum(held.lengths) == len(held.values)
    assert lengths[0] == 7 or max(kept.lengths) >= 8


@pytest.mark.parametrize(
    ("lengths", "left"),
    [((48,) * 40, (48,) * 38), ((24,) * 40, (24,) * 38), ((12,) * 40, (12,) * 38), ((480, 960), (456, 912))],
)
def test_what_is_set_apart_is_no_more_than_its_share(lengths, left):
    """Of pieces too short for a window of their share whole ones go, from everywhere; of long ones the end."""
    values = np.arange(sum(lengths), dtype=float)[:, None]
    kept, held = SeriesRows(values, lengths).split(0.05, 24)
    assert kept.lengths == left
    if len(lengths) == 40:
        assert [int(held.values[k * lengths[0], 0]) // lengths[0] for k in range(2)] == [10, 30]


@given(st.lists(st.integers(1, 40), min_size=1, max_size=8), st.integers(2, 32))
@settings(max_examples=60, deadline=None)
def test_every_piece_is_in_some_window_whatever_its_length(lengths, length):
    values = np.arange(sum(lengths), dtype=float)[:, None]
    windows = windows_of(SeriesRows(values, tuple(lengths)), length)[..., 0]
    assert set(windows[~np.isnan(windows)].astype(int)) == set(range(sum(lengths)))
    piece = np.repeat(np.arange(len(lengths)), lengths)
    for window in windows:
        seen = np.flatnonzero(~np.isnan(window))
        assert np.array_equal(np.diff(window[seen]), np.ones(len(seen) - 1))
        assert len(set(piece[window[seen].astype(int)])) == 1


def test_a_short_piece_stands_at_several_places_of_a_window():
    windows = windows_of(SeriesRows(np.zeros((6 + 30, 1)), (6, 30)), 16)[..., 0]
    short = windows[np.isnan(windows).any(axis=1)]
    assert {int(np.flatnonzero(~np.isnan(window))[0]) for window in short} == {0, 2, 4, 6, 8, 10}


def test_halves_are_cut_in_the_middle():
    first, second = SeriesRows(np.arange(10.0)[:, None], (3, 4, 3)).halves()
    assert (first.lengths, second.lengths) == ((3, 2), (2, 3))
    assert np.concatenate([first.values, second.values]).ravel().tolist() == list(range(10))


def test_pieces_of_three_rows_are_refused():
    with pytest.raises(DataError, match=r"at least 4 rows.*longest has 3"):
        need_rows(SeriesRows(np.zeros((6, 1)), (3, 3)))


def test_scale_handles_constant_unseen_and_huge_features():
    values = np.array([[5.0, np.nan, 1e6, 0.0], [5.0, np.nan, 3e6, 1e-6]])
    scale = Scale.of(values)
    scaled = scale.apply(values)
    assert scaled[:, 0].tolist() == [0, 0]
    assert np.isnan(scaled[:, 1]).all()
    assert scaled[:, 2:].tolist() == [[-1, -1], [1, 1]]
    np.testing.assert_allclose(scale.undo(scaled), values)
    assert (scale.spread > 0).all()
