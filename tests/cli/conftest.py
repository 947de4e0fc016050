"""Commands in an empty folder, and an experiment to run there."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from commands import EXPERIMENT, Command, Said

from cotempo.cli import main


@pytest.fixture
def cotempo(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Run a command in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: object) -> Said:
        with pytest.raises(SystemExit) as end:
            main([str(argument) for argument in arguments])
        return Said(end.value.code, *capsys.readouterr())

    return call


@pytest.fixture
def made(cotempo: Command, tmp_path: Path) -> Path:
    """An experiment file beside a folder of three small clients."""
    options = ["--set", "variables=2", "--set", "clients=3", "--set", "samples=40"]
    assert cotempo("make-data", "networks", "--out", "data", "--seed", 5, *options).code == 0
    path = tmp_path / "experiment.toml"
    path.write_text(EXPERIMENT)
    return path
