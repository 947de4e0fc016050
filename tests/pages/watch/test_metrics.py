"""Numbers for Prometheus: its own parser reads them, and they are those of the run's log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
from pacing import ROUNDS, Paced, make_clients

from cotempo.pages.watch.server import watch_server
from cotempo.runs.folder import read_lines
from cotempo.runs.metrics import exposition
from cotempo.runs.state import RunState

parser = pytest.importorskip("prometheus_client.parser")
NASTY = 'say "hi"\\'


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    Paced().fit(make_clients(("ash", NASTY)), run=folder / "first", progress=False)
    Paced(rounds=2).fit(make_clients(("ash", "birch")), run=folder / "second", progress=False)
    return folder


def parse(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    found = {}
    for family in parser.text_string_to_metric_families(text):
        assert family.documentation
        for sample in family.samples:
            found[sample.name, frozenset(sample.labels.items())] = sample.value
    return found


def value(found: dict[Any, float], name: str, **labels: str) -> float | None:
    return found.get((name, frozenset(labels.items())))


def test_the_page_serves_every_run_to_those_who_know_its_secret(runs: Path) -> None:
    with watch_server(runs) as server, httpx.Client(timeout=60) as client:
        answer = client.get(f"{server.url}metrics")
        assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert client.get(f"{server.url.rsplit('/', 2)[0]}/metrics").status_code == 404
    found = parse(answer.text)
    for name, rounds in (("first", ROUNDS), ("second", 2)):
        records = read_lines(runs / name / "log.jsonl")
        assert value(found, "cotempo_rounds_total", run=name) == rounds
        assert value(found, "cotempo_step_seconds_count", run=name) == len(records)
        assert value(found, "cotempo_step_seconds_sum", run=name) == pytest.approx(sum(r["seconds"] for r in records))
        assert value(found, "cotempo_run_state", run=name, state="finished") == 1
        assert value(found, "cotempo_run_state", run=name, state="running") == 0
        left = sum(record["received"]["ash"] for record in records)
        assert value(found, "cotempo_left_bytes_total", run=name, site="ash") == left
        assert value(found, "cotempo_answers_total", run=name, site="ash") == len(records)
    assert value(found, "cotempo_answers_total", run="first", site=NASTY) == ROUNDS


def test_failures_latency_who_is_there_and_epsilon(runs: Path) -> None:
    state = RunState(runs / "second").refresh()
    state.failures = [{"client": "ash", "kind": "Refused", "detail": "no"}] * 2
    state.experiment = {**state.experiment, "privacy": {"epsilon": 1.5}}
    state.pulse = {
        "beat": state.now, "step": 1, "clients": ["ash", "birch"], "asked": ["ash", "birch"],
        "asked_at": 100.0, "answered": {"birch": 102.5}, "failed": {}, "away": {"ash": 99.0},
    }  # fmt: skip
    found = parse(exposition({"second": state}))
    assert value(found, "cotempo_failures_total", run="second", site="ash", kind="Refused") == 2
    assert value(found, "cotempo_answer_seconds", run="second", site="birch") == 2.5
    assert value(found, "cotempo_answer_seconds", run="second", site="ash") is None
    assert [value(found, "cotempo_site_up", run="second", site=site) for site in ("ash", "birch")] == [0, 1]
    assert value(found, "cotempo_epsilon", run="second") == 1.5


def test_a_folder_whose_runs_are_gone_has_no_numbers() -> None:
    assert exposition({}) == ""
