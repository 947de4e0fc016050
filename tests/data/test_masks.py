"""Masks hide the asked share, and what is hidden is handed over as the truth."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotempo.data import Series, hide, mask_cells, mask_rows
from cotempo.errors import ParameterError


@given(rows=st.integers(1, 30), features=st.integers(1, 8), rate=st.floats(0, 1), seed=st.integers(0, 9))
def test_masks_hide_the_asked_share(rows: int, features: int, rate: float, seed: int) -> None:
    shape = (rows, features)
    assert mask_cells(shape, rate, seed).sum() == round(rate * rows * features)
    by_row = mask_rows(shape, rate, seed)
    assert by_row.shape == shape
    assert (by_row.all(axis=1) == by_row.any(axis=1)).all()
    assert by_row[:, 0].sum() == round(rate * rows)


@pytest.mark.parametrize("make", [mask_cells, mask_rows])
def test_equal_seeds_equal_masks(make: Any) -> None:
    first = make((20, 10), 0.5, 1)
    assert np.array_equal(first, make((20, 10), 0.5, np.random.default_rng(1)))
    assert not np.array_equal(first, make((20, 10), 0.5, 2))


def test_hidden_and_left_make_the_whole() -> None:
    series = Series.from_arrays(np.arange(20.0).reshape(10, 2))
    mask = mask_cells((10, 2), 0.4, 0)
    left, hidden = hide(series, mask)
    assert np.array_equal(np.isnan(left.values), mask)
    assert np.array_equal(np.isnan(hidden), ~mask)
    assert np.array_equal(np.where(mask, hidden, left.values), series.values)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: mask_cells((10, 2), 1.5, 0), "rate must be a number, at least 0 and at most 1, got 1.5"),
        (lambda: mask_cells((10,), 0.5, 0), "shape must be"),  # type: ignore[arg-type]
        (lambda: mask_rows((0, 2), 0.5, 0), "rows must be a whole number"),
        (lambda: hide(Series.from_arrays([[1.0]]), np.ones((2, 1), bool)), r"mask must be bool of \(1, 1\)"),
        (lambda: hide(Series.from_arrays([[1.0]]), np.ones((1, 1))), "mask must be bool"),
    ],
)
def test_wrong_masks_are_refused(call: Any, words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        call()
