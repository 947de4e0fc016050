from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import cotempo as ct
from cotempo.errors import DataError, ParameterError
from cotempo.networks import Network
from cotempo.networks.data.loaders import DREAM4_PERTURBED_UNTIL, NETSIM_SUBJECTS
from cotempo.networks.fitted import edges_of

FOLDER = Path(os.environ.get("COTEMPO_DATA", Path(__file__).parents[4] / "shared" / "data")) / "networks"
DREAM4 = FOLDER / "dream4_insilico_size100.npz"
NETSIM = FOLDER / "netsim_sim1_sim2_sim3.npz"
needs_dream4 = pytest.mark.skipif(not DREAM4.is_file(), reason="the DREAM4 file is not here")
needs_netsim = pytest.mark.skipif(not NETSIM.is_file(), reason="the NetSim file is not here")


@pytest.fixture
def dream4(tmp_path: Path) -> Path:
    """Two networks of three genes, four series of five times."""
    rng = np.random.default_rng(0)
    path = tmp_path / "dream4.npz"
    gold = np.zeros((2, 3, 3), np.uint8)
    gold[0, 0, 1] = gold[1, 2, 0] = 1
    np.savez(path, ts=rng.normal(size=(2, 4, 5, 3)).astype(np.float32), gold=gold, time=np.arange(5) * 50)
    return path


def test_dream4_is_dealt_to_clients(dream4: Path) -> None:
    clients, truth = ct.read_dream4(dream4, network=2, clients=2)
    assert isinstance(truth, Network)
    assert list(clients) == ["client-0", "client-1"]
    assert [len(list(series.sequences())) for series in clients.values()] == [2, 2]
    assert clients["client-0"].time[:5].tolist() == [0, 50, 100, 150, 200]
    assert np.argwhere(edges_of(truth)).tolist() == [[2, 0]]
    assert truth.variables == ("G1", "G2", "G3") == clients["client-0"].features


def test_every_dream4_network_can_be_a_client(dream4: Path) -> None:
    clients, truth = ct.read_dream4(dream4)
    assert list(clients) == list(truth) == ["network-1", "network-2"]
    assert [series.rows for series in clients.values()] == [20, 20]


def test_netsim_is_cut_or_kept_whole(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    weights = np.zeros((10, 5, 5)) - np.eye(5)
    weights[:, 0, 3] = 0.4
    path = tmp_path / "netsim.npz"
    series = rng.normal(size=(10, 200, 5)).astype(np.float32)
    np.savez(path, sim1_ts=series, sim1_net=weights)
    clients, truth = ct.read_netsim(path, nodes=5, subject=3)
    assert [table.rows for table in clients.values()] == [40] * 5
    np.testing.assert_array_equal(np.vstack([table.values for table in clients.values()]), series[2])
    assert np.argwhere(edges_of(truth)).tolist() == [[0, 3]]
    whole, truths = ct.read_netsim(path, nodes=5)
    assert list(whole) == list(truths) == [f"subject-{one:02}" for one in NETSIM_SUBJECTS["PFDBNL"][5]]
    assert list(ct.read_netsim(path, nodes=5, subjects=(1, 7))[0]) == ["subject-01", "subject-07"]


def test_bad_files_and_choices_are_refused(dream4: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"must be an \.npz file"):
        ct.read_dream4(tmp_path / "nowhere.npz")
    with pytest.raises(DataError, match="sim1_ts"):
        ct.read_netsim(dream4)
    with pytest.raises(ParameterError, match="network must lie between 1 and 2, got 3"):
        ct.read_dream4(dream4, network=3)
    with pytest.raises(ParameterError, match="nodes must be one of"):
        ct.read_netsim(dream4, nodes=7)


@needs_dream4
def test_the_frozen_design_ranks_dream4() -> None:
    areas = []
    for network in range(1, 6):
        clients, truth = ct.read_dream4(DREAM4, network)
        assert isinstance(truth, Network)
        assert len(clients) == 5
        ranking = ct.rank_edges(clients, score="parent_sets", perturbed_until=DREAM4_PERTURBED_UNTIL)
        areas.append(list(ranking.compare(truth).values()))
    auroc, aupr = np.mean(areas, axis=0)
    assert auroc >= 0.78
    assert aupr >= 0.28


@needs_netsim
@pytest.mark.parametrize(("nodes", "least"), [(5, 0.86), (10, 0.89), (15, 0.90)])
def test_partial_correlation_and_skewness_rank_netsim(nodes: int, least: float) -> None:
    areas = []
    for subject in NETSIM_SUBJECTS["FDBNL"][nodes]:
        clients, truth = ct.read_netsim(NETSIM, nodes, subject)
        assert isinstance(truth, Network)
        areas.append(ct.rank_edges(clients, score="within_skewness").compare(truth)["auroc"])
    assert np.mean(areas) >= least
