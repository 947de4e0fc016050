from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotempo.errors import DataError
from cotempo.networks.moments import centre, moments
from cotempo.networks.transitions import transitions


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
    found = moments(pieces, lags)
    assert found.rows == len(expected)
    np.testing.assert_allclose(found.sums, expected.sum(axis=0))
    np.testing.assert_allclose(found.gram, expected.T @ expected, rtol=1e-10)


def test_centred_grams_of_parts_average_to_the_pooled_covariance() -> None:
    whole = np.random.default_rng(0).normal(loc=20.0, size=(101, 4))
    parts = [moments([whole[:41]], 1), moments([whole[40:]], 1)]
    rows = sum(part.rows for part in parts)
    mean = sum(part.sums for part in parts) / rows
    pooled = sum(part.rows / rows * centre(part, mean) for part in parts)
    np.testing.assert_allclose(pooled, np.cov(transitions(whole, 1).T, bias=True), atol=1e-12)


def test_huge_means_cost_no_digits() -> None:
    values = np.random.default_rng(1).normal(size=(50, 2))
    shifted = moments([values + 1e7], 0)
    near = moments([values], 0)
    found = centre(shifted, shifted.sums / 50)
    np.testing.assert_allclose(found, centre(near, near.sums / 50), rtol=1e-7)


def test_scale_divides_the_columns() -> None:
    values = np.random.default_rng(2).normal(size=(60, 3)) * [1.0, 10.0, 0.1]
    own = moments([values], 0)
    found = centre(own, own.sums / own.rows, scale=values.std(axis=0))
    np.testing.assert_allclose(found, np.corrcoef(values.T), atol=1e-12)


def test_nothing_left_is_refused() -> None:
    empty = moments([np.full((5, 2), np.nan)], 1)
    assert empty.rows == 0
    with pytest.raises(DataError, match="at least one complete transition"):
        centre(empty, np.zeros(4))
    with pytest.raises(DataError, match="at least one piece"):
        moments([], 1)
