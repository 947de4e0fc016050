"""Tables own what they hold, refuse what makes no sense, and cut themselves at gaps."""

from __future__ import annotations

import dataclasses
import pickle
import warnings
from typing import Any

import numpy as np
import pandas
import polars
import polars.testing
import pyarrow
import pytest

import cotempo as ct
from cotempo.data import Events, Posts, Schema, Series, make_events, make_posts, make_series
from cotempo.errors import DataError, ParameterError
from cotempo.runs.experiment import DataSettings


def examples() -> list[Any]:
    made = (make_events(1, 3, marks=2), make_series(1, 2, 10), make_posts(1, 20, 5))
    return [clients["client-0"] for clients, _ in made]


@pytest.mark.parametrize("table", examples(), ids=lambda table: table.kind)
def test_tables_cannot_change(table: Any) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        table.unit = "h"
    with pytest.raises(ValueError, match="read-only"):
        table.time[0] = 1.0


@pytest.mark.parametrize("table", examples(), ids=lambda table: table.kind)
def test_tables_survive_another_process_unchanged(table: Any) -> None:
    copy = pickle.loads(pickle.dumps(table))
    assert copy.fingerprint() == table.fingerprint()
    assert not copy.time.flags.writeable
    assert copy.schema == table.schema
    assert repr(copy) == repr(table)
    assert len(copy) == table.rows


@pytest.mark.parametrize("table", examples(), ids=lambda table: table.kind)
def test_frames_have_as_many_rows(table: Any) -> None:
    assert len(table.to_frame()) == len(table.to_frame("polars")) == table.to_frame("pyarrow").num_rows == table.rows
    with pytest.raises(ParameterError, match="did you mean 'pandas'"):
        table.to_frame("panda")


EVIL = "<script>alert(1)</script>"


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (Series.from_arrays([[1.0], [1.0]], features=(EVIL,)), ("Series", "<td>rows</td><td>2</td>", "is constant")),
        (Events.from_arrays([[1.0]], (0, 4), [[EVIL]]), ("Events", "<td>sequences</td><td>1</td>", "marks")),
        (Posts(time=[0.0], text=(EVIL,), event=(EVIL,)), ("Posts", "<td>labels</td><td>1</td>", "time, event")),
    ],
)
def test_notebooks_show_a_short_summary(table: Any, words: tuple[str, ...]) -> None:
    page = table._repr_html_()
    assert all(word in page for word in words)
    assert "<script" not in page


RESULTS = [
    ct.Network(np.array([[0.0, 0.5], [0.0, 0.0]]), np.zeros((1, 2, 2)), ("a", "b")),
    ct.rank_edges({"a": make_series(1, 30, 2)[0]["client-0"]}, score="granger"),
]


@pytest.mark.parametrize("table", [*examples(), *RESULTS], ids=lambda table: type(table).__name__)
def test_dataframe_libraries_take_tables_and_results_as_they_are(table: Any) -> None:
    pandas.testing.assert_frame_equal(pandas.DataFrame(table), table.to_frame())
    pandas.testing.assert_frame_equal(pandas.DataFrame.from_arrow(table), table.to_frame(), check_dtype=False)
    polars.testing.assert_frame_equal(polars.DataFrame(table), table.to_frame("polars"))
    assert pyarrow.table(table).equals(table.to_frame("pyarrow"))
    assert list(table) == table.to_frame("pyarrow").to_pylist()


def test_holes_stay_holes_on_their_way() -> None:
    series = Series.from_arrays([[1.0, np.nan], [np.nan, 2.0]])
    assert pandas.DataFrame(series)["x0"].isna().tolist() == [False, True]
    empty = series.select([])
    assert polars.DataFrame(empty).columns == ["sequence", "time", "x0", "x1"]
    assert len(pandas.DataFrame(empty)) == 0


def test_arrays_are_copies() -> None:
    values = np.ones((3, 1))
    series = Series.from_arrays(values)
    values[:] = 5
    assert series.values.max() == 1


def test_fingerprint_tells_contents_apart() -> None:
    first = Series.from_arrays([[0.0], [np.nan]])
    assert first.fingerprint() == Series.from_arrays([[-0.0], [-np.nan]]).fingerprint()
    others = [
        Series.from_arrays([[0.0], [1.0]]),
        Series.from_arrays([[0.0], [np.nan]], features=("y",)),
        Series.from_arrays([[0.0], [np.nan]], time=[0, 2]),
        Series.from_arrays([[0.0], [np.nan]], unit="s"),
        Series.from_arrays([[[0.0]], [[np.nan]]]),
    ]
    assert len({table.fingerprint() for table in [first, *others]}) == 6


def test_series_of_several_arrays() -> None:
    series = Series.from_arrays([np.zeros((2, 3)), np.ones((1, 3))], unit="h")
    assert [(name, len(time)) for name, time, _ in series.sequences()] == [("0", 2), ("1", 1)]
    assert series.schema == Schema("series", ("x0", "x1", "x2"), "h")


def test_sequences_keep_their_order_beyond_ten() -> None:
    series = Series.from_arrays([np.full((1, 1), number) for number in range(12)])
    assert [float(values[0, 0]) for _, _, values in series.sequences()] == list(range(12))


def test_pieces_stop_at_gaps_and_sequences() -> None:
    time = [[0, 1, 2.5, 4.1, 5], [0, 10, 20]]
    series = Series.from_arrays([np.zeros((5, 1)), np.ones((3, 1))], time=time)
    # median step of the first sequence is 1.25: 1.6 is no gap; the second has its own clock
    assert [len(piece) for piece, _ in series.pieces()] == [5, 3]
    cut = Series.from_arrays(np.zeros((5, 1)), time=[0, 1, 2, 3.6, 4.6])
    assert [piece.tolist() for piece, _ in cut.pieces()] == [[0, 1, 2], [3.6, 4.6]]


def test_empty_selection() -> None:
    series = Series.from_arrays(np.zeros((3, 2)))
    assert series.select([]).rows == 0
    assert series.select(np.array([True, False, True])).time.tolist() == [0, 2]
    assert list(series.select([]).sequences()) == []
    posts = Posts(time=[0.0], text=("a",))
    assert posts.select([]).rows == 0


SERIES_FAULTS = [
    (lambda: Series.from_arrays([[1.0], [2.0]], time=[1, 0]), "increase strictly"),
    (lambda: Series.from_arrays([[1.0], [2.0]], time=[1, 1]), "increase strictly"),
    (lambda: Series.from_arrays([[1.0], [2.0]], time=[1]), "one entry for each row"),
    (lambda: Series.from_arrays([1.0, 2.0]), r"must be \(rows, features\)"),
    (lambda: Series.from_arrays([[np.inf]]), "finite"),
    (lambda: Series.from_arrays([[1.0]], time=[np.nan]), "time must be finite"),
    (lambda: Series.from_arrays([[1.0, 2.0]], features=("a", "a")), "feature names must differ"),
    (lambda: Series.from_arrays([[1.0, 2.0]], features=("a",)), "must be"),
    (lambda: Series.from_arrays([np.zeros((1, 1)), np.zeros((1, 2))]), "same features"),
    (lambda: Series(("a",), ["b", "a"], [0, 1], [[1], [2]]), "sorted by the name"),
    (lambda: Events.from_arrays([[2.0, 1.0]], (0, 5)), "must be finite and sorted"),
    (lambda: Events.from_arrays([[np.nan]], (0, 5)), "must be finite and sorted"),
    (lambda: Events.from_arrays([[1.0, 6.0]], (0, 5)), "must lie in its window"),
    (lambda: Events.from_arrays([[1.0]], (5, 0)), "must end after its start"),
    (lambda: Events.from_arrays([[1.0]]), "must end after its start"),
    (lambda: Events.from_arrays([[1.0, 2.0]], marks=[["a"]]), "one entry for each event"),
    (lambda: Events.from_arrays([[1.0, 2.0]], marks=[["a", "b"]], mark_names=["a"]), "one of mark_names"),
    (lambda: Events(["a"], [1], [0], (), ["b"], [0], [5]), "every sequence must have a window"),
    (lambda: Events(["a"], [1], [3], (), ["a"], [0], [5]), "positions in marks"),
    (lambda: Events([], [], [], (), ["b", "a"], [0, 0], [5, 5]), "differ and be sorted"),
    (lambda: Posts(time=[0.0], text=("a", "b")), "time must have one entry"),
    (lambda: Posts(time=[np.inf], text=("a",)), "finite"),
]


@pytest.mark.parametrize(("make", "words"), SERIES_FAULTS)
def test_wrong_arrays_are_refused(make: Any, words: str) -> None:
    with pytest.raises(DataError, match=words):
        make()


def test_events_without_windows_reach_from_first_to_last() -> None:
    assert Events.from_arrays([[1.0, 1.0, 4.0]]).windows == {"0": (1.0, 4.0)}


def test_sequences_without_events_are_kept() -> None:
    events = Events.from_arrays([[], [1.0]], windows=[(0, 2), (1, 3)], marks=[[], ["b"]], mark_names=("a", "b"))
    parts = [
        (name, times.tolist(), codes.tolist(), start, end) for name, times, codes, start, end in events.sequences()
    ]
    assert parts == [("0", [], [], 0.0, 2.0), ("1", [1.0], [1], 1.0, 3.0)]
    assert events.schema == Schema("events", ("a", "b"), "")


def test_means_of_on_and_off_are_said_to_be_shares():
    table = Series.from_arrays([[0, 1, 3.0], [1, 1, 4.0], [0, 0, 6.0], [0, 0, np.nan]], features=("pump", "night", "x"))
    with pytest.warns(UserWarning, match="are shares, and no on/off: pump;"):
        assert table.resample(2).values[:, 0].tolist() == [0.5, 0.0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table.select(features=["night", "x"]).resample(2)


def test_means_over_bins_of_time(tmp_path):
    frame = pandas.DataFrame(
        {"time": pandas.to_datetime(["2025-01-01 00:10", "2025-01-01 00:50", "2025-01-01 02:00"]), "x": [1.0, 3.0, 7.0]}
    )
    path = tmp_path / "a.csv"
    frame.to_csv(path, index=False)
    table = ct.read_series(path, unit="h", resample="1h")["a"]
    assert np.array_equal(table.values.ravel(), [2.0, np.nan, 7.0], equal_nan=True)
    assert table.clock.text(table.time[0]).startswith("2025-01-01 00:00")
    assert np.diff(table.time).tolist() == [1.0, 1.0]
    said = DataSettings(source=str(path), unit="h", resample="1h").read_tables(path, "series")["a"]
    assert np.array_equal(said.values, table.values, equal_nan=True)
    with pytest.raises(DataError, match="resample must name clients"):
        ct.read_series(path, unit="h", resample={"b": "1h"})
    with pytest.raises(DataError, match="length of time"):
        table.resample("soon")
