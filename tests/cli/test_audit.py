"""`cotempo audit`: a finding in words and for machines, in the run's folder and its report."""

import json
from pathlib import Path

import pytest
from commands import Command

import cotempo as ct


@pytest.fixture
def network_run(cotempo: Command, made: Path) -> Path:
    made.write_text(made.read_text().replace("FedMean", "OneRound") + "[OneRound]\ncompare = false\n")
    assert cotempo("run", made).code == 0
    return Path("runs/first")


def test_a_run_is_repeated_and_attacked(cotempo: Command, network_run: Path) -> None:
    before = ct.load(network_run).digest
    said = cotempo("audit", network_run, "--canaries", 8)
    assert said.code == 0
    assert "lower bound of epsilon" in said.out
    kept = json.loads((network_run / "audit.json").read_text())
    assert kept["guesses"]["canaries"] == 8
    fitted = ct.load(network_run)
    assert fitted.digest == before
    assert fitted.privacy["audit"] in (network_run / "report.html").read_text()
    assert cotempo("audit", network_run, "--canaries", 8, "--json").record["method"] == "OneRound"


def test_runs_that_cannot_be_repeated_are_refused(cotempo: Command, made: Path, tmp_path: Path) -> None:
    clients, _ = ct.make_networks(variables=2, clients=3, samples=60)
    ct.OneRound(compare=False).fit(clients, run=tmp_path / "kept", progress=False)
    said = cotempo("audit", tmp_path / "kept")
    assert said.code == 5
    assert "messages are not kept" in said.err
    assert cotempo("run", made).code == 0
    said = cotempo("audit", "runs/first")
    assert said.code == 2
    assert "FedMean has none" in said.err
    assert cotempo("audit", tmp_path / "nothing").code == 5
