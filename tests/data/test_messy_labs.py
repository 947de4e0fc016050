"""What tables of labs look like: blanks, dates for names, tables on their side, replicates, lists of absent genes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import cotempo as ct
from cotempo.data import describe
from cotempo.data.read.reader import detect_kind
from cotempo.errors import DataError


def frame(*columns: str, rows: int = 12) -> pd.DataFrame:
    values = np.random.default_rng(0).normal(size=(rows, len(columns)))
    return pd.DataFrame(values, columns=[*columns]).assign(time=np.arange(rows))


def test_blanks_around_names_of_columns_are_left_out(tmp_path: Path) -> None:
    frame("tp53 ", " MYC").to_csv(tmp_path / "a.csv", index=False)
    with pytest.warns(UserWarning, match=r"blanks around names of columns are left out: 'tp53 ', ' MYC'"):
        assert ct.read_series(tmp_path / "a.csv")["a"].features == ("tp53", "MYC")
    with pytest.warns(UserWarning, match="blanks around names"):
        named = ct.read_series({"a": frame("tp53 ", "x")}, columns={"TP53": "tp53 "}, without=["x "])["a"]
    assert named.features == ("TP53",)
    with pytest.raises(DataError, match=r"column x: column names must differ"):
        ct.read_series({"a": frame("x", "x ")})


def test_blanks_do_not_hide_the_kind_of_a_table(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("time , mark\n0,u\n1,v\n")
    assert detect_kind(tmp_path / "a.csv") == "events"


@pytest.mark.parametrize("name", ["1-Mar", "Sep-01", "2023-09-01", "1. Mrz"])
def test_names_that_a_spreadsheet_turned_into_dates_are_pointed_out(name: str) -> None:
    found = describe(ct.read_series({"a": frame(name, "TP53", "Marker", "Sept", "Dec1")}))
    (words,) = [line for line in found.warnings if "is a date" in line]
    assert repr(name) in words
    assert "MARCH1" in words


@pytest.mark.parametrize("times", [["0h", "1h", "2h", "3h", "4h"], [f"2026-03-0{day}" for day in range(1, 6)]])
def test_a_table_on_its_side_is_to_be_transposed(times: list[str]) -> None:
    on_its_side = pd.DataFrame(np.ones((3, 5)), columns=times).assign(gene=["TP53", "MYC", "TNF"])
    with pytest.raises(DataError, match=r"are times the names of columns\? transpose it"):
        ct.read_series({"a": on_its_side})


def test_columns_without_times_are_no_table_on_its_side() -> None:
    with pytest.raises(DataError) as error:
        ct.read_series({"a": frame("x1", "x2", "x3").drop(columns="time")})
    assert "transpose" not in str(error.value)


def test_tab_separated_files_are_read(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    for name in ("a.tsv", "b.tsv.gz"):
        frame("x", "y").to_csv(tmp_path / name, sep="\t", index=False)
    found = ct.read_series(tmp_path)
    assert list(found) == ["a", "b"]
    assert found["a"].features == ("x", "y")
    assert not recwarn.list
    (tmp_path / "a.tsv").write_text("time\tx\n0\tone\n1\t2\n")
    with pytest.raises(DataError, match="row 2: must be a number"):
        ct.read_series(tmp_path / "a.tsv")


def test_a_column_of_replicates_is_offered_as_the_sequence() -> None:
    twice = pd.concat([frame("x").assign(replicate=name) for name in ("A1", "A2")])
    with pytest.raises(DataError, match=r"columns=\{'sequence': 'replicate'\}"):
        ct.read_series({"a": twice})
    with pytest.raises(DataError, match=r"columns=\{'sequence': 'replicate'\} if that column tells"):
        ct.read_series({"a": twice.assign(replicate=twice["replicate"].str[1:].astype(int))})
    assert ct.read_series({"a": twice}, columns={"sequence": "replicate"})["a"].sequence_names() == ["A1", "A2"]


def test_dates_are_no_posts() -> None:
    dates = pd.date_range("2025-03-05", periods=12, freq="h", tz="UTC").strftime("%Y-%m-%dT%H:%M:%S%z")
    with pytest.raises(DataError, match="did you mean 'timestamp'") as told:
        ct.read_series({"mill": frame("flow").assign(time=dates).rename(columns={"time": "timestamp"})})
    assert "posts" not in str(told.value)


def test_rows_of_one_value_each_are_to_be_pivoted_and_then_read(tmp_path: Path) -> None:
    wide = pd.concat([frame("abrB", "comK").assign(replicate=name) for name in ("A1", "A2")])
    long = wide.melt(["replicate", "time"], var_name="gene", value_name="level")
    for cells in (
        long["level"],
        long["level"].round(3).astype(str).replace({long["level"].round(3).astype(str)[0]: "n.d."}),
    ):
        long.assign(level=cells).to_csv(tmp_path / "long.csv", index=False)
        with pytest.raises(DataError, match=r"column gene: each of its names must be a column") as told:
            ct.read_series(tmp_path / "long.csv", missing=["n.d."])
        (problem,) = told.value.problems
    call = problem.must.partition("pass frame.")[2].partition(", or columns=")[0]
    frame_of = eval(f"long.{call}", {"long": long})
    again = ct.read_series({"a": frame_of}, columns={"sequence": "replicate"})["a"]
    assert (again.features, again.rows) == (("abrB", "comK"), 24)
    with pytest.raises(DataError, match="each of its names"):
        ct.read_series(long[long["replicate"] == "A1"].drop(columns="replicate"))


def test_options_by_client_may_name_clients_that_are_not_there() -> None:
    columns = {"lab_a": {"time": "t"}, "lab_z_of_elsewhere": {"time": "Zeit"}}
    own, other = frame("x").rename(columns={"time": "t"}), frame("x")
    with pytest.warns(UserWarning, match=r"lund: columns= names others, which are not there \(lab_z_of_elsewhere\)"):
        assert list(ct.read_series({"lab_a": own, "lund": other}, columns=columns)) == ["lab_a", "lund"]


def test_many_absent_columns_are_named_once_and_shortly() -> None:
    proteins = [f"p{number}" for number in range(1, 31)]
    lines = describe(ct.read_series({"a": frame("x"), "b": frame("x"), "c": frame("x", *proteins)})).lines()
    assert "features: x; at some clients only: 30 columns (p1, p2, ..., p30)" in lines
    (words,) = [line for line in lines if "which other clients have" in line]
    assert words == "warning: a, b: 30 columns ('p1', 'p2', ..., 'p30') missing, which other clients have"


def test_a_stretch_of_one_value_may_have_been_set_from_outside() -> None:
    values = np.random.default_rng(0).normal(size=(200, 2))
    values[120:160, 0] = -4.0
    (words,) = ct.Series.from_arrays(values).faults()
    assert words.endswith("a stuck sensor? Set from outside, such as a gene knocked out? Then empty these cells.")
