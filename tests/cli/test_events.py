"""Events on the command line: checking files as people have them, the next event, counts, and rows by step."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from commands import Command

import cotempo as ct

EXPERIMENT = """
name = "wards"
method = "FedPP"
[data]
source = "raw"
unit = "h"
zone = "Europe/Berlin"
date_format = ["%d.%m.%Y %H:%M", "%d.%m.%Y"]
columns = {client = "Klinik", time = "Aufnahme"}
windows = "windows.csv"
[FedPP]
kernel = "time"
period = 24
compare = false
cells = 96
"""


@pytest.fixture
def wards(tmp_path: Path) -> Path:
    """Two files with German names and dates, and windows by client whose dates have another format."""
    (tmp_path / "raw").mkdir()
    begin = pd.Timestamp("2025-03-10")
    for seed, name in enumerate(("Nord", "Mary")):
        rng = np.random.default_rng(seed)
        hours = np.sort(rng.uniform(0, 14 * 24, 600))
        hours = hours[rng.uniform(size=600) < 0.5 - 0.45 * np.cos(2 * np.pi * hours / 24)]
        time = (begin + pd.to_timedelta(hours, unit="h")).strftime("%d.%m.%Y %H:%M")
        frame = pd.DataFrame({"Klinik": name, "Aufnahme": time})
        if name == "Mary":
            frame["sequence"] = rng.integers(0, 20, len(frame))
        frame.to_csv(tmp_path / "raw" / f"{name}.csv", sep=";", index=False)
    windows = pd.DataFrame({"Klinik": ["Nord", "Mary"], "start": "10.03.2025", "end": "24.03.2025"})
    windows.to_csv(tmp_path / "windows.csv", index=False)
    (tmp_path / "e.toml").write_text(EXPERIMENT)
    return tmp_path


def test_check_takes_an_experiment(cotempo: Command, wards: Path) -> None:
    found = cotempo("check", "e.toml", "--json")
    assert found.code == 0, found.err
    mary, nord = found.record["clients"]
    assert (mary["client"], mary["sequences"]) == ("Mary", 20)
    assert (nord["start"], nord["end"]) == ("2025-03-10 00:00:00+01:00", "2025-03-24 00:00:00+01:00")
    assert any("Mary with several sequences beside Nord with one" in line for line in found.record["warnings"])
    assert cotempo("check", "e.toml", "--kind", "series").code == 2
    bare = cotempo("init", "bare.toml", "--data", "raw", "--method", "FedPP")
    assert "cannot be read yet" in bare.out
    assert "cotempo check bare.toml" in bare.out
    assert "# period: none by default" in (wards / "bare.toml").read_text()
    unread = cotempo("init", "unread.toml", "--data", "raw")
    assert unread.code == 5
    assert "tables must be readable, and of one kind, to choose a method for them" in unread.err
    assert not (wards / "unread.toml").exists()


def test_init_counts_dates_in_hours_or_days(cotempo: Command, tmp_path: Path) -> None:
    for name, step, unit in (("wards", "90min", "h"), ("floods", "3D", "D"), ("clicks", "7s", "s")):
        times = pd.date_range("2025-03-03", periods=30, freq=step)
        pd.DataFrame({"time": times.delete(5)}).to_csv(tmp_path / f"{name}.csv", index=False)
        said = cotempo("init", f"{name}.toml", "--data", f"{name}.csv")
        assert said.code == 0, said.err
        assert f'unit = "{unit}"' in (tmp_path / f"{name}.toml").read_text()
    assert 'method = "FedPP"' in (tmp_path / "wards.toml").read_text()


def test_the_next_event_and_counts(cotempo: Command, wards: Path) -> None:
    said = cotempo("run", "e.toml")
    assert said.code == 0, said.err
    assert "kept a curve of time" in said.out
    ahead = cotempo("next", "runs/wards", "--after", "2025-03-25 00:00", "--json")
    assert ahead.code == 0, ahead.err
    mary, nord = ahead.record["next"]
    model = ct.load(wards / "runs/wards")["Nord"]
    wanted = model.predict_next("2025-03-25 00:00+01:00").quantile([0.025, 0.5, 0.975]).round("s")
    assert [nord[end] for end in ("lower", "median", "upper")] == [str(end) for end in wanted]
    assert nord["median"] < mary["median"]  # one of many sequences has its next event later
    assert cotempo("next", "runs/wards").code == 2
    week = ("--start", "2025-03-24", "--end", "2025-03-31")
    counts = cotempo("count", "runs/wards", *week, "--client", "Nord", "--json")
    assert counts.code == 0, counts.err
    (row,) = counts.record["counts"]
    assert row["mean"] == pytest.approx(model.predict_count("2025-03-24 00:00+01:00", "2025-03-31 00:00+02:00").mean)
    assert row["lower"] < row["mean"] < row["upper"]
    own = cotempo(
        "count", "runs/wards", "--start", "24.03.2025", "--end", "31.03.2025 00:00", "--json", "--client", "Nord"
    )
    assert own.record == counts.record  # as its tables write dates
    refused = cotempo("next", "runs/wards", "--after", "04/05/2025")
    assert (refused.code, "2025-05-04 or 2025-04-05" in refused.err) == (3, True)
    assert "Nord: 1" in cotempo("count", "runs/wards", *week).out
    assert cotempo("count", "runs/wards", "--start", "now then", "--end", "2025-03-31").code == 3
    drawn = cotempo("sample", "runs/wards", *week, "--count", 2, "--out", "drawn.csv")
    assert drawn.code == 0, drawn.err
    again = cotempo("predict", "runs/wards", "raw", "--out", "rates.csv", "--client", "Nord", "--step", "1h")
    assert again.code == 3  # two clients are there
    one = cotempo("predict", "runs/wards", "raw/Nord.csv", "--out", "rates.csv", "--step", "30min", "--horizon", 24)
    assert one.code == 0, one.err
    rates = pd.read_csv(wards / "rates.csv", parse_dates=["time"])
    assert (rates["time"].diff().dropna() == pd.Timedelta(minutes=30)).all()
    assert set(rates["time"].dt.minute) == {0, 30}  # though the first event came at another
    assert set(rates["level"]) == {0.95}  # as in Python
    exported = cotempo("export", "runs/wards", "--out", "exported")
    assert exported.code == 0, exported.err
    curve = pd.read_csv(wards / "exported" / "rates.csv")
    assert list(curve) == ["client", "time", "mean", "lower", "upper"]
    assert set(curve["client"]) == {"Mary", "Nord"}
    assert (curve["lower"] < curve["mean"]).all()
    assert set(pd.to_datetime(curve["time"], utc=True).dt.minute) <= {0, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55}
    drawn = cotempo("export", "runs/wards", "--out", "own", "--figures", "svg", "--client", "Nord", "--json")
    (figure,) = (Path(path) for path in drawn.record["files"] if path.endswith(".svg"))
    assert "nord" in figure.name.casefold()
    assert "Mary" not in (wards / figure).read_text()
    plain = cotempo("predict", "runs/wards", "raw/Nord.csv", "--out", "rates.csv")
    assert plain.code == 0, plain.err
    times = pd.read_csv(wards / "rates.csv", parse_dates=["time"])["time"]
    assert (times.diff().dropna() == pd.Timedelta(hours=1)).all()  # of a day, that coarser rows would hide
    assert set(times.dt.hour) == set(range(24))


def test_a_model_that_looks_back_needs_the_events(cotempo: Command, wards: Path) -> None:
    text = EXPERIMENT.replace('"FedPP"', '"FedPointProcess"').partition("[FedPP]")[0]
    (wards / "h.toml").write_text(text + '[FedPointProcess]\nprocess = "hawkes1"\nrounds = 3\n')
    assert cotempo("run", "h.toml").code == 0
    assert cotempo("next", "runs/wards", "--after", "2025-03-25").code == 2
    found = cotempo("next", "runs/wards", "raw", "--client", "Nord", "--json")
    assert found.code == 3  # two clients are there
    found = cotempo("next", "runs/wards", "raw/Nord.csv", "--json")
    assert found.code == 0, found.err
    assert found.record["next"][0]["client"] == "Nord"
    found = cotempo("count", "runs/wards", "--start", "2025-03-24", "--end", "2025-03-25", "--json")
    assert found.code == 0, found.err
    for row in found.record["counts"]:
        assert row["lower"] <= row["mean"] <= row["upper"]


def test_init_shows_every_fault_and_equal_ones_once(cotempo: Command, tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    for name in ("a", "b", "c"):
        (tmp_path / "raw" / f"{name}.csv").write_text("time,mark\n31/31/2025,x\n2025-03-01,x\n32/31/2025,x\n")
    (tmp_path / "raw" / "d.csv").write_text("when,mark\n2025-03-01,x\n")
    said = cotempo("init", "e.toml", "--data", "raw", "--method", "FedPP")
    faults = [line for line in said.out.splitlines() if line.startswith("  ")]
    assert len(faults) == 2, said.out
    assert "5 more rows of 3 clients" in faults[0]
    assert "client d" in faults[1]


def test_a_folder_of_mixed_kinds_is_refused_file_by_file(cotempo: Command, tmp_path: Path) -> None:
    (tmp_path / "all").mkdir()
    (tmp_path / "all" / "beds.csv").write_text("time,free,used\n2025-03-01,1,2\n2025-03-02,1,3\n")
    (tmp_path / "all" / "visits.csv").write_text("time,mark\n2025-03-01,x\n2025-03-02,y\n")
    for command in (("init", "e.toml", "--data", "all"), ("check", "all")):
        said = cotempo(*command)
        assert said.code != 0
        assert "like series: beds.csv (time, free, used)" in said.err
        assert "like events: visits.csv (time, mark)" in said.err
    assert not (tmp_path / "e.toml").exists()
    assert cotempo("check", "all", "--kind", "events").code != 0


@pytest.mark.parametrize("named", [True, False])
def test_windows_beside_the_input_are_honoured(cotempo: Command, wards: Path, named: bool) -> None:
    assert cotempo("run", "e.toml", "--run", "done").code == 0
    (wards / "new").mkdir()
    new = pd.DataFrame({"Klinik": "Nord", "Aufnahme": ["25.03.2025 10:00", "25.03.2025 12:00"]})
    (new if named else new[["Aufnahme"]]).to_csv(wards / "new" / "Nord.csv", index=False)
    windows = pd.DataFrame({"Klinik": ["Nord", "Mary"], "start": "25.03.2025", "end": "27.03.2025"})
    windows.iloc[: 1 if named else 2].to_csv(wards / "new" / "windows.csv", index=False)
    for given in ("new", "new/Nord.csv"):
        said = cotempo("predict", "done", given, "--out", "p.csv", "--step", "6h")
        assert said.code == 0, said.err
        found = pd.read_csv(wards / "p.csv")
        ends = pd.to_datetime(found[found["client"] == "Nord"]["time"])
        assert str(ends.min()) == "2025-03-25 00:00:00+01:00"
        assert str(ends.max()) == "2025-03-27 00:00:00+01:00"
        if given.endswith(".csv"):
            assert set(found["client"]) == {"Nord"}
    again = cotempo("predict", "done", "raw", "--out", "p.csv", "--step", "6h")
    assert again.code == 0, again.err
    assert str(pd.to_datetime(pd.read_csv(wards / "p.csv")["time"]).min()) == "2025-03-10 00:00:00+01:00"


def test_a_model_of_history_says_what_it_does_not_know(cotempo: Command, wards: Path) -> None:
    text = EXPERIMENT.split("[FedPP]", maxsplit=1)[0].replace('"FedPP"', '"FedPointProcess"')
    (wards / "h.toml").write_text(f'{text}[FedPointProcess]\nprocess = "hawkes"\nrounds = 3\n')
    assert cotempo("run", "h.toml").code == 0
    said = cotempo("predict", "runs/wards", "raw", "--out", "rates.csv")
    assert said.code == 0, said.err
    assert "lower and upper are empty" in said.err
    rates = pd.read_csv(wards / "rates.csv")
    assert rates["mean"].notna().all()
    assert rates[["lower", "upper"]].isna().all(axis=None)
    week = ("--start", "2025-03-24", "--end", "2025-03-25", "--json")
    cold = cotempo("count", "runs/wards", *week)
    assert "begin as if no event had come before" in cold.err
    warm = cotempo("count", "runs/wards", "raw", *week)
    assert warm.code == 0, warm.err
    assert "as if no event" not in warm.err
    (nord,) = (row for row in warm.record["counts"] if row["client"] == "Nord")
    begun = next(row for row in cold.record["counts"] if row["client"] == "Nord")
    assert nord["mean"] != begun["mean"]
    assert len([row for row in warm.record["counts"] if row["client"] == "Mary"]) == 20  # one row a sequence


def test_what_comes_after_windows_that_follow_is_told_once(cotempo: Command, wards: Path) -> None:
    """Each window had the horizon added: rows twice, and sums too high."""
    text = EXPERIMENT.replace('source = "raw"', 'source = "raw/Nord.csv"')
    (wards / "e.toml").write_text(text)
    closed = pd.DataFrame(
        {"Klinik": "Nord", "start": ["10.03.2025", "17.03.2025"], "end": ["16.03.2025", "24.03.2025"]}
    )
    closed.to_csv(wards / "windows.csv", index=False)
    frame = pd.read_csv(wards / "raw/Nord.csv", sep=";")
    frame[~frame["Aufnahme"].str.startswith("16.03.")].to_csv(wards / "raw/Nord.csv", sep=";", index=False)
    said = cotempo("run", "e.toml")
    assert said.code == 0, said.err
    done = cotempo("predict", "runs/wards", "raw/Nord.csv", "--out", "rates.csv", "--horizon", "48h", "--step", "6h")
    assert done.code == 0, done.err
    rates = pd.read_csv(wards / "rates.csv")
    assert rates["time"].max() == "2025-03-26 00:00:00+01:00"
    assert rates.groupby("sequence")["time"].max().iloc[0] == "2025-03-16 00:00:00+01:00"
    ahead = cotempo("next", "runs/wards", "raw/Nord.csv", "--json")  # after the end of its windows
    wanted = cotempo("next", "runs/wards", "--after", "2025-03-24 00:00", "--json")
    assert (ahead.code, ahead.record) == (0, wanted.record), ahead.err


def test_a_time_that_clocks_repeat_is_refused_in_words(cotempo: Command, wards: Path) -> None:
    assert cotempo("run", "e.toml").code == 0
    said = cotempo("next", "runs/wards", "--after", "2025-10-26 02:30")
    assert said.code == 3
    assert "had once, got '2025-10-26 02:30'; write the offset, such as '2025-10-26 02:30+01:00'" in said.err


def test_a_run_from_python_says_that_it_does_not_know_how_files_are_read(
    cotempo: Command, wards: Path, tmp_path: Path
) -> None:
    times = np.sort(np.random.default_rng(0).uniform(0, 100, 80))
    tables = {"a": ct.Events.from_arrays([times], (0.0, 100.0))}
    ct.FedPP(kernel="time", compare=False, cells=48).fit(tables, run="runs/mine", progress=False)
    pd.DataFrame({"Klinik": "a", "Zeit": times}).to_csv(wards / "mine.csv", index=False)
    said = cotempo("predict", "runs/mine", "mine.csv", "--out", "rates.csv")
    assert said.code == 3
    assert "the run was started from Python" in said.err


def test_columns_that_differ_by_client_are_read_again(cotempo: Command, wards: Path) -> None:
    """The client's name stands in a column, in other capitals than the file's, or is another one."""
    raw = wards / "raw"
    (raw / "Nord.csv").rename(raw / "nord.csv")
    mary = pd.read_csv(raw / "Mary.csv", sep=";").rename(columns={"Klinik": "Hospital", "Aufnahme": "Admitted"})
    mary.assign(Hospital="St Mary").to_csv(raw / "Mary.csv", index=False)
    told = """columns = {nord={client="Klinik",time="Aufnahme"}, Mary={client="Hospital",time="Admitted"}}"""
    text = EXPERIMENT.replace('"raw"', '"raw/*.csv"')
    lines = text.replace('columns = {client = "Klinik", time = "Aufnahme"}', told).splitlines()
    (wards / "e.toml").write_text("\n".join(line for line in lines if "windows" not in line))
    assert cotempo("run", "e.toml").code == 0
    names = {"raw/*.csv": ["Nord", "St Mary"], "raw/nord.csv": ["Nord"], "raw/Mary.csv": ["St Mary"]}
    for given, expected in names.items():
        for client in [(), ("--client", expected[0])] if len(expected) == 1 else [()]:
            said = cotempo("predict", "runs/wards", given, *client, "--out", "p.csv")
            assert said.code == 0, said.err
            assert [*dict.fromkeys(pd.read_csv(wards / "p.csv")["client"])] == expected


def test_one_of_the_runs_own_files_has_the_runs_windows(cotempo: Command, wards: Path) -> None:
    (wards / "windows.csv").rename(wards / "watched.csv")
    (wards / "e.toml").write_text(EXPERIMENT.replace("windows.csv", "watched.csv"))
    assert cotempo("run", "e.toml").code == 0
    for client in [(), ("--client", "Nord")]:
        said = cotempo("predict", "runs/wards", "raw/Nord.csv", *client, "--horizon", "24h", "--out", "p.csv")
        assert said.code == 0, said.err
        found = pd.read_csv(wards / "p.csv")
        assert set(found["client"]) == {"Nord"}
        assert found["time"].max() == "2025-03-25 00:00:00+01:00"
