"""The plants' example runs, from messy files to filled gaps and a report, and its files say what was measured."""

import runpy
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import cotempo as ct

SCRIPT = Path(__file__).parents[2] / "examples" / "plants.py"


@pytest.mark.filterwarnings("ignore::cotempo.errors.DataWarning")
def test_the_plants(tmp_path, monkeypatch, capsys):
    given = ["plants.py", "--out", str(tmp_path), "--hours", "480", "--steps", "3"]
    monkeypatch.setattr(sys, "argv", given)
    names = runpy.run_path(str(SCRIPT), run_name="__main__")
    said = capsys.readouterr().out
    assert "Filling gaps of 6 rows: " in said
    assert "Forecasts of 24 rows: " in said
    assert "Gaps of berlin, filled" in (tmp_path / "report.html").read_text()
    assert (tmp_path / "berlin.png").stat().st_size > 10_000
    truth = names["write_exports"](tmp_path / "again", 480)
    for plant, whole in truth.items():
        filled = pd.read_csv(tmp_path / f"{plant}-filled.csv")
        assert len(filled) == 480
        assert (pd.to_datetime(filled["time"], utc=True) == whole.index).all()
        gone = (filled["load_low_90"] < filled["load_high_90"]).to_numpy()
        error = np.abs(filled["load"].to_numpy() - whole["load"].to_numpy())
        assert error[~gone].max() < 1e-9
        assert error[gone].mean() < whole["load"].std()
    assert ct.load(tmp_path / "fitted")["berlin"].features == ("load", "outdoor", "vibration")


@pytest.mark.filterwarnings("ignore::cotempo.errors.DataWarning")
def test_its_files_are_read_in_their_own_zones(tmp_path):
    names = runpy.run_path(str(SCRIPT))
    truth = names["write_exports"](tmp_path, 300)
    clients, public = names["read_exports"](tmp_path)
    assert public.rows == 300
    for plant, table in clients.items():
        assert table.clock.zone == names["ZONES"][plant]
        frame = table.to_frame().set_index("time")[list(table.features)]
        there = truth[plant].loc[frame.index]
        assert (frame.isna() | np.isclose(frame, there)).all(axis=None)
