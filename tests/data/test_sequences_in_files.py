"""A client whose sequences are files: a folder, a pattern or a list of its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import cotempo as ct
from cotempo.data.read.reader import detect_kind
from cotempo.errors import DataError


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    """Two labs; one has two replicates with another gene each, the other a single one."""
    tables = {
        "kobe/wild_1.csv": "time,SWI4,ACE2\n0,1,2\n1,3,4\n",
        "kobe/wild_2.csv": "time,SWI4,CLN3\n0,5,n.d.\n1,6,8\n2,7,9\n",
        "lund/only.csv": "time,SWI4\n0,1\n1,2\n",
    }
    for name, text in tables.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "lund" / "notes.txt").write_text("nothing to read")
    return tmp_path


def test_a_folder_of_folders_is_a_client_a_folder_and_a_sequence_a_file(raw: Path) -> None:
    labs = ct.read_series(raw, missing=["n.d."])
    assert list(labs) == ["kobe", "lund"]
    kobe = labs["kobe"]
    assert kobe.features == ("SWI4", "ACE2", "CLN3")
    assert kobe.sequence_names() == ["wild_1", "wild_2"]
    expected = [[1, 2, np.nan], [3, 4, np.nan], [5, np.nan, np.nan], [6, np.nan, 8], [7, np.nan, 9]]
    np.testing.assert_array_equal(kobe.values, expected)
    assert detect_kind(raw) == "series"


@pytest.mark.parametrize("way", ["folders", "patterns", "lists"])
def test_a_mapping_may_name_a_folder_a_pattern_or_a_list_of_each_client(raw: Path, way: str) -> None:
    given = {
        "folders": {lab: raw / lab for lab in ("kobe", "lund")},
        "patterns": {lab: str(raw / lab / "*.csv") for lab in ("kobe", "lund")},
        "lists": {lab: sorted((raw / lab).glob("*.csv")) for lab in ("kobe", "lund")},
    }[way]
    labs, expected = ct.read_series(given, missing=["n.d."]), ct.read_series(raw, missing=["n.d."])
    assert labs["kobe"].fingerprint() == expected["kobe"].fingerprint()
    pd.testing.assert_frame_equal(
        labs["lund"].to_frame()[["time", "SWI4"]], expected["lund"].to_frame()[["time", "SWI4"]]
    )


def test_sequences_that_files_name_themselves_stay_apart(raw: Path) -> None:
    for name in ("wild_1", "wild_2"):
        (raw / "kobe" / f"{name}.csv").write_text("sequence,time,SWI4\na,0,1\na,1,2\nb,0,3\nb,1,4\n")
    kobe = ct.read_series(raw)["kobe"]
    assert kobe.sequence_names() == ["wild_1/a", "wild_1/b", "wild_2/a", "wild_2/b"]


def test_a_fault_names_its_file_and_its_row_there(raw: Path) -> None:
    with pytest.raises(DataError, match=r"client kobe, column CLN3, row 2: .*'n\.d\.'.*\(in wild_2\.csv\)"):
        ct.read_series(raw)


def test_events_of_several_files_are_sequences_too(tmp_path: Path) -> None:
    for day, times in (("monday", "1\n2\n"), ("tuesday", "3\n")):
        path = tmp_path / "ward" / f"{day}.csv"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"time\n{times}")
    windows = pd.DataFrame({"start": [0.0], "end": [10.0]})
    ward = ct.read_events({"ward": tmp_path / "ward"}, windows=windows)["ward"]
    assert {name: tuple(times) for name, times, *_ in ward.sequences()} == {"monday": (1.0, 2.0), "tuesday": (3.0,)}


def test_what_cannot_be_read_says_what_can(raw: Path) -> None:
    paths = [raw / "one.csv", raw / "two.csv"]
    for path in paths:
        path.write_text("client,time,x\na,0,1\na,1,2\n")
    with pytest.raises(DataError, match=r"files that are sequences of one client belong in a folder of its own"):
        ct.read_series(paths)
    with pytest.raises(DataError, match=r"is a folder; pass \{client: folder\}"):
        ct.read_series([raw / "kobe"])
    (raw / "empty").mkdir()
    with pytest.raises(DataError, match=r"a folder must hold files"):
        ct.read_series({"kobe": raw / "kobe", "empty": raw / "empty"}, missing=["n.d."])


def test_a_folder_beside_files_is_a_client_too(raw: Path) -> None:
    (raw / "oslo.csv").write_text("time,SWI4\n0,1\n1,2\n")
    labs = ct.read_series(raw, missing=["n.d."])
    assert list(labs) == ["kobe", "lund", "oslo"]
    assert labs["kobe"].sequence_names() == ["wild_1", "wild_2"]


def test_a_client_with_a_file_and_a_folder_is_refused(raw: Path) -> None:
    (raw / "kobe.csv").write_text("time,SWI4\n0,1\n1,2\n")
    with pytest.raises(
        DataError, match=r"client kobe: .*one file or one folder, got 'kobe\.csv' and the folder 'kobe'"
    ):
        ct.read_series(raw, missing=["n.d."])


@pytest.mark.parametrize("deep", ["bergen/raw/wild_1.csv", "bergen/wild_1.xlsx"])
def test_a_folder_that_is_left_out_is_named(raw: Path, deep: str) -> None:
    (raw / deep).parent.mkdir(parents=True)
    (raw / deep).write_text("time,SWI4\n0,1\n")
    (raw / "plots").mkdir()
    with pytest.warns(UserWarning, match=r"^bergen: left out, tables of one client must lie in its folder"):
        assert list(ct.read_series(raw, missing=["n.d."])) == ["kobe", "lund"]
