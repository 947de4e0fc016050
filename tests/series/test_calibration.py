from __future__ import annotations

import numpy as np
import pytest

from cotempo.data import hide, make_series, mask_rows
from cotempo.series import SeriesDiffusion
from cotempo.series.calibration import LEVELS, Calibration
from cotempo.series.metrics import interval_coverage


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_intervals_hold_what_they_promise_whatever_the_draws_are_worth(level):
    """Errors with heavy tails, and draws ten times too narrow."""
    stream = np.random.default_rng(0)
    truth = stream.standard_t(3, size=(2, 4000, 2))
    deviation = np.full((4000, 2), 0.1)
    everywhere = np.ones((4000, 2), dtype=bool)
    calibration = Calibration.of(np.zeros((4000, 2)), deviation, truth[0], everywhere)
    width = calibration.ratio(level) * (deviation + calibration.errors)
    assert interval_coverage(truth[1], -width, width, everywhere) == pytest.approx(level, abs=0.02)


def test_with_hardly_any_cells_the_draws_are_believed():
    hidden = np.zeros((50, 2), dtype=bool)
    found = Calibration.of(np.zeros((50, 2)), np.ones((50, 2)), np.full((50, 2), np.nan), hidden)
    assert found.errors.tolist() == [0, 0]
    assert found.ratio(0.95) == pytest.approx(1.96, abs=0.01)
    assert len(found.ratios) == len(LEVELS)


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
