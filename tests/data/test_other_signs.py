"""Series as labs write them: signs for missing values, columns to leave out, names that differ in case only."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import cotempo as ct
from cotempo.errors import DataError, ParameterError
from cotempo.runs.experiment import Experiment, load_clients

MESSY = "Zeit;operator;TP53;MYC\n0;Anna;1,5;n.d.\n1;Bo;2,5; N.D. \n2;Cy;-;3,5\n3;Di;4,5;1,25\n"


def test_signs_and_columns_can_be_named(tmp_path: Path) -> None:
    path = tmp_path / "lyon.csv"
    path.write_text(MESSY)
    with pytest.warns(UserWarning, match="separated by ';'"):
        table = ct.read_series(path, columns={"time": "Zeit"}, missing=["n.d.", "-"], without=["operator"])["lyon"]
    assert table.features == ("TP53", "MYC")
    nan = np.nan
    np.testing.assert_array_equal(table.values, [[1.5, nan], [2.5, nan], [nan, 3.5], [4.5, 1.25]])


@pytest.mark.filterwarnings("ignore:.*separated")
def test_an_experiment_names_them_as_well(tmp_path: Path) -> None:
    (tmp_path / "lyon.csv").write_text(MESSY)
    keys = 'source = "lyon.csv"\ncolumns = {time = "Zeit"}\nmissing = ["n.d.", "-"]\nwithout = ["operator"]\n'
    (tmp_path / "e.toml").write_text(f'method = "OneRound"\n[data]\n{keys}')
    clients, _ = load_clients(Experiment.from_file(tmp_path / "e.toml"))
    assert clients["lyon"].features == ("TP53", "MYC")


def test_errors_say_how() -> None:
    frame = pd.DataFrame({"time": [0, 1], "operator": ["Anna", "Bo"], "x": ["1.0", "n.d."]})
    with pytest.raises(DataError) as found:
        ct.read_series(frame)
    assert "got 'n.d.'; pass missing=['n.d.'] if that means missing, or without=['x']" in str(found.value)
    names = pd.DataFrame({"time": range(5), "who": list("abcde")})
    with pytest.raises(DataError, match=r"got 'a'; pass without=\['who'\]"):
        ct.read_series(names)
    with pytest.raises(DataError, match=r"no column is called 'operater', as without= says \(did you mean 'operator'"):
        ct.read_series(frame, missing=["n.d.", "Anna", "Bo"], without=["operater"])
    with pytest.raises(ParameterError, match=r"missing must be a list of texts or numbers, such as .*, got 'n.d.'"):
        ct.read_series(frame, missing="n.d.")


def test_names_that_differ_in_case_are_pointed_out() -> None:
    rows = np.arange(6.0).reshape(3, 2)
    tables = {
        "a": ct.Series.from_arrays(rows, features=("MYC", "p53")),
        "b": ct.Series.from_arrays(rows, features=("myc", "p53")),
    }
    found = ct.data.describe(tables)
    assert "'MYC' and 'myc' differ in case only: one column?" in found.warnings
    assert found.lines()[1] == "features: p53; at some clients only: MYC, myc"


def test_an_empty_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("time,x\n0,1\n1,2\n")
    (tmp_path / "b.csv").write_text("")
    with pytest.raises(DataError, match=r"'b.csv' is empty"):
        ct.read_series(tmp_path)
