from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import cotempo as ct
from cotempo.errors import DataError, ParameterError
from cotempo.networks.network import Network, simulate_svar, spectral_radius, variable_names


@pytest.fixture
def network() -> Network:
    within = np.array([[0.0, 0.5, 0.0], [0.0, 0.0, -0.4], [0.0, 0.0, 0.0]])
    across = np.zeros((2, 3, 3))
    across[0, 0, 0], across[1, 2, 0] = 0.5, 0.3
    return Network(within, across, ("a", "b", "c"))


def test_arrays_are_read_only_copies() -> None:
    within = np.zeros((2, 2))
    network = Network(within, np.zeros((1, 2, 2)))
    within[0, 1] = 1.0
    assert network.within[0, 1] == 0.0
    with pytest.raises(ValueError, match="read-only"):
        network.within[0, 1] = 1.0
    assert network.variables == ("x0", "x1")
    assert variable_names(101)[100] == "x100"


@pytest.mark.parametrize(
    ("within", "across", "variables"),
    [
        (np.zeros((2, 3)), np.zeros((1, 2, 2)), ()),
        (np.zeros((2, 2)), np.zeros((2, 2)), ()),
        (np.zeros((2, 2)), np.zeros((1, 3, 3)), ()),
        (np.zeros((2, 2)), np.zeros((1, 2, 2)), ("a",)),
        (np.zeros((2, 2)), np.zeros((1, 2, 2)), ("a", "a")),
    ],
)
def test_wrong_shapes_and_names_are_refused(within: np.ndarray, across: np.ndarray, variables: tuple[str, ...]) -> None:
    with pytest.raises(DataError, match="must be"):
        Network(within, across, variables)


def test_edges_as_frames(network: Network) -> None:
    expected = [("a", "b", 0, 0.5), ("b", "c", 0, -0.4), ("a", "a", 1, 0.5), ("c", "a", 2, 0.3)]
    assert network.edge_list() == expected
    assert list(network.to_frame().itertuples(index=False, name=None)) == expected
    assert network.to_frame("polars").rows() == expected
    assert network.to_frame("pyarrow").num_rows == 4
    with pytest.raises(ParameterError, match="pandas"):
        network.to_frame("panda")  # type: ignore[arg-type]


def test_a_network_without_edges_has_an_empty_frame() -> None:
    frame = Network(np.zeros((2, 2)), np.zeros((0, 2, 2))).to_frame()
    assert list(frame.columns) == ["source", "target", "lag", "weight"]
    assert len(frame) == 0


def test_forecast_satisfies_the_model(network: Network) -> None:
    history = np.random.default_rng(0).normal(size=(5, 3))
    rows = np.vstack([history, network.forecast(history, steps=4).values])
    for time in range(5, 9):
        lagged = sum(rows[time - lag] @ network.across[lag - 1] for lag in (1, 2))
        np.testing.assert_allclose(rows[time], rows[time] @ network.within + lagged)


def test_forecast_checks_its_history(network: Network) -> None:
    with pytest.raises(DataError, match="at least 2 rows and 3 columns"):
        network.forecast(np.zeros((1, 3)), steps=1)
    with pytest.raises(DataError, match="missing cell"):
        network.forecast(np.full((2, 3), np.nan), steps=1)
    with pytest.raises(ParameterError, match="at least 1"):
        network.forecast(np.zeros((2, 3)), steps=-1)


def test_unstable_and_cyclic_networks_say_so() -> None:
    explosive = Network([[0.0]], [[[1.1]]])
    assert not explosive.is_stable
    assert not Network([[0.0, 1.0], [0.5, 0.0]], np.zeros((0, 2, 2))).is_acyclic


def test_spectral_radius_predicts_the_long_run(network: Network) -> None:
    start = np.random.default_rng(2).normal(size=(2, 3))
    path = np.linalg.norm(simulate_svar(network.within, network.across, np.zeros((60, 3)), start), axis=1)
    rate = (path[59] / path[29]) ** (1 / 30)
    assert rate == pytest.approx(spectral_radius(network.within, network.across), rel=0.01)


def test_forecast_takes_tables_and_gives_dates_and_bounds() -> None:
    network = Network([[0.0]], [[[0.5]]], ("level",), mean=np.array([10.0]), noise=np.array([4.0]))
    time = pd.date_range("2025-03-05 07:00", periods=3, freq="2h", tz="Europe/Berlin")
    frame = pd.DataFrame({"time": time, "level": [9.0, 11.0, 14.0]})
    found = network.forecast(frame, steps=2)
    np.testing.assert_allclose(found.values[:, 0], [12.0, 11.0])
    spread = norm.ppf(0.95) * np.sqrt([4.0, 4.0 * 1.25])
    np.testing.assert_allclose(found.high[:, 0] - found.values[:, 0], spread)
    np.testing.assert_allclose(found.values[:, 0] - found.low[:, 0], spread)
    out = found.to_frame()
    assert list(out.columns) == ["sequence", "time", "variable", "value", "low", "high"]
    assert str(out["time"][0]) == "2025-03-05 13:00:00+01:00"
    (table,) = ct.read_series(frame).values()
    np.testing.assert_array_equal(network.forecast(table, steps=2).values, found.values)
    with pytest.raises(DataError, match="it lacks level"):
        network.forecast(frame.rename(columns={"level": "depth"}), steps=2)
    with pytest.raises(ParameterError, match="level must lie between 0 and 1, got 90"):
        network.forecast(frame, steps=2, level=90)


def test_bounds_hold_what_comes() -> None:
    rng = np.random.default_rng(0)
    within, across = np.array([[0.0, 0.6], [0.0, 0.0]]), np.array([[[0.5, 0.0], [0.3, 0.4]]])
    network = Network(within, across, noise=np.array([1.0, 0.25]))
    found = network.forecast([[1.0, -1.0]], steps=3, level=0.8)
    shocks = rng.normal(size=(4000, 3, 2)) * [1.0, 0.5]
    paths = np.array([simulate_svar(within, across, one, np.array([[1.0, -1.0]])) for one in shocks])
    inside = ((paths > found.low) & (paths < found.high)).mean(axis=0)
    np.testing.assert_allclose(inside, 0.8, atol=0.03)


def test_networks_say_little_of_themselves(network: Network) -> None:
    assert repr(network) == "Network(3 variables, 2 lags, 4 edges)"
    assert "<td>a</td>" in network._repr_html_()
    assert repr(network.forecast(np.zeros((2, 3)), 1)) == "NetworkForecast(1 step, 3 variables)"
