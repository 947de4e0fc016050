"""Descriptions say what is there and warn of what is odd."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from cotempo.data import Events, Posts, Series, describe, detect_kind, make_events, make_posts, make_series, read_series
from cotempo.errors import DataError


def test_series_in_plain_words() -> None:
    values = np.array([[1.0, 7.0, np.nan], [2.0, 7.0, np.nan], [3.0, np.nan, np.nan], [4.0, 7.0, np.nan]])
    series = Series.from_arrays([values, values[:1]], time=[[0, 1, 2, 8], [0]], features=("x", "y", "z"), unit="h")
    found = describe({"north": series})
    assert found.lines() == [
        "series: 1 client, 5 rows, dates without a time zone, counted in hours",
        "features: x, y, z",
        "north: 5 rows, 2 sequences, time 1970-01-01 00:00:00 to 1970-01-01 08:00:00, 1 gap, 40.0 % missing, "
        "a row every 1 h",
        "warning: north: 1 sequence of one row",
        "warning: north: column 'y' is constant",
        "warning: north: column 'z' is missing in all rows",
    ]


def test_events_in_plain_words() -> None:
    events = Events.from_arrays([[1.0, 1.0], []], (0, 4), [["a", "a"], []], ("a", "b"))
    assert describe({"b": events, "a": events}).lines()[2:] == [
        "a: 2 rows, 2 sequences, time 0 to 4, marks a 2, b 0",
        "b: 2 rows, 2 sequences, time 0 to 4, marks a 2, b 0",
        "warning: a, b: 1 sequence without events",
        "warning: a, b: 1 event at the very time of another in the sequence",
        "warning: a, b: mark 'b' never occurs",
    ]


def test_posts_in_plain_words() -> None:
    posts = Posts(time=[0.0, 1.0, np.nan], text=("a", "a", "b"), event=("e", None, "f"))
    assert describe({"c": posts}).lines()[1:] == [
        "columns: time, event",
        "c: 3 rows, time 0 to 1, 2 labelled events",
        "warning: c: 1 post with the text of another",
        "warning: c: 1 post without a label",
        "warning: c: 1 post without a time",
    ]


def test_posts_that_were_passed_on_are_counted() -> None:
    same = ("Flood in town", "RT @x: flood in  town", "Flood in town https://t.co/1", "Fire", "http://a.b")
    found = describe({"c": Posts(np.full(5, np.nan), same, event=("e",) * 5)}).warnings
    assert "c: 2 posts with the words of another, passed on or with another address" in found


def test_clients_that_disagree_are_named() -> None:
    clients = {"a": Series.from_arrays([[1.0], [2.0]]), "b": Series.from_arrays([[1.0], [2.0]], features=("y",))}
    assert describe(clients).lines()[1:] == [
        "features: none; at some clients only: x0, y",
        "a: 2 rows, 1 sequence, time 0 to 1, 0 gaps, 0.0 % missing",
        "b: 2 rows, 1 sequence, time 0 to 1, 0 gaps, 0.0 % missing",
        "warning: a: 'y' missing, which other clients have",
        "warning: b: 'x0' missing, which other clients have",
    ]
    plain = Series.from_arrays([[1.0]])
    others = {"a": plain, "b": replace(plain, unit="h"), "c": replace(plain, unit="h", zone="UTC")}
    with_unit = "series with time in hours, where a has series with plain numbers"
    assert describe(others).warnings[:2] == (f"b: {with_unit}", f"c: {with_unit}")
    del others["a"]
    assert describe(others).warnings[0].startswith("c: dates must have a time zone at all clients or at none")


def test_common_columns_and_those_that_some_lack() -> None:
    clients = {
        "albany": Series.from_arrays([[1.0, 2.0], [2.0, 3.0]], features=("load", "oil")),
        "berlin": Series.from_arrays([[1.0, 2.0, 0.0], [2.0, 3.0, 1.0]], features=("load", "wind", "sun")),
    }
    found = describe(clients)
    assert found.columns == ("load",)
    assert found.warnings == (
        "albany: 'wind', 'sun' missing, which other clients have",
        "berlin: 'oil' missing, which other clients have",
    )


def test_dates_are_shown_as_dates() -> None:
    times = pd.date_range("2025-03-29 22:00", periods=6, freq="h", tz="Europe/Berlin")
    plants = read_series(pd.DataFrame({"time": times, "x": range(6)}), unit="h")
    plants["west"] = replace(plants["client"], zone="America/New_York")
    found = describe(plants)
    assert found.lines()[0] == "series: 2 clients, 12 rows, dates in Europe/Berlin, America/New_York, counted in hours"
    assert "time 2025-03-29 22:00:00+01:00 to 2025-03-30 04:00:00+02:00" in found.lines()[2]
    assert found.to_dict()["clients"][1]["end"] == "2025-03-29 22:00:00-04:00"
    assert found.to_frame()["start"].tolist()[0] == "2025-03-29 22:00:00+01:00"


def test_unknown_windows_and_single_records_are_warned_of() -> None:
    guessed, known = Events.from_arrays([[1.0, 2.0]]), Events.from_arrays([[1.0, 2.0], [1.0]], (0, 3))
    first, second = describe({"a": guessed}).warnings
    assert first.startswith("a: 1 window that an event begins or ends, as if unknown: rates come out too high")
    assert second.endswith("so bands rest on blocks that FedPP cuts itself")
    assert describe({"a": known}).warnings == ()


def test_dataframes_and_notebooks_show_one_row_per_client() -> None:
    clients = {f"<b>{number}": Series.from_arrays([[1.0], [2.0]]) for number in range(25)}
    found = describe(clients)
    frame = found.to_frame()
    assert frame.columns.tolist() == ["client", "rows", "sequences", "start", "end", "gaps", "missing"]
    assert frame["client"].tolist() == sorted(clients)
    assert pl.DataFrame(found).shape == (25, 7)
    page = found._repr_html_()
    assert "series: 25 clients, 50 rows" in page
    assert "&lt;b&gt;0</td><td>2</td>" in page
    assert "and 5 more" in page
    assert "<b>0" not in page


@pytest.mark.parametrize("make", [make_events, make_series, make_posts])
def test_json_can_hold_it(make: Any) -> None:
    found = describe(make()[0])
    plain = found.to_dict()
    assert json.loads(json.dumps(plain)) == plain
    assert plain["rows"] == sum(client["rows"] for client in plain["clients"])


def test_posts_years_from_all_others_are_told_of() -> None:
    days = pd.Timestamp("2025-10-24").timestamp() / 86400 + np.linspace(0, 4, 60)
    stray = np.concatenate([[0.0, 0.0, 0.5], days])
    posts = Posts(stray, ("text",) * len(stray), unit="D")
    words = "3 posts more than a year from all others, the first of 1970-01-01"
    assert any(warning.startswith(f"a: {words}") for warning in describe({"a": posts}).warnings)
    archive = np.concatenate([days - 4000, days - 2000, days])  # three parts of a collection, none of them stray
    for time in (days, archive):
        plain = describe({"a": Posts(time, ("text",) * len(time), unit="D")})
        assert not any("from all others" in warning for warning in plain.warnings)


def test_nothing_to_describe() -> None:
    with pytest.raises(DataError, match="at least one client"):
        describe({})
    with pytest.raises(DataError, match=r"must hold a table \(.*\), got int"):
        describe({"a": 3})  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("columns", "kind"),
    [
        (["client", "time", "text"], "posts"),
        (["time"], "events"),
        (["client", "sequence", "time", "mark", "start", "end"], "events"),
        (["client", "sequence", "time", "pulse"], "series"),
    ],
)
def test_kinds_are_told_by_columns(columns: list[str], kind: str, tmp_path: Path) -> None:
    frame = pd.DataFrame({name: ["1"] for name in columns})
    frame.to_csv(tmp_path / "d.csv", index=False)
    home = tmp_path / "clients"
    home.mkdir()
    parquet.write_table(pa.Table.from_pandas(frame), home / "a.parquet")
    assert detect_kind(frame) == detect_kind(tmp_path / "d.csv") == detect_kind(home) == kind


def test_no_kind_without_a_source(tmp_path: Path) -> None:
    (tmp_path / "bad.parquet").write_bytes(b"PAR1")
    for source in (tmp_path / "none.csv", tmp_path / "bad.parquet", 3):
        with pytest.raises(DataError):
            detect_kind(source)


def test_garbled_letters_of_posts_are_counted_and_capitals_are_not() -> None:
    texts = ("se reÃºnen en la iglesia", "ðŸ˜± qué miedo", "NÃO HÁ LUZ", "À LA MAIRIE, DÂTE", "dâ€™accord")
    described = Posts(np.full(5, np.nan), texts).describe()
    assert "3 posts with garbled letters, as of UTF-8 read as Latin-1" in described.warnings
