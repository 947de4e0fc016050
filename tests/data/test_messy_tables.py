"""Tables as people have them: several sources, foreign names, signs and dates, extra columns, unknown windows."""

import datetime
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import cotempo as ct
from cotempo.data import Series, make_events, make_series, read_events, read_posts, read_series, write_clients
from cotempo.data.read.reader import detect_kind
from cotempo.errors import DataError, DataWarning, ParameterError
from cotempo.events.processes.federated import FedPointProcess
from cotempo.federation.mean import FedMean

NORTH = pd.DataFrame({"time": [0.0, 1.0], "x": [1.0, 2.0]})
SOUTH = pd.DataFrame({"time": [0.0, 1.0], "x": [3.0, 4.0]})
GERMAN = "Klinik;Aufnahme;Diagnose;Alter\nNord;05.03.2025 07:00;I21;61\nNord;13.03.2025 08:30;J18;70\n"
MAPPED = {"client": "Klinik", "time": "Aufnahme", "mark": "Diagnose"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    NORTH.to_csv(tmp_path / "north.csv", index=False)
    SOUTH.to_csv(tmp_path / "south.csv", index=False)
    return tmp_path


def prints(clients: dict[str, Any]) -> dict[str, str]:
    return {name: table.fingerprint() for name, table in clients.items()}


def test_every_form_of_a_source_gives_the_same_tables(folder: Path) -> None:
    files = [folder / "north.csv", folder / "south.csv"]
    expected = prints(read_series(folder))
    assert list(expected) == ["north", "south"]
    joined = pd.concat([NORTH.assign(client="north"), SOUTH.assign(client="south")])
    sources = (
        {"south": SOUTH, "north": pl.from_pandas(NORTH)},
        {"north": str(files[0]), "south": files[1]},
        files,
        tuple(map(str, files)),
        str(folder / "*th.csv"),
        [NORTH.assign(client="north"), files[1]],
        joined,
        joined.set_index(["client", "time"]),
    )
    for source in sources:
        assert prints(read_series(source)) == expected
        assert detect_kind(source) == "series"


@pytest.mark.parametrize(
    ("source", "match"),
    [
        ("nowhere/*.csv", "a pattern must match files"),
        ("nowhere.csv", "nothing at 'nowhere.csv'"),
        ([NORTH, NORTH], "client client: must come from one part of the source only; files that are sequences"),
        ({"north": "nowhere.csv"}, "client north: a source must be .* nothing at"),
        ({"north": NORTH.assign(client="west")}, "must belong to client 'north', got 'west'"),
        ({"../north": NORTH}, "must not"),
    ],
)
def test_wrong_sources_are_refused(source: Any, match: str) -> None:
    with pytest.raises(DataError, match=match):
        read_series(source)


def test_an_index_of_dates_is_the_time() -> None:
    dates = pd.date_range("2025-03-05", periods=2, freq="h", tz="UTC")
    expected = prints(read_series(NORTH.assign(time=dates)))
    values = NORTH[["x"]].set_index(dates)
    for frame in (values, values.rename_axis("time"), values.rename_axis("ds")):
        assert prints(read_series(frame)) == expected
    named = values.rename_axis("ds").reset_index().rename(columns={"x": "y"})
    assert prints(read_series(named, columns={"time": "ds", "x": "y"})) == expected  # as Nixtla names them
    assert read_series(NORTH.set_index(dates))["client"].unit == ""  # a column of times comes first


def test_columns_get_the_names_readers_know(tmp_path: Path) -> None:
    (tmp_path / "nord.csv").write_text(GERMAN.replace(";", ","))
    with pytest.warns(DataWarning, match="Nord|nord: left out what is no column of events: 'Alter'"):
        found = read_events(tmp_path / "nord.csv", columns=MAPPED, date_format="%d.%m.%Y %H:%M", unit="h")
    assert found["Nord"].marks == ("I21", "J18")
    assert detect_kind(tmp_path / "nord.csv", MAPPED) == "events"
    windows = pd.DataFrame({"Klinik": ["Nord"], "von": ["2025-03-01"], "bis": ["2025-04-01"]})
    with pytest.warns(DataWarning):
        known = read_events(
            tmp_path / "nord.csv",
            windows=windows,
            columns={**MAPPED, "start": "von", "end": "bis"},
            date_format="%d.%m.%Y %H:%M",
            unit="D",
        )
    assert np.diff(known["Nord"].windows["0"]) == 31


@pytest.mark.parametrize(
    ("columns", "match"),
    [
        ({"time": "Aufname"}, r"a column 'Aufname' must be there \(did you mean 'Aufnahme'\?\)"),
        ({**MAPPED, "mark": "Diagnosen"}, r"column mark: no column is called 'Diagnosen', .* mean 'Diagnose'"),
    ],
)
def test_wrong_mappings_are_refused(columns: dict[str, str], match: str, tmp_path: Path) -> None:
    (tmp_path / "nord.csv").write_text(GERMAN)
    with pytest.raises(DataError, match=match):
        read_events(tmp_path / "nord.csv", columns=columns, date_format="%d.%m.%Y %H:%M")
    with pytest.raises(ParameterError, match="columns must map names"):
        read_events(tmp_path / "nord.csv", columns={"time": 3})  # type: ignore[dict-item]


def test_a_missing_column_says_how_to_name_it() -> None:
    with pytest.raises(
        DataError, match=r"'time' must be there.*columns are: 'when', 'x'; pass columns=\{'time': ...\}"
    ):
        read_series(NORTH.rename(columns={"time": "when"}))


@pytest.mark.parametrize("separator", [";", "\t", "|"])
def test_separators_and_decimal_commas_are_guessed_and_said(tmp_path: Path, separator: str) -> None:
    text = "time;x;y;note\n0,5;1.234,5;3;7\n1,5;-2;,25;8\n2;n/a;1;9\n".replace(",25", "0,25").replace(";", separator)
    (tmp_path / "d.csv").write_text(text)
    with pytest.warns(DataWarning) as caught:
        series = read_series(tmp_path / "d.csv")["d"]
    assert [str(one.message) for one in caught] == [
        f"d.csv: cells are separated by {separator!r}, decimals by ','",
    ]
    assert series.time.tolist() == [0.5, 1.5, 2.0]
    assert np.array_equal(series.values[:, 0], [1234.5, -2.0, np.nan], equal_nan=True)
    assert series.values[:, 1].tolist() == [3.0, 0.25, 1.0]


def test_what_could_be_thousands_is_not_guessed(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("time\tx\n0\t1,234\n1\t5,678\n")
    with pytest.raises(DataError, match="must be a number or empty, got '1,234'"):
        read_series(tmp_path / "d.csv")
    (tmp_path / "d.csv").write_text('time,x\n0,"1,5"\n')
    with pytest.raises(DataError, match="must be a number or empty, got '1,5'"):
        read_series(tmp_path / "d.csv")


def test_texts_keep_their_commas(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text('text;time\n"Flood; 2,5 m, rising";0\n3,5;1\nRain, rain;2\n')
    with pytest.warns(DataWarning, match="separated by ';'$"):
        assert read_posts(tmp_path / "p.csv")["p"].text == ("Flood; 2,5 m, rising", "3,5", "Rain, rain")


def test_notes_of_many_files_are_one_warning(tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / f"c{number}.csv").write_text("time;x\n0;1\n")
    with pytest.warns(DataWarning) as caught:
        read_series(tmp_path)
    assert [str(one.message) for one in caught] == ["c0.csv, c1.csv, c2.csv and 2 more: cells are separated by ';'"]
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    ("texts", "advice"),
    [
        (["13.03.2025 07:00", "05.03.2025 08:30"], "pass date_format='%d.%m.%Y %H:%M'"),
        (["03/05/2025", "03/13/2025"], "pass date_format='%m/%d/%Y'"),
        (["03/05/2025", "03/06/2025"], "pass date_format='%d/%m/%Y' or '%m/%d/%Y'"),
        (["1/2/25 3:04", "1/3/25 3:04"], "pass date_format=as they are written"),
        (["Mon Mar 03 00:01:49 +0000 2025", "Tue Mar 04 00:01:49 +0000 2025"], "date_format='%a %b %d %H:%M:%S %z %Y'"),
        (["soon", "later"], "got 'soon' "),
    ],
)
def test_dates_in_other_orders_make_one_line_with_advice(texts: list[str], advice: str) -> None:
    frame = pd.DataFrame({"time": texts * 150, "x": "high"})
    with pytest.raises(DataError) as caught:
        read_series(frame)
    first, second = str(caught.value).splitlines()
    assert advice in first
    assert first.endswith("(and 299 more rows: 1, 2, 3, ...)")
    assert second.startswith("client client, column x, row 0: must be a number or empty, got 'high'; pass missing")
    assert "without=['x'] (and 299 more" in second


def test_equal_faults_of_several_clients_are_one_line() -> None:
    with pytest.raises(DataError) as caught:
        read_series({"a": NORTH.assign(x="no"), "b": SOUTH.assign(x="none at all"), "c": NORTH.assign(y="bad")})
    assert str(caught.value).splitlines() == [
        "client a, column x, row 0: must be a number or empty, got 'no'; pass missing=['no'] if that means missing, or "
        "without=['x'] (and 3 more rows of 2 clients: 1, 0, 1)",
        "client c, column y, row 0: must be a number or empty, got 'bad'; pass missing=['bad'] if that means missing, "
        "or without=['y'] (and 1 more row: 1)",
    ]


def test_dates_of_a_given_format() -> None:
    def times(texts: list[Any], style: str, **options: Any) -> Series:
        frame = pd.DataFrame({"time": texts, "x": 1.0})
        return read_series(frame, date_format=style, unit="h", **options)["client"]

    expected = pd.Timestamp("2025-03-05 07:00").timestamp() / 3600
    assert times(["05.03.2025 07:00"], "%d.%m.%Y %H:%M").time.tolist() == [expected]
    assert times(["20250305"], "%Y%m%d").time.tolist() == [expected - 7]
    local = times(["05.03.2025 07:00"], "%d.%m.%Y %H:%M", zone="Europe/Berlin")
    assert (local.time.tolist(), local.zone) == ([expected - 1], "Europe/Berlin")
    aware = times(["05.03.2025 07:00 +0100", "05.07.2025 07:00 +0200"], "%d.%m.%Y %H:%M %z")
    assert (aware.time[0], aware.zone) == (expected - 1, "UTC")
    assert times(["2025-03-05 07:00"], "%d.%m.%Y %H:%M").time.tolist() == [expected]  # a site that writes ISO
    with pytest.raises(DataError, match=r"row 1: must be a date like '%d.%m.%Y', got '2025-03-06'"):
        times(["05.03.2025", "2025-03-06"], "%d.%m.%Y")
    with pytest.raises(ParameterError, match="date_format must be a format such as"):
        times(["05.03.2025"], "%Q")


def test_several_offsets_are_said() -> None:
    with pytest.warns(
        DataWarning, match="client: dates in 'time' have several offsets and are shown in UTC; pass zone="
    ):
        read_series(NORTH.assign(time=["2025-03-30 01:00+01:00", "2025-03-30 03:00+02:00"]))


def test_objects_of_dates_do_not_mix_either() -> None:
    winter = datetime.datetime.fromisoformat("2025-03-30 01:00+01:00")
    summer = datetime.datetime.fromisoformat("2025-03-30 03:00+02:00")
    series = read_series(pd.DataFrame({"time": pd.Series([winter, summer], dtype=object), "x": 1.0}))["client"]
    assert (series.zone, np.diff(series.time).tolist()) == ("UTC", [3600.0])
    mixed = pd.Series([winter, summer.replace(tzinfo=None)], dtype=object)
    with pytest.raises(DataError, match="dates with and without a time zone"):
        read_series(pd.DataFrame({"time": mixed, "x": 1.0}))


def test_posts_of_a_client_without_any_time() -> None:
    timed = pd.DataFrame({"text": ["x"], "time": ["2025-03-30 01:00Z"]})
    frames = {"a": timed, "b": timed.assign(time="")}
    assert np.isnan(read_posts(frames)["b"].time).all()


def test_extra_columns_of_events_are_left_out_with_a_word() -> None:
    frame = pd.DataFrame({"time": [0.0, 1.0], "marks": ["a", "b"], "patient_id": [1, 2]})
    with pytest.warns(DataWarning, match=r"'marks' \(did you mean 'mark'\?\), 'patient_id'$"):
        assert read_events(frame)["client"].marks == ()


def test_capitals_of_a_file_name_do_not_matter(tmp_path: Path) -> None:
    (tmp_path / "lakeside.csv").write_text("client,time,x\nLakeside,0,1\n")
    (tmp_path / "north.csv").write_text("time,x\n0,1\n")
    assert list(read_series(tmp_path)) == ["Lakeside", "north"]


EVENTS = pd.DataFrame({"client": list("aabb"), "time": [1.0, 4.0, 2.0, 3.0]})


def test_windows_may_be_unknown_at_some_sites() -> None:
    table = pd.DataFrame({"client": ["a", "b"], "start": [0.0, 0.0], "end": [5.0, None]})
    expected = {"a": {"0": (0.0, 5.0)}, "b": {"0": (0.0, 3.0)}}
    in_columns = EVENTS.assign(start=0.0, end=[5.0, 5.0, None, None])
    for found in (read_events(EVENTS, windows=table), read_events(in_columns)):
        assert {name: events.windows for name, events in found.items()} == expected
    dates = EVENTS.assign(time=pd.to_datetime(EVENTS["time"], unit="D"))
    unknown = pd.DataFrame({"client": ["a", "b"], "start": pd.Timestamp("1970-01-01"), "end": None})
    for late in (unknown, unknown.assign(end=""), unknown.assign(start=None)):
        assert np.diff(read_events(dates, windows=late, unit="D")["b"].windows["0"]) in (1.0, 3.0)
    (warning,) = [w for w in ct.describe(found).warnings if "unknown" in w]
    assert warning.startswith("b: 1 window")
    with pytest.raises(DataError, match="must be the same in all rows of a sequence"):
        read_events(EVENTS.assign(start=0.0, end=[5.0, None, 6.0, 6.0]))


def test_one_fault_in_the_windows_is_one_problem() -> None:
    table = pd.DataFrame({"client": ["a", "b"], "start": ["0", "zero"], "end": ["5", "6"]})
    with pytest.raises(DataError) as caught:
        read_events(EVENTS, windows=table)
    (problem,) = caught.value.problems
    assert (problem.client, problem.column, problem.row) == ("b", "start", 1)


@pytest.mark.parametrize("each", [False, True])
def test_generated_files_are_read_back_with_windows_and_without_the_truth(tmp_path: Path, each: bool) -> None:
    clients, _ = make_events(clients=3, sequences=2)
    for stem, group in {name: {name: clients[name]} for name in clients}.items() if each else [("events", clients)]:
        write_clients(group, tmp_path / f"{stem}.csv")
    (tmp_path / "truth.csv").write_text("anything,else\n1,2\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert prints(read_events(tmp_path)) == prints(clients)
    assert detect_kind(tmp_path) == "events"


def test_select_takes_features_by_name() -> None:
    series = make_series(1, 3, 20, seed=0)[0]["client-0"]
    chosen = series.select(features=["x2", "x0"])
    assert chosen.features == ("x2", "x0")
    assert np.array_equal(chosen.values, series.values[:, [2, 0]], equal_nan=True)
    assert series.select(np.zeros(0), features=["x1"]).values.shape == (0, 1)
    with pytest.raises(DataError, match=r"rows must be a mask or positions, got \['x0'\]; choose columns by features="):
        series.select(["x0"])
    with pytest.raises(DataError, match="must have the feature 'x9'"):
        series.select(features=["x9"])


def test_fit_reads_what_readers_read(folder: Path) -> None:
    expected = FedMean().fit(read_series(folder)).state
    for source in ({"north": NORTH, "south": read_series(SOUTH)["client"]}, folder, str(folder / "*.csv")):
        assert np.array_equal(FedMean().fit(source).state.mean, expected.mean)
    named = {"north": NORTH.assign(client="North"), "south": SOUTH}
    assert FedMean().fit(named).names == ("north", "south")
    with pytest.raises(DataError, match=r"got a table of series; pass \{'name': table\}"):
        FedMean().fit(read_series(NORTH)["client"])
    with pytest.raises(DataError, match="at least one client, got none"):
        FedMean().fit({})
    with pytest.raises(DataError, match="client south, column x, row 0: must be a number"):
        FedMean().fit({"north": NORTH, "south": SOUTH.assign(x="high")})


def test_fit_says_in_what_dates_are_counted() -> None:
    rng = np.random.default_rng(0)
    frames = {
        name: pd.DataFrame({"time": pd.Timestamp("2025-03-05") + pd.to_timedelta(np.sort(rng.uniform(0, 99, 30)), "h")})
        for name in "ab"
    }
    with pytest.warns(DataWarning, match=r"counted in seconds.*pass ct.read_events\(clients, unit='h'\)") as caught:
        FedPointProcess().fit(frames)
    assert caught[0].filename == __file__


def test_windows_in_a_folder_belong_to_the_client_they_are_named_after(tmp_path: Path) -> None:
    (tmp_path / "north.csv").write_text("client,time\nNorth,1\nNorth,2\n")
    (tmp_path / "south.csv").write_text("time\n1\n2\n")
    (tmp_path / "north.windows.csv").write_text("start,end\n0,9\n")
    with pytest.raises(DataError, match="client south: must have a row in the windows table; leave start"):
        read_events(tmp_path)
    (tmp_path / "south.windows.csv").write_text("start,end\n0,\n")
    found = read_events(tmp_path)
    assert {name: events.windows["0"] for name, events in found.items()} == {"North": (0.0, 9.0), "south": (0.0, 2.0)}


def test_windows_must_not_lead_out_of_the_folder(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "secret.csv").write_text("start,end\n0,9\n")
    (home / "north.csv").write_text("time\n1\n2\n")
    (home / "north.windows.csv").symlink_to(tmp_path / "secret.csv")
    with pytest.raises(DataError, match=r"client north: 'north\.windows\.csv' must not be a link that leads out"):
        read_events(home)


SEVERAL = pd.DataFrame({"client": list("aaabb"), "sequence": list("pqpxy"), "time": [1.0, 2.0, 3.0, 1.0, 2.0]})


def test_windows_by_client_hold_for_all_its_sequences() -> None:
    table = pd.DataFrame({"client": ["a", "b", "c"], "start": 0.0, "end": [5.0, 6.0, 7.0]})
    found = read_events(SEVERAL, windows=table)
    assert found["a"].windows == {"p": (0.0, 5.0), "q": (0.0, 5.0)}
    assert found["b"].windows == {"x": (0.0, 6.0), "y": (0.0, 6.0)}
    assert found["c"].windows == {"0": (0.0, 7.0)}  # nothing happened there
    for everyone in read_events(SEVERAL, windows=table[["start", "end"]][:1]).values():
        assert {*everyone.windows.values()} == {(0.0, 5.0)}


def test_windows_that_lack_sequences_or_clients_say_so_in_one_line() -> None:
    table = pd.DataFrame({"client": "a", "sequence": ["p"], "start": 0.0, "end": 5.0})
    with pytest.raises(DataError) as caught:
        read_events(SEVERAL, windows=table)
    first, second = str(caught.value).splitlines()
    assert first.startswith("client a: sequence 'q' must have a row in the windows table, or the table no column")
    assert second.startswith("client b: must have a row in the windows table")
    names = pd.DataFrame({"client": ["Nord", "Nord"], "time": [1.0, 2.0]})
    with pytest.raises(DataError, match=r"client Nord: must have a row in the windows table \(did you mean 'Nrod'\?\)"):
        read_events(names, windows=pd.DataFrame({"client": ["Nrod"], "start": 0.0, "end": 5.0}))


def test_a_mapping_from_an_unknown_name_is_no_column_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "nord.csv").write_text(GERMAN)
    with pytest.raises(
        ParameterError, match=r"columns= must name columns that are known .* got 'tiem' \(did you mean 't"
    ):
        read_events(tmp_path / "nord.csv", columns={"tiem": "Aufnahme"})
    with pytest.raises(DataError) as caught:
        read_events(tmp_path / "nord.csv", columns={"time": "Aufname", "mark": "Diagnose"})
    assert "'Diagnose'" in str(caught.value)
    assert "'mark'" not in str(caught.value)


def test_an_empty_file_is_one_problem(tmp_path: Path) -> None:
    (tmp_path / "nord.csv").write_text("")
    with pytest.raises(DataError) as caught:
        read_events(tmp_path / "nord.csv", columns=MAPPED)
    assert len(str(caught.value).splitlines()) == 1


def test_every_hour_that_clocks_change_is_named_with_its_row() -> None:
    local = ["2025-03-30 02:30", "2025-03-30 09:00", "2025-10-26 02:30"]
    with pytest.raises(DataError) as caught:
        read_events(pd.DataFrame({"time": local}), zone="Europe/Berlin")
    assert [problem.row for problem in caught.value.problems] == [0, 2]


def test_dates_may_be_written_in_several_ways() -> None:
    frame = pd.DataFrame({"time": ["05.03.2025 07:10", "06.03.2025 19:30"]})
    windows = pd.DataFrame({"start": ["05.03.2025"], "end": ["07.03.2025"]})
    found = read_events(frame, windows=windows, unit="h", date_format=["%d.%m.%Y %H:%M", "%d.%m.%Y"])["client"]
    assert float(found.end[0] - found.start[0]) == 48.0


def test_plain_numbers_have_no_zone() -> None:
    with pytest.warns(ct.DataWarning, match="are plain numbers, for which zone= and unit= mean nothing"):
        assert not read_events(pd.DataFrame({"time": [45721.3, 45722.1]}), zone="Europe/Berlin")["client"].zone
