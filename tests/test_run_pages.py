"""The pages "from laptop to consortium" and "operations" are true: their commands run and print what they say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="needs cotempo[flower]")

from cotempo.engines.flower.processes import free_port, wait_until

pytestmark = pytest.mark.xdist_group("deployment")
DOCS = Path(__file__).parent.parent / "docs"
BLOCK = re.compile(r"^```(toml|console|sh)\n(.*?)^```", re.DOTALL | re.MULTILINE)
TWELVE = "## From kits to a report in twelve commands"


def commands(block: str) -> Iterator[tuple[str, list[str]]]:
    """The commands of a console block, each with what it is said to print."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, *printed = part.rstrip("\n").split("\n")
        yield command, printed


def plain(lines: list[str], folder: Path) -> list[str]:
    """Lines without what differs from run to run: numbers, and where the folder is."""
    return [re.sub(r"[+-]?\d[\d,.-]*", "#", line.replace(f"{folder}/", "")) for line in lines]


class PageRun:
    """Runs a page's blocks in a folder, each command in a shell; `enter` comes before it."""

    def __init__(self, folder: Path, enter: tuple[str, ...] = ()):
        self.folder, self.enter = folder, enter
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.environment = {**os.environ, "PATH": path}

    def shell(self, command: str) -> list[str]:
        """Run a command, with "yes" to whatever it asks; return what it prints."""
        ended = subprocess.run(
            [*self.enter, "bash", "-ec", command], cwd=self.folder, env=self.environment, capture_output=True,
            text=True, input="y\n" * 9,
        )  # fmt: skip
        assert ended.returncode == 0, f"{command}\n{ended.stdout}{ended.stderr}"
        return ended.stdout.splitlines()

    def run(self, page: str) -> None:
        """Write the files a page shows, run its commands, and compare what they print."""
        for kind, block in BLOCK.findall(page):
            if kind == "toml":
                name = block.split("\n", 1)[0].removeprefix("# ")
                (self.folder / name).write_text(block)
            elif kind == "sh":
                self.shell(block)
            else:
                for command, printed in commands(block):
                    found = self.shell(command)
                    if printed != ["..."]:
                        assert plain(found, self.folder) == plain(printed, self.folder), command

    def stop(self) -> None:
        """Stop whatever still runs."""
        for place in ("client stop plant-a", "client stop plant-b", "client stop plant-c", "server stop plants/server"):
            subprocess.run(
                [*self.enter, "cotempo", *place.split()], cwd=self.folder, env=self.environment, capture_output=True
            )


@pytest.mark.slow
def test_the_page_of_a_consortium_is_true(tmp_path: Path) -> None:
    page = PageRun(tmp_path)
    try:
        page.run((DOCS / "consortium.md").read_text().replace("9443", str(free_port())))
    finally:
        page.stop()
    assert (tmp_path / "runs" / "plants" / "report.html").is_file()
    assert list((tmp_path / "plant-a" / "home" / "runs").glob("*/result/fitted.json"))


@pytest.fixture
def alone() -> Iterator[tuple[str, ...]]:
    """How to enter a network namespace that has nothing but its own loopback."""
    holder = subprocess.Popen(["unshare", "-rn", "sleep", "3600"], stderr=subprocess.PIPE)
    enter = ("nsenter", "-t", str(holder.pid), "-U", "-n", "--preserve-credentials")
    try:
        up = [*enter, "ip", "link", "set", "lo", "up"]
        if not wait_until(lambda: subprocess.run(up, capture_output=True).returncode == 0, 10):
            pytest.skip("this user can make no network namespace (unshare -rn), or not enter it (nsenter)")
        yield enter
    finally:
        holder.kill()
        holder.wait()


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_the_runbook_is_true_without_a_network(tmp_path: Path, alone: tuple[str, ...]) -> None:
    text = (DOCS / "operations.md").read_text()
    first, _, rest = text.partition(TWELVE)
    twelve, mark, rest = rest.partition("<!-- measured -->")
    assert mark
    page = PageRun(tmp_path, alone)
    try:
        links = page.shell("ip -brief link")
        assert [link.split()[0] for link in links] == ["lo"]
        page.run(first)
        began = time.monotonic()
        page.run(twelve)
        print(f"from kits to a report: {time.monotonic() - began:.0f} s")
        assert (tmp_path / "runs" / "network" / "report.html").is_file()
        assert "secure_sum = true" in (tmp_path / "runs" / "network" / "experiment.toml").read_text()
        page.run(rest)
    finally:
        page.stop()


def test_from_kits_to_a_report_it_is_twelve_commands() -> None:
    _, _, rest = (DOCS / "operations.md").read_text().partition(TWELVE)
    twelve = rest.partition("<!-- measured -->")[0]
    typed = [command for kind, block in BLOCK.findall(twelve) if kind == "console" for command, _ in commands(block)]
    assert len(typed) == 12
    assert all(command.startswith("cotempo ") for command in typed)
