"""SeriesMoments: one owner, in seconds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import cotempo as ct
from cotempo.data import Series, hide, make_series, mask_cells, mask_rows
from cotempo.errors import DataError, ParameterError
from cotempo.series import interpolate


def daily(rows: int, seed: int = 0) -> np.ndarray:
    """Two features with a period of 12 rows, and a third that follows the first."""
    stream = np.random.default_rng(seed)
    time = np.arange(rows)
    level = np.cumsum(0.05 * stream.normal(size=rows))
    first = np.sin(time * np.pi / 6) + level + 0.1 * stream.normal(size=rows)
    second = np.cos(time * np.pi / 6) + 0.1 * stream.normal(size=rows)
    return np.column_stack([first, second, 2 * first + 0.1 * stream.normal(size=rows)])


def error(model: ct.series.MomentsModel, table: Series, mask: np.ndarray) -> tuple[float, float]:
    holes, _ = hide(table, mask)
    return tuple(
        float(np.abs(filled.values - table.values)[mask].mean()) for filled in (model.impute(holes), interpolate(holes))
    )


@pytest.mark.parametrize("mask", [mask_rows, mask_cells])
def test_fills_better_than_interpolation(mask):
    values = daily(1500)
    model = ct.SeriesMoments(window=24).fit(Series.from_arrays(values[:1000]))
    table = Series.from_arrays(values[1000:])
    ours, line = error(model, table, mask(table.values.shape, 0.5, 0))
    assert ours < 0.7 * line


def test_many_short_pieces():
    values = daily(1200)
    pieces = [values[k : k + 12] for k in range(0, 1200, 12)]
    model = ct.SeriesMoments().fit(Series.from_arrays(pieces[:80]))
    table = Series.from_arrays(pieces[80:])
    ours, line = error(model, table, mask_cells(table.values.shape, 0.4, 1))
    assert ours < 0.8 * line


def test_intervals_hold_what_they_promise():
    values = daily(2500)
    model = ct.SeriesMoments(window=24).fit(Series.from_arrays(values[:1500]))
    table = Series.from_arrays(values[1500:])
    for mask in (mask_rows(table.values.shape, 0.5, 0), mask_cells(table.values.shape, 0.5, 0)):
        filled = model.impute(hide(table, mask)[0], draws=20, level=0.9)
        inside = (filled.low <= table.values) & (table.values <= filled.high)
        assert 0.86 < inside[mask].mean() < 0.97
        assert inside[~mask].all()
        assert filled.draws.shape == (20, *table.values.shape)


def test_units_order_and_splitting_change_nothing():
    values = daily(600)
    values[np.random.default_rng(0).random(values.shape) < 0.2] = np.nan
    parts = [values[:250], values[250:400], values[400:]]
    table = Series.from_arrays(parts, features=("a", "b", "c"))
    model = ct.SeriesMoments(window=8).fit(table)
    filled = model.impute(table).values
    factor, shift = np.array([1e-3, 1.0, 1e4]), np.array([5.0, 0.0, -1e3])
    other = replace(table, values=table.values * factor + shift)
    assert np.allclose(ct.SeriesMoments(window=8).fit(other).impute(other).values, filled * factor + shift)
    turned = replace(table, features=("c", "a", "b"), values=table.values[:, [2, 0, 1]])
    assert np.allclose(ct.SeriesMoments(window=8).fit(turned).impute(turned).values, filled[:, [2, 0, 1]])
    swapped = Series.from_arrays([parts[2], parts[0], parts[1]], features=("a", "b", "c"))
    again = ct.SeriesMoments(window=8).fit(swapped).impute(table).values
    assert np.allclose(again, filled)


@pytest.mark.parametrize(
    "values",
    [
        np.array([[1.0], [np.nan], [3.0]]),
        np.column_stack([np.full(30, 7.0), np.arange(30.0)]),
        np.where(np.arange(12)[:, None] == 3, np.nan, np.arange(24.0).reshape(12, 2)),
        np.column_stack([np.full(9, 2.0)] * 2),
    ],
)
def test_few_rows_and_constants(values):
    table = Series.from_arrays(values)
    holes = replace(table, values=np.where(np.arange(len(values))[:, None] == 1, np.nan, values))
    filled = ct.SeriesMoments().fit(table).impute(holes, draws=3)
    assert np.isfinite(filled.low).all()
    assert np.allclose(filled.values, interpolate(holes).values, atol=1.0)


def test_a_feature_not_measured_at_all():
    values = daily(300)
    model = ct.SeriesMoments(window=8).fit(Series.from_arrays(values))
    gone = values.copy()
    gone[:, 2] = np.nan
    filled = model.impute(Series.from_arrays(gone)).values
    assert np.abs(filled[:, 2] - values[:, 2]).mean() < 0.6 * np.abs(values[:, 2] - values[:, 2].mean()).mean()
    with pytest.raises(DataError, match="all are missing"):
        ct.SeriesMoments().fit(Series.from_arrays(gone))


def test_forecast_and_sample():
    values = daily(600)
    model = ct.SeriesMoments(window=24).fit(Series.from_arrays(values[:588]))
    ahead = model.forecast(Series.from_arrays(values[:588]), 12).values
    assert np.abs(ahead - values[588:])[:, 1].mean() < 0.3
    drawn = model.sample(200, seed=1)
    assert len(drawn.values) == 200 * 24
    moved, real = np.diff(drawn.values.reshape(200, 24, 3), axis=1), np.diff(values, axis=0)
    assert np.allclose(moved.std(axis=(0, 1)), real.std(axis=0), rtol=0.2)
    with pytest.raises(ParameterError, match="at least 1"):
        model.sample(0)


def test_parameters_are_checked():
    with pytest.raises(ParameterError, match="window"):
        ct.SeriesMoments(window=2)
    made, _ = make_series(clients=1, length=40)
    with pytest.raises(ParameterError, match="level"):
        ct.SeriesMoments(window=4).fit(made["client-0"]).impute(made["client-0"], level=1.0)


SMALL = {"window": 12, "width": 8, "imputer_width": 8, "imputer_steps": 1, "steps": 1, "encoders": 1, "decoders": 1}


def test_a_stage_of_series_diffusion():
    """NetworkStage that learned nothing are not let in; the moments are."""
    values = daily(1500)
    model = ct.SeriesDiffusion(**SMALL).fit(Series.from_arrays(values[:1000]))
    moments = ct.SeriesMoments().fit(Series.from_arrays(values[:1000]))
    gates = dict(zip(model.filler.names, np.moveaxis(model.filler.gates, -1, 0), strict=True))
    assert (gates["moments"][:, :2] > 0).all()
    table = Series.from_arrays(values[1000:])
    mask = mask_rows(table.values.shape, 0.5, 0)
    (ours, line), (alone, _) = error(model, table, mask), error(moments, table, mask)
    assert ours < 1.05 * alone
    assert ours < 0.7 * line


def test_series_diffusion_is_its_moments_where_nothing_is_proven():
    """Too few rows are set apart to prove anything: what fills has learned from all rows, as moments alone."""
    values = daily(290)
    model = ct.SeriesDiffusion(**SMALL).fit(Series.from_arrays(values[:190]))
    moments = ct.SeriesMoments(window=48).fit(Series.from_arrays(values[:190]))
    holes = values[190:].copy()
    holes[20:44] = np.nan
    holes[::7, 0] = np.nan
    ours, alone = (part.impute(Series.from_arrays(holes)).values for part in (model, moments))
    assert np.allclose(ours, alone, atol=1e-6)
