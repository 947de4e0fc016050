from __future__ import annotations

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from series.baselines import carry_forward

from cotempo.data import Series
from cotempo.series import interpolate
from cotempo.series.nn.first_guess import first_guess


@given(st.integers(0, 1000), st.integers(1, 20))
@settings(max_examples=50, deadline=None)
def test_windows_are_interpolated_as_numpy_does(seed, length):
    stream = np.random.default_rng(seed)
    values, seen = stream.normal(size=(length, 2)), stream.random((length, 2)) < 0.5
    windows, mask = (torch.tensor(part)[None, None] for part in (np.where(seen, values, 0.0), seen))
    found = first_guess(windows, mask, torch.full((1, 2), 9.0).double())
    line, back, forth = found.guess[0], found.back[0], found.forth[0]
    for column in range(2):
        places = np.flatnonzero(seen[:, column])
        if len(places):
            expected = np.interp(np.arange(length), places, values[places, column])
            before = [min((p - q for q in places if q <= p), default=length) for p in range(length)]
            after = [min((q - p for q in places if q >= p), default=length) for p in range(length)]
            assert back[0, :, column].tolist() == before
            assert forth[0, :, column].tolist() == after
        else:
            expected = np.full(length, 9.0)
        np.testing.assert_allclose(line[0, :, column], expected)


def test_time_stamps_count_and_gaps_are_not_bridged():
    series = Series.from_arrays([[0.0], [np.nan], [3.0], [np.nan], [8.0]], time=[0, 1, 2.4, 10, 11])
    assert np.allclose(interpolate(series).values.ravel(), [0, 1.25, 3, 8, 8])
    assert carry_forward(series).values.ravel().tolist() == [0, 0, 3, 8, 8]
