"""Files as plants export them: limits of detection, lines of units, rows that come twice."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import cotempo as ct
from cotempo.errors import DataError, ParameterError
from cotempo.runs.experiment import DataSettings

ROWS = "2025-10-06T00:{:02}Z;{};{}"


def write(path: Path, rows: list[str], head: str = "Zeit;Durchfluss;Druck") -> Path:
    path.write_text("\n".join([head, *rows]) + "\n")
    return path


def rows(flow: list[str], pressure: list[str] | None = None) -> list[str]:
    return [ROWS.format(k, one, (pressure or ["2,5"] * len(flow))[k]) for k, one in enumerate(flow)]


NAMES = {"time": "Zeit", "flow": "Durchfluss"}


def test_texts_below_a_limit_of_detection_become_numbers(tmp_path: Path):
    path = write(tmp_path / "ulm.csv", rows(["<0,1", "<0,1", "<0,1", "7,5", "Bad"]))
    with pytest.raises(DataError, match=r"pass replace_signs=\{'<0,1': 0\.05\}"):
        ct.read_series(path, columns=NAMES, missing=["Bad"])
    given = {"columns": NAMES, "missing": ["Bad"], "replace_signs": {"<0,1": 0.05}}
    for read in (
        lambda: ct.read_series(path, **given)["ulm"],
        lambda: DataSettings(**given).read_tables(path, "series")["ulm"],
    ):
        assert read().values[:, 0].tolist()[:4] == [0.05, 0.05, 0.05, 7.5]
        assert np.isnan(read().values[4, 0])
    with pytest.warns(UserWarning, match="'<0,2': no cell holds this sign, which replace_signs= names"):
        ct.read_series(path, **given | {"replace_signs": {"<0,1": 0.05, "<0,2": 0.1}})
    with pytest.raises(ParameterError, match="replace_signs must map texts to numbers"):
        ct.read_series(path, **given | {"replace_signs": {"<0,1": "0,05"}})


def test_a_column_is_left_out_by_either_of_its_names(tmp_path: Path):
    path = write(tmp_path / "ulm.csv", rows(["Bad", "x", "y"]))
    for name in ("flow", "Durchfluss"):
        assert ct.read_series(path, columns=NAMES, without=[name])["ulm"].features == ("Druck",)
    twice = write(tmp_path / "graz.csv", [*rows(["1", "2"]), *rows(["3", "4"])])
    with pytest.raises(DataError, match="at least one column besides client, sequence and time"):
        ct.read_series(twice, columns=NAMES, without=["flow", "Druck"])
    with pytest.raises(DataError, match="no column is called 'flaw'"):
        ct.read_series(path, columns=NAMES, without=["flaw", "flow"])


@pytest.mark.parametrize("line", [";m³/h;bar", ";m3/h;-", "hh:mm;m3/h;"])
def test_a_line_of_units_is_left_out_with_a_word(tmp_path: Path, line: str):
    path = write(tmp_path / "ulm.csv", [line, *rows(["Bad", "1,5", "2,5"])])
    with pytest.warns(UserWarning, match=r"ulm.csv: row 2 has no time and no number: left out, as units \(.*m.*/h"):
        table = ct.read_series(path, columns=NAMES, missing=["Bad"])["ulm"]
    assert table.values[1:].tolist() == [[1.5, 2.5], [2.5, 2.5]]
    wrong = write(tmp_path / "graz.csv", [line, *rows(["1,5", "1,5", "1,5", "oh", "2,5"])])
    with pytest.raises(DataError, match="row 6"):
        ct.read_series(wrong, columns=NAMES)


def test_a_first_row_without_a_time_that_holds_a_number_is_no_line_of_units(tmp_path: Path):
    path = write(tmp_path / "ulm.csv", [";1,0;bar", *rows(["1,5", "2,5"])])
    with pytest.raises(DataError):
        ct.read_series(path, columns=NAMES)


def test_equal_rows_of_one_time_are_left_out_with_a_word(tmp_path: Path):
    plain = rows(["1,5", "", "2,5"])
    path = write(tmp_path / "ulm.csv", [plain[0], plain[1], plain[1], plain[1], plain[2]])
    with pytest.warns(UserWarning, match="ulm: 2 rows left out, equal to another of the same time"):
        table = ct.read_series(path, columns=NAMES)["ulm"]
    assert table.rows == 3


def test_rows_of_one_time_are_refused_with_a_remedy_which_works(tmp_path: Path):
    path = write(tmp_path / "ulm.csv", [*rows(["1", "2", "4"]), "2025-10-06T00:01Z;5;", "2025-10-06T00:01Z;8;3,5"])
    with pytest.raises(DataError, match=r"row of|row 3 again with other values; pass resample= for means"):
        ct.read_series(path, columns=NAMES)
    with pytest.raises(DataError, match="pass resample= for means"):
        ct.read_series(path, columns=NAMES, resample={"graz": "1min"})
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*left out, equal")
        for resample in ("1min", {"ulm": "1min"}):
            table = ct.read_series(path, columns=NAMES, resample=resample)["ulm"]
            assert table.values.tolist() == [[1.0, 2.5], [5.0, 3.0], [4.0, 2.5]]


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("step", ["10min", "1h"])
@pytest.mark.parametrize("ambiguous", ["", "first"])
def test_the_hour_that_clocks_repeat_is_told_apart_by_the_order_of_rows(step: str, order: int, ambiguous: str):
    time = pd.date_range("2025-10-25", "2025-10-27", freq=step, tz="Europe/Berlin")
    local = pd.DataFrame({"time": time.strftime("%Y-%m-%d %H:%M"), "flow": np.arange(float(len(time)))})[::order]
    frame = pd.concat([local.assign(client=name) for name in "ab"])
    with pytest.warns(UserWarning, match="repeat in autumn is there twice: told apart by the order of rows"):
        found = ct.read_series(frame, zone="Europe/Berlin", unit="h", ambiguous=ambiguous)
    for name in "ab":
        back = found[name].to_frame()
        assert (pd.DatetimeIndex(back["time"]) == time).all()
        assert back["flow"].tolist() == list(range(len(time)))


@pytest.mark.parametrize("kind", ["one hour only", "a row twice"])
def test_a_repeated_hour_that_order_does_not_tell_apart_is_refused(kind: str):
    time = pd.date_range("2025-10-25", "2025-10-27", freq="10min", tz="Europe/Berlin")
    local = pd.DataFrame({"time": time.strftime("%Y-%m-%d %H:%M"), "flow": np.arange(float(len(time)))})
    local = local[~local["time"].duplicated()]
    if kind == "a row twice":
        local = pd.concat([local, local[local["time"] == "2025-10-26 02:20"]]).sort_index()
    with pytest.raises(DataError, match="clocks repeat the hour"):
        ct.read_series(local, zone="Europe/Berlin")


def test_on_and_off_as_texts_and_times_are_said_in_the_words_of_a_plant(tmp_path: Path):
    path = write(tmp_path / "ulm.csv", rows(["OFF"] * 120 + ["ON"]), head="Zeitstempel;Pumpe;Druck")
    path.write_text(path.read_text().replace("T00:", "T00:00.").replace("2025-10-06T00:00.", "2025-10-06 00:"))
    with pytest.raises(DataError) as found:
        ct.read_series(path)
    assert "posts" not in str(found.value)
    with pytest.raises(DataError, match=r"pass replace_signs=\{'OFF': 0, 'ON': 1\}, or without="):
        ct.read_series(pd.DataFrame({"time": range(121), "pump": ["OFF"] * 120 + ["ON"]}))
