"""Synthetic rows have the owner's autocovariances, everywhere in a window and beyond it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import cotempo as ct
from cotempo.data import Series
from cotempo.errors import ParameterError

DRAWN = 6000


def autoregression(rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A stationary Gaussian process of two features, and its covariances at lags 0 to 11."""
    weights, noise = np.array([[0.6, 0.5], [-0.5, 0.6]]), np.array([[1.0, 0.3], [0.3, 0.5]])
    lags = [np.linalg.solve(np.eye(4) - np.kron(weights, weights), noise.ravel()).reshape(2, 2)]
    for _ in range(11):
        lags.append(weights @ lags[-1])
    stream, root = np.random.default_rng(seed), np.linalg.cholesky(noise)
    found = [np.linalg.cholesky(lags[0]) @ stream.normal(size=2)]
    for _ in range(rows - 1):
        found.append(weights @ found[-1] + root @ stream.normal(size=2))
    return np.array(found), np.array(lags)


def windows_of(drawn: Series, count: int) -> np.ndarray:
    return drawn.values.reshape(count, -1, len(drawn.features))


def test_covariances_of_windows_are_those_of_a_known_process():
    values, lags = autoregression(20_000)
    drawn = windows_of(ct.SeriesMoments(window=12).fit(Series.from_arrays(values)).sample(DRAWN), DRAWN)
    scale = np.sqrt(lags[0].diagonal())
    for lag in range(12):
        for row in range(12 - lag):
            found = drawn[:, row + lag].T @ drawn[:, row] / DRAWN
            assert np.abs((found - lags[lag]) / np.outer(scale, scale)).max() < 0.08
    steps = np.diff(drawn, axis=1).std(axis=0)
    assert np.allclose(steps, np.sqrt(2 * (lags[0] - lags[1]).diagonal()), rtol=0.06)


def day_and_noise(rows: int) -> np.ndarray:
    stream, hours = np.random.default_rng(0), np.arange(rows)
    load = 10 + 4 * np.sin(hours * np.pi / 12) + stream.normal(size=rows)
    return np.column_stack([load, 40 + 2 * load + stream.normal(size=rows)])


def correlation(windows: np.ndarray, values: np.ndarray, lag: int) -> tuple[float, float]:
    """Return the correlation at a lag in windows and in the series, each about the mean of the series."""
    found = []
    for part in (windows[..., 0], values[None, :, 0]):
        away = part - values[:, 0].mean()
        found.append(float((away[:, lag:] * away[:, :-lag]).mean() / (away**2).mean()))
    return found[0], found[1]


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_windows_have_a_day_and_a_night_and_do_not_start_with_a_jump(missing: float):
    values = day_and_noise(500)
    holes = np.where(np.random.default_rng(1).random(values.shape) < missing, np.nan, values)
    clients = {name: Series.from_arrays(part) for name, part in (("a", holes), ("b", day_and_noise(300)))}
    alone = ct.SeriesMoments(window=24).fit(clients["a"])
    joined = ct.FedMoments(window=24).fit(clients, progress=False)
    # Of all clients' moments, pieces begin with a row that did not move: correlations are a little smaller.
    for model, near in ((alone, 0.08), (joined["a"], 0.08), (joined.model, 0.15)):
        drawn = windows_of(model.sample(400), 400)
        for lag in (1, 6, 12):
            ours, real = correlation(drawn, values, lag)
            assert ours == pytest.approx(real, abs=near)
        steps = np.diff(drawn, axis=1).std(axis=0)
        assert np.allclose(steps, np.diff(values, axis=0).std(axis=0), rtol=0.2)
    assert np.allclose(windows_of(alone.sample(400), 400).std(axis=(0, 1)), values.std(axis=0), rtol=0.1)


def test_longer_sequences_go_on_as_windows_do():
    values = day_and_noise(800)
    model = ct.SeriesMoments(window=24).fit(Series.from_arrays(values))
    drawn = windows_of(model.sample(100, rows=168), 100)
    assert drawn.shape == (100, 168, 2)
    for part in (drawn, drawn[:, 120:]):
        ours, real = correlation(part, values, 12)
        assert ours == pytest.approx(real, abs=0.1)
    assert np.allclose(drawn.std(axis=(0, 1)), values.std(axis=0), rtol=0.1)
    released = model.release(Series.from_arrays(values), 20, rows=72)
    assert released.windows is None or released.windows.rows == 72 * (20 - released.withheld)
    with pytest.raises(ParameterError, match="rows must be"):
        model.sample(3, rows=0)


def test_constant_columns_and_distributions_are_kept():
    values = day_and_noise(400)
    values[:, 1] = np.exp(values[:, 0] / 3)
    table = np.column_stack([values, np.full(400, 7.0)])
    drawn = ct.SeriesMoments(window=8).fit(Series.from_arrays(table)).sample(300).values
    assert (drawn[:, 2] == 7.0).all()
    assert drawn[:, 1].min() >= table[:, 1].min()
    ours, real = (np.quantile(part[:, 1], [0.1, 0.5, 0.9]) for part in (drawn, table))
    assert np.allclose(ours, real, rtol=0.15)


def plant(rows: int, seed: int) -> np.ndarray:
    """Temperature and load with a day, oil that follows them, a pump and its flow."""
    stream, hours = np.random.default_rng(seed), np.arange(rows) / 2
    slow, share = np.zeros(rows), np.exp(-0.5 / 12)
    for row in range(1, rows):
        slow[row] = share * slow[row - 1] + 2 * np.sqrt(1 - share**2) * stream.normal()
    air = 9 + 6 * np.sin((hours - 9) * np.pi / 12) + slow
    load = 50 + 10 * np.sin((hours - 7) * np.pi / 12) + stream.normal(size=rows)
    oil = 30 + 0.4 * load + 0.3 * air + 0.3 * stream.normal(size=rows)
    pump = (load > 53).astype(float)
    flow = np.abs(pump * (70 + 2 * stream.normal(size=rows)) + 0.02 * stream.normal(size=rows))
    return np.column_stack([air, load, oil, pump, flow])


def steps_of(windows: np.ndarray) -> np.ndarray:
    return np.sqrt(np.nanmean(np.diff(windows, axis=1) ** 2, axis=(0, 1)))


@pytest.mark.parametrize(("rows", "window", "missing"), [(144, None, 0.0), (144, 24, 0.0), (700, 24, 0.3)])
def test_windows_are_as_rough_as_the_table_also_with_few_rows_and_missing_cells(rows, window, missing):
    values = plant(rows, seed=3)[:, :3]
    holes = np.where(np.random.default_rng(4).random(values.shape) < missing, np.nan, values)
    drawn = windows_of(ct.SeriesMoments(window=window).fit(Series.from_arrays(holes)).sample(100), 100)
    assert np.allclose(steps_of(drawn), steps_of(values[None]), rtol=0.3)


def test_short_sequences_are_as_rough_in_windows():
    pieces = [plant(12, seed)[:, :3] + seed % 5 for seed in range(30)]
    drawn = windows_of(ct.SeriesMoments().fit(Series.from_arrays(pieces)).sample(100), 100)
    assert np.allclose(steps_of(drawn), steps_of(np.array(pieces)), rtol=0.35)


def test_a_flow_does_not_contradict_its_pump_and_nothing_lies_between_on_and_off():
    values = plant(800, seed=5)
    drawn = ct.SeriesMoments(window=24).fit(Series.from_arrays(values)).sample(100).values
    assert {*np.unique(drawn[:, 3])} == {0.0, 1.0}
    assert drawn[drawn[:, 3] == 0, 4].max() < 0.2
    assert drawn[drawn[:, 3] == 1, 4].min() > 50


def test_windows_unlike_the_table_are_warned_of(recwarn):
    model = ct.SeriesMoments(window=24).fit(Series.from_arrays(plant(400, seed=6)[:, :3]))
    model.sample(50)
    assert not [each for each in recwarn if "moves unlike" in str(each.message)]
    rough = replace(model, marginals=replace(model.marginals, lags=model.marginals.lags * np.eye(3)[None] * 0.2))
    with pytest.warns(UserWarning, match="'x0' of synthetic windows moves unlike the table's: .* instead of .*"):
        rough.sample(50)
