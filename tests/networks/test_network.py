from __future__ import annotations

import numpy as np
import pytest

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
    assert network.edges() == expected
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
    rows = np.vstack([history, network.forecast(history, steps=4)])
    for time in range(5, 9):
        lagged = sum(rows[time - lag] @ network.across[lag - 1] for lag in (1, 2))
        np.testing.assert_allclose(rows[time], rows[time] @ network.within + lagged)


def test_forecast_checks_its_history(network: Network) -> None:
    with pytest.raises(DataError, match="at least 2 rows and 3 columns"):
        network.forecast(np.zeros((1, 3)), steps=1)
    with pytest.raises(DataError, match="missing cell"):
        network.forecast(np.full((2, 3), np.nan), steps=1)
    with pytest.raises(ParameterError, match="at least 0"):
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
