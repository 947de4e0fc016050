"""The live page as HTML: what it says, that names cannot break it, its addresses, and its streams."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import httpx
import pytest
from pacing import ROUNDS, Paced, make_clients

import cotempo as ct
from cotempo.pages.watch.server import watch_server
from cotempo.pages.watch.views import WatchedRuns

NASTY = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    clients = make_clients(("ash", NASTY, 'say "hi" & go'))
    Paced().fit(clients, run=folder / "first", progress=False)
    Paced(rounds=3).fit(clients, run=folder / "second & <b>", progress=False)
    tables, _ = ct.make_networks(variables=3, clients=3, samples=60, seed=0)
    ct.OneRound().fit(tables, run=folder / "networks", progress=False)
    return folder


@pytest.fixture(scope="module")
def page(runs: Path) -> Iterator[httpx.Client]:
    with watch_server(runs) as server, httpx.Client(base_url=server.url, follow_redirects=True, timeout=60) as client:
        yield client


def text(html: str) -> str:
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]*>", " ", html)))


def test_all_runs_are_listed_with_their_state(page: httpx.Client) -> None:
    shown = text(page.get("").text)
    assert re.search(rf"first Paced Finished {ROUNDS} \d+ s 288 bytes 0", shown)
    assert re.search(r"second & <b> Paced Finished 3", shown)


def test_a_run_is_told_in_full(page: httpx.Client) -> None:
    shown = text(page.get("run", params={"run": "first"}).text)
    assert f"Finished {ROUNDS} rounds in" in shown
    assert f"answered {ROUNDS} of {ROUNDS} questions {ROUNDS} of {ROUNDS} 96 bytes" in shown
    assert "thick: the mean, thin: 3 sites" in shown
    assert "288 bytes in all" in shown
    assert "none : no noise is added" in shown


def test_names_are_shown_and_never_run(page: httpx.Client) -> None:
    for address in ("", "run?run=first", "run?run=second%20%26%20%3Cb%3E", "compare?first=first&second=networks"):
        html = page.get(address).text
        assert NASTY not in html
        own = re.findall(r"<script[^>]*>", html)
        assert all("src=" in one or address.startswith("compare") for one in own)
    assert NASTY in text(page.get("run?run=first").text)  # unescaped once, it is the name


def test_no_page_asks_for_anything_elsewhere_and_the_policy_forbids_it(page: httpx.Client, runs: Path) -> None:
    for address in ("", "run?run=first", "style.css", "script.js", "events?run=nobody"):
        answer = page.get(address)
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; style-src 'self'; img-src 'self' data:")
        assert "script-src 'self'; connect-src 'self'" in policy
        assert "unsafe" not in policy
        assert not re.findall(r"(?:src|href|url)\W{1,2}(?:https?:)?//", answer.text)
        assert " style=" not in answer.text
        assert not re.search(r"<[^>]* on\w+=", answer.text)
    report = page.get("report?run=first")
    assert report.text == (runs / "first" / "report.html").read_text()
    assert "connect-src 'none'" in report.headers["content-security-policy"]


def test_runs_that_are_not_there_are_refused(page: httpx.Client, tmp_path: Path) -> None:
    for name in ("nobody", "../first", "/etc", ""):
        for path in ("run", "report", "events"):
            answer = page.get(path, params={"run": name})
            assert answer.status_code == 404
            assert answer.headers["content-type"].startswith("text/plain")
    assert page.get("compare?first=first&second=first").status_code == 404


def test_two_finished_runs_are_compared_by_their_report(page: httpx.Client) -> None:
    shown = page.get("compare", params={"first": "first", "second": "second & <b>"}).text
    assert "Comparison of runs" in shown
    assert "Settings that differ" in shown
    assert "&lt;b&gt;" in shown


def test_an_open_run_is_compared_by_what_it_has_come_to(page: httpx.Client, runs: Path) -> None:
    result = (runs / "first" / "result" / "fitted.json").rename(runs / "aside.json")
    try:
        shown = text(page.get("compare?first=first&second=networks").text)
    finally:
        result.rename(runs / "first" / "result" / "fitted.json")
    assert "first: not finished." in shown
    assert "state Unfinished Finished" in shown
    assert "method Paced OneRound" in shown


def next_fragments(page: httpx.Client, address: str, wanted: set[str]) -> dict[str, str]:
    """Read a stream until these fragments have come."""
    found: dict[str, str] = {}
    with page.stream("GET", address) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        for line in stream.iter_lines():
            if line.startswith("data: "):
                event = json.loads(line[6:])
                found[event["id"]] = event["html"]
            if wanted <= {name for name, html in found.items() if html}:
                break
    return found


def test_a_stream_sends_the_parts_and_the_familys_picture_once_it_is_drawn(page: httpx.Client) -> None:
    found = next_fragments(page, "events?run=networks", {"now", "sites", "gauges"})
    assert "Finished" in found["now"]
    assert found["failures"] == ""
    while "<img" not in found["picture"]:
        found = next_fragments(page, "events?run=networks", {"picture"})
    assert "data:image/svg+xml" in found["picture"]
    assert "Of the finished run." in found["picture"]


def test_another_run_in_the_same_folder_is_not_mixed_with_the_first(tmp_path: Path) -> None:
    clients = make_clients(("ash", "birch"))
    watched = WatchedRuns(tmp_path)
    for rounds in (5, 2):
        shutil.rmtree(tmp_path / "run", ignore_errors=True)
        Paced(rounds=rounds).fit(clients, run=tmp_path / "run", progress=False)
        assert (watched.state("run").steps, watched.state("run").experiment["Paced"]["rounds"]) == (rounds, rounds)


def test_after_a_restart_the_page_has_the_same_address(runs: Path, tmp_path: Path) -> None:
    clients = make_clients(("ash", "birch"))
    Paced(rounds=1).fit(clients, run=tmp_path / "run", progress=False)
    with watch_server(tmp_path / "run") as first, watch_server(tmp_path / "run") as second:
        assert first.url != second.url  # two windows at once
    with watch_server(tmp_path / "run") as third:
        assert third.url == first.url
        assert httpx.get(third.url, follow_redirects=True, timeout=60).status_code == 200
        assert httpx.get(third.url.replace(third.url.split("/")[3], "guess")).status_code == 404
    assert (tmp_path / "run" / ".watch.json").stat().st_mode & 0o077 == 0
