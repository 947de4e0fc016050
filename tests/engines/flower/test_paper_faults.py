"""Faults at a site that need no network, without processes: the bytes and the services are the real ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from paper_channel import PaperDeployment, Release
from replaying import ROUNDS, failures, replay, whole
from walking import Walking

import cotempo as ct
from cotempo.engines.flower.coordinator import engine
from cotempo.engines.flower.protocol import Envelope
from cotempo.errors import QuorumError
from cotempo.runs.folder import read_lines

HERE = Release("1.0.0", (4, 4))
Fit = Callable[..., Any]


@pytest.fixture
def made(tmp_path: Path, tables: dict[str, ct.Series], monkeypatch: pytest.MonkeyPatch) -> PaperDeployment:
    made = PaperDeployment(tmp_path / "made", tables, dict.fromkeys(tables, HERE))
    monkeypatch.setattr(engine, "ServerTask", lambda server, run: made.channel)
    return made


@pytest.fixture
def fit(made: PaperDeployment, tmp_path: Path) -> Fit:
    def run(**options: Any) -> Any:
        method = Walking(rounds=ROUNDS, gate=str(made.consortium.gate))
        with HERE.running():
            return ct.fit(
                method, engine="flower", server=made.consortium.server.folder, run=tmp_path / "run", seed=7,
                privacy=ct.Privacy(secure_sum=False), progress=False, **options,
            )  # fmt: skip

    return run


@pytest.mark.parametrize(("disturbance", "kind"), [("spoil", "MessageError"), ("starve", "MemoryError")])
def test_an_answer_that_is_nan_or_too_large_for_the_memory_costs_that_answer(
    made: PaperDeployment, tables: dict[str, ct.Series], fit: Fit, tmp_path: Path, disturbance: str, kind: str
) -> None:
    (made.consortium.gate / f"{disturbance}-birch-2").touch()
    ended = fit()
    ((client, step, found),) = failures(tmp_path / "run")
    assert (client, step) == ("birch", 2)
    assert kind in found
    assert ended.digest == replay(tables, 7, tmp_path / "run")


def test_below_quorum_the_run_pauses_and_is_resumed_to_the_same_bits(
    made: PaperDeployment, tables: dict[str, ct.Series], fit: Fit, tmp_path: Path
) -> None:
    (made.consortium.gate / "starve-birch-3").touch()
    with pytest.raises(QuorumError, match="birch"):
        fit(quorum=1.0)
    with HERE.running():
        assert ct.resume(tmp_path / "run", progress=False).digest == whole(tables, 7)


def test_a_client_that_comes_back_without_its_memory_is_told_apart(
    made: PaperDeployment, tables: dict[str, ct.Series], fit: Fit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    push, pushes = made.channel.push, []

    def wiping(envelopes: dict[int, Envelope], seconds: float) -> dict[int, str]:
        pushes.append(envelopes)
        if len(pushes) == 5:  # an invitation, signatures, two questions
            runs = made.consortium.clients["cedar"].home / "runs"
            for path in runs.glob("*/memory/memory-*"):
                path.unlink()
            made.restart("cedar", HERE)
        return push(envelopes, seconds)

    monkeypatch.setattr(made.channel, "push", wiping)
    ended = fit()
    assert failures(tmp_path / "run") == [("cedar", 3, "MemoryLost"), ("cedar", 4, "MemoryLost")]
    assert ended.digest == replay(tables, 7, tmp_path / "run")


def test_a_site_that_leaves_before_the_end_of_a_resumed_run_costs_nothing(
    made: PaperDeployment, tables: dict[str, ct.Series], fit: Fit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (made.consortium.gate / "starve-birch-3").touch()
    with pytest.raises(QuorumError, match="birch"):
        fit(quorum=1.0)
    nodes = made.channel.nodes

    def without_cedar() -> dict[str, int]:
        is_over = len(read_lines(tmp_path / "run" / "log.jsonl")) == ROUNDS
        return {name: node for name, node in nodes().items() if not (is_over and name == "cedar")}

    monkeypatch.setattr(made.channel, "nodes", without_cedar)
    with HERE.running():
        ended = ct.resume(tmp_path / "run", progress=False)
    assert ended.digest == whole(tables, 7)
    assert "cedar" in ended.names


def test_a_server_that_knows_nobody_for_a_while_after_a_restart_is_waited_for(
    made: PaperDeployment, tables: dict[str, ct.Series], fit: Fit, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes, calls = made.channel.nodes, []

    def forgetful() -> dict[str, int]:
        calls.append(len(calls))
        return {} if len(calls) in (6, 7, 8) else nodes()

    monkeypatch.setattr(made.channel, "nodes", forgetful)
    assert fit().digest == whole(tables, 7)
    assert len(calls) > 8
