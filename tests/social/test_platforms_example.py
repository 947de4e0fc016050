"""`examples/platforms.py` from files to events, figure and report."""

from __future__ import annotations

import runpy
from pathlib import Path

import pandas
import pytest

SCRIPT = Path(__file__).parents[2] / "examples" / "platforms.py"


def test_the_example_finds_the_new_event_and_leaves_its_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runpy.run_path(str(SCRIPT))["main"](tmp_path)
    events = pandas.read_csv(tmp_path / "events.csv", parse_dates=["start"])
    opened = events[events["event"].str.startswith("found-")]
    assert opened["size"].sum() >= 0.7 * 40
    assert opened["keywords"].str.contains("incendio|humo|bosque|llamas|bomberos|ceniza|colinas|evacuación").all()
    assert {"flood", "strike", "concert"} <= set(events["event"])
    assert str(events["start"].iloc[0]).startswith("2025-03")
    detected = pandas.read_csv(tmp_path / "detected.csv")
    fire = detected["text"].str.contains("incendio|humo|bosque|llamas|bomberos|ceniza|colinas|evacuación")
    assert (detected["event"][fire] == "outlier").mean() >= 0.7
    assert (detected["event"][~fire] == "flood").mean() >= 0.7
    assert "Events of es" in (tmp_path / "report.html").read_text()
    assert (tmp_path / "events.png").stat().st_size > 10_000
    assert "quality of the events" in capsys.readouterr().out
