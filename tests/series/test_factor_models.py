"""FactorModels: closed forms against direct computation, and what they are good for."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from cotempo.series.filling.factor_models import FACTORS, FactorModels, deviations_from_line
from cotempo.series.filling.gaps import interpolate_rows
from cotempo.series.nn.first_guess import expect, first_guess, relate
from cotempo.series.nn.training import stack_factor_models
from cotempo.series.windows import Scale, SeriesRows


def test_what_is_expected_is_the_conditional_mean_of_a_normal_law():
    stream = np.random.default_rng(0)
    loadings, left = stream.normal(size=(5, FACTORS)), stream.uniform(0.1, 1, 5)
    covariance = loadings @ loadings.T + np.diag(left)
    values, seen = stream.normal(size=5), np.array([True, False, True, True, False])
    among, across = covariance[np.ix_(seen, seen)], covariance[np.ix_(~seen, seen)]
    direct = across @ np.linalg.solve(among, values[seen])
    factors = torch.tensor(np.column_stack([loadings, left]))[None]
    found = expect(factors, torch.tensor(values)[None, None, None], torch.tensor(seen)[None, None, None])
    np.testing.assert_allclose(found.ravel()[~seen], direct)


def test_few_features_are_described_exactly():
    stream = np.random.default_rng(1)
    values = stream.normal(size=(4000, 3)) @ stream.normal(size=(3, 3))
    scale = Scale.of(values)
    scaled = scale.apply(values)
    factors = FactorModels.of(SeriesRows(scaled, (4000,)), scale)
    covariance = factors.level_factors[:, :-1] @ factors.level_factors[:, :-1].T + np.diag(factors.level_factors[:, -1])
    np.testing.assert_allclose(covariance, np.cov(scaled, rowvar=False), rtol=0.03, atol=0.003)
    left = 1 / np.diag(np.linalg.inv(covariance))
    np.testing.assert_allclose(factors.spread**2, left, rtol=0.1)


def test_many_features_without_ties_are_left_alone():
    values = np.random.default_rng(2).normal(size=(2000, 12))
    scale = Scale.of(values)
    factors = FactorModels.of(SeriesRows(scale.apply(values), (2000,)), scale)
    shared = (factors.level_factors[:, :-1] ** 2).sum(axis=1) / scale.spread**2
    assert shared.mean() < 0.2


def test_random_walks_stray_alike_over_long_and_short_gaps():
    stream = np.random.default_rng(3)
    walk = stream.normal(size=(40_000, 1)).cumsum(axis=0)
    walk[stream.random(walk.shape) < 0.5] = np.nan
    found = deviations_from_line(SeriesRows(walk, (len(walk),)))
    assert np.nanstd(found) == pytest.approx(1.0, abs=0.03)


@pytest.mark.parametrize("gone", ["a cell", "a feature"])
def test_a_related_feature_fills_what_interpolation_cannot(gone):
    stream = np.random.default_rng(4)
    walk = stream.normal(size=(600, 1)).cumsum(axis=0)
    values = walk * [1.0, -2.0, 0.5] + 0.05 * stream.normal(size=(600, 3)) + [0, 5, 0]
    scale = Scale.of(values)
    scaled = scale.apply(values)
    factors = FactorModels.of(SeriesRows(scaled[:500], (500,)), scale)
    window, seen = scaled[500:532], np.ones((32, 3), dtype=bool)
    seen[(slice(None) if gone == "a feature" else 10), 1] = False
    known, mask = torch.tensor(np.where(seen, window, 0.0))[None, None], torch.tensor(seen)[None, None]
    stacked = stack_factor_models([factors], 3, torch.device("cpu"), torch.float64)
    line = first_guess(known, mask, stacked["centre"])
    better = relate(line, stacked)
    errors = [float(np.abs(guess.guess[0, 0].numpy() - window)[~seen].mean()) for guess in (line, better)]
    assert errors[1] < 0.3 * errors[0]
    assert np.array_equal(better.guess[0, 0].numpy()[seen], window[seen])


@pytest.mark.parametrize(
    ("first", "second", "spike"), [(1, 1, 0), (8, 1, 0), (1, 0.2, 0), (4, 0.4, 0), (1, 1, 8), (1, 1, -30)]
)
def test_features_speak_for_each_other_at_the_pace_of_the_window(first, second, spike):
    stream = np.random.default_rng(5)
    noise = stream.normal(size=(2, 2032))
    moves = np.stack([noise[0], 0.95 * noise[0] + 0.3 * noise[1]], axis=1)
    values = moves.cumsum(axis=0)
    scale = Scale.of(values[:2000])
    factors = FactorModels.of(SeriesRows(scale.apply(values[:2000]), (2000,)), scale)
    window = (moves[2000:] * [first, second]).cumsum(axis=0) * 2 / (scale.high - scale.low)
    window[13, 0] += spike * 2 / (scale.high - scale.low)[0]
    seen = np.ones(window.shape, dtype=bool)
    seen[2:30:3, 1] = False
    known, mask = torch.tensor(np.where(seen, window, 0.0))[None, None], torch.tensor(seen)[None, None]
    stacked = stack_factor_models([factors], 2, torch.device("cpu"), torch.float64)
    line = first_guess(known, mask, stacked["centre"])
    guesses = (line, relate(line, stacked))
    errors = [float(np.abs(guess.guess[0, 0].numpy() - window)[~seen].mean()) for guess in guesses]
    assert errors[1] < (0.9 if spike else 0.75) * errors[0]


def test_pieces_are_interpolated_as_numpy_does():
    stream = np.random.default_rng(0)
    values = stream.normal(size=(60, 3))
    values[stream.random(values.shape) < 0.6] = np.nan
    rows = SeriesRows(values, (20, 1, 9, 30))
    found = interpolate_rows(rows, np.full(3, 9.0))
    for first, end in rows.bounds:
        for column in range(3):
            part = values[first:end, column]
            places = np.flatnonzero(~np.isnan(part))
            expected = np.interp(np.arange(len(part)), places, part[places]) if len(places) else 9.0
            np.testing.assert_allclose(found[first:end, column], expected)


def test_rows_are_interpolated_in_pieces():
    values = np.array([[0.0], [np.nan], [2.0], [np.nan], [np.nan]])
    assert interpolate_rows(SeriesRows(values, (3, 2)), np.array([7.0])).ravel().tolist() == [0, 1, 2, 7, 7]
