"""The site's page in a browser without JavaScript: a person reads, approves and refuses; nothing is asked elsewhere.

The check of accessibility needs axe-core, which runs in the browser: npm install --no-save axe-core
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from asked_site import AskedSite
from paper_consortium import RUN

from cotempo.engines.flower.protocol import Part
from cotempo.pages.serving import PageServer
from cotempo.pages.site import make_site_app

AXE = Path(__file__).parents[2] / "node_modules" / "axe-core" / "axe.min.js"
OTHER = "f" * 32
LONG = "a very long purpose without end " * 15


@pytest.fixture
def server(site: AskedSite) -> Iterator[PageServer]:
    with PageServer(make_site_app(site.kit, "secret"), secret="secret") as server:
        yield server


def visit(browser: Any, server: PageServer, **options: Any) -> tuple[Any, list[str]]:
    """Open the page; return the tab with complaints of the browser and requests to anywhere else."""
    context = browser.new_context(**{"java_script_enabled": False, **options})
    tab, said = context.new_page(), []
    home = server.url.removesuffix("secret/")
    tab.on("request", lambda request: None if request.url.startswith(home) else said.append(request.url))
    tab.on("console", lambda message: said.append(message.text))
    tab.goto(server.url)
    return tab, said


def test_a_person_approves_and_refuses_without_javascript(browser: Any, site: AskedSite, server: PageServer) -> None:
    site.join()
    tab, said = visit(browser, server)
    tab.get_by_role("link", name="Read and decide").click()
    assert tab.get_by_role("heading", name="What would leave").is_visible()
    tab.get_by_role("button", name="Approve once").click()
    assert tab.get_by_role("heading", name="Approved", exact=True).is_visible()
    assert Part.SCHEMA in site.join()
    site.join(run=OTHER)
    tab.get_by_role("link", name="Requests").click()
    tab.get_by_role("link", name="Read and decide").click()
    tab.get_by_label("Reason").fill("not this quarter")
    tab.get_by_role("button", name="Refuse").click()
    assert tab.get_by_text("The coordinator was told: “not this quarter”").is_visible()
    assert b"not this quarter" in site.join(run=OTHER)[Part.REFUSED]
    tab.get_by_role("button", name="Pause this site").click()
    assert Part.WAITING in site.ask(RUN)
    tab.get_by_role("button", name="Answer again").click()
    assert Part.REPLY in site.ask(RUN)
    tab.get_by_role("link", name="What left").click()
    assert tab.get_by_text("each as it was written").is_visible()
    assert said == []


def test_a_person_approves_runs_like_this_with_other_numbers(browser: Any, site: AskedSite, server: PageServer) -> None:
    asked = {"method": "OneRound", "parameters": {"lags": 2}}
    site.join(**asked)
    tab, _ = visit(browser, server)
    tab.get_by_role("link", name="Read and decide").click()
    tab.get_by_text("Allow other numbers, too").click()
    tab.get_by_label("lags to").fill("3")
    tab.get_by_role("button", name="Approve runs like this").click()
    assert Part.SCHEMA in site.join(run=OTHER, method="OneRound", parameters={"lags": 3})


@pytest.mark.parametrize("width", [360, pytest.param(1200, marks=pytest.mark.slow)])
def test_no_page_is_wider_than_the_window(browser: Any, site: AskedSite, server: PageServer, width: int) -> None:
    site.join(purpose=LONG + "x" * 20)
    site.join(run=OTHER, method="OneRound", parameters={"lags": 2})
    site.service.inbox.approve(site.service.inbox.find(RUN), ranges={})
    site.join(purpose=LONG + "x" * 20)
    site.ask(RUN)
    tab, _ = visit(browser, server, java_script_enabled=True, viewport={"width": width, "height": 844})
    for path in ("", f"request/{OTHER}", f"request/{RUN}", "history", f"run/{RUN}"):
        tab.goto(server.url + path)
        tab.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
        assert tab.evaluate("document.documentElement.scrollWidth") <= width, path
        wide = "[...document.querySelectorAll('table, pre, p, form')].filter(e => e.scrollWidth > e.clientWidth + 1)"
        assert tab.evaluate(f"{wide}.length") == 0, path


@pytest.mark.skipif(not AXE.is_file(), reason="needs axe-core: npm install --no-save axe-core")
@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
def test_accessibility_has_no_serious_finding(browser: Any, site: AskedSite, server: PageServer, scheme: str) -> None:
    site.join()
    site.service.inbox.approve(site.service.inbox.find(RUN), ranges={})
    site.join()
    site.ask(RUN)
    site.join(run=OTHER, method="OneRound", parameters={"lags": 2})
    tab, _ = visit(browser, server, java_script_enabled=True, color_scheme=scheme)
    for path in ("", f"request/{OTHER}", f"request/{RUN}", "history", f"run/{RUN}", "request/none"):
        tab.goto(server.url + path)
        tab.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
        tab.evaluate(AXE.read_text())
        found = tab.evaluate("axe.run().then(result => result.violations)")
        serious = [item for item in found if item["impact"] in ("serious", "critical")]
        assert not serious, [(path, item["id"], [node["html"] for node in item["nodes"]][:3]) for item in serious]
