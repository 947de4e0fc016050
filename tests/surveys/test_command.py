"""`cotempo survey`: findings in words and as JSON, of files and of experiments."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import cotempo as ct
from cotempo.cli.main import main


def say(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as ended:
        main([*arguments])
    return int(ended.value.code or 0), capsys.readouterr().out


def test_a_file_and_an_experiment_say_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    clients, _ = ct.make_series(clients=4, length=200, features=3, seed=0)
    ct.data.write_clients(clients, "good.csv")
    code, words = say(capsys, "survey", "good.csv")
    assert code == 0
    assert words.splitlines() == [
        "nothing was found in the tables of 4 clients",
        "x0, x1, x2: another unit is told if it is off by 2.5 times or more",
    ]
    odd = clients["client-1"]
    clients["client-1"] = ct.Series.from_arrays(odd.values * [1, 1, 1000])
    ct.data.write_clients(clients, "odd.csv")
    Path("odd.toml").write_text('name = "odd"\nmethod = "OneRound"\n[data]\nsource = "odd.csv"\n')
    code, words = say(capsys, "survey", "odd.csv")
    assert code == 3
    assert "larger than the others': a prefix such as milli or kilo (1,000)?" in words
    assert say(capsys, "survey", "odd.toml") == (3, words)
    record = json.loads(say(capsys, "survey", "odd.csv", "--json")[1])
    assert record["counts"] == {"unit": 1}
    assert [finding["subject"] for finding in record["findings"]["client-1"]] == ["x2"]
