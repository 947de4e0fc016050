"""Tiny files in the published formats, written here, and bad ones."""

from __future__ import annotations

import gzip
import json
import pickle
from pathlib import Path

import numpy as np
import pytest

from cotempo.data import read_crisislex, read_event_sequences, read_forecasting_csv, read_tsf
from cotempo.errors import DataError, DataWarning


def test_a_neural_hawkes_pickle_has_its_splits(tmp_path: Path) -> None:
    events = [{"time_since_start": t, "time_since_last_event": 1.0, "type_event": k} for t, k in ((0.0, 1), (2.5, 0))]
    kept = {"dim_process": 3, "train": [events, events[:1]], "dev": [], "test": [events]}
    (tmp_path / "train.pkl").write_bytes(pickle.dumps(kept, protocol=2))
    with pytest.warns(DataWarning, match="left out 1 of 2 sequences of train"):
        found = read_event_sequences(tmp_path / "train.pkl")
    assert list(found) == ["train", "test"]
    assert found["train"].time.tolist() == [0.0, 2.5]
    assert [found["train"].marks[code] for code in found["train"].mark] == ["1", "0"]
    assert found["train"].windows == {"0": (0.0, 2.5)}


def test_a_pickle_with_windows_keeps_them(tmp_path: Path) -> None:
    one = {"arrival_times": np.array([3.0, 4.0]), "marks": None, "t_start": 0.0, "t_end": 24.0}
    (tmp_path / "taxi.pkl").write_bytes(pickle.dumps({"sequences": [one, {**one, "arrival_times": []}]}))
    found = read_event_sequences(tmp_path / "taxi.pkl")["taxi"]
    assert [*found.windows.values()] == [(0.0, 24.0), (0.0, 24.0)]
    assert found.rows == 2
    assert found.marks == ()


@pytest.mark.parametrize(
    ("given", "must"),
    [
        ({"dim_process": 3}, "must hold sequences below one of train"),
        ([{"times": [1.0]}], "must have one of time_since_start"),
        ([{"time_since_start": [2.0, 1.0]}], "rising order"),
        ([{"time_since_start": [1.0, 2.0], "type_event": [0]}], "a mark for every event"),
        ([{"time_since_start": ["soon", 2.0]}], "must hold numbers"),
        ([3], "must be a list of events"),
    ],
)
def test_a_bad_archive_says_what_must_hold(tmp_path: Path, given: object, must: str) -> None:
    (tmp_path / "bad.json").write_text(json.dumps(given))
    with pytest.raises(DataError, match=must):
        read_event_sequences(tmp_path / "bad.json")


def test_ett_has_dates_and_stocks_are_counted(tmp_path: Path) -> None:
    (tmp_path / "ETTh1.csv").write_text("date,HUFL,OT\n2016-07-01 00:00:00,5.8,30.5\n2016-07-01 01:00:00,5.7,27.8\n")
    with gzip.open(tmp_path / "stock.csv.gz", "wt") as file:
        file.write("Open,High,Volume\n49.8,51.8,44659000\n50.3,54.3,22834300\n")
    ett, stocks = read_forecasting_csv(tmp_path / "ETTh1.csv"), read_forecasting_csv(tmp_path / "stock.csv.gz")
    assert ett.features == ("HUFL", "OT")
    assert np.diff(ett.time).tolist() == [1.0]
    assert ett.unit == "h"
    assert stocks.time.tolist() == [0, 1]
    assert stocks.values[:, 2].tolist() == [44659000, 22834300]


def test_energy_as_uci_quotes_it(tmp_path: Path) -> None:
    rows = '"date","Appliances","T1"\n"2016-01-11 17:00:00","60","19.89"\n"2016-01-11 17:10:00","60","19.89"\n'
    (tmp_path / "energydata_complete.csv").write_text(rows)
    found = read_forecasting_csv(tmp_path / "energydata_complete.csv", unit="s")
    assert found.values.tolist() == [[60.0, 19.89], [60.0, 19.89]]
    assert np.diff(found.time).tolist() == [600.0]


@pytest.mark.parametrize(
    ("text", "must"),
    [("", "CSV"), ("date,OT\n", "at least one row"), ("date,OT\n2016-07-01,high\n", "columns OT do not"),
     ("date,time,OT\n2016-07-01,1,2\n", "one column of dates")],
)  # fmt: skip
def test_a_bad_csv_says_what_must_hold(tmp_path: Path, text: str, must: str) -> None:
    (tmp_path / "bad.csv").write_text(text)
    with pytest.raises(DataError, match=must):
        read_forecasting_csv(tmp_path / "bad.csv")


HEAD = "# about\n@relation tiny\n@attribute series_name string\n@attribute start_timestamp date\n@frequency {}\n@data\n"


@pytest.mark.parametrize(
    ("frequency", "last"),
    [("monthly", "1990-03-01"), ("10_minutes", "1990-01-01 00:20"), ("half_hourly", "1990-01-01 01:00")],
)
def test_tsf_series_are_clients_with_dates(tmp_path: Path, frequency: str, last: str) -> None:
    (tmp_path / "tiny.tsf").write_text(
        HEAD.format(frequency) + "T1:1990-01-01 00-00-00:4.0,?,5.5\nT2:1991-01-01 00-00-00:1\n"
    )
    found = read_tsf(tmp_path / "tiny.tsf")
    assert list(found) == ["T1", "T2"]
    assert found["T1"].values.ravel().tolist()[::2] == [4.0, 5.5]
    assert np.isnan(found["T1"].values[1, 0])
    assert str(found["T1"].clock.date(found["T1"].time[-1])).startswith(last)


def test_tsf_without_dates_counts_rows(tmp_path: Path) -> None:
    (tmp_path / "tiny.tsf").write_text("@attribute series_name string\n@data\nT1:4,5,6\n")
    assert read_tsf(tmp_path / "tiny.tsf")["T1"].time.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("text", "must"),
    [("T1:1,2\n", "@data"), (HEAD.format("daily"), "below @data"), (HEAD.format("daily") + "T1:1,2\n", "2 attributes"),
     (HEAD.format("daily") + "T1:1990-01-01 00-00-00:1,x\n", "numbers or"),
     (HEAD.format("daily") + "T1:yesterday:1,2\n", "start_timestamp must look like"),
     (HEAD.format("daily") + "../T1:1990-01-01 00-00-00:1,2\n", "can name a file")],
)  # fmt: skip
def test_a_bad_tsf_says_what_must_hold(tmp_path: Path, text: str, must: str) -> None:
    (tmp_path / "bad.tsf").write_text(text)
    with pytest.raises(DataError, match=must):
        read_tsf(tmp_path / "bad.tsf")


def test_crisislex_folders_are_clients_with_times_tags_and_events(tmp_path: Path) -> None:
    one, two = tmp_path / "2013_Alberta_floods", tmp_path / "2012_Sandy_Hurricane"
    one.mkdir()
    two.mkdir()
    head = "Tweet ID, Tweet Text, Information Source, Information Type, Informativeness\n"
    rows = '348351442404376578,"Flood in #Calgary, says @city",Media,Other,Related and informative\n'
    rows += "348351442404376579,Nice day,Media,Other,Not related\n"
    (one / "2013_Alberta_floods-tweets_labeled.csv").write_text(head + rows)
    (two / "2012_Sandy_Hurricane-ontopic_offtopic.csv").write_text(
        "tweet id,tweet,label\n'262596552399396864',Storm,on-topic\n"
    )
    (one / "2013_Alberta_floods-tweetids_entire_period.csv").write_text("Timestamp, Tweet-ID\n")
    found = read_crisislex(tmp_path)
    assert list(found) == ["2012_Sandy_Hurricane", "2013_Alberta_floods"]
    floods = found["2013_Alberta_floods"]
    assert floods.event == ("2013_Alberta_floods", None)
    assert floods.hashtags[0] == ("Calgary",)
    assert floods.mentions[0] == ("city",)
    assert str(floods.clock.date(floods.time[0])).startswith("2013-06-22")
    assert str(found["2012_Sandy_Hurricane"].clock.date(found["2012_Sandy_Hurricane"].time[0])).startswith("2012-10-28")


def test_a_bad_crisislex_file_says_what_must_hold(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="got none"):
        read_crisislex(tmp_path)
    (tmp_path / "x-tweets_labeled.csv").write_text("id,words\n1,a\n")
    with pytest.raises(DataError, match="must have columns 'Tweet ID'"):
        read_crisislex(tmp_path)
    (tmp_path / "x-tweets_labeled.csv").write_text("Tweet ID,Tweet Text\nfirst,a\n")
    with pytest.raises(DataError, match="an id must be a number, got 'first' in row 2"):
        read_crisislex(tmp_path)
