"""A method of one's own on the command line: the example of CONTRIBUTING, in a module beside the experiment."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from commands import Command

ROOT = Path(__file__).parents[2]
EXPERIMENT = """
name = "own"
method = "FedRange"
imports = ["ranges"]
[data]
source = "data/networks.csv"
[FedRange]
noise = 0.5
"""


@pytest.fixture
def own(made: Path) -> Path:
    """A folder with data, the module that the page teaches to write, and an experiment that names it."""
    code = (ROOT / "CONTRIBUTING.md").read_text().split("```python\n")[1].split("\nclients, truth =")[0]
    (made.parent / "ranges.py").write_text(code)
    (made.parent / "own.toml").write_text(EXPERIMENT)
    return made.parent


def fresh(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own, which has imported nothing, without the folder on its path."""
    command = [sys.executable, "-P", "-c", "from cotempo.cli import main; main()", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)


def test_a_module_beside_the_experiment_is_run_and_read_again(own: Path) -> None:
    ran = fresh(own.parent, "run", str(own / "own.toml"), "--run", str(own / "runs" / "own"))  # from another folder
    assert ran.returncode == 0, ran.stderr
    shown = fresh(own, "report", "runs/own")
    assert shown.returncode == 0, shown.stderr
    elsewhere = fresh(own / "data", "report", "../runs/own")  # a run's folder does not say where code lies
    assert elsewhere.returncode == 2
    assert "must be installed or lie in" in elsewhere.stderr


@pytest.mark.slow
def test_init_methods_check_and_dry_run_know_it(own: Path) -> None:
    about = fresh(own, "methods", "FedRange", "--import", "ranges")
    assert about.returncode == 0, about.stderr
    assert "FedRange, on series: The range of every variable over all clients." in about.stdout
    assert "noise = 0.01" in about.stdout
    words = ("init", "new.toml", "--data", "data/networks.csv", "--method", "FedRange", "--import", "ranges")
    made = fresh(own, *words)
    assert made.returncode == 0, made.stderr
    assert fresh(own, "check", "new.toml").returncode == 0
    dry = fresh(own, "run", "new.toml", "--dry-run")
    assert dry.returncode == 0, dry.stderr
    assert "the smallest value of each of your variables, blurred" in dry.stdout


@pytest.mark.parametrize(
    ("imports", "words"),
    [
        ('["no_such_module"]', "must be installed or lie in"),
        ('["needy"]', "the module 'needy' must be importable, it needs 'no_such_package'"),
        ('["faulty"]', "the module 'faulty' must be importable, ZeroDivisionError"),
        ('"ranges"', "imports must be a list of modules"),
        ("[]", "must be decorated with @register() and imported"),
    ],
)
def test_what_cannot_be_imported_is_said(cotempo: Command, own: Path, imports: str, words: str) -> None:
    (own / "needy.py").write_text("import no_such_package")
    (own / "faulty.py").write_text("1 / 0")
    changed = EXPERIMENT.replace('["ranges"]', imports).replace("FedRange", "FedReach")
    (own / "own.toml").write_text(changed)
    said = cotempo("run", "own.toml")
    assert said.code == 2
    assert words in said.err
