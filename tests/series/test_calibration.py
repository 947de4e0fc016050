from __future__ import annotations

import numpy as np
import pytest

from cotempo.data import hide, make_series, mask_rows
from cotempo.series import SeriesDiffusion
from cotempo.series.calibration import LEVELS, Calibration, calibrate, stretch
from cotempo.series.interpolation import interpolate_rows
from cotempo.series.metrics import interval_coverage
from cotempo.series.settings import Sizes
from cotempo.series.windows import Rows


class Lines:
    """Interpolation that comes ten times nearer to the truth where another feature was measured."""

    def __init__(self, truth: np.ndarray):
        self.truth = truth

    def rows(self, rows: Rows, sizes: Sizes) -> np.ndarray:
        lines = interpolate_rows(rows, np.zeros(rows.values.shape[1]))
        truth = np.tile(self.truth, (len(lines) // len(self.truth), 1))
        known = ~np.isnan(rows.values).all(axis=1, keepdims=True)
        return np.where(known, truth + (lines - truth) / 10, lines)


def walks(count: int, pace: float = 1.0, seed: int = 0) -> np.ndarray:
    """Two random walks with heavy tails."""
    return (pace * np.random.default_rng(seed).standard_t(4, size=(count, 2))).cumsum(axis=0)


@pytest.mark.parametrize("level", [0.5, 0.9])
@pytest.mark.parametrize("kind", ["rows", "cells"])
@pytest.mark.parametrize(("pace", "share"), [(1.0, 0.5), (2.0, 0.5), (0.5, 0.5), (1.0, 0.15), (1.0, 0.75)])
def test_intervals_hold_what_they_promise_at_other_paces_and_shares(level, kind, pace, share):
    sizes, stream, truth = Sizes(), np.random.default_rng(1), walks(3000)
    calibration = calibrate(sizes, Lines(truth), Rows(truth, (3000,)), stream)
    truth = walks(6000, pace, seed=2)
    gone = stream.random((6000, 1 if kind == "rows" else 2)) < share
    rows = Rows(np.where(gone, np.nan, truth), (6000,))
    filled = Lines(truth).rows(rows, sizes)
    width = calibration.widths(rows, np.full(truth.shape, np.nan), level, sizes.window)
    missing = np.isnan(rows.values)
    if kind == "cells":
        missing &= ~missing.all(axis=1, keepdims=True)
    assert interval_coverage(truth, filled - width, filled + width, missing) == pytest.approx(level, abs=0.06)


def test_with_hardly_any_cells_the_draws_are_believed():
    rows = Rows(np.full((50, 2), np.nan), (50,))
    found = Calibration.of(rows, np.zeros((50, 2)), np.full((50, 2), np.nan), 24)
    assert not found.errors.any()
    assert found.widths(rows, np.ones((50, 2)), 0.95, 24) == pytest.approx(1.96, abs=0.01)
    assert found.ratios.shape == (2, len(LEVELS))
    none = calibrate(Sizes(), Lines(np.zeros((0, 2))), Rows(np.zeros((0, 2)), ()), np.random.default_rng(0))
    assert np.array_equal(none.ratios, found.ratios)


def test_intervals_widen_into_a_gap_and_do_not_look_across_pieces():
    values = walks(80)
    values[20:29] = np.nan
    found = stretch(Rows(values, (80,)), np.ones(2), 24)[20:29, 0]
    assert found.argmax() == 4
    np.testing.assert_allclose(found[0] / found[4], np.sqrt((1 * 9 / 10) / (5 * 5 / 10)), rtol=0.1)
    apart = np.concatenate([walks(40), 50 * walks(40)])
    alone = stretch(Rows(apart[:40], (40,)), np.ones(2), 24)
    assert np.array_equal(stretch(Rows(apart, (40, 40)), np.ones(2), 24)[:40], alone)


def test_a_fitted_model_covers_missing_cells():
    made, _ = make_series(clients=1, length=2400, features=3, seed=0)
    series = made["client-0"]
    train, test = series.select(np.arange(2000)), series.select(np.arange(2000, 2400))
    sizes = {"window": 8, "width": 8, "imputer_width": 8, "imputer_layers": 1, "diffusion_steps": 20, "batch": 32}
    model = SeriesDiffusion(**sizes, imputer_steps=30, steps=30).fit(train)
    holes, _ = hide(test, mask_rows(test.values.shape, 0.3, 0))
    filled = model.impute(holes, draws=10, level=0.9)
    assert interval_coverage(test.values, filled.low, filled.high, np.isnan(holes.values)) > 0.8
    assert (filled.low <= filled.values).all()
    assert np.array_equal(filled.low[~np.isnan(holes.values)], holes.values[~np.isnan(holes.values)])
