from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotempo.data import Series
from cotempo.networks.gram import (
    Sums,
    assemble,
    embed,
    make_semidefinite,
    pack,
    sum_products,
    unpack,
)
from cotempo.networks.transitions import Rows, transition_rows


def rows_of(values: np.ndarray) -> Rows:
    return Rows(values, np.ones(len(values)))


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
    pieces = [sum_products(rows_of(part), centre, pairwise=False) for part in np.array_split(values, parts)]
    total = Sums(*(sum(getattr(piece, name) for piece in pieces) for name in Sums._fields))
    gram = assemble(total)
    np.testing.assert_allclose(gram.gram / gram.rows, np.cov(values.T, bias=True), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(gram.mean + centre, values.mean(axis=0), rtol=1e-12)


def test_pairwise_moments_equal_each_pair_by_itself() -> None:
    rng = np.random.default_rng(1)
    values = rng.normal(size=(60, 3))
    values[rng.random(values.shape) < 0.2] = np.nan
    sums = sum_products(rows_of(values), np.zeros(3), pairwise=True)
    counts, products = unpack(sums.counts, 3), unpack(sums.products, 3)
    for i in range(3):
        for j in range(3):
            both = ~np.isnan(values[:, i]) & ~np.isnan(values[:, j])
            assert counts[i, j] == both.sum()
            np.testing.assert_allclose(products[i, j], values[both, i] @ values[both, j])


def test_without_missing_cells_pairwise_equals_complete() -> None:
    values = np.random.default_rng(2).normal(size=(50, 4))
    complete = assemble(sum_products(rows_of(values), np.ones(4), pairwise=False))
    pairwise = assemble(sum_products(rows_of(values), np.ones(4), pairwise=True))
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
    whole = embed(sum_products(rows_of(values), np.zeros(2), pairwise=True), np.array([0, 2]), 3)
    gram = assemble(whole)
    assert gram.unseen[1].all()
    assert not gram.unseen[0, 2]


def test_transitions_stay_inside_pieces_and_weights_halve() -> None:
    table = Series.from_arrays(
        np.arange(8.0)[:, None], time=np.array([0.0, 1, 2, 3, 10, 11, 12, 13])
    )  # a gap between 3 and 10
    complete = transition_rows(table, lags=1)
    assert complete.values.tolist() == [[1, 0], [2, 1], [3, 2], [5, 4], [6, 5], [7, 6]]
    partial = transition_rows(table, lags=1, partial=True)
    assert len(partial.values) == 8
    assert np.isnan(partial.values[0, 1])
    halved = transition_rows(table, lags=1, half_life=1.0)
    np.testing.assert_allclose(halved.weights[-3:], [0.25, 0.5, 1.0])
