"""The page "from laptop to consortium" is true: its commands run and print what it says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="needs cotempo[flower]")

from cotempo.engines.flower.processes import free_port

pytestmark = pytest.mark.xdist_group("deployment")
PAGE = Path(__file__).parent.parent / "docs" / "consortium.md"
BLOCK = re.compile(r"^```(toml|console|sh)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def commands(block: str) -> Iterator[tuple[str, list[str]]]:
    """The commands of a console block, each with what it is said to print."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, *printed = part.rstrip("\n").split("\n")
        yield command, printed


def plain(lines: list[str], folder: Path) -> list[str]:
    """Lines without what differs from run to run: numbers, and where the folder is."""
    return [re.sub(r"[+-]?\d[\d,.]*", "#", line.replace(f"{folder}/", "")) for line in lines]


@pytest.mark.slow
def test_the_page_is_true(tmp_path: Path) -> None:
    page = PAGE.read_text().replace("9443", str(free_port()))
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}

    def shell(command: str) -> list[str]:
        ended = subprocess.run(["bash", "-ec", command], cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert ended.returncode == 0, f"{command}\n{ended.stdout}{ended.stderr}"
        return ended.stdout.splitlines()

    try:
        for kind, block in BLOCK.findall(page):
            if kind == "toml":
                name = block.split("\n", 1)[0].removeprefix("# ")
                (tmp_path / name).write_text(block)
            elif kind == "sh":
                shell(block)
            else:
                for command, printed in commands(block):
                    found = shell(command)
                    if printed != ["..."]:
                        assert plain(found, tmp_path) == plain(printed, tmp_path), command
    finally:
        for place in ("client stop plant-a", "client stop plant-b", "client stop plant-c", "server stop plants/server"):
            subprocess.run(["cotempo", *place.split()], cwd=tmp_path, env=environment, capture_output=True)
    assert (tmp_path / "runs" / "plants" / "report.html").is_file()
    assert list((tmp_path / "plant-a" / "home" / "runs").glob("*/result/fitted.json"))
