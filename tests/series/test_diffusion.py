"""One owner's model: what comes out has the right shape, keeps measurements, and bad input is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cotempo.data import Series, hide, make_series, mask_rows
from cotempo.errors import DataError, ParameterError
from cotempo.series import SeriesDiffusion, interpolate


def test_gaps_are_filled_and_measurements_kept(model, table):
    filled = model.impute(table)
    seen = ~np.isnan(table.values)
    assert np.array_equal(filled.values[seen], table.values[seen])
    assert np.isfinite(filled.values).all()
    assert model.impute(table, level=()).low is None


def test_draws_give_intervals(model, table):
    filled = model.impute(table, draws=8)
    gone = np.isnan(table.values)
    assert filled.draws.shape == (8, *table.values.shape)
    assert (filled.low <= filled.high).all()
    assert (filled.low[gone] < filled.high[gone]).all()
    assert np.array_equal(filled.values, model.impute(table).values)
    np.testing.assert_allclose(filled.draws[:, ~gone], np.broadcast_to(table.values[~gone], (8, (~gone).sum())))
    assert np.array_equal(filled.low, model.impute(table, draws=8).low)
    assert not np.array_equal(filled.low, model.impute(table, draws=8, seed=1).low)


def test_columns_may_come_in_any_order(model, table):
    turned = Series(table.features[::-1], table.sequence, table.time, table.values[:, ::-1])
    np.testing.assert_allclose(model.impute(turned).values[:, ::-1], model.impute(table).values)


def test_parts_add_up(model, table):
    parts = model.decompose(table)
    total = sum(part.values for part in parts.values())
    np.testing.assert_allclose(total, model.impute(table).values, atol=1e-9)


def test_a_forecast_goes_on_in_time(model, table):
    ahead = model.forecast(table, 3, draws=4)
    assert ahead.time.tolist() == [120, 121, 122]
    assert np.isfinite(ahead.values).all()
    assert ahead.low.shape == ahead.values.shape
    with pytest.raises(ParameterError, match="horizon must be a whole number of rows, at least 1, got 0"):
        model.forecast(table, 0)


def test_samples_are_windows_of_their_own(model):
    drawn = model.sample(5)
    assert drawn.rows == 40
    assert len(drawn.pieces()) == 5
    assert np.array_equal(drawn.values, model.sample(5).values)
    assert not np.array_equal(drawn.values, model.sample(5, seed=1).values)


@pytest.mark.slow
def test_training_beats_interpolation_where_features_tell_of_each_other():
    """Cells missing alone: the other features of the row say more than the neighbours in time."""
    made, truth = make_series(clients=1, length=900, features=4, factors=1, noise=0.2, seed=3)
    series = made["client-0"]
    stream = np.random.default_rng(0)
    holes, _ = hide(series, stream.random(series.values.shape) < 0.3)
    small = SeriesDiffusion(window=12, imputer_width=32, imputer_layers=2, imputer_steps=250, steps=1, batch=48)
    gone = np.isnan(holes.values)
    ours, line, best = (
        np.abs(filled - series.values)[gone].mean()
        for filled in (small.fit(series).impute(holes).values, interpolate(holes).values, truth.conditional_mean(holes))
    )
    assert ours < 0.85 * line
    assert ours > 0.95 * best


def test_bad_input_is_refused_with_a_reason(small, table):
    with pytest.raises(DataError, match="at least 4 rows"):
        small.fit(table.select(np.arange(3)))
    empty = table.values.copy()
    empty[:, 1] = np.nan
    with pytest.raises(DataError, match=r"column x1.*all are missing"):
        small.fit(replace(table, values=empty))
    with pytest.raises(ParameterError, match=r"no parameter 'windw'.*did you mean 'window'"):
        SeriesDiffusion(windw=3)
    with pytest.raises(ParameterError, match="window"):
        SeriesDiffusion(window=1)


def test_a_table_with_other_features_is_refused(model, table):
    other = Series(("x0", "x1", "y"), table.sequence, table.time, table.values)
    with pytest.raises(DataError, match=r"column y.*no such feature") as error:
        model.impute(other)
    assert "column x2" in str(error.value)


def test_constant_and_huge_features_are_handled(small):
    stream = np.random.default_rng(0)
    values = np.column_stack([np.full(60, 3.0), 1e6 * stream.normal(size=60), 1e-6 * stream.normal(size=60)])
    series = Series.from_arrays(values, time=np.cumsum(stream.uniform(0.8, 1.2, 60)))
    holes, _ = hide(series, mask_rows(values.shape, 0.4, 0))
    filled = small.fit(holes).impute(holes)
    assert np.allclose(filled.values[:, 0], 3.0, atol=1.0)
    assert np.abs(filled.values[:, 1]).max() < 1e7
    assert np.abs(filled.values[:, 2]).max() < 1e-5


@pytest.mark.slow
def test_etth_rows_beat_interpolation(etth):
    cut = int(0.8 * len(etth))
    model = SeriesDiffusion(steps=1).fit(Series.from_arrays(etth[:cut]))
    test = Series.from_arrays(etth[cut:])
    holes, _ = hide(test, mask_rows(test.values.shape, 0.5, 0))
    half, gone = (etth[:cut].max(axis=0) - etth[:cut].min(axis=0)) / 2, np.isnan(holes.values)
    ours, line = (
        np.abs((fill.values - test.values) / half)[gone].mean() for fill in (model.impute(holes), interpolate(holes))
    )
    assert ours < 0.88 * line
