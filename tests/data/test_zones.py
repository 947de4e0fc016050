"""A table keeps the time zone its dates came in, and dates with and without one never mix."""

import datetime
import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from cotempo.data import Events, Posts, Series, read_events, read_posts, read_series, split_by_time, write_clients
from cotempo.data.clock import Clock
from cotempo.errors import DataError, DataWarning, ParameterError, SchemaError
from cotempo.federation.mean import FedMean

BERLIN = pd.date_range("2025-03-29 22:00", periods=6, freq="h", tz="Europe/Berlin")  # over the change of hours


def as_series(times: Any, **options: Any) -> Series:
    return read_series(pd.DataFrame({"time": times, "x": np.arange(float(len(times)))}), **options)["client"]


@pytest.mark.parametrize(
    ("times", "zone"),
    [
        (BERLIN, "Europe/Berlin"),
        (BERLIN.tz_localize(None), ""),
        (BERLIN.tz_convert("UTC"), "UTC"),
        (BERLIN.tz_convert(datetime.timezone(datetime.timedelta(hours=-3.5))), "-03:30"),
        (["2025-03-05 07:00+01:00", "2025-03-05T08:00+01"], "+01:00"),
        (["2025-03-05T07:00Z", "2025-03-05 08:00 UTC"], "UTC"),
        (["2025-03-30 01:00+0100", "2025-03-30 03:00+0200"], "UTC"),  # winter and summer time: no common offset
        (["2025-03-05", "2025-03-06 07:00"], ""),
    ],
)
def test_readers_fill_the_zone(times: Any, zone: str) -> None:
    series = as_series(times, unit="h")
    assert (series.clock, series.schema.clock) == (Clock("h", zone), Clock("h", zone))
    assert series.time[0] == pd.Timestamp(times[0]).timestamp() / 3600


def test_polars_and_arrow_columns() -> None:
    times = pl.Series([0, 9]).cast(pl.Datetime("ms", "Asia/Tokyo"))
    frame = pl.DataFrame({"time": times, "text": ["a", "b"]})
    assert read_posts(frame)["client"].zone == "Asia/Tokyo"
    assert read_events(pa.table({"time": pa.array([0, 9], pa.timestamp("s", "+05:30"))}))["client"].zone == "+05:30"


def test_the_zone_stays_through_everything_done_to_a_table() -> None:
    series = as_series(BERLIN)
    later = split_by_time(series, (0.5, 0.5))[1]
    for table in (series.select([0, 1]), later, series.take([0]), series.regular(), pickle.loads(pickle.dumps(series))):
        assert table.zone == "Europe/Berlin"
    assert series.fingerprint() == as_series(BERLIN.tz_convert("UTC")).fingerprint()  # the same moments
    assert Posts([0.0], ("a",), unit="s", zone="UTC").select([0]).clock == Clock("s", "UTC")


def test_local_times_get_a_zone() -> None:
    local = as_series(["2025-03-30 01:00", "2025-03-30 03:00"], unit="h", zone="Europe/Berlin")
    assert (local.zone, np.diff(local.time).tolist()) == ("Europe/Berlin", [1.0])  # there was no hour from 2 to 3
    assert as_series(BERLIN.tz_localize(None)[:2], zone="Europe/Berlin").time[0] == BERLIN[0].timestamp()
    mixed = as_series(["2025-03-29 22:00", "2025-03-29 22:00Z"], zone="Europe/Berlin", unit="h")
    assert (mixed.zone, np.diff(mixed.time).tolist()) == ("Europe/Berlin", [1.0])
    for twice_or_never in ("2025-10-26 02:30", "2025-03-30 02:30"):
        with pytest.raises(DataError, match=f"must be a time that Europe/Berlin had once; .* got {twice_or_never}"):
            as_series([twice_or_never], zone="Europe/Berlin")
    clear = as_series(["2025-10-26 02:30+01:00", "2025-10-26 00:30Z", "2025-10-26 04:00"], zone="Europe/Berlin")
    assert np.diff(clear.time).tolist() == [3600.0, 5400.0]
    with pytest.raises(ValueError, match=r"zone must be a time zone such as 'Europe/Berlin'.*, got 'Berlin'"):
        as_series(["2025-10-26 02:30"], zone="Berlin")


@pytest.mark.parametrize("style", ["", "%d.%m.%Y %H:%M"])
def test_the_hour_that_clocks_repeat_is_chosen_for_events(style: str, tmp_path: Any) -> None:
    """What pandas infers from the order of rows is wrong of events, which need not have both hours."""
    stamps = pd.to_datetime(["2025-10-26 00:30", "2025-10-26 02:40", "2025-10-26 02:10", "2025-10-26 05:00"])
    frame = pd.DataFrame({"time": stamps.strftime(style) if style else stamps})
    options: dict[str, Any] = {"zone": "Europe/Berlin", "unit": "h", "date_format": style}
    with pytest.raises(DataError, match="clocks repeat the hour: pass ambiguous='first' or 'second'"):
        read_events(frame, **options)
    for hour, later in (("first", 0), ("second", 1)):
        time = read_events(frame, **options, ambiguous=hour)["client"].time
        assert time - time[0] == pytest.approx([0, 5 / 3 + later, 13 / 6 + later, 5.5])
    with pytest.raises(DataError, match="clocks skip the hour: correct it"):
        read_events(pd.DataFrame({"time": ["2025-03-30 02:30"]}), zone="Europe/Berlin", ambiguous="first")
    with pytest.raises(ParameterError, match="ambiguous must be one of first, second, got 'infer'"):
        read_events(frame, **options, ambiguous="infer")


WINDOWS = {"start": ["2025-03-05"], "end": ["2025-03-06"]}


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"time": ["2025-03-05 07:00+01:00", "2025-03-05 08:00"]}, "row 1: must have a time zone, as others"),
        ({"time": ["2025-03-05 07:00Z"], **WINDOWS}, "column start: must be dates with a time zone, as time is"),
        ({"time": ["2025-03-05 07:00Z"], "windows": WINDOWS}, "windows table: .* must be dates with a time zone"),
        ({"client": ["a"], "time": ["2025-03-05 07:00"], **{name: [f"{day[0]}T00Z"] for name, day in WINDOWS.items()}},
         "column end: must be dates without a time zone, as time is, got dates with a time zone"),
    ],
)  # fmt: skip
def test_dates_with_and_without_a_zone_do_not_mix(options: dict[str, Any], match: str) -> None:
    windows = options.pop("windows", None)
    table = None if windows is None else pd.DataFrame(windows)
    with pytest.raises(DataError, match=match):
        read_events(pd.DataFrame(options), windows=table)


def test_nor_do_clients(tmp_path: Any) -> None:
    (tmp_path / "a.csv").write_text("time,x\n2025-03-05 07:00Z,1\n")
    (tmp_path / "b.csv").write_text("time,x\n2025-03-05 07:00,1\n")
    with pytest.raises(DataError, match=r"client b, column time: .*'a' has dates with a time zone.*pass zone="):
        read_series(tmp_path)
    assert read_series(tmp_path, zone="Europe/Berlin")["b"].zone == "Europe/Berlin"
    aware, naive = as_series(BERLIN), as_series(BERLIN.tz_localize(None))
    with pytest.raises(SchemaError, match="a has one, b has none; read the latter with zone="):
        FedMean().fit({"a": aware, "b": naive})
    FedMean().fit({"a": aware, "b": as_series(BERLIN.tz_convert("Asia/Tokyo"))})


def test_regular_adds_the_missing_rows() -> None:
    series = Series.from_arrays([[[1.0], [2.0], [5.0]], [[7.0]]], time=[[10, 20.5, 50], [3]], unit="s")
    filled = series.regular()
    assert filled.time.tolist() == [10, 20.5, pytest.approx(30.33, abs=0.01), pytest.approx(40.17, abs=0.01), 50, 3]
    assert filled.sequence.tolist() == ["0"] * 5 + ["1"]
    assert np.array_equal(filled.values.ravel(), [1, 2, np.nan, np.nan, 5, 7], equal_nan=True)
    assert filled.regular().fingerprint() == filled.fingerprint()
    assert Series.from_arrays([[1.0], [2.0]], time=[0, 4]).regular(step=1.0).rows == 5
    with pytest.raises(DataError, match="multiples of 10, or near them, got 1 other in '0'; round or resample"):
        Series.from_arrays([[1.0]] * 4, time=[0, 10, 20, 34]).regular()
    with pytest.raises(DataError, match="at most 1,000 times as many rows, got 1,000,000,001 for 2 rows"):
        Series.from_arrays([[1.0]] * 2, time=[0, 1e9]).regular(step=1.0)


@pytest.mark.parametrize("zone", ["Europe/Berlin", "+05:30", "UTC", ""])
@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_dates_come_out_as_they_went_in(zone: str, kind: Any) -> None:
    dates = pd.DatetimeIndex(["2025-03-29 22:00:00.000001", "2025-03-30 04:00"], tz=zone or None)
    frame = pd.DataFrame({"time": dates, "start": dates[0].floor("D"), "end": dates[1].ceil("D")})
    table = read_events(frame, unit="h")["client"]
    out = table.to_frame(kind)
    if kind == "pandas":
        assert all((out[name] == frame[name]).all() for name in frame)
    assert read_events(out, unit="h")["client"].fingerprint() == table.fingerprint()
    assert kind == "polars" or read_events(out, unit="h")["client"].zone == table.zone


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_files_of_clients_in_several_zones(tmp_path: Any, suffix: str) -> None:
    clients = {"a": as_series(BERLIN), "b": as_series(BERLIN.tz_convert("Asia/Tokyo"))}
    with pytest.warns(DataWarning, match="written in UTC, as clients live in several zones; .* read with zone={'a': "):
        (path,) = write_clients(clients, tmp_path / f"plants.{suffix}")
    kept = read_series(path, zone={name: table.zone for name, table in clients.items()})
    assert {name: table.zone for name, table in kept.items()} == {"a": "Europe/Berlin", "b": "Asia/Tokyo"}
    assert kept["b"].fingerprint() == clients["b"].fingerprint()
    again = read_series(path)
    assert [table.fingerprint() for table in again.values()] == [table.fingerprint() for table in clients.values()]
    assert again["b"].zone == "UTC"
    with pytest.raises(DataError, match="times of one unit, with a zone or without"):
        write_clients({**clients, "c": as_series(BERLIN.tz_localize(None))}, tmp_path / "odd.csv")


def test_posts_without_a_time_stay_so() -> None:
    posts = read_posts(pd.DataFrame({"time": ["2025-03-29 22:00Z", None], "text": ["a", "b"]}))["client"]
    assert posts.to_frame()["time"].isna().tolist() == [False, True]
    assert posts.to_frame("pyarrow")["time"].to_pylist()[1] is None


def test_errors_show_dates() -> None:
    frame = pd.DataFrame({"time": ["2025-03-05 07:00", "2025-03-07 08:00"], "start": "2025-03-05", "end": "2025-03-06"})
    window = r"window \[2025-03-05 00:00:00, 2025-03-06 00:00:00\]"
    with pytest.raises(DataError, match=f"row 1: must lie in its {window}, got 2025-03-07 08:00:00"):
        read_events(frame, unit="h")
    events = read_events(frame.iloc[:1], unit="h")["client"]
    with pytest.raises(DataError, match=f"must lie in its {window}"):
        replace(events, time=events.time + 48)


def test_arrays_of_dates_and_lengths_of_time() -> None:
    series = Series.from_arrays(np.ones((6, 1)), time=BERLIN, unit="h", zone="Europe/Berlin")
    assert (series.to_frame()["time"] == BERLIN).all()
    naive = BERLIN.tz_localize(None)
    events = Events.from_arrays([naive[:2]], windows=[["2025-03-29", "2025-03-31"]], unit="D")
    assert events.to_frame()["end"].tolist() == [pd.Timestamp("2025-03-31")] * 2
    for step in (0.5, "30min", datetime.timedelta(minutes=30)):
        assert series.regular(step).rows == 11
    with pytest.raises(DataError, match="times must be numbers"):
        Series.from_arrays(np.ones((6, 1)), time=naive)
    with pytest.raises(DataError, match="have a time zone"):
        Series.from_arrays(np.ones((6, 1)), time=naive, unit="h", zone="UTC")
    for step in ("often", 0, -1.0, "-1h"):
        with pytest.raises(DataError, match="a length of time must be a number above 0 or a duration"):
            series.regular(step)
    with pytest.raises(DataError, match="a length of time must be a number above 0, got '1h'"):
        Series.from_arrays(np.ones((6, 1))).regular("1h")


def test_the_hour_that_comes_twice_is_one_fault() -> None:
    local = pd.date_range("2024-10-26 20:00", periods=20, freq="h", tz="Europe/Berlin").tz_localize(None)
    frame = pd.DataFrame({"time": local.strftime("%Y-%m-%d %H:%M"), "x": range(20)})
    with pytest.raises(DataError) as error:
        read_series({"a": frame.iloc[[*range(0, 20, 2), *range(1, 20, 2)]]}, zone="Europe/Berlin")  # in no order
    assert all("had once" in str(problem) for problem in error.value.problems)


@pytest.mark.parametrize(("part", "size"), [("s", 1), ("ms", 10**3), ("ns", 10**9)])
@pytest.mark.parametrize("written", [int, str, float])
def test_numbers_since_1970_are_dates(part, size, written):
    dates = pd.to_datetime(["2025-03-03 07:30", "2025-07-01 12:00"]).tz_localize("Europe/Berlin")
    seconds = [int(date.timestamp()) for date in dates]
    frames = {
        "nord": pd.DataFrame({"time": dates.strftime("%d.%m.%Y %H:%M")}),
        "lyon": pd.DataFrame({"time": [written(second * size) for second in seconds]}),
    }
    formats = {"nord": "%d.%m.%Y %H:%M", "lyon": part}
    clients = read_events(frames, unit="h", zone="Europe/Berlin", date_format=formats)
    assert clients["lyon"].time.tolist() == clients["nord"].time.tolist()
    assert clients["lyon"].clock == clients["nord"].clock
    alone = read_events({"lyon": frames["lyon"]}, date_format=part)["lyon"]
    assert (alone.time.tolist(), alone.zone) == (seconds, "UTC")


def test_numbers_beside_dates_are_told_the_way_out():
    frames = {"a": pd.DataFrame({"time": [1.7e9, 1.8e9]}), "b": pd.DataFrame({"time": ["2025-01-01", "2025-01-02"]})}
    with pytest.raises(DataError, match=r"date_format=\{'a': 's'\}"):
        read_events(frames)
    with pytest.raises(DataError, match="row 1: must count 'ms' since 1970"):
        read_events(pd.DataFrame({"time": [1.0, 1e19]}), date_format="ms")
