from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotempo.data import Series
from cotempo.errors import DataError
from cotempo.networks.moments import (
    Gram,
    Sums,
    cut_transitions,
    make_semidefinite,
    pack,
    transitions,
    unpack,
)


def loop_over_transitions(pieces: list[np.ndarray], lags: int) -> np.ndarray:
    rows = []
    for piece in pieces:
        for time in range(lags, len(piece)):
            row = np.concatenate([piece[time - lag] for lag in range(lags + 1)])
            if not np.isnan(row).any():
                rows.append(row)
    return np.array(rows).reshape(-1, pieces[0].shape[1] * (lags + 1))


def random_pieces(seed: int, missing: float = 0.1) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    pieces = [rng.normal(loc=5.0, size=(length, 3)) for length in (0, 1, 2, 30, 41)]
    for piece in pieces:
        piece[rng.random(piece.shape) < missing] = np.nan
    return pieces


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), lags=st.integers(0, 3))
def test_moments_agree_with_a_plain_loop(seed: int, lags: int) -> None:
    pieces = random_pieces(seed)
    expected = loop_over_transitions(pieces, lags)
    rows = np.vstack([transitions(piece, lags) for piece in pieces])
    found, own = Sums.of_rows(rows), Gram.of_rows(rows)
    assert found.counts[0] == own.rows == len(expected)
    np.testing.assert_allclose(found.sums, expected.sum(axis=0))
    np.testing.assert_allclose(unpack(found.products, len(found.sums)), expected.T @ expected, rtol=1e-10)
    np.testing.assert_allclose(own.per_row(np.zeros(len(own.mean))) * own.rows, expected.T @ expected, rtol=1e-10)


def test_centred_grams_of_parts_average_to_the_pooled_covariance() -> None:
    whole = np.random.default_rng(0).normal(loc=20.0, size=(101, 4))
    parts = [Gram.of_rows(transitions(part, 1)) for part in (whole[:41], whole[40:])]
    rows = sum(part.rows for part in parts)
    mean = sum(part.rows * part.mean for part in parts) / rows
    pooled = sum(part.rows / rows * part.per_row(mean) for part in parts)
    np.testing.assert_allclose(pooled, np.cov(transitions(whole, 1).T, bias=True), atol=1e-12)


def test_huge_means_cost_no_digits() -> None:
    values = np.random.default_rng(1).normal(size=(50, 2))
    shifted, near = Gram.of_rows(values + 1e7), Gram.of_rows(values)
    np.testing.assert_allclose(shifted.per_row(shifted.mean), near.per_row(near.mean), rtol=1e-7)


def test_scale_divides_the_columns() -> None:
    values = np.random.default_rng(2).normal(size=(60, 3)) * [1.0, 10.0, 0.1]
    own = Gram.of_rows(values)
    found = own.per_row(own.mean, scale=values.std(axis=0))
    np.testing.assert_allclose(found, np.corrcoef(values.T), atol=1e-12)


def test_nothing_left_is_refused() -> None:
    empty = Gram.of_rows(transitions(np.full((5, 2), np.nan), 1))
    assert empty.rows == 0
    with pytest.raises(DataError, match="at least one row without a missing cell"):
        empty.per_row(np.zeros(4))


@given(st.integers(1, 6), st.integers(0, 1000))
def test_pack_is_undone(side: int, seed: int) -> None:
    matrix = np.random.default_rng(seed).normal(size=(side, side))
    symmetric = matrix + matrix.T
    np.testing.assert_array_equal(unpack(pack(symmetric), side), symmetric)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 1000), st.integers(1, 4), st.floats(-1e6, 1e6))
def test_parts_add_up_to_the_whole(seed: int, parts: int, offset: float) -> None:
    values = np.random.default_rng(seed).normal(size=(40, 3)) + offset
    centre = np.full(3, offset)
    pieces = [Sums.of_rows(part, np.ones(len(part)), centre) for part in np.array_split(values, parts)]
    gram = Gram.of_sums(Sums.stack(pieces).total())
    np.testing.assert_allclose(gram.gram / gram.rows, np.cov(values.T, bias=True), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(gram.mean + centre, values.mean(axis=0), rtol=1e-12)


def test_pairwise_moments_equal_each_pair_by_itself() -> None:
    rng = np.random.default_rng(1)
    values = rng.normal(size=(60, 3))
    values[rng.random(values.shape) < 0.2] = np.nan
    sums = Sums.of_rows(values, pairwise=True)
    counts, products = unpack(sums.counts, 3), unpack(sums.products, 3)
    for i in range(3):
        for j in range(3):
            both = ~np.isnan(values[:, i]) & ~np.isnan(values[:, j])
            assert counts[i, j] == both.sum()
            np.testing.assert_allclose(products[i, j], values[both, i] @ values[both, j])


def test_without_missing_cells_pairwise_equals_complete() -> None:
    values = np.random.default_rng(2).normal(size=(50, 4))
    complete = Gram.of_sums(Sums.of_rows(values, centre=np.ones(4)))
    pairwise = Gram.of_sums(Sums.of_rows(values, centre=np.ones(4), pairwise=True))
    np.testing.assert_allclose(pairwise.gram, complete.gram, rtol=1e-10)
    assert pairwise.rows == pytest.approx(complete.rows)
    assert not pairwise.unseen.any()


def test_blocks_that_do_not_fit_are_mended_and_said() -> None:
    impossible = np.array([[1.0, 0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]])
    mended, smallest = make_semidefinite(impossible)
    assert smallest == pytest.approx(np.linalg.eigvalsh(impossible)[0])
    assert np.linalg.eigvalsh(mended)[0] > 0
    np.testing.assert_allclose(mended.diagonal(), 1.0)
    fitting = np.array([[2.0, 0.5], [0.5, 1.0]])
    assert make_semidefinite(fitting) == (pytest.approx(fitting), 0.0)


def test_embedded_client_counts_zero_where_it_holds_nothing() -> None:
    values = np.random.default_rng(3).normal(size=(20, 2))
    whole = Sums.of_rows(values, pairwise=True).embed(np.array([0, 2]), 3)
    gram = Gram.of_sums(whole)
    assert gram.unseen[1].all()
    assert not gram.unseen[0, 2]


def test_transitions_stay_inside_pieces_and_weights_halve() -> None:
    table = Series.from_arrays(
        np.arange(8.0)[:, None], time=np.array([0.0, 1, 2, 3, 10, 11, 12, 13])
    )  # a gap between 3 and 10
    complete = cut_transitions(table, lags=1)
    assert complete.values.tolist() == [[1, 0], [2, 1], [3, 2], [5, 4], [6, 5], [7, 6]]
    partial = cut_transitions(table, lags=1, partial=True)
    assert len(partial.values) == 8
    assert np.isnan(partial.values[0, 1])
    halved = cut_transitions(table, lags=1, half_life=1.0)
    np.testing.assert_allclose(halved.weights[-3:], [0.25, 0.5, 1.0])
