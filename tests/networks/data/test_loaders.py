from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

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


def write_tsv(folder: Path, number: int, series: np.ndarray, gold: np.ndarray, name: str) -> None:
    """Write a network as DREAM4 does: a block of lines per series, and every pair of genes with 0 or 1."""
    genes = [f"G{i + 1}" for i in range(series.shape[2])]
    blocks = ["\n".join("\t".join(f"{x:.7f}" for x in (50 * i, *row)) for i, row in enumerate(one)) for one in series]
    head = "\t".join(f'"{word}"' for word in ("Time", *genes))
    (folder / f"insilico_size3_{number}_timeseries.tsv").write_text(head + "\n\n" + "\n\n".join(blocks) + "\n")
    pairs = [(a, b) for a in range(len(genes)) for b in range(len(genes)) if a != b]
    (folder / name).write_text("".join(f"{genes[a]}\t{genes[b]}\t{int(gold[a, b])}\n" for a, b in pairs))


def test_dream4_from_tables_of_tabs_is_what_the_arrays_say(dream4: Path, tmp_path: Path) -> None:
    with np.load(dream4) as arrays:
        for number, (ts, gold) in enumerate(zip(arrays["ts"], arrays["gold"], strict=True), start=1):
            folder = tmp_path / "tsv" / f"insilico_size3_{number}"
            folder.mkdir(parents=True)
            names = {1: "insilico_size3_1_goldstandard.tsv", 2: "DREAM4_GoldStandard_InSilico_Size3_2.tsv"}
            write_tsv(folder, number, ts, gold, names[number])
    for options in ({}, {"network": 2, "clients": 2}):
        (tables, truth), (expected, true) = (ct.read_dream4(path, **options) for path in (tmp_path / "tsv", dream4))
        assert list(tables) == list(expected)
        for name, table in tables.items():
            np.testing.assert_allclose(table.values, expected[name].values, atol=1e-6)
            np.testing.assert_array_equal(table.time, expected[name].time)
        pairs = [(truth, true)] if isinstance(truth, Network) else [(truth[name], true[name]) for name in truth]
        assert all(np.array_equal(edges_of(one), edges_of(other)) for one, other in pairs)


def test_a_bad_folder_of_dream4_says_what_must_hold(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="got series of none"):
        ct.read_dream4(tmp_path)
    write_tsv(tmp_path, 1, np.zeros((2, 3, 3)), np.zeros((3, 3)), "insilico_size3_1_goldstandard.tsv")
    (tmp_path / "insilico_size3_1_goldstandard.tsv").write_text("G1\tG9\t1\n")
    with pytest.raises(DataError, match="line 1: must be two genes and 0 or 1"):
        ct.read_dream4(tmp_path)
    (tmp_path / "insilico_size3_1_timeseries.tsv").write_text('"Time"\t"G1"\n0\t1\n50\t1\n0\t1\n')
    with pytest.raises(DataError, match="series with the same times"):
        ct.read_dream4(tmp_path)


def test_netsim_from_a_matlab_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    ts, net = rng.normal(size=(4 * 10, 5)), rng.normal(size=(4, 5, 5))
    savemat(tmp_path / "sim1.mat", {"ts": ts, "net": net, "Nsubjects": 4, "Nnodes": 5, "Ntimepoints": 10})
    for path in (tmp_path, tmp_path / "sim1.mat"):
        clients, truth = ct.read_netsim(path, nodes=5, subject=2, clients=2)
        assert isinstance(truth, Network)
        np.testing.assert_array_equal(clients["client-0"].values, ts[10:15])
        assert truth.within[0, 1] == net[1, 0, 1]
        assert truth.within[2, 2] == 0


def test_a_bad_matlab_file_says_what_must_hold(tmp_path: Path) -> None:
    savemat(tmp_path / "sim1.mat", {"ts": np.zeros((10, 5))})
    with pytest.raises(DataError, match="'net' is not there"):
        ct.read_netsim(tmp_path / "sim1.mat")
    savemat(tmp_path / "sim1.mat", {"ts": np.zeros((10, 4)), "net": np.zeros((1, 4, 4))})
    with pytest.raises(DataError, match="must hold 5 nodes"):
        ct.read_netsim(tmp_path / "sim1.mat")
    (tmp_path / "sim1.mat").write_text("no matrix")
    with pytest.raises(DataError, match=r"must be a \.mat file"):
        ct.read_netsim(tmp_path / "sim1.mat")
