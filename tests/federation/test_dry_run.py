"""A dry run tells, before anything leaves, what `messages` shows afterwards."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import cotempo as ct
from cotempo.federation import Method
from cotempo.federation.registry import find_method
from cotempo.federation.wire import EMPTY


@pytest.mark.parametrize("name", ["FDBNL", "OneRound", "FedPointProcess", "FedTDD", "FedMoments", "EventDetector"])
def test_totals_are_those_of_the_run(name: str, tmp_path: Path) -> None:
    method, clients, public = find_method(name).example()  # type: ignore[attr-defined]
    if name == "FedTDD":
        method = method.set_params(first_steps=7, chunk=2)  # training that a dry run cuts short
    shown = ct.dry_run(method, clients, public=public)
    assert not list(tmp_path.iterdir())
    method.fit(clients, public=public, run=tmp_path / "run")
    records = [json.loads(line) for line in (tmp_path / "run" / "messages.jsonl").read_text().splitlines()]
    for client, size in shown.sizes.items():
        sent = [record for record in records if record["client"] == client]
        assert abs(sum(record["bytes"] for record in sent) - size) <= 0.1 * size, client
        told = [record["phase"] for record in shown.messages if record["client"] == client]
        assert [record["phase"] for record in sent] == told
    text = str(shown)
    for phase in {record["phase"] for record in records}:
        assert f"Phase {phase!r}: " in text
    for record in records:
        for field in record["fields"].values():
            assert field["description"] in text


def test_a_rehearsal_changes_no_parameter_of_a_message() -> None:
    short = ct.FedTDD(common=("x0",)).rehearsal()
    assert isinstance(short, Method)
    assert short.chunk == 1
    assert len(list(short.plan())) == len(list(ct.FedTDD(common=("x0",)).plan()))
    assert sum(line.steps for line in short.plan()) < 100
    assert ct.FedMean().rehearsal() == ct.FedMean()


def test_what_depends_on_the_data_is_said() -> None:
    method, clients, public = ct.FedTDD.example()
    text = str(ct.dry_run(method.set_params(alpha=0.5), clients, public=public))
    assert "(depends on the data): synthetic windows" in text
    assert "only the sum over clients is used" in text


@pytest.mark.parametrize("name", ["OneRound", "FDBNL", "FedMoments", "FedPP"])
def test_a_dry_run_with_epsilon_shows_the_private_form(name: str, tmp_path: Path) -> None:
    method, clients, _ = find_method(name).example()  # type: ignore[attr-defined]
    privacy = ct.Privacy(epsilon=3, ranges=(-15, 15))
    method = ct.OneRound() if name == "OneRound" else method  # the example is personal, which epsilon excludes
    if name == "FedPP":
        method, privacy = ct.FedPP(kernel="time", cells=48, window=(0, 10), compare=False), ct.Privacy(epsilon=3)
    shown = ct.dry_run(method, clients, privacy=privacy)
    fitted = method.fit(clients, privacy=privacy, run=tmp_path / "run")
    records = [json.loads(line) for line in (tmp_path / "run" / "messages.jsonl").read_text().splitlines()]
    sent = {(record["client"], record["phase"]): record["bytes"] for record in records}
    assert {(record["client"], record["phase"]): record["bytes"] for record in shown.messages} == sent
    if name == "FedMoments":  # whose phase 'keep' sends no field
        assert str(shown).endswith(f"  {EMPTY}")
        assert EMPTY in fitted.report(tmp_path / "page.html").read_text()
