"""The secure sum between sites: on by default, near the plain sum, and the same after a kill."""

from __future__ import annotations

import json
import signal
import stat
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from consortium import Consortium, outcome
from walking import Walking

import cotempo as ct
from cotempo.engines.flower.coordinator.task import ServerTask
from cotempo.engines.flower.protocol import Envelope, Part
from cotempo.federation.wire import question_from_bytes
from cotempo.privacy.secure_sum.reducer import SumAborted
from cotempo.privacy.secure_sum.shield import KEYS, MASKED, SHARES

ON = ct.Privacy(secure_sum=True)

pytestmark = pytest.mark.xdist_group("deployment")


def test_it_is_on_between_sites_and_near_the_plain_sum(
    consortium: Consortium, tables: dict[str, ct.Series], tmp_path: Path
) -> None:
    there = ct.fit(
        Walking(rounds=3), engine="flower", server=consortium.server.folder, run=tmp_path / "run", progress=False
    )
    assert there.privacy["secure_sum"] is True
    assert "secure_sum = true" in (tmp_path / "run" / "experiment.toml").read_text()
    plain = ct.fit(Walking(rounds=3), tables, progress=False)
    np.testing.assert_allclose(there.state.mean, plain.state.mean, rtol=0, atol=1e-12)
    assert not there.failures
    same = ct.fit(Walking(rounds=3), tables, privacy=ct.Privacy(secure_sum=True), progress=False)
    assert same.digest == there.digest  # whole numbers are added: the same bits on every engine
    records = [json.loads(line) for line in (tmp_path / "run" / "messages.jsonl").read_text().splitlines()]
    assert any("masked" in record["fields"] for record in records)
    assert not any("first" in field for record in records for field in record["fields"].values())
    for name, site in consortium.clients.items():
        runs = site.home / "runs"
        (secrets,) = [folder for folder in runs.glob("*/secrets") if (folder / "session").exists()][-1:]
        assert stat.S_IMODE(secrets.stat().st_mode) == 0o700, name


def test_sites_meet_at_the_server_and_are_asked_once_a_step(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    push = ServerTask.push

    def noted(self: ServerTask, envelopes: Mapping[int, Envelope], seconds: float) -> dict[int, str]:
        questions = [
            question_from_bytes(e.parts[Part.QUESTION]) for e in envelopes.values() if Part.QUESTION in e.parts
        ]
        asked.extend({(question.then or question).phase for question in questions})
        return push(self, envelopes, seconds)

    monkeypatch.setattr(ServerTask, "push", noted)
    ct.fit(Walking(rounds=3), engine="flower", server=consortium.server.folder, privacy=ON, progress=False)
    assert asked == [KEYS, SHARES, MASKED, MASKED, MASKED]


@pytest.mark.parametrize("step", [2, pytest.param(1, marks=pytest.mark.slow)])  # every phase: secure_sum/test_methods
def test_killed_and_resumed_it_ends_in_the_same_bits(
    consortium: Consortium, tables: dict[str, ct.Series], tmp_path: Path, step: int
) -> None:
    consortium.hold("birch", step)
    parameters = {"rounds": 3, "gate": str(consortium.gate)}
    coordinator = consortium.coordinate("run", tmp_path / "run", parameters=parameters, seed=5, secure_sum=True)
    consortium.wait_held("birch", step)
    coordinator.send_signal(signal.SIGKILL)
    coordinator.wait()
    consortium.release()
    ended = outcome(consortium.coordinate("resume", tmp_path / "run"))
    whole = ct.fit(Walking(rounds=3), tables, seed=5, privacy=ct.Privacy(secure_sum=True), progress=False)
    assert ended["digest"] == whole.digest


def test_two_sites_are_too_few(consortium: Consortium) -> None:
    two = {"server": consortium.server.folder, "participants": ("ash", "birch"), "progress": False}
    with pytest.raises(ct.CotempoError, match="at least 3 clients"):
        ct.fit(Walking(rounds=1), engine="flower", privacy=ct.Privacy(secure_sum=True), **two)


def test_of_three_none_may_be_missing(consortium: Consortium) -> None:
    (consortium.gate / "spoil-cedar-1").touch()
    try:
        with pytest.raises(SumAborted, match="more than two thirds of the 3 clients"):
            ct.fit(
                Walking(rounds=1, gate=str(consortium.gate)),
                engine="flower",
                server=consortium.server.folder,
                progress=False,
            )
    finally:
        consortium.release()
