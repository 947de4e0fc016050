from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from cotempo.data import hide, make_series, mask_rows
from cotempo.errors import ParameterError
from cotempo.series import SeriesDiffusion
from cotempo.series.filling.calibration import Calibration, calibrate
from cotempo.series.filling.gaps import interpolate_rows
from cotempo.series.filling.stages import Filler
from cotempo.series.seriesmoments import learn
from cotempo.series.settings import SeriesSettings
from cotempo.series.windows import Scale, SeriesRows


class Lines:
    """Interpolation that comes ten times nearer to the truth where another feature was measured."""

    def __init__(self, truth: np.ndarray):
        self.truth = truth

    def rows(self, rows: SeriesRows, sizes: SeriesSettings) -> np.ndarray:
        lines = interpolate_rows(rows, np.zeros(rows.values.shape[1]))
        if len(lines) % len(self.truth):  # cut at other places, to forecast
            return lines
        truth = np.tile(self.truth, (len(lines) // len(self.truth), 1))
        known = ~np.isnan(rows.values).all(axis=1, keepdims=True) & ~np.isnan(truth)
        return np.where(known, truth + (lines - truth) / 10, lines)


def walks(count: int, pace: float | np.ndarray = 1.0, seed: int = 0) -> np.ndarray:
    """Two random walks with heavy tails."""
    return (pace * np.random.default_rng(seed).standard_t(4, size=(count, 2))).cumsum(axis=0)


def covered(calibration: Calibration, rows: SeriesRows, truth: np.ndarray, level: float) -> np.ndarray:
    """Shares of missing cells inside their intervals around lines, of each feature."""
    filled = Lines(truth).rows(rows, SeriesSettings())
    (width,) = calibration.widths(rows, np.full(truth.shape, np.nan), (level,), SeriesSettings().window)
    inside, missing = np.abs(filled - truth) <= width, np.isnan(rows.values)
    return (inside & missing).sum(axis=0) / missing.sum(axis=0)


@pytest.mark.parametrize("level", [0.5, 0.9])
@pytest.mark.parametrize("kind", ["rows", "cells"])
@pytest.mark.parametrize(
    ("share", "pace", "tolerance"), [(0.5, 1.0, 0.03), (0.15, 1.0, 0.03), (0.75, 1.0, 0.04), (0.5, 2.0, 0.06)]
)
def test_intervals_hold_what_they_promise_with_more_missing_and_nearly_at_another_pace(
    level, kind, share, pace, tolerance
):
    stream, truth = np.random.default_rng(1), walks(3000)
    calibration = calibrate(SeriesSettings(), [(Lines(truth), SeriesRows(truth, (3000,)))], stream)
    # The second half moves at another pace: intervals must follow.
    truth = walks(6000, np.where(np.arange(6000)[:, None] < 3000, 1.0, pace), seed=2)
    gone = stream.random((6000, 1 if kind == "rows" else 2)) < share
    rows = SeriesRows(np.where(gone, np.nan, truth)[3000:], (3000,))
    assert covered(calibration, rows, truth[3000:], level) == pytest.approx(level, abs=tolerance)


@pytest.mark.parametrize("other", ["constant", "spikes", "steps", "never measured"])
def test_a_feature_keeps_its_promise_beside_features_of_another_kind(other):
    stream = np.random.default_rng(3)
    truth = walks(8000, seed=4)
    truth[:, 1] = {
        "constant": 1e6 + 0.1,
        "spikes": stream.random(8000) < 0.03,
        "steps": stream.integers(0, 9, 80).repeat(100),
        "never measured": np.nan,
    }[other]
    calibration = calibrate(SeriesSettings(), [(Lines(truth[:2000]), SeriesRows(truth[:2000], (2000,)))], stream)
    gone = stream.random((6000, 1)) < 0.4
    rows = SeriesRows(np.where(gone, np.nan, truth[2000:]), (6000,))
    for level in (0.5, 0.9):
        assert covered(calibration, rows, truth[2000:], level)[0] == pytest.approx(level, abs=0.04)


def test_long_gaps_have_errors_of_their_own():
    """Waves are smooth: what errs little over a step errs much over half a window, more than any random walk."""
    truth = np.sin(np.arange(9000)[:, None] / [5.0, 7.0]) + 0.01 * np.random.default_rng(5).normal(size=(9000, 2))
    calibration = calibrate(
        SeriesSettings(), [(Lines(truth[:3000]), SeriesRows(truth[:3000], (3000,)))], np.random.default_rng(6)
    )
    gone = (np.arange(6000) % 60 < 12)[:, None]
    rows = SeriesRows(np.where(gone, np.nan, truth[3000:]), (6000,))
    assert covered(calibration, rows, truth[3000:], 0.9) == pytest.approx(0.9, abs=0.08)


def test_with_hardly_any_cells_the_draws_are_believed():
    rows = SeriesRows(np.full((50, 2), np.nan), (50,))
    found = Calibration.of(rows, np.zeros((50, 2)), np.full((50, 2), np.nan), 24)
    assert not found.errors.any()
    assert found.widths(rows, np.ones((50, 2)), (0.95,), 24) == pytest.approx(1.96, abs=0.01)
    none = calibrate(
        SeriesSettings(), [(Lines(np.zeros((0, 2))), SeriesRows(np.zeros((0, 2)), ()))], np.random.default_rng(0)
    )
    assert np.array_equal(none.errors, found.errors)


def test_a_feature_never_measured_gets_the_normal_law_of_its_draws():
    truth = walks(600)
    truth[:, 1] = np.nan
    rows = SeriesRows(truth, (600,))
    found = calibrate(SeriesSettings(), [(Lines(truth), rows)], np.random.default_rng(0))
    assert found.widths(rows, np.full((600, 2), 2.0), (0.9,), 24)[0, :, 1] == pytest.approx(2 * 1.645, abs=0.01)
    assert not found.widths(rows, np.full((600, 2), 2.0), (0.9,), 24)[0, :, 0].any()


def test_intervals_widen_into_a_gap_and_do_not_look_across_pieces():
    truth = walks(3000)
    found = calibrate(SeriesSettings(), [(Lines(truth), SeriesRows(truth, (3000,)))], np.random.default_rng(0))
    values, nothing = walks(80), np.full((80, 2), np.nan)
    values[20:29] = np.nan
    width = found.widths(SeriesRows(values, (80,)), nothing, (0.9,), 24)[0, 20:29, 0]
    assert width.argmax() == 4
    assert width[0] < width[1] < width[4]
    pieces = np.concatenate([values[:40], 50 * values[40:]])
    apart = found.widths(SeriesRows(pieces, (40, 40)), nothing, (0.9,), 24)[0, :40]
    assert np.array_equal(apart, found.widths(SeriesRows(pieces[:40], (40,)), nothing[:40], (0.9,), 24)[0])


def test_a_fitted_model_covers_missing_cells():
    made, _ = make_series(clients=1, length=2400, features=3, seed=0)
    series = made["client-0"]
    train, test = series.select(np.arange(2000)), series.select(np.arange(2000, 2400))
    sizes = {"window": 8, "width": 8, "imputer_width": 8, "imputer_layers": 1, "diffusion_steps": 20, "batch": 32}
    model = SeriesDiffusion(**sizes, imputer_steps=30, steps=30).fit(train)
    holes, _ = hide(test, mask_rows(test.values.shape, 0.3, 0))
    filled = model.impute(holes, draws=10, level=0.9)
    inside = (filled.low <= test.values) & (test.values <= filled.high)
    assert inside[np.isnan(holes.values)].mean() > 0.8
    assert (filled.low <= filled.values).all()
    assert np.array_equal(filled.low[~np.isnan(holes.values)], holes.values[~np.isnan(holes.values)])
    for wrong in ({"level": 0.999}, {"level": 0.0}, {"draws": 0}):
        with pytest.raises(ParameterError, match="draws must be at least 1 and level in"):
            model.impute(holes, **wrong)


@pytest.mark.parametrize("filling", ["interpolated", "by moments"])
def test_deviations_by_moments_hold_their_share_around_any_filling(filling):
    stream, settings = np.random.default_rng(0), SeriesSettings(window=8)
    truth = np.repeat(stream.normal(size=(2000, 1)).cumsum(axis=0), 2, axis=1) + 0.3 * stream.normal(size=(2000, 2))
    scale = Scale.of(truth)
    stage, _, _ = learn(scale.rows(SeriesRows(truth, (2000,))), 8)
    filler = Filler.closed(scale, (stage,), trusted="moments" if filling == "by moments" else None)
    rows = SeriesRows(np.where(stream.random(truth.shape) < 0.3, np.nan, truth), (2000,))
    filled = filler.rows(rows, settings)
    inside = np.abs(filled - truth) <= 1.645 * filler.deviation(rows, filled)
    assert inside[np.isnan(rows.values)].mean() == pytest.approx(0.9, abs=0.03)


def test_where_nothing_could_be_calibrated_intervals_are_those_of_the_moments_and_it_is_said(fitted, federation):
    """Draws of a diffusion model that learned little are far too near to each other: 90 % intervals held 13 to 30 %."""
    name, table = next(iter(federation[1].items()))
    known, outcome = fitted[name], fitted.outcome
    model = replace(known, calibration=Calibration.none(len(table.features)))
    rows = model.rows(table, model.columns(table))
    believed = model.filler.deviation(rows, model.filler.rows(rows, model.settings))
    for draws in (1, 20):
        found = model._impute(rows, draws, (0.9,), 0)
        np.testing.assert_allclose(found.widths[0], 1.6449 * believed * np.isnan(rows.values), rtol=1e-4)
    memories = {**outcome.memories, name: replace(outcome.memories[name], calibration=model.calibration)}
    said = type(fitted)(replace(outcome, memories=memories)).advice()
    assert re.search(f"intervals of .*{name}.* come from the model: for some kinds of gaps fewer than 100", said[-1])
