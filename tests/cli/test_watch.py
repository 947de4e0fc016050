"""The commands watch and doctor, examples in every help, and completion."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from commands import Command

import cotempo
from cotempo.cli import doctor
from cotempo.cli.examples import EXAMPLES
from cotempo.cli.main import program
from cotempo.runs.folder import read_lines


def test_watch_in_words_and_for_machines(cotempo: Command, made: Path) -> None:
    assert cotempo("run", made).code == 0
    said = cotempo("watch", "runs/first", "--plain")
    assert said.code == 0
    lines = said.out.splitlines()
    assert lines[0].startswith("first: Finished. 1 round in ")
    assert lines[2] == "○ client-0  answered 2 of 2 questions"
    left = Counter[str]()
    for message in read_lines(Path("runs/first/messages.jsonl")):
        left[message["client"]] += message["bytes"]
    assert lines[-1] == f"{left.total()} bytes left the sites."
    record = cotempo("watch", "runs", "--plain", "--json").record["first"]
    assert (record["status"], record["round"], record["done"]) == ("finished", 1, 1.0)
    assert record["bytes"] == left
    assert cotempo("run", made, "--run", "runs/second").code == 0
    both = cotempo("watch", "--plain").out.splitlines()
    assert [line.partition(".")[0] for line in both] == ["second: Finished", "first: Finished"]


def test_watch_refuses_a_folder_without_runs(cotempo: Command, tmp_path: Path) -> None:
    for options in ((), ("--plain",)):
        said = cotempo("watch", tmp_path, *options)
        assert said.code == 5
        assert "must be a run, or a folder with runs" in said.err


def test_without_the_extra_watch_says_what_to_install(tmp_path: Path) -> None:
    blocked = (
        "import sys\n"
        "import importlib.util as util; find = util.find_spec\n"
        "util.find_spec = lambda name, *rest: None if name == 'starlette' else find(name, *rest)\n"
        "from cotempo.cli import main; main(['watch', sys.argv[1]])"
    )
    ended = subprocess.run([sys.executable, "-c", blocked, str(tmp_path)], capture_output=True, text=True, check=False)
    assert ended.returncode == 6
    assert "pip install 'cotempo[watch]'" in ended.stderr


def test_doctor_names_versions_and_finds_nothing_in_the_way(cotempo: Command) -> None:
    said = cotempo("doctor", "--json")
    found = {finding["name"]: finding for finding in said.record["findings"]}
    assert said.code == 0
    assert said.record["ok"] is True
    assert {"python", "packages", "gpu", "threads", "disk", "clock", "time zones", "network"} <= found.keys()
    assert cotempo("doctor").out.splitlines()[0].split()[:2] == ["ok", "cotempo"]


def test_doctor_says_what_is_wrong_and_the_cure(cotempo: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "many")
    monkeypatch.setattr(
        doctor.importlib.metadata,
        "requires",
        lambda name: ["numpy>=99", "no-such-package>=1", "nor-this; extra == 'encoders'", "numpy; extra == 'flower'"],
    )

    def find_zone(name: str) -> None:
        raise doctor.zoneinfo.ZoneInfoNotFoundError(name)

    monkeypatch.setattr(doctor.zoneinfo, "ZoneInfo", find_zone)
    said = cotempo("doctor")
    assert said.code == 1
    assert "older than 99, no-such-package is missing; mend with: pip install --upgrade cotempo" in said.out
    assert "OMP_NUM_THREADS=many must be a number" in said.out
    assert "pip install tzdata" in said.out
    assert "pip install 'cotempo[encoders]'" in said.out
    assert [line.split()[0] for line in said.out.splitlines() if " extra " in line] == ["note", "ok"]
    assert said.out.splitlines()[-1].startswith("3 of ")


def test_every_command_has_examples_that_it_can_read() -> None:
    assert set(program.commands) <= {name.split()[0] for name in EXAMPLES if name}
    for name, lines in EXAMPLES.items():
        for line in lines:
            word, *rest = shlex.split(line)
            assert word == "cotempo"
            assert rest[: len(name.split())] == name.split()
            found = program
            while hasattr(found, "commands") and rest and rest[0] in found.commands:
                found = found.commands[rest.pop(0)]
            if name:
                found.make_context("cotempo", rest, resilient_parsing=False)


def test_help_shows_examples(cotempo: Command) -> None:
    said = cotempo("watch", "--help").out
    assert "Examples:\n    cotempo watch\n    cotempo watch runs/experiment\n" in said
    assert "cotempo --install-completion" in cotempo("--help").out


def test_the_shell_completes_commands() -> None:
    words = {"_COTEMPO_COMPLETE": "complete_bash", "COMP_WORDS": "cotempo re", "COMP_CWORD": "1"}
    code = "import sys; sys.argv = ['cotempo']; from cotempo.cli import main; main()"
    path = {"PYTHONPATH": str(Path(cotempo.__file__).parents[1])}
    ended = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **path, **words}, capture_output=True, text=True, check=False
    )
    assert ended.stdout.split() == ["resume", "report", "release", "rename"]
