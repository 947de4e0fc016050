"""Synthetic rows have the owner's autocovariances, everywhere in a window and beyond it."""

from __future__ import annotations

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
