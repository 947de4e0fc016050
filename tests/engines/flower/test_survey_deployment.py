"""A survey between organisations, under the secure sum: words at the site, numbers at the coordinator; no processes."""

from __future__ import annotations

from pathlib import Path

import pytest
from paper_channel import PaperDeployment, Release

import cotempo as ct
from cotempo.cli.main import main
from cotempo.engines.flower.coordinator import engine
from cotempo.engines.flower.protocol import SPEAKS
from cotempo.privacy.contract import CODE_VERSION

SITES = ("ash", "birch", "cedar", "elm", "fir")


def test_each_site_is_told_its_own_findings_and_the_coordinator_how_many_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clients, _ = ct.make_series(clients=5, length=300, seed=1)
    tables = dict(zip(SITES, clients.values(), strict=True))
    tables["cedar"] = ct.Series.from_arrays(tables["cedar"].values * [1, 18.016, 1, -1])
    made = PaperDeployment(
        tmp_path / "made", tables, dict.fromkeys(SITES, Release(CODE_VERSION, SPEAKS)), methods=("SeriesSurvey",)
    )
    monkeypatch.setattr(engine, "ServerTask", lambda server, run: made.channel)
    server = made.consortium.server.folder
    (tmp_path / "study.toml").write_text(
        f'name = "study"\nmethod = "OneRound"\n[engine]\nname = "flower"\nserver = "{server}"\n'
    )
    with pytest.raises(SystemExit) as ended:
        main(["survey", str(tmp_path / "study.toml")])
    said = capsys.readouterr().out
    assert ended.value.code == 3
    assert said.splitlines()[:2] == [
        "1 of 5 clients have something to look at: unit 1, sign 1",
        "each site has the words of its own findings",
    ]
    told = {name: one.home.glob("runs/*/result/findings.txt") for name, one in made.consortium.clients.items()}
    words = {name: "".join(path.read_text() for path in paths) for name, paths in told.items()}
    assert "larger than the others': mg/dL against mmol/L of glucose (18)" in words["cedar"]
    assert "your x3 has the opposite sign" in words["cedar"]
    assert all(words[name] and "your" not in words[name] for name in SITES if name != "cedar")
    ledgers = [(one.home / "ledger.jsonl").read_text() for one in made.consortium.clients.values()]
    assert all('"is_masked": true' in text or '"is_masked":true' in text for text in ledgers)
    assert not any('"is_masked": false' in text or '"is_masked":false' in text for text in ledgers)
