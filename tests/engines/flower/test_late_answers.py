"""A run on Flower's engine that does not wait for a slow site, killed while that site is at work; without processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from paper_channel import PaperChannel, PaperDeployment, Release
from walking import Strolling

import cotempo as ct
from cotempo.engines.flower import transport
from cotempo.engines.flower.coordinator import engine
from cotempo.runs.folder import read_lines
from cotempo.testing.engines import Killed

HERE = Release("1.0.0", (4, 4))


class SlowChannel(PaperChannel):
    """Answers of cedar arrive after eight of the others'; the coordinator is killed after some answers."""

    since, seen, dies = 0, 0, 10**9

    def push(self, envelopes: Any, seconds: float) -> dict[int, str]:
        sent = super().push(envelopes, seconds)
        self.late = {key for node, key in sent.items() if node == self.nodes()["cedar"]} | getattr(self, "late", set())
        return sent

    def in_time(self, ids: list[str]) -> list[str]:
        there = [key for key in ids if key not in self.late] or ids
        if self.since >= 8:
            there = ids
        self.since = 0 if {*there} & self.late else self.since + len(there)
        self.seen += len(there)
        if self.seen > self.dies:
            raise Killed
        return there


@pytest.fixture
def made(tmp_path: Path, tables: dict[str, ct.Series], monkeypatch: pytest.MonkeyPatch) -> PaperDeployment:
    made = PaperDeployment(tmp_path / "made", tables, dict.fromkeys(tables, HERE))
    made.channel = SlowChannel(made.channel.services, made.channel.releases)
    monkeypatch.setattr(engine, "ServerTask", lambda server, run: made.channel)
    monkeypatch.setattr(transport, "POLL_SECONDS", (0.0, 0.0))
    return made


def start(made: PaperDeployment, run: Path) -> Any:
    with HERE.running():
        return Strolling(rounds=12).fit(
            engine="flower", server=made.consortium.server.folder, run=run, seed=7, buffer=2,
            privacy=ct.Privacy(secure_sum=False), progress=False,
        )  # fmt: skip


def received(run: Path) -> list[set[str]]:
    return [set(record["received"]) for record in read_lines(run / "log.jsonl") if record["phase"] == "walk"]


def test_a_slow_site_is_not_waited_for_and_counts_when_it_answers(made: PaperDeployment, tmp_path: Path) -> None:
    ended = start(made, tmp_path / "run")
    with_cedar = ["cedar" in names for names in received(tmp_path / "run")]
    assert with_cedar.count(True) >= 2
    assert with_cedar.count(False) >= 6
    assert not ended.failures


def test_killed_in_flight_and_resumed_it_loses_nothing(made: PaperDeployment, tmp_path: Path) -> None:
    assert isinstance(made.channel, SlowChannel)
    made.channel.dies = made.channel.seen + 16
    with pytest.raises(Killed):
        start(made, tmp_path / "run")
    before = received(tmp_path / "run")
    assert before
    made.channel.dies = 10**9
    made.channel.answers.clear()  # what the dead coordinator did not fetch
    with HERE.running():
        ended = ct.resume(tmp_path / "run", progress=False)
    steps = received(tmp_path / "run")
    assert len(steps) == 12
    assert steps[: len(before)] == before
    assert any("cedar" in names for names in steps[len(before) :])
    assert not ended.failures
