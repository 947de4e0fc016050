"""Every way a source can be bad, and the problem that must be named: one table."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from cotempo.data import read_events, read_posts, read_series
from cotempo.errors import DataError

Make = Callable[[Path], Any]


def csv(text: str, name: str = "data.csv") -> Make:
    def make(folder: Path) -> Path:
        (folder / name).write_text(text, encoding="utf-8")
        return folder / name

    return make


def raw(data: bytes, name: str) -> Make:
    def make(folder: Path) -> Path:
        (folder / name).write_bytes(data)
        return folder / name

    return make


def folder_of(files: dict[str, str]) -> Make:
    def make(folder: Path) -> Path:
        home = folder / "clients"
        home.mkdir()
        for name, text in files.items():
            (home / name).write_text(text, encoding="utf-8")
        return home

    return make


def linked(folder: Path) -> Path:
    (folder / "secret.csv").write_text("time,x\n0,1\n")
    home = folder / "clients"
    home.mkdir()
    (home / "north.csv").symlink_to(folder / "secret.csv")
    return home


def piped(folder: Path) -> Path:
    home = folder / "clients"
    home.mkdir()
    os.mkfifo(home / "north.csv")
    return home


def two_kinds_of_file(folder: Path) -> Path:
    home = folder_of({"north.csv": "time,x\n0,1\n"})(folder)
    parquet.write_table(pa.table({"time": [0.0], "x": [1.0]}), home / "north.parquet")
    return home


def truncated_parquet(folder: Path) -> Path:
    path = folder / "data.parquet"
    parquet.write_table(pa.table({"time": list(range(1000)), "x": [0.5] * 1000}), path)
    path.write_bytes(path.read_bytes()[:-100])
    return path


def damaged_parquet(folder: Path) -> Path:
    path = folder / "data.parquet"
    parquet.write_table(pa.table({"time": list(range(1000)), "x": list(range(1000))}), path)
    data = bytearray(path.read_bytes())
    data[4:400] = bytes(396)
    path.write_bytes(bytes(data))
    return path


def frame(**columns: Any) -> Make:
    return lambda folder: pd.DataFrame(columns)


def the(value: Any) -> Make:
    return lambda folder: value


LONG = "c" * 101
CASES: list[tuple[str, Callable[..., Any], Make, list[tuple[str | None, str | None, int | None, str]]]] = [
    # what, reader, source, [(client, column, row, words of the problem)]
    ("empty CSV", read_series, csv(""), [(None, None, None, "'data.csv' is empty")]),
    ("header only", read_series, csv("time,x\n"), [(None, None, None, "at least one row")]),
    ("header without line end", read_events, csv("time"), [(None, None, None, "at least one row")]),
    (
        "ragged rows",
        read_series,
        csv("time,x\n0,1\n1\n2,3\n3,4,5\n"),
        [(None, None, 3, "2 cells like the header, got 1"), (None, None, 5, "got 3")],
    ),
    ("not UTF-8", read_series, raw(b"time,x\n0,1\n1,\xff\x81\n", "d.csv"), [(None, None, 3, "UTF-8")]),
    (
        "posts without their names",
        read_series,
        csv("id,fecha,mensaje\n1,2,llueve otra vez en el barrio\n"),
        [(None, "text", None, "pass columns={'text': 'mensaje'}"), (None, "time", None, "'time' must be there")],
    ),
    (
        "not UTF-8 and ragged",
        read_series,
        raw(b"time,x\n0\n1,\xff\n", "d.csv"),
        [(None, None, 2, "got 1"), (None, None, 3, "UTF-8")],
    ),
    ("missing time", read_series, csv("tiem,x\n0,1\n"), [(None, "time", None, "did you mean 'tiem'?")]),
    ("missing text", read_posts, csv("time,txt\n0,hello\n"), [(None, "text", None, "did you mean 'txt'?")]),
    ("no feature", read_series, csv("client,time\na,0\n"), [(None, None, None, "at least one column besides")]),
    (
        "duplicate timestamps",
        read_series,
        csv("client,time,x\na,1,1\nb,1,1\na,2,1\na,1,2\n"),
        [("a", "time", 5, "the time of row 2 again")],
    ),
    (
        "duplicate timestamps across zones",
        read_series,
        csv("time,x\n2024-01-01T10:00:00+02:00,1\n2024-01-01T08:00:00Z,2\n"),
        [("data", "time", 3, "again")],
    ),
    (
        "not a number",
        read_series,
        csv("client,time,x,y\na,0,1,2\nb,1,high,3\nb,2,5,1_000\n"),
        [("b", "x", 3, "must be a number or empty, got 'high'"), ("b", "y", 4, "got '1_000'")],
    ),
    ("not numbers at all", read_series, frame(time=[0], x=[[1, 2]]), [(None, "x", None, "hold numbers, got list")]),
    ("mixed objects", read_series, frame(time=[0, 1], x=["a", 1]), [(None, "x", None, "one kind of value")]),
    (
        "infinite",
        read_series,
        csv("time,x\n0,inf\n1,2\n2,-Infinity\n"),
        [("data", "x", 2, "finite"), ("data", "x", 4, "finite")],
    ),
    ("infinite time", read_events, csv("time\n0\ninf\n"), [("data", "time", 3, "finite")]),
    (
        "missing time cell",
        read_series,
        csv("time,x\n0,1\nNaN,2\n,3\n"),
        [("data", "time", 3, "given"), ("data", "time", 4, "given")],
    ),
    ("missing time, frame", read_events, frame(time=[0.0, None, 2.0]), [("client", "time", 1, "given")]),
    ("bad time", read_events, csv("time\n0\nnoon\n"), [("data", "time", 3, "must be a number, as the first time")]),
    (
        "bad timestamp",
        read_events,
        csv("time\n2024-02-28\n2024-02-30\n17\n"),
        [("data", "time", 3, "ISO 8601"), ("data", "time", 4, "ISO 8601")],
    ),
    (
        "bad and missing times",
        read_events,
        csv("client,time\na,0\na,noon\na,\n"),
        [("a", "time", 3, "must be a number"), ("a", "time", 4, "given in every row")],
    ),
    (
        "ragged rows in a damaged gzip",
        read_series,
        raw(gzip.compress(b"time,x\n0\n" + b"".join(b"%d,1\n" % row for row in range(9**6)))[:-9999], "d.csv.gz"),
        [(None, None, None, "complete gzip file")],
    ),
    ("time of no kind", read_events, frame(time=[[0], [1]]), [(None, "time", None, "numbers or dates, got list")]),
    (
        "numbers here, timestamps there",
        read_series,
        folder_of({"a.csv": "time,x\n0,1\n", "b.csv": "time,x\n2024-01-01,1\n"}),
        [("b", "time", None, "'a' has plain numbers")],
    ),
    (
        "negative window",
        read_events,
        csv("time,start,end\n1,5,0\n"),
        [("data", "end", None, "must end after its start, got [5, 0]"), ("data", "time", 2, "must lie in its window")],
    ),
    ("empty window", read_events, csv("time\n1\n1\n"), [("data", "time", None, "all its events are at one time")]),
    (
        "outside its window",
        read_events,
        csv("client,time,start,end\na,11,0,10\nb,5,0,10\na,-1,0,10\n"),
        [("a", "time", 2, "[0, 10], got 11"), ("a", "time", 4, "got -1")],
    ),
    ("window changes", read_events, csv("time,start,end\n1,0,9\n2,0,8\n"), [("data", "end", 3, "same in all rows")]),
    ("half a window", read_events, csv("time,start\n1,0\n2,0\n"), [(None, "end", None, "must be there")]),
    (
        "window of another kind",
        read_events,
        csv("time,start,end\n1,2024-01-01,2024-01-02\n"),
        [(None, "start", None, "must be plain numbers, as time is"), (None, "end", None, "plain numbers, as time is")],
    ),
    ("missing mark", read_events, csv("time,mark\n0,a\n1,\n"), [("data", "mark", 3, "given in every row")]),
    (
        "marks at one client only",
        read_events,
        folder_of({"a.csv": "time,mark\n0,u\n1,v\n", "b.csv": "time\n0\n1\n"}),
        [("b", "mark", None, "other clients name marks")],
    ),
    ("all-missing column", read_series, csv("time,x,y\n0,1,\n1,2,NA\n"), [(None, "y", None, "at least one value")]),
    ("truncated Parquet", read_series, truncated_parquet, [(None, None, None, "damaged or cut short")]),
    ("damaged Parquet", read_series, damaged_parquet, [(None, None, None, "damaged or cut short")]),
    ("not gzip", read_series, raw(b"time,x\n0,1\n", "d.csv.gz"), [(None, None, None, "complete gzip file")]),
    (
        "truncated gzip",
        read_series,
        raw(gzip.compress(os.urandom(4000).hex().encode())[:-2000], "d.csv.gz"),
        [(None, None, None, "complete gzip file")],
    ),
    ("nothing there", read_series, the("no/such/file.csv"), [(None, None, None, "there is nothing at")]),
    ("another ending", read_series, csv("time,x\n0,1\n", "data.xlsx"), [(None, None, None, "must end in .csv")]),
    ("not a source", read_series, the(42), [(None, None, None, "dataframe (a lazy one: collect it first), got int")]),
    ("lazy frame", read_series, the(pl.LazyFrame({"time": [0]})), [(None, None, None, "collect it first")]),
    ("empty folder", read_series, folder_of({"README.md": "hello"}), [(None, None, None, "has none")]),
    ("link out of the folder", read_series, linked, [("north", None, None, "leads out of its folder")]),
    ("a pipe", read_series, piped, [("north", None, None, "ordinary file")]),
    ("two files for a client", read_series, two_kinds_of_file, [("north", None, None, "one file")]),
    (
        "another client's rows",
        read_series,
        folder_of({"north.csv": "client,time,x\nNorth,0,1\nsouth,1,1\n", "south.csv": "time,x\n0,1\n"}),
        [("north", "client", 3, "must belong to client 'north'")],
    ),
    ("missing client", read_series, csv("client,time,x\na,0,1\n,1,2\n"), [(None, "client", 3, "given in every row")]),
    ("blank client", read_series, frame(client=[" "], time=[0], x=[1]), [(None, "client", 0, "must not be empty")]),
    (
        "clients that are no folder names",
        read_series,
        frame(client=["a/b", "a\\b", "..", "a\nb", LONG, "good"], time=[0] * 6, x=[1] * 6),
        [
            (None, "client", 2, "must not begin with '.'"),
            (None, "client", 0, "must not hold '/'"),
            (None, "client", 3, "control characters"),
            (None, "client", 1, "must not hold '/'"),
            (None, "client", 4, "at most 100"),
        ],
    ),
    ("file named badly", read_series, folder_of({f"{LONG}.csv": "time,x\n0,1\n"}), [(None, None, None, "at most 100")]),
    ("missing sequence", read_events, csv("sequence,time\na,0\n,1\n"), [("data", "sequence", 3, "given in every row")]),
    ("duplicate columns", read_series, csv("time,x,x\n0,1,2\n"), [(None, "x", None, "names must differ")]),
    (
        "duplicate columns, pandas",
        read_series,
        the(pd.DataFrame([[0, 1, 2]], columns=["time", "x", "x"])),
        [(None, None, None, "names must differ")],
    ),
    (
        "duplicate columns, pyarrow",
        read_series,
        the(pa.table([[0], [1], [2]], names=["time", "x", "x"])),
        [(None, None, None, "names must differ")],
    ),
    ("nameless column", read_series, csv(",time,x\n0,0,1\n"), [(None, None, None, "number 1 has none")]),
    ("posts without any text", read_posts, csv("time,text\n0,\n1,\n"), [(None, "text", None, "must hold words")]),
    ("tag with a space", read_posts, frame(text=["a"], hashtags=[["new york"]]), [(None, "hashtags", 0, "white")]),
    (
        "everything at once",
        read_series,
        csv("client,time,x\n../up,0,1\nb,noon,wide\nb,1,inf\n"),
        [
            (None, "client", 2, "must not begin"),
            ("b", "time", 3, "must be a number"),
            ("b", "x", 3, "'wide'"),
            ("b", "x", 4, "finite"),
        ],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("reader", "make", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_all_problems_are_named(reader: Callable[..., Any], make: Make, expected: list[Any], tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        reader(make(tmp_path))
    problems = caught.value.problems
    assert len(problems) == len(expected), problems
    for client, column, row, words in expected:
        assert any(
            (client is None or problem.client == client)
            and problem.column == column
            and problem.row == row
            and words in problem.must
            for problem in problems
        ), (client, column, row, words, problems)


WINDOW_CASES = [
    ("sequence without a window", "sequence,start,end\nb,0,9\n", None, None, "sequence 'a' must have a row"),
    ("window twice", "sequence,start,end\na,0,9\na,0,9\n", None, 3, "must have one window"),
    ("negative window", "sequence,start,end\na,0,9\nb,3,3\n", "end", 3, "windows table: the window of sequence 'b'"),
    ("no end", "sequence,start\na,0\n", "end", None, "windows table: a column 'end' must be there"),
    ("timestamps", "sequence,start,end\na,2024-01-01,2024-01-02\n", None, None, "must be plain numbers, as time is"),
    ("half timestamps", "sequence,start,end\na,0,2024-01-02\n", "end", None, "must be plain numbers, as start is"),
    ("bad start", "sequence,start,end\na,x,9\n", "start", 2, "windows table: must be an ISO 8601 date"),
    ("silent", "sequence,start,end\na,0,9\nb,0,\n", None, None, "'b' has no events, so its start and end must"),
]


@pytest.mark.parametrize(("text", "column", "row", "words"), [case[1:] for case in WINDOW_CASES])
def test_problems_of_the_windows_table(
    text: str, column: str | None, row: int | None, words: str, tmp_path: Path
) -> None:
    events = csv("sequence,time\na,1\na,2\n", "events.csv")(tmp_path)
    with pytest.raises(DataError) as caught:
        read_events(events, windows=csv(text, "windows.csv")(tmp_path))
    assert any(
        problem.column == column and problem.row == row and words in problem.must for problem in caught.value.problems
    ), caught.value.problems


def test_windows_given_twice_must_agree() -> None:
    events = pd.DataFrame({"time": [1.0, 2.0], "start": [0.0, 0.0], "end": [5.0, 5.0]})
    same = pd.DataFrame({"start": [0.0], "end": [5.0]})
    assert read_events(events, windows=same)["client"].windows == {"0": (0.0, 5.0)}
    with pytest.raises(DataError, match="must be the same in the columns start, end and the windows table"):
        read_events(events, windows=same.assign(end=6.0))


def test_unknown_marks_are_refused_with_the_nearest() -> None:
    with pytest.raises(DataError, match=r"must be one of marks=, got 'admitted'.*did you mean 'admit'"):
        read_events(pd.DataFrame({"time": [0, 1], "mark": ["admit", "admitted"]}), marks=("admit", "leave"))


def test_a_million_bad_rows_make_a_short_report() -> None:
    with pytest.raises(DataError) as caught:
        read_series(pl.DataFrame({"time": range(100_000), "x": ["no"] * 100_000}))
    assert len(caught.value.problems) == 1000
    assert str(caught.value) == (
        "client client, column x, row 0: must be a number or empty, got 'no'; pass missing=['no'] if that means "
        "missing, or without=['x'] (and 99,999 more rows: 1, 2, 3, ...)"
    )


@pytest.mark.parametrize("name", ["posts.csv", "posts.csv.gz"])
def test_arrow_is_given_no_file_of_pythons(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its threads let go of one only after reading, and abort the process if that is exiting by then."""
    import pandas
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    pandas.DataFrame({"text": ["a flood", "a fire"]}).to_csv(tmp_path / name, index=False)
    given, read = [], arrow_csv.read_csv
    monkeypatch.setattr(
        arrow_csv, "read_csv", lambda stream, **options: (given.append(stream), read(stream, **options))[1]
    )
    assert read_posts(tmp_path / name)["posts"].text == ("a flood", "a fire")
    assert all(isinstance(stream, pa.OSFile | pa.BufferReader) for stream in given)
    assert given


def test_texts_must_hold_words(tmp_path: Path) -> None:
    (tmp_path / "posts.csv").write_text("text\n12\n13\n")
    with pytest.raises(DataError, match="text: must hold words"):
        read_posts(tmp_path / "posts.csv")


def test_a_spreadsheet_is_refused_with_the_way_to_read_it(tmp_path: Path) -> None:
    (tmp_path / "wards.xlsx").write_bytes(b"PK")
    with pytest.raises(DataError, match=r"wards.xlsx'; save it as CSV, or read it with pandas.read_excel"):
        read_events(tmp_path / "wards.xlsx")
