"""The tutorials in examples/ run from messy files to a report and find what their files were made from."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import cotempo as ct

EXAMPLES = Path(__file__).parents[1] / "examples"
FIRE = "incendio|humo|bosque|llamas|bomberos|ceniza|colinas|evacuación"
pytestmark = pytest.mark.filterwarnings("ignore::cotempo.errors.DataWarning", "ignore::UserWarning")


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(name: str, **constants: int) -> dict[str, Any]:
    """Run a tutorial with other values of its constants, and return its variables."""
    source = (EXAMPLES / f"{name}.py").read_text()
    for constant, value in constants.items():
        source, count = re.subn(rf"^{constant} = .*$", f"{constant} = {value}", source, flags=re.MULTILINE)
        assert count == 1
    variables: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(source, f"{name}.py", "exec"), variables)
    return variables


def test_the_hospital(capsys: pytest.CaptureFixture[str]) -> None:
    names = run("hospital", WEEKS=2)
    said = capsys.readouterr().out
    assert "2025-01-06 00:00:00+01:00 to 2025-01-20 00:00:00+01:00" in said
    assert "by 15:00 with chance" in said
    assert Path("hospital/intensity.png").stat().st_size > 10_000
    assert "Intensity with its 95 % band" in Path("hospital/report.html").read_text()
    curve = pd.read_csv("hospital/mary.csv")
    assert curve["time"].iloc[0].startswith("2025-01-0")
    fitted = ct.load("hospital/fitted")
    for site, rate in names["RATES"].items():
        night, day = (
            fitted[site].predict_count(f"2025-01-08 {first}:00+01:00", f"2025-01-08 {last}:00+01:00").mean
            for first, last in (("00", "06"), ("12", "18"))
        )
        assert day > 1.3 * night, site
        assert np.mean([night, day]) / 6 == pytest.approx(rate, rel=0.35), site
    # The three files say the same in three ways.
    clients = names["clients"]
    assert {table.clock.zone for table in clients.values()} == {"Europe/Berlin"}
    raw = pd.read_csv("hospital/raw/mary.csv")["admitted"]
    assert list(clients["mary"].to_frame()["time"]) == list(pd.to_datetime(raw).dt.tz_convert("Europe/Berlin"))


def test_the_plants(capsys: pytest.CaptureFixture[str]) -> None:
    names = run("plants", HOURS=480)
    said = capsys.readouterr().out
    assert "Filling gaps of 6 rows: " in said
    assert "Forecasts of 24 rows: " in said
    assert "Gaps of berlin, filled" in Path("plants/report.html").read_text()
    assert Path("plants/berlin.png").stat().st_size > 10_000
    for plant, whole in names["truth"].items():
        filled = pd.read_csv(f"plants/{plant}-filled.csv")
        assert len(filled) == 480
        assert (pd.to_datetime(filled["time"], utc=True) == whole.index).all()
        gone = (filled["load_low_90"] < filled["load_high_90"]).to_numpy()
        error = np.abs(filled["load"].to_numpy() - whole["load"].to_numpy())
        assert error[~gone].max() < 1e-9
        assert error[gone].mean() < 0.5 * whole["load"].std()
    for plant, table in names["clients"].items():
        assert table.clock.zone == names["ZONES"][plant]
        frame = table.to_frame().set_index("time")[list(table.features)]
        there = names["truth"][plant].loc[frame.index]
        assert (frame.isna() | np.isclose(frame, there)).all(axis=None)
    assert ct.load("plants/fitted")["berlin"].features == ("load", "outdoor", "vibration")


def test_the_platforms_find_the_new_event(capsys: pytest.CaptureFixture[str]) -> None:
    names = run("platforms")
    events = pd.read_csv("platforms/events.csv", parse_dates=["start"])
    opened = events[events["event"].str.startswith("found-")]
    assert opened["size"].sum() >= 0.7 * 40
    assert opened["keywords"].str.contains(FIRE).all()
    assert {"flood", "strike", "concert"} <= set(events["event"])
    assert str(events["start"].iloc[0]).startswith("2025-03")
    detected = pd.read_csv("platforms/detected.csv")
    fire = detected["text"].str.contains(FIRE)
    assert (detected["event"][fire] == "outlier").mean() >= 0.7
    assert (detected["event"][~fire] == "flood").mean() >= 0.7
    assert "Events of es" in Path("platforms/report.html").read_text()
    assert Path("platforms/events.png").stat().st_size > 10_000
    assert "quality of the events" in capsys.readouterr().out
    assert ct.load("platforms/fitted")["es"].events().equals(names["detector"].events())


def test_the_labs() -> None:
    names = run("labs", HOURS=120)
    assert Path("labs/network.png").stat().st_size > 10_000
    assert set(pd.read_csv("labs/edges.csv")["source"]) <= set(names["GENES"])
    forecast = pd.read_csv("labs/forecast.csv", parse_dates=["time"])
    assert (forecast["time"] > pd.Timestamp("2025-03-03")).all()
    assert (forecast["low"] < forecast["value"]).all()
    assert len(names["fitted"].benefit) == 3
    assert sum(names["true"]) >= 0.8 * len(names["true"])


def test_what_privacy_costs() -> None:
    names = run("privacy", SEEDS=1)
    assert np.abs(names["plain"].network.within - names["summed"].network.within).max() < 1e-9
    curve = names["curve"].loc[0]
    assert curve[0.3] < curve[8.0]
    assert curve[8.0] >= names["without"] - 0.1
    bounds = names["table"].to_frame().set_index("figure").loc["lower bound of epsilon"]
    assert bounds["noise"] < 1.0 < bounds["none"]
    assert Path("privacy/epsilon.png").stat().st_size > 10_000
    assert "epsilon" in Path("privacy/report.html").read_text()
