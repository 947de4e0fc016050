"""The hospital's example runs, from messy files to a report, and finds what its files were made from."""

import runpy
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import cotempo as ct
from cotempo.errors import DataWarning

SCRIPT = Path(__file__).parents[2] / "examples" / "hospital.py"


@pytest.mark.filterwarnings("ignore::cotempo.errors.DataWarning")
def test_the_hospital(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["hospital.py", "--out", str(tmp_path), "--weeks", "2"])
    names = runpy.run_path(str(SCRIPT), run_name="__main__")
    said = capsys.readouterr().out
    assert "2025-01-06 00:00:00+01:00 to 2025-01-20 00:00:00+01:00" in said
    assert "by 15:00 with chance" in said
    assert (tmp_path / "intensity.png").stat().st_size > 10_000
    assert "Intensity with its 95 % band" in (tmp_path / "report.html").read_text()
    curve = pd.read_csv(tmp_path / "mary.csv")
    assert curve["time"].iloc[0].startswith("2025-01-0")
    assert " 00:00:00" in curve["time"].iloc[0]
    fitted = ct.load(tmp_path / "fitted")
    for site, rate in names["RATES"].items():
        night, day = (
            fitted[site].predict_count(f"2025-01-08 {first}:00+01:00", f"2025-01-08 {last}:00+01:00").mean
            for first, last in (("00", "06"), ("12", "18"))
        )
        assert day > 1.3 * night, site
        assert np.mean([night, day]) / 6 == pytest.approx(rate, rel=0.35), site


def test_its_files_say_the_same_in_three_ways(tmp_path):
    names = runpy.run_path(str(SCRIPT))
    names["write_exports"](tmp_path, 1)
    with pytest.warns(DataWarning, match="separated by ';'"):
        clients = names["read_exports"](tmp_path)
    assert {table.clock.zone for table in clients.values()} == {"Europe/Berlin"}
    raw = pd.read_csv(tmp_path / "mary.csv")["admitted"]
    assert list(clients["mary"].to_frame()["time"]) == list(pd.to_datetime(raw).dt.tz_convert("Europe/Berlin"))
