"""What is read is what was written, whatever it was written as."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from cotempo.data import (
    Posts,
    clients_to_frame,
    make_events,
    make_posts,
    make_series,
    read_events,
    read_posts,
    read_series,
    write_clients,
)
from cotempo.errors import DataError, DataWarning, ParameterError

KINDS = {
    "events": (read_events, lambda: make_events(clients=3, sequences=4, marks=3, seed=1)[0]),
    "series": (read_series, lambda: make_series(clients=3, sequences=2, length=20, missing=0.3, seed=1)[0]),
    "posts": (read_posts, lambda: make_posts(clients=3, posts=40, events=12, seed=1)[0]),
}


def prints(clients: dict[str, Any]) -> dict[str, str]:
    return {name: table.fingerprint() for name, table in clients.items()}


def windows(clients: dict[str, Any]) -> pd.DataFrame:
    tables = {name: table.side_tables()["windows"] for name, table in clients.items()}
    return pd.concat([pd.DataFrame(columns).assign(client=name) for name, columns in tables.items()])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("frame", ["pandas", "polars", "pyarrow"])
def test_frames_round_trip(kind: str, frame: Any) -> None:
    read, make = KINDS[kind]
    clients = make()
    options = {"windows": windows(clients)} if kind == "events" else {}
    assert prints(read(clients_to_frame(clients, frame), **options)) == prints(clients)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_files_round_trip(kind: str, suffix: str, tmp_path: Path) -> None:
    read, make = KINDS[kind]
    clients = make()
    path, *second = write_clients(clients, tmp_path / f"data{suffix}")
    options = {"windows": second[0]} if second else {}
    assert prints(read(path, **options)) == prints(clients)


@pytest.mark.parametrize("kind", KINDS)
def test_folder_of_files_of_all_kinds_round_trips(kind: str, tmp_path: Path) -> None:
    read, make = KINDS[kind]
    clients = make()
    home = tmp_path / "clients"
    home.mkdir()
    first, second, third = clients
    clients[first].to_frame().to_csv(home / f"{first}.csv", index=False)
    clients[second].to_frame().to_csv(home / f"{second}.csv.gz", index=False)
    parquet.write_table(clients[third].to_frame("pyarrow"), home / f"{third}.parquet")
    (home / ".hidden.csv").write_text("nothing")
    (home / "README.md").write_text("nothing")
    options = {"windows": windows(clients)} if kind == "events" else {}
    assert prints(read(home, **options)) == prints(clients)


def test_single_source_is_named_after_its_file(tmp_path: Path) -> None:
    (tmp_path / "north.csv").write_text("time,x\n0,1\n")
    assert list(read_series(tmp_path / "north.csv")) == ["north"]
    assert list(read_series(str(tmp_path / "north.csv"))) == ["north"]
    assert list(read_series(pl.DataFrame({"time": [0], "x": [1]}))) == ["client"]


def test_names_stay_text(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("site,sequence,time,mark\n007,01,0,1\n007,01,1,10\n007,01,2,9\n")
    events = read_events(tmp_path / "d.csv", columns={"client": "site"})["007"]
    assert list(events.windows) == ["01"]
    assert events.marks == ("1", "9", "10")


def test_numbers_as_names_lose_their_point() -> None:
    frame = pd.DataFrame({"client": [1.0, 2.0], "sequence": [3, 3], "time": [0, 1], "x": [True, False]})
    clients = read_series(frame)
    assert list(clients) == ["1", "2"]
    assert clients["1"].sequence.tolist() == ["3"]
    assert clients["1"].values.tolist() == [[1.0]]


def test_order_of_rows_does_not_matter() -> None:
    rng = np.random.default_rng(0)
    for read, make in (KINDS["events"], KINDS["series"]):
        frame = clients_to_frame(make())
        shuffled = frame.iloc[rng.permutation(len(frame))]
        assert prints(read(shuffled)) == prints(read(frame))


def test_quoted_cells_line_ends_and_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_bytes('\ufefftext,time\r\n"one, ""two""\nthree",0\r\nnull,1\r\n'.encode())
    posts = read_posts(tmp_path / "p.csv")["p"]
    assert posts.text == ('one, "two"\nthree', "null")


SAME_MOMENT = [
    "2024-03-10T12:00:00.25Z",
    "2024-03-10T14:00:00.25+02:00",
    "2024-03-10 07:00:00.25 -0500",
    "2024-03-10 12:00:00.25 UTC",
    " 2024-03-10T17:30:00.25+0530 ",
]


@pytest.mark.parametrize(("unit", "size"), [("s", 1.0), ("h", 3600.0), ("D", 86400.0)])
def test_mixed_time_zones_row_by_row(unit: str, size: float) -> None:
    frame = pd.DataFrame({"sequence": range(5), "time": SAME_MOMENT, "x": range(5)})
    series = read_series(frame, unit=unit)["client"]
    assert series.unit == unit
    assert (series.schema.unit, series.zone) == (unit, "UTC")  # the offsets differ
    assert set(series.time.tolist()) == {1710072000.25 / size}


@pytest.mark.parametrize(
    "times",
    [
        pd.Series(pd.to_datetime(["2024-03-10 13:00:00.25"]).tz_localize("Europe/Paris")),
        pl.Series([1710072000250]).cast(pl.Datetime("ms")),
        pa.chunked_array([pa.array([1710072000250000000], pa.timestamp("ns", "Asia/Tokyo"))]),
    ],
    ids=["pandas", "polars", "pyarrow"],
)
def test_typed_timestamps(times: Any) -> None:
    make: Callable[[Any], Any] = {pd.Series: pd.DataFrame, pl.Series: pl.DataFrame}.get(type(times), pa.table)
    assert read_series(make({"time": times, "x": [1.0]}))["client"].time.tolist() == [1710072000.25]


def test_dates_and_sub_second_precision() -> None:
    dates = pl.DataFrame({"time": ["2024-01-01", "2024-01-02"]}).with_columns(pl.col("time").str.to_date())
    assert np.diff(read_events(dates, unit="D")["client"].time).tolist() == [1.0]
    close = pd.DataFrame({"time": ["2024-01-01T00:00:00.000001", "2024-01-01T00:00:00.000002"]})
    assert np.diff(read_events(close)["client"].time)[0] == pytest.approx(1e-6, abs=2.4e-7)


def test_windows_table_may_list_who_saw_nothing() -> None:
    events = pd.DataFrame({"client": ["a", "a"], "sequence": ["x", "x"], "time": [1.0, 2.0], "mark": ["u", "v"]})
    table = pd.DataFrame(
        {"client": ["a", "a", "b"], "sequence": ["x", "y", "x"], "start": [0.0] * 3, "end": [5.0, 6.0, 7.0]}
    )
    clients = read_events(events, windows=table)
    assert clients["a"].windows == {"x": (0.0, 5.0), "y": (0.0, 6.0)}
    assert clients["b"].windows == {"x": (0.0, 7.0)}
    assert clients["b"].rows == 0
    assert clients["a"].schema == clients["b"].schema


def test_windows_table_without_client_holds_for_all(tmp_path: Path) -> None:
    home = tmp_path / "clients"
    home.mkdir()
    (home / "a.csv").write_text("time\n2024-01-01T10:00\n")
    (home / "b.csv").write_text("time\n")
    table = pl.DataFrame({"start": ["2024-01-01"], "end": ["2024-01-02"]})
    clients = read_events(home, windows=table, unit="h")
    assert [client.rows for client in clients.values()] == [1, 0]
    assert all(client.end[0] - client.start[0] == 24.0 for client in clients.values())
    assert len({client.schema for client in clients.values()}) == 1


def test_window_columns_may_differ_between_sequences() -> None:
    frame = pd.DataFrame({"sequence": ["a", "b", "a"], "time": [1, 2, 3], "start": [0, 1, 0], "end": [9, 8, 9]})
    assert read_events(frame)["client"].windows == {"a": (0.0, 9.0), "b": (1.0, 8.0)}


def test_marks_are_the_same_everywhere() -> None:
    frame = pd.DataFrame({"client": list("aabb"), "time": [0, 1, 0, 1], "mark": ["u", "v", "w", "w"]})
    clients = read_events(frame)
    assert clients["a"].marks == clients["b"].marks == ("u", "v", "w")
    assert clients["b"].mark.tolist() == [2, 2]
    assert read_events(frame, marks=("w", "v", "u"))["b"].mark.tolist() == [0, 0]


def test_posts_of_lists_and_texts() -> None:
    listed = pl.DataFrame({"text": ["a", "b"], "hashtags": [["#x", "y"], None], "mentions": [["@me"], []]})
    joined = pl.DataFrame({"text": ["a", "b"], "hashtags": ["#x  y", None], "mentions": ["@me", ""]})
    first, second = read_posts(listed)["client"], read_posts(joined)["client"]
    assert first.hashtags == second.hashtags == (("x", "y"), ())
    assert first.mentions == second.mentions == (("me",), ())
    assert first.fingerprint() == second.fingerprint()


@pytest.mark.parametrize(
    "tags", ["#duero,#flood", "duero; flood", "duero|flood", "['duero', 'flood']", '["#duero","flood"]']
)
def test_tags_are_told_apart_whatever_stands_between(tags: str) -> None:
    """With commas they were one tag, in silence."""
    assert read_posts(pd.DataFrame({"text": ["a"], "hashtags": [tags]}))["client"].hashtags == (("duero", "flood"),)


@pytest.mark.parametrize("date", ["2025-03-03T05:13:52.626809+00:00", "Mon Mar 03 00:01:49 +0000 2025"])
def test_a_column_of_dates_is_not_offered_as_the_text(date: str) -> None:
    with pytest.raises(DataError, match=r"pass columns=\{'text': 'full_text'\}"):
        read_series(pd.DataFrame({"created_at": [date] * 3, "full_text": ["The river has burst its banks"] * 3}))


def test_a_label_that_means_no_event_is_taken_off() -> None:
    frame = pd.DataFrame({"text": ["a", "b", "c"], "event": ["none", "flood", "none "]})
    assert read_posts(frame, labels={"none": ""})["client"].event == (None, "flood", None)


def test_posts_keep_extra_columns_and_their_order() -> None:
    frame = pd.DataFrame(
        {"time": [2.0, None, 1.0], "text": ["b", "c", "a"], "id": [20, 30, 10], "event": ["e", None, ""]}
    )
    posts = read_posts(frame)["client"]
    assert posts.text == ("b", "c", "a")
    assert posts.extra == {"id": (20, 30, 10)}
    assert posts.event == ("e", None, None)
    assert posts.schema.columns == ("time", "event")


def test_lines_of_json_are_rows(tmp_path: Path) -> None:
    lines = [
        '{"text": "a\u2028b", "time": "2025-10-24T10:00Z", "id": 1, "user": {"name": "x"}}',
        "",
        '{"text": "c", "time": "2025-10-24T09:00Z", "event": 3, "hashtags": ["#x"]}',
    ]
    (tmp_path / "p.jsonl").write_text("\n".join(lines), encoding="utf-8")
    posts = read_posts(tmp_path / "p.jsonl", unit="h")["p"]
    assert posts.text == ("a\u2028b", "c")
    assert (posts.event, posts.hashtags, posts.extra["id"]) == ((None, "3"), ((), ("x",)), (1, None))
    assert np.diff(posts.time).tolist() == [-1.0]
    (tmp_path / "bad.jsonl").write_text('{"text": "a"}\n\n["b"]\n{"text"\n' + "[" * 100_000)
    with pytest.raises(DataError) as caught:
        read_posts(tmp_path / "bad.jsonl")
    assert [problem.row for problem in caught.value.problems] == [2, 3, 4]
    (tmp_path / "mixed.jsonl").write_text('{"text": "a"}\n{"text": 1}\n')
    with pytest.raises(DataError, match="column text: a column must hold one kind of value"):
        read_posts(tmp_path / "mixed.jsonl")


def test_a_label_is_one_however_it_is_written(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("text,event\na,3\nb,3.0\nc,3 \nd, flood\ne, \nf,3.5\n")
    assert read_posts(tmp_path / "p.csv")["p"].event == ("3", "3", "3", "flood", None, "3.5")


@pytest.mark.parametrize(
    "spellings", [("Flood-Porto", "flood porto"), ("Flood_Porto", "FloodPorto"), ("Tō", "To\u0304")]
)
def test_labels_that_are_spelled_alike_are_told_of(spellings: tuple[str, str]) -> None:
    with pytest.warns(DataWarning, match="differ in case, spaces, hyphens or underscores only"):
        read_posts(pd.DataFrame({"text": ["a", "b"], "event": spellings}))


def test_spellings_of_a_label_come_with_the_lines_that_mend_them() -> None:
    frame = pd.DataFrame({"text": ["a", "b", "c"], "event": ["flood", "FLOOD", "FLOOD"]})
    with pytest.warns(DataWarning, match=r'labels = {"flood" = "FLOOD"} in \[data\]'):
        read_posts(frame)
    both = pd.concat([frame, frame.assign(event=["big fire", "big_fire", "big_fire"])])
    with pytest.warns(DataWarning, match="labels 'flood' and 'FLOOD', and 'big fire' and 'big_fire' differ") as caught:
        read_posts(both)
    one = [str(warning.message) for warning in caught]  # two lines of TOML with one key cannot stand together
    assert len(one) == 1
    assert 'labels = {"flood" = "FLOOD", "big fire" = "big_fire"}' in one[0]


def test_labels_get_the_names_that_a_table_of_aliases_says() -> None:
    frame = pd.DataFrame({"text": ["a", "b", "c"], "event": ["Flood-Porto", " flood porto", None]})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = read_posts(frame, labels={"flood porto": "Flood-Porto"})["client"]
    assert found.event == ("Flood-Porto", "Flood-Porto", None)
    with pytest.raises(ParameterError, match="labels must map texts to texts"):
        read_posts(frame, labels={"": "flood porto"})
    with pytest.raises(ParameterError, match="labels must map texts to texts"):
        read_posts(frame, labels=["flood porto"])


def test_labels_that_differ_in_case_only_are_told_of() -> None:
    texts = {"text": ["a", "b"]}
    frames = {
        "a": pd.DataFrame({**texts, "event": ["Sardinia ", None]}),
        "b": pd.DataFrame({**texts, "event": "sardinia"}),
    }
    with pytest.warns(DataWarning, match="labels 'Sardinia' and 'sardinia' differ in case"):
        read_posts(frames)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_posts({"b": frames["b"]})


def test_western_european_text_of_windows_is_read_with_a_warning(tmp_path: Path) -> None:
    rows = "text,suceso\nInundación en Málaga,“año”\n"
    (tmp_path / "p.csv").write_bytes(rows.encode("cp1252"))
    with pytest.warns(DataWarning, match=r"p\.csv: not UTF-8, read as cp1252"):
        posts = read_posts(tmp_path / "p.csv", columns={"event": "suceso"})["p"]
    assert (posts.text, posts.event) == (("Inundación en Málaga",), ("“año”",))
    (tmp_path / "s.csv").write_bytes("time,°C\n0,1\n".encode("cp1252"))  # in names of columns only
    with pytest.warns(DataWarning, match="cp1252"):
        assert read_series(tmp_path / "s.csv")["s"].features == ("°C",)
    (tmp_path / "late.csv").write_bytes(b"text\n" + b"plain\n" * 200_000 + "año\n".encode("cp1252"))
    with pytest.warns(DataWarning, match="cp1252"):
        assert read_posts(tmp_path / "late.csv")["late"].text[-1] == "año"


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf16_text_is_read_with_a_warning(encoding: str, tmp_path: Path) -> None:
    rows = '\ufefftext;suceso\n"Inundación\nen 那覇";año\n'
    (tmp_path / "p.csv").write_bytes(rows.encode(encoding))
    with pytest.warns(DataWarning, match=r"p\.csv: not UTF-8, read as UTF-16"):
        posts = read_posts(tmp_path / "p.csv", columns={"event": "suceso"})["p"]
    assert (posts.text, posts.event) == (("Inundación\nen 那覇",), ("año",))
    (tmp_path / "cut.csv").write_bytes(rows.encode(encoding)[:-1])
    with pytest.raises(DataError, match="must be a readable CSV file"):
        read_posts(tmp_path / "cut.csv")


def test_times_since_1970_are_told_how_to_read() -> None:
    frame = pd.DataFrame({"text": ["a", "b"], "time": [1782865133997, 1782873832178]})
    with pytest.warns(DataWarning, match='read them with date_format="ms"'):
        read_posts(frame)
    assert read_posts(frame, date_format="ms")["client"].unit == "s"


@pytest.mark.parametrize("text", ["Málaga\nM\xe1laga", "\U0001f600\n\xff"], ids=["damaged", "emoji"])
def test_damaged_utf8_is_refused(text: str, tmp_path: Path) -> None:
    first, last = text.split("\n")
    (tmp_path / "p.csv").write_bytes(b"text\n" + first.encode() + b"\n" + last.encode("latin-1") + b"\n")
    with pytest.raises(DataError, match="row 3: a CSV file must be UTF-8"):
        read_posts(tmp_path / "p.csv")


def test_emoji_alone_are_utf8(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("text\nflood \U0001f600\n", encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_posts(tmp_path / "p.csv")["p"].text == ("flood \U0001f600",)


def test_features_may_be_missing_at_some_clients() -> None:
    frame = pd.DataFrame({"client": ["a", "b"], "time": [0, 0], "x": [1.0, None]})
    assert np.isnan(read_series(frame)["b"].values).all()


def test_files_may_name_their_columns_in_another_order(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("time,x,y\n0,1,2\n")
    (tmp_path / "b.csv").write_text("y,time,x\n2,0,1\n")
    clients = read_series(tmp_path)
    assert clients["a"].fingerprint() == clients["b"].fingerprint()


def test_categories_in_parquet(tmp_path: Path) -> None:
    frame = pd.DataFrame({"client": ["a", "b"], "time": [0, 0], "x": [1, 2]}).astype(
        {"client": "category", "x": "category"}
    )
    frame.to_parquet(tmp_path / "d.parquet")
    assert read_series(tmp_path / "d.parquet")["b"].values.tolist() == [[2.0]]
    assert read_series(frame)["b"].values.tolist() == [[2.0]]


def test_unit_is_checked() -> None:
    with pytest.raises(ParameterError, match="unit must be one of s, h, D, got 'm'"):
        read_series(pd.DataFrame({"time": [0], "x": [1]}), unit="m")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=200), suffix=st.sampled_from([".csv", ".csv.gz", ".parquet"]))
def test_no_bytes_make_a_foreign_error(data: bytes, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"any{suffix}"
    path.write_bytes(data)
    for read in (read_events, read_series, read_posts):
        with pytest.raises(DataError):
            read(path)


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".parquet"])
def test_no_damage_makes_a_foreign_error(suffix: str, tmp_path: Path) -> None:
    frame = pd.DataFrame({"client": ["é", "b"] * 20, "time": range(40), "text": ["one, two"] * 40})
    path = tmp_path / f"any{suffix}"
    frame.to_parquet(path) if suffix == ".parquet" else frame.to_csv(path, index=False)
    whole, rng = np.frombuffer(path.read_bytes(), np.uint8), np.random.default_rng(0)
    for _ in range(200):
        damaged = whole.copy()
        places = rng.integers(0, len(whole), rng.integers(1, 6))
        damaged[places] = rng.integers(0, 256, len(places))
        path.write_bytes(damaged.tobytes()[: rng.integers(1, 2 * len(whole))])
        with contextlib.suppress(DataError):
            read_posts(path, limit=10_000_000)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(
        st.lists(
            st.sampled_from(["", "0", "1.5", "-1", "nan", "x", '"', "2024-01-01", "é", "\x00", "1e999"]), max_size=5
        ),
        max_size=5,
    ),
    header=st.sampled_from(["client,time,x", "time,mark", "text,time,hashtags", "sequence,time,start,end"]),
)
@example(rows=[["", "0", ""], ["", "0", ""]], header="client,time,x")
def test_no_table_makes_a_foreign_error(rows: list[list[str]], header: str, tmp_path: Path) -> None:
    path = tmp_path / "any.csv"
    path.write_text("\n".join([header, *(",".join(row) for row in rows)]), encoding="utf-8")
    for read in (read_events, read_series, read_posts):
        with contextlib.suppress(DataError):
            assert all(len(table) for table in read(path).values())


def test_marks_that_are_missing_are_no_type_of_event() -> None:
    """Signs that `time` knows as missing became types of their own: 'n/a', 'nan'."""
    frame = pd.DataFrame({"time": [1.0, 2.0, 3.0, 4.0], "mark": ["red", "n/a", " NaN ", None]})
    with pytest.raises(DataError, match=r"mark, row 1: must be given in every row; pass unmarked=.*2 more rows: 2, 3"):
        read_events(frame)
    table = read_events(frame, unmarked="unknown")["client"]
    assert table.marks == ("red", "unknown")
    assert table.mark.tolist() == [0, 1, 1, 1]


def test_a_column_of_dates_is_the_nearest_to_time() -> None:
    frame = pd.DataFrame({"site": ["a"], "admitted_at": ["2025-09-01T00:00:00Z"], "triage": ["x"]})
    with pytest.raises(DataError, match=r"'time' must be there .did you mean 'admitted_at'"):
        read_events(frame)


def test_posts_without_times_can_be_made_of_others_and_missing_ones_are_left_out_as_said() -> None:
    posts = Posts(time=[1.0, np.nan, 3.0], text=("a", "b", "c"))
    assert np.isnan(replace(posts, time=None).time).all()  # was a TypeError
    with pytest.raises(DataError, match=r"leave those without one out: posts\.select\(np\.isfinite\(posts\.time\)\)"):
        posts.split_by_time([0.5, 0.5])
    assert posts.select(np.isfinite(posts.time)).split_by_time([0.5, 0.5])[0].text == ("a",)
