"""Numbers as plants write them: -999 for missing, decimal commas with three decimals, columns of one site only."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import cotempo as ct
from cotempo.errors import DataError, DataWarning, ParameterError
from cotempo.runs.experiment import Experiment, load_clients, load_public

TWO_DECIMALS = "time;T;p\n0;54,80;1,5\n1;-999,00;2,5\n2;60,00;-999\n"
THREE_DECIMALS = "time;T;p\n0;54,804;4,584\n1;-999,000;4,600\n2;60,000;-999,000\n"
NAN = np.nan


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


@pytest.mark.parametrize("sign", ["-999", "-999,00", "-999.00", -999, -999.0])
@pytest.mark.filterwarnings("ignore:.*separated")
def test_a_number_that_means_missing_is_found_however_it_is_written(sign: str | float, tmp_path: Path) -> None:
    wanted = [[54.8, 1.5], [NAN, 2.5], [60.0, NAN]]
    file = write(tmp_path / "berlin.csv", TWO_DECIMALS)
    points = write(tmp_path / "points.csv", "time,T,p\n0,54.8,1.5\n1,-999.0,2.5\n2,60,-999\n")
    frame = pd.DataFrame({"time": [0, 1, 2], "T": [54.8, -999.0, 60.0], "p": [1.5, 2.5, -999.0]})
    for source in (file, points, frame):
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message=".*no cell holds")
            (table,) = ct.read_series(source, missing=[sign]).values()
        np.testing.assert_array_equal(table.values, wanted)


def test_a_sign_that_no_cell_holds_is_warned_of() -> None:
    frame = pd.DataFrame({"time": [0, 1], "x": [1.0, -99.0]})
    with pytest.warns(DataWarning, match=r"^'-999', 'n\.d\.': no cell holds this sign, which missing= names"):
        ct.read_series(frame, missing=["-999", "-99", "n.d."])
    with pytest.raises(ParameterError, match=r"missing must be a list of texts or numbers"):
        ct.read_series(frame, missing=[None])  # type: ignore[list-item]


def test_check_points_out_a_value_far_off_that_repeats() -> None:
    values = np.random.default_rng(0).normal(50, 5, 60)
    values[::12] = -999
    (warning,) = ct.Series.from_arrays(values[:, None]).describe().warnings
    assert warning == "column 'x0' is -999 in 5 rows, far from all others: pass missing=[-999] if that means missing"
    flags = np.tile([0.0, 1.0], 30)
    assert ct.Series.from_arrays(flags[:, None]).describe().warnings == ()


def test_three_decimals_everywhere_are_decimal_commas_in_a_file_with_semicolons(tmp_path: Path) -> None:
    path = write(tmp_path / "berlin.csv", THREE_DECIMALS)
    with pytest.warns(DataWarning, match=r"decimals by ',' \(54,804 is read as 54\.804; pass decimal='\.' if commas"):
        table = ct.read_series(path, missing=[-999])["berlin"]
    np.testing.assert_array_equal(table.values, [[54.804, 4.584], [NAN, 4.6], [60.0, NAN]])
    with pytest.warns(DataWarning, match=r"separated by ';'$"):
        thousands = ct.read_series(path, missing=[-999000], decimal=".")["berlin"]
    np.testing.assert_array_equal(thousands.values, [[54804, 4584], [NAN, 4600], [60000, NAN]])


@pytest.mark.filterwarnings("ignore:.*separated")
def test_a_column_that_is_sure_decides_for_the_others(tmp_path: Path) -> None:
    path = write(tmp_path / "berlin.csv", "time;T;p\n0;54,804;4,5\n1;1.054,804;4,6\n2;1;1\n")
    assert ct.read_series(path)["berlin"].values.tolist() == [[54.804, 4.5], [1054.804, 4.6], [1, 1]]
    with pytest.raises(DataError, match="column names must differ"):
        ct.read_series(write(path, "time;T;T\n0;54,8;4,5\n1;1,5;4,6\n"))


@pytest.mark.parametrize(
    "text",
    ["time;T;p\n0;54,804;4.5\n1;54,900;4.6\n", "time\tT\n0\t54,804\n1\t54,900\n", 'time,T\n0,"54,804"\n1,"5,9"\n'],
)
@pytest.mark.filterwarnings("ignore:.*separated")
def test_what_could_be_thousands_is_asked_for(text: str, tmp_path: Path) -> None:
    path = write(tmp_path / "berlin.csv", text)
    with pytest.raises(DataError, match=r"got '54,804'; pass decimal=',' if these are decimal commas"):
        ct.read_series(path)
    assert ct.read_series(path, decimal=",")["berlin"].values[0, 0] == 54.804
    frame = pd.DataFrame({"time": [0, 1], "T": ["54,804", "1.054,9"]})
    assert ct.read_series(frame, decimal=",")["client"].values.ravel().tolist() == [54.804, 1054.9]
    with pytest.raises(ParameterError, match="decimal must be one of"):
        ct.read_series(path, decimal=";")


COLUMNS = {"berlin": {"time": "Zeit", "T": "Temperatur"}, "houston": {"time": "Stamp"}}


def test_a_column_to_leave_out_need_only_be_at_one_site() -> None:
    berlin = pd.DataFrame({"Zeit": [0, 1], "Temperatur": [1.0, 2.0], "Bediener": ["Anna", "Bo"]})
    houston = pd.DataFrame({"Stamp": [0, 1], "T": [1.0, 2.0]})
    sources = {"berlin": berlin, "houston": houston}
    tables = ct.read_series(sources, columns=COLUMNS, without=["Bediener"])
    assert {table.features for table in tables.values()} == {("T",)}
    with pytest.raises(DataError, match=r"^no column is called 'Bedienr', as without= says \(did you mean 'Bediener'"):
        ct.read_series(sources, columns=COLUMNS, without=["Bediener", "Bedienr"])


def test_the_public_table_has_its_own_names(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    write(folder / "berlin.csv", "Zeit,Temperatur,Bediener\n2025-01-01,1,Anna\n2025-01-02,2,Bo\n")
    write(folder / "houston.csv", "Stamp,T\n2025-01-01,1\n2025-01-02,2\n")
    keys = (
        'source = "data"\npublic = "public.csv"\nwithout = ["Bediener"]\n'
        'zone = {berlin = "Europe/Berlin", houston = "America/Chicago"}\n'
        'columns.berlin = {time = "Zeit", T = "Temperatur"}\ncolumns.houston = {time = "Stamp"}\n'
    )
    head = 'method = "FedTDD"\nFedTDD.common = ["T"]\n[data]\n'
    write(tmp_path / "public.csv", "time,T\n2025-01-01T00Z,5\n2025-01-02T00Z,6\n")
    plain = Experiment.from_file(write(tmp_path / "plain.toml", head + keys))
    assert load_public(plain).values.ravel().tolist() == [5, 6]
    assert {name: table.zone for name, table in load_clients(plain)[0].items()} == {
        "berlin": "Europe/Berlin",
        "houston": "America/Chicago",
    }
    write(tmp_path / "public.csv", "When,T\n2025-01-01,5\n2025-01-02,6\n")
    own = keys.replace("zone = {", 'zone = {public = "UTC", ') + 'columns.public = {time = "When"}\n'
    named = Experiment.from_file(write(tmp_path / "named.toml", head + own))
    assert load_public(named).zone == "UTC"
    assert set(load_clients(named)[0]) == {"berlin", "houston"}
