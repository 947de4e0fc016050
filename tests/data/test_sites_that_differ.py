"""Sites that write dates in their own way: zones and formats by client, in files, one file, windows and experiments."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import cotempo as ct
from cotempo.data.read.times import advise_format
from cotempo.errors import DataError, DataWarning
from cotempo.runs.experiment import Experiment, load_clients

ZONES = {"nord": "Europe/Berlin", "mercy": "America/New_York"}
TIMES = ["2025-03-05 07:00", "2025-03-05 09:30"]
FIRST = {name: pd.Timestamp(TIMES[0], tz=zone).timestamp() / 3600 for name, zone in ZONES.items()}


def each(**columns: object) -> dict[str, pd.DataFrame]:
    return {name: pd.DataFrame({"time": TIMES, **columns}) for name in ZONES}


def in_their_zones(tables: object) -> None:
    assert {name: (table.time[0], table.zone) for name, table in tables.items()} == {  # type: ignore[attr-defined]
        name: (FIRST[name], ZONES[name]) for name in ZONES
    }


def test_all_readers_take_zones_by_client() -> None:
    in_their_zones(ct.read_events(each(), zone=ZONES, unit="h"))
    in_their_zones(ct.read_series(each(x=[1.0, 2.0]), zone=ZONES, unit="h"))
    in_their_zones(ct.read_posts(each(text=["flood", "fire"]), zone=ZONES, unit="h"))


def test_so_does_one_file_of_all_clients() -> None:
    frame = pd.concat([part.assign(client=name) for name, part in each(x=[1.0, 2.0]).items()])
    in_their_zones(ct.read_series(frame, zone=ZONES, unit="h"))
    frame.iloc[3, frame.columns.get_loc("x")] = np.inf
    with pytest.raises(DataError, match="client mercy, column x, row 3: must be finite"):
        ct.read_series(frame, zone=ZONES)


def test_an_experiment_names_zones_and_formats_by_client(tmp_path: Path) -> None:
    folder = tmp_path / "raw"
    folder.mkdir()
    (folder / "nord.csv").write_text("time,x\n05.03.2025 07:00,1\n05.03.2025 09:30,2\n")
    (folder / "mercy.csv").write_text("time,x\n03/05/2025 07:00,1\n03/05/2025 09:30,2\n")
    (tmp_path / "e.toml").write_text(
        'method = "FedMoments"\n[data]\nsource = "raw"\nunit = "h"\n'
        '[data.zone]\nnord = "Europe/Berlin"\nmercy = "America/New_York"\n'
        '[data.date_format]\nnord = "%d.%m.%Y %H:%M"\nmercy = "%m/%d/%Y %H:%M"\n'
    )
    in_their_zones(load_clients(Experiment.from_file(tmp_path / "e.toml"))[0])


def test_a_misspelt_client_is_named() -> None:
    with pytest.raises(DataError, match=r"zone= must name sources that are there \('mercy', 'nord'\), got 'mery'"):
        ct.read_events(each(), zone={"nord": "UTC", "mery": "UTC"})
    in_their_zones(ct.read_events(each(), zone={**ZONES, "later": "UTC"}, unit="h"))


def test_windows_of_a_client_are_in_its_zone() -> None:
    windows = pd.DataFrame({"client": list(ZONES), "start": "2025-03-05", "end": "2025-03-06"})
    tables = ct.read_events(each(), windows=windows, zone=ZONES, unit="h")
    assert {name: table.start[0] for name, table in tables.items()} == {name: FIRST[name] - 7 for name in ZONES}
    with pytest.raises(DataError, match="windows table: start and end must be dates with a time zone, as time is"):
        ct.read_events(each(), windows=windows[:1].drop(columns="client"), zone=ZONES)


DAY_FIRST, MONTH_FIRST = "%d/%m/%Y %H:%M", "%m/%d/%Y %H:%M"


def test_the_format_that_fits_all_dates_is_taken() -> None:
    us = pd.DataFrame({"time": ["03/01/2025 10:00", "03/28/2025 10:00"], "x": [1.0, 2.0]})
    london = pd.DataFrame({"time": ["13/01/2025 10:00", "01/02/2025 10:00"], "x": [1.0, 2.0]})
    tables = ct.read_series({"us": us, "london": london}, date_format=[DAY_FIRST, MONTH_FIRST])
    assert tables["us"].to_frame()["time"].dt.strftime("%d %b").tolist() == ["01 Mar", "28 Mar"]
    assert tables["london"].to_frame()["time"].dt.strftime("%d %b").tolist() == ["13 Jan", "01 Feb"]


def test_two_formats_that_fit_are_refused() -> None:
    us = pd.DataFrame({"time": ["03/03/2025 10:00", "03/12/2025 10:00"], "x": [1.0, 2.0]})
    both = r"'03/12/2025 10:00' is 2025-12-03 or 2025-03-12; pass the one that is meant"
    with pytest.raises(DataError, match=both):
        ct.read_series({"us": us}, date_format=[DAY_FIRST, MONTH_FIRST])
    chosen = ct.read_series({"us": us}, date_format={"us": MONTH_FIRST})["us"]
    assert chosen.to_frame()["time"].dt.month.tolist() == [3, 3]
    same = pd.DataFrame({"time": ["03/03/2025 10:00"], "x": [1.0]})
    assert ct.read_series(same, date_format=[DAY_FIRST, MONTH_FIRST])["client"].rows == 1
    odd = pd.DataFrame({"time": ["03/13/2025 10:00", "13/03/2025 10:00", "13/04/2025 10:00"], "x": 1.0})
    with pytest.raises(DataError, match=r"row 0: must be a date like '%d/%m/%Y %H:%M', got '03/13/2025 10:00'"):
        ct.read_series(odd, date_format=[DAY_FIRST, MONTH_FIRST])


def test_a_format_with_am_and_pm_is_proposed() -> None:
    assert advise_format(["02/24/2025 12:38 AM", "02/25/2025 01:00 PM"]) == "; pass date_format='%m/%d/%Y %I:%M %p'"


def test_rows_that_are_equal_in_every_column_are_told_apart_from_ties() -> None:
    frame = pd.DataFrame({"time": [TIMES[0]] * 3 + TIMES[1:], "case": [1, 1, 2, 3]})
    with pytest.warns(DataWarning, match=r"client: 1 row equal to another in every column: the same event twice\?"):
        events = ct.read_events(frame)["client"]
    assert "2 events at the very time of another in the sequence" in events.describe().warnings


def test_who_is_refused_is_not_called_silent() -> None:
    tables = each()
    tables["mercy"].loc[0, "time"] = "yesterday"
    windows = pd.DataFrame({"client": list(ZONES), "start": "2025-03-05", "end": [None, None]})
    with pytest.raises(DataError) as found:
        ct.read_events(tables, windows=windows)
    assert "yesterday" in str(found.value)
    assert "has no events" not in str(found.value)


@pytest.mark.parametrize(("rate", "step"), [(0.4, 1 / 60), (0.4, 24.0), (5.0, 1.0), (0.4, 0.0)])
def test_events_that_stand_twice_are_counted(rate: float, step: float) -> None:
    rng = np.random.default_rng(0)
    times = np.sort(rng.uniform(0, 2000, int(2000 * rate)))
    times = np.floor(times / step) * step if step else times

    def twice(share: float) -> list[str]:
        more = times[rng.uniform(size=len(times)) < share]
        table = ct.Events.from_arrays([np.sort(np.append(times, more))], (0.0, 2000.0))
        return [line for line in table.describe().warnings if "the same event twice?" in line]

    assert not twice(0.0)
    if rate * step < 1:
        for share in (0.04, 1.1):
            assert "drop_duplicates" in twice(share)[0]
