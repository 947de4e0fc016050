"""Forecasts of networks: in the data's units, for every sequence, from tables with gaps, and with bounds that hold."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import cotempo as ct
from cotempo.errors import DataError, DataWarning, ParameterError
from cotempo.networks.forecast import StateSpace
from cotempo.networks.network import Network, simulate_svar

WITHIN = np.array([[0.0, 0.7, 0.0], [0.0, 0.0, -0.6], [0.0, 0.0, 0.0]])
ACROSS = np.array([[[0.5, 0.0, 0.3], [0.0, 0.6, 0.0], [0.2, 0.0, 0.4]], [[0.2, 0.0, 0.0], [0.0, 0.0, 0.0], [0, 0, 0]]])
NETWORK = Network(WITHIN, ACROSS, ("a", "b", "c"), np.array([5.0, -3.0, 100.0]), np.array([1.0, 0.5, 2.0]))
LATENT = Network([[0.0, 0.9], [0.0, 0.0]], [[[0.8, 0.0], [0.0, 0.0]]], ("cause", "effect"), None, np.array([1.0, 0.1]))


def simulate(network: Network, rows: int, seed: int) -> np.ndarray:
    shocks = np.random.default_rng(seed).normal(size=(rows, len(network.variables))) * np.sqrt(network.noise)
    return simulate_svar(network.within, network.across, shocks)[50:] + network.mean


@pytest.mark.parametrize(
    "method",
    [
        ct.FDBNL(compare=False, lambda_within=0.1, lambda_across=0.1),
        ct.PFDBNL(compare=False, lambda_within=0.1, lambda_across=0.1, coupling=0.1),
        ct.OneRound(compare=False),
        ct.OneRound(compare=False, personal=True, restarts=0),
    ],
)
def test_forecasts_are_in_the_units_of_the_table(method: Any) -> None:
    """PFDBNL's networks had a mean of zeros, and forecast -14 where values are around 100."""
    clients, _ = ct.make_networks(variables=3, clients=2, samples=200, seed=1)
    moved = {name: ct.Series.from_arrays(table.values + 50.0) for name, table in clients.items()}
    fitted = method.fit(moved)
    for network in (fitted.network, *(fitted[name].network for name in moved)):
        found = network.forecast(moved["client-0"], steps=30).values
        np.testing.assert_allclose(found[-1], 50.0, atol=1.5)


@pytest.mark.parametrize("method", [ct.PFDBNL(compare=False, lambda_within=0.1, lambda_across=0.1, coupling=0.1),
                                    ct.OneRound(compare=False, personal=True, restarts=0)])  # fmt: skip
def test_a_client_with_another_level_forecasts_around_its_own(method: Any) -> None:
    clients, _ = ct.make_networks(variables=3, clients=2, samples=300, seed=2)
    levels = {"client-0": 10.0, "client-1": 90.0}
    fitted = method.fit({name: ct.Series.from_arrays(clients[name].values + levels[name]) for name in levels})
    for name, level in levels.items():
        np.testing.assert_allclose(fitted[name].network.mean, level, atol=1.0)


@pytest.mark.parametrize("method", [ct.FDBNL, ct.PFDBNL, ct.OneRound])
def test_bounds_hold_what_comes_for_every_method(method: type[ct.Method]) -> None:
    clients, _ = ct.make_networks(variables=4, clients=3, samples=1800, noise="unequal", seed=4)
    seen = {name: table.select(np.arange(table.rows) < 250) for name, table in clients.items()}
    given = {} if method is ct.OneRound else {"lambda_within": 0.03, "lambda_across": 0.03}
    fitted = method(compare=False, **given, **({"coupling": 0.1} if method is ct.PFDBNL else {})).fit(seen)
    inside = []
    for name, table in clients.items():
        later = table.values[250:]
        network = fitted[name].network
        for row in range(len(later) - 1):
            found = network.forecast(later[row : row + 1], steps=1)
            inside.append((found.low[0] < later[row + 1]) & (later[row + 1] < found.high[0]))
    assert np.mean(inside) == pytest.approx(0.9, abs=0.03)


def test_every_sequence_is_continued_under_its_name() -> None:
    """Only the last by name was: of exp8, exp9 and exp10 that is exp9."""
    parts = {name: simulate(NETWORK, 80, seed) for seed, name in enumerate(("exp8", "exp9", "exp10"))}
    frames = [
        pd.DataFrame(rows, columns=["a", "b", "c"]).assign(sequence=name, time=np.arange(len(rows)) * 2.0 + start)
        for start, (name, rows) in zip((0.0, 500.0, 9.0), parts.items(), strict=True)
    ]
    found = NETWORK.forecast(pd.concat(frames).sample(frac=1.0, random_state=0), steps=2)
    assert repr(found) == "NetworkForecast(3 sequences, 2 steps, 3 variables)"
    for name, rows in parts.items():
        mine = found.sequence == name
        np.testing.assert_allclose(found.values[mine], NETWORK.forecast(rows, steps=2).values)
    out = found.to_frame()
    assert list(out.columns) == ["sequence", "time", "variable", "value", "low", "high"]
    assert out.groupby("sequence")["time"].min().to_dict() == {"exp8": 60.0, "exp9": 560.0, "exp10": 69.0}


def test_missing_cells_are_expected_given_all_that_was_seen() -> None:
    """An independent computation: the Gaussian of twelve rows and the next one, conditioned on the cells seen."""
    rows = simulate(NETWORK, 62, 3)
    hidden = np.random.default_rng(0).uniform(size=rows.shape) < 0.4
    given = np.where(hidden, np.nan, rows)
    found = NETWORK.forecast(given, steps=2)
    # x_t for all t as a linear map of the shocks; the long run is approximated by 300 rows before the first.
    long, count = 300 + len(rows) + 2, 3
    impulses = np.zeros((long, count, count))
    for source in range(count):
        shock = np.zeros((long, count))
        shock[0, source] = np.sqrt(NETWORK.noise[source])
        impulses[:, source] = simulate_svar(WITHIN, ACROSS, shock)
    last = range(300, long)
    covariance = np.block(
        [[sum(impulses[s - r].T @ impulses[t - r] for r in range(min(s, t) + 1)) for t in last] for s in last]
    )
    flat = np.concatenate([(given - NETWORK.mean).ravel(), np.full(2 * count, np.nan)])
    known = ~np.isnan(flat)
    gain = covariance[:, known] @ np.linalg.inv(covariance[np.ix_(known, known)])
    expected = (gain @ flat[known])[-6:].reshape(2, 3) + NETWORK.mean
    left = (covariance - gain @ covariance[known]).diagonal()[-6:].reshape(2, 3)
    np.testing.assert_allclose(found.values, expected, atol=1e-5)
    np.testing.assert_allclose(found.high - found.values, 1.6448536 * np.sqrt(left), rtol=1e-5)


@pytest.mark.slow
def test_a_table_that_lacks_a_variable_is_continued() -> None:
    """The effect tells of its cause, which no column holds."""
    rows = simulate(LATENT, 1050, 0)
    table = ct.Series.from_arrays(rows[:, 1:], features=["effect"])
    errors, plain, inside = [], [], []
    for end in range(500, 999):
        found = LATENT.forecast(table.select(np.arange(table.rows) < end), steps=1)
        errors.append(found.values[0, 1] - rows[end, 1])
        plain.append(rows[end, 1])
        inside.append(found.low[0, 1] < rows[end, 1] < found.high[0, 1])
    assert np.square(errors).mean() < 0.6 * np.square(plain).mean()
    assert np.mean(inside) == pytest.approx(0.9, abs=0.04)


@pytest.mark.filterwarnings("ignore")
def test_labs_that_lack_genes_forecast_what_the_others_measure() -> None:
    clients, _ = ct.make_networks(variables=5, clients=3, samples=900, seed=3)
    tables = {
        "client-0": clients["client-0"],
        "client-1": clients["client-1"].select(features=["x0", "x1", "x2", "x3"]),
        "client-2": clients["client-2"].select(features=["x4", "x0", "x2", "x3"]),
    }
    network = ct.OneRound(compare=False).fit(tables).network
    for table in tables.values():
        found = network.forecast(table, steps=3)
        assert found.values.shape == (3, 5)
        assert np.isfinite(found.values).all()
    lacking, whole = network.forecast(tables["client-1"], 1), network.forecast(clients["client-1"], 1)
    assert (lacking.high - lacking.low >= whole.high - whole.low - 1e-9).all()


def test_a_short_history_begins_in_the_long_run() -> None:
    """Rows after a gap may be fewer than the lags; without any knowledge the forecast is the mean."""
    gap = ct.Series.from_arrays([[6.0, -3.0, 99.0]] * 5, time=[0, 1, 2, 3, 40], features=("a", "b", "c"))
    assert NETWORK.forecast(gap, steps=1).time.tolist() == [41.0]
    nothing = NETWORK.forecast(np.full((4, 3), np.nan), steps=400)
    np.testing.assert_allclose(nothing.values, np.tile(NETWORK.mean, (400, 1)))
    spread = (nothing.high - nothing.low)[[0, -1]] / (2 * 1.6448536)
    many = simulate(NETWORK, 100_000, 1).std(axis=0)
    np.testing.assert_allclose(spread, np.tile(many, (2, 1)), rtol=0.05)


def test_an_unstable_network_fills_in_as_well() -> None:
    explosive = Network([[0.0, 0.0], [0.0, 0.0]], [[[1.2, 0.5], [0.0, 0.3]]], noise=np.ones(2))
    found = explosive.forecast([[1.0, np.nan], [np.nan, 2.0]], steps=2)
    assert np.isfinite(found.values).all()
    assert np.abs(StateSpace.of(explosive)._long_run() - np.eye(2)).max() < 0.3


def test_without_noise_what_is_missing_is_refused() -> None:
    plain = replace(NETWORK, noise=None)
    with pytest.raises(
        DataError, match=r"last 2 rows .* no missing cell, those of '0' have; only a network that knows"
    ):
        plain.forecast(np.full((2, 3), np.nan), steps=1)
    with pytest.raises(DataError, match=r"it lacks b; only a network that knows its noise"):
        plain.forecast(pd.DataFrame({"time": [0.0, 1.0], "a": [1.0, 2.0], "c": [1.0, 2.0]}), steps=1)
    with pytest.raises(DataError, match=r"it lacks a, b, c$"):
        NETWORK.forecast(pd.DataFrame({"time": [0.0, 1.0], "z": [1.0, 2.0]}), steps=1)
    with pytest.raises(ParameterError, match="steps must be a whole number of at least 1, got 0"):
        NETWORK.forecast(np.zeros((2, 3)), steps=0)


def test_means_and_noise_have_one_number_per_variable() -> None:
    with pytest.raises(DataError, match=r"noise must have one number per variable, \(3,\), got \(2,\)"):
        replace(NETWORK, noise=np.ones(2))


def test_raw_counts_for_a_network_of_logarithms_are_warned_of() -> None:
    clients, _ = ct.make_networks(variables=4, clients=3, samples=600, seed=0)
    logs = {name: replace(table, values=table.values + 8) for name, table in clients.items()}
    network = ct.OneRound().fit(logs, progress=False).network
    assert network.scale is not None
    own = logs["client-1"].select(np.arange(150))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        network.forecast(own, 2)
        network.forecast(own.select(np.arange(12)), 2)
    counts = replace(own, values=np.exp2(own.values))
    for levels in ("common", "own"):
        with pytest.warns(DataWarning, match="another unit or sensor"):
            replace(network, levels=levels).forecast(counts, 2)
