"""The live page in a browser: it follows a run to its end, over a killed site and its own restart."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pacing import ROUNDS, Paced, make_clients, open_gate, pretend, start

from cotempo.pages.watch.server import watch_server

NAMES = ("ash", "birch", "cedar")
AXE = Path(__file__).parents[3] / "node_modules" / "axe-core" / "axe.min.js"
PATIENCE = 60_000.0
pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    return tmp_path / "gate"


@pytest.fixture
def paced(tmp_path: Path, gate: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A run of three sites that wait before their first answer, in a process of its own."""
    process = start(tmp_path / "paced", gate, NAMES)
    wait_for(gate / "at-ash-1", process)
    yield process
    process.kill()
    process.wait()


def wait_for(path: Path, process: subprocess.Popen[bytes]) -> int:
    """Wait until a client is asked, and return its process."""
    while not path.exists() or not path.read_text():
        assert process.poll() is None, "the run ended"
    return int(path.read_text())


def visit(browser: Any, url: str, **options: Any) -> tuple[Any, list[str]]:
    """Open a page, and return it with what it asked for elsewhere and every complaint of the browser."""
    context = browser.new_context(**{"viewport": {"width": 1200, "height": 900}, **options})
    context.set_default_timeout(PATIENCE)
    tab, said = context.new_page(), []
    tab.on("request", lambda request: said.append(request.url) if not request.url.startswith((url, "data:")) else None)
    tab.on("console", lambda message: said.append(message.text))
    tab.on("pageerror", lambda error: said.append(str(error)))
    tab.goto(url)
    return tab, said


def test_the_page_follows_a_run_to_its_end_over_a_killed_site_and_its_own_restart(
    browser: Any, paced: subprocess.Popen[bytes], gate: Path, tmp_path: Path
) -> None:
    run = tmp_path / "paced"
    server = watch_server(run)
    with server:
        tab, said = visit(browser, server.url)
        tab.locator("#now", has_text="Round 1, walk; waiting for 3 of 3 sites").wait_for()
        assert tab.locator("#failures").is_hidden()
        open_gate(gate, 2)
        tab.locator("#now", has_text="Round 3").wait_for()
        os.kill(wait_for(gate / "at-birch-3", paced), signal.SIGKILL)
        row = tab.locator("#sites tr", has_text="birch")
        row.get_by_text("left out its process died").wait_for(timeout=10_000)
        open_gate(gate, 3)
        tab.locator("#failures", has_text="birch was left out of step 3").wait_for()
        assert said == []
    tab.get_by_text("The page's server is away").wait_for()
    open_gate(gate, 5)
    with watch_server(run) as again:
        assert again.url == server.url
        tab.locator("#now", has_text="Round 6").wait_for()
        assert tab.locator("#link").is_hidden()
        open_gate(gate, ROUNDS)
        tab.locator("#now", has_text="Finished").wait_for()
        tab.get_by_text("The report of this run").click()
        tab.get_by_role("heading", name="What was found").wait_for()
    assert paced.wait() == 0


def test_without_scripts_the_state_is_shown_and_loads_again(browser: Any, tmp_path: Path) -> None:
    Paced().fit(make_clients(NAMES), run=tmp_path / "run", progress=False)
    pretend(tmp_path / "run", round=1)
    with watch_server(tmp_path / "run") as server:
        tab, _ = visit(browser, server.url, java_script_enabled=False)
        tab.locator("#now", has_text="Round 1, walk; waiting for 3 of 3 sites").wait_for()
        assert tab.locator("#sites tr", has_text="birch").is_visible()
        pretend(tmp_path / "run", round=3)
        tab.locator("#now", has_text="Round 3").wait_for()  # by loading again


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The page of a run that shows every kind of light."""
    names = ("ash", "birch", "cedar", "a very long name of a site" * 4, "<b>elm</b>", "fir")
    run, now = tmp_path_factory.mktemp("runs") / "paced", time.time()
    Paced().fit(make_clients(names), run=run, progress=False)
    pretend(
        run, clients=names, asked=names[:5], answered={"ash": now - 49}, away={"birch": now - 20},
        failed={"cedar": ["Refused", "this site approves FDBNL, not Paced"]},
    )  # fmt: skip
    with watch_server(run) as server:
        yield server.url


@pytest.mark.parametrize("width", [390, 1200])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_light_fits_the_page_and_is_no_serious_barrier(browser: Any, shown: str, width: int, scheme: str) -> None:
    tab, said = visit(browser, shown, viewport={"width": width, "height": 844}, color_scheme=scheme)
    tab.locator("#curves svg").wait_for()
    for words in ("answered in", "gone since", "refused this site approves", "late for", "not asked in this step"):
        assert tab.locator("#sites tr", has_text=words).first.is_visible()
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    assert said == []
    if not AXE.is_file():
        pytest.skip("npm install --no-save axe-core")
    tab.evaluate(AXE.read_text())
    found = tab.evaluate("axe.run().then(found => found.violations.map(one => [one.impact, one.id, one.help]))")
    assert [one for one in found if one[0] in ("serious", "critical")] == []
