"""Releases side by side: n and n-1 work together, others are refused in words when they join."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from consortium import Consortium, outcome
from paper_channel import PaperDeployment, Release
from walking import Walking

import cotempo as ct
from cotempo.engines.flower.coordinator import engine
from cotempo.errors import EngineError
from cotempo.privacy.contract import are_neighbours
from cotempo.runs.folder import read_lines

OFF = ct.Privacy(secure_sum=False)
OLD, NEW, NEXT = Release("1.4.2", (3, 4)), Release("1.5.0", (4, 5)), Release("1.7.0", (6, 7))


def deploy(
    folder: Path, tables: dict[str, ct.Series], patch: pytest.MonkeyPatch, **releases: Release
) -> PaperDeployment:
    made = PaperDeployment(folder, tables, {name: releases.get(name, OLD) for name in tables})
    patch.setattr(engine, "ServerTask", lambda server, run: made.channel)
    return made


@pytest.mark.parametrize(
    ("coordinator", "sites", "spoken"),
    [
        (NEW, {}, [4, 4, 4]),
        (NEW, {"birch": NEW}, [4, 5, 4]),
        (OLD, {"birch": NEW, "cedar": NEW}, [4, 4, 4]),
    ],
)
def test_neighbours_work_together_in_the_newest_version_both_speak(
    tables: dict[str, ct.Series],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    coordinator: Release,
    sites: dict[str, Release],
    spoken: list[int],
) -> None:
    made = deploy(tmp_path / "made", tables, monkeypatch, **sites)
    with coordinator.running():
        folder = made.consortium.server.folder
        there = ct.fit(Walking(rounds=2), engine="flower", server=folder, seed=3, privacy=OFF, progress=False)
    assert there.digest == ct.fit(Walking(rounds=2), tables, seed=3, progress=False).digest
    assert not there.failures
    assert [*made.channel.spoken.values()] == spoken


@pytest.mark.parametrize(
    ("coordinator", "birch", "words"),
    [
        (NEW, NEXT, r"birch: Refused: .*this site speaks 6 to 7 and the coordinator 4 to 5.*at the coordinator"),
        (NEXT, NEW, r"birch: Refused: .*this site speaks 4 to 5 and the coordinator 6 to 7.*upgrade cotempo here"),
        (NEW, Release("1.7.0", (4, 6)), r"birch: Refused: .*the same release.*1.7.0 here, got 1.5.0"),
    ],
)
def test_a_site_too_new_or_too_old_is_refused_in_words_before_anything_is_asked(
    tables: dict[str, ct.Series],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    coordinator: Release,
    birch: Release,
    words: str,
) -> None:
    made = deploy(tmp_path / "made", tables, monkeypatch, ash=coordinator, birch=birch, cedar=coordinator)
    with coordinator.running(), pytest.raises(EngineError, match=words):
        ct.fit(Walking(rounds=2), engine="flower", server=made.consortium.server.folder, privacy=OFF, progress=False)
    assert not (made.consortium.clients["ash"].home / "ledger.jsonl").exists()


def test_a_run_goes_on_while_all_are_upgraded(
    tables: dict[str, ct.Series], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The coordinator is killed after step 2 and resumed as the next release; then one site after each step."""
    made = deploy(tmp_path / "made", tables, monkeypatch)
    send, steps = made.channel.push, []

    class KilledError(Exception):
        pass

    def push(envelopes: dict[int, object], seconds: float) -> dict[int, str]:
        steps.append(len(envelopes))
        if len(steps) == 5:  # an invitation, signatures, two questions
            raise KilledError
        if len(steps) in (9, 10, 11):
            made.restart(("ash", "birch", "cedar")[len(steps) - 9], NEW)
        return send(envelopes, seconds)  # type: ignore[arg-type]

    monkeypatch.setattr(made.channel, "push", push)
    folder = made.consortium.server.folder
    with OLD.running(), pytest.raises(KilledError):
        ct.fit(Walking(rounds=8), engine="flower", server=folder, run=tmp_path / "run", privacy=OFF, progress=False)
    with NEW.running():
        there = ct.resume(tmp_path / "run", progress=False)
    assert there.digest == ct.fit(Walking(rounds=8), tables, progress=False).digest
    assert [len(record["received"]) for record in read_lines(tmp_path / "run" / "log.jsonl")] == [3] * 8
    assert {*made.channel.releases.values()} == {NEW}


def test_releases_follow_each_other_by_their_second_number() -> None:
    assert are_neighbours("0.1.0", "0.1.9.dev3+local")
    assert are_neighbours("0.10.0", "0.9.1")
    assert not are_neighbours("0.1.0", "0.10.0")
    assert not are_neighbours("0.9", "1.0")
    assert are_neighbours("odd", "odd")
    assert not are_neighbours("odd", "0.1")


AS_RELEASE = """
import importlib.metadata, os
if release := os.environ.get("TEST_RELEASE"):
    number, oldest, newest = release.split()
    version = importlib.metadata.version
    importlib.metadata.version = lambda name: number if name == "cotempo" else version(name)
    from cotempo.engines.flower import protocol
    protocol.SPEAKS = int(oldest), int(newest)
"""


@contextmanager
def started_as(release: Release, folder: Path) -> Iterator[None]:
    """Processes that are started now are of a release."""
    folder.mkdir(exist_ok=True)
    (folder / "sitecustomize.py").write_text(AS_RELEASE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", f"{folder}{os.pathsep}{os.environ['PYTHONPATH']}")
        patch.setenv("TEST_RELEASE", f"{release.version} {release.speaks[0]} {release.speaks[1]}")
        yield


@pytest.mark.slow
@pytest.mark.xdist_group("deployment")
def test_a_rolling_upgrade_during_a_run_of_fifty_rounds(
    consortium: Consortium, tables: dict[str, ct.Series], tmp_path: Path
) -> None:
    """The server and the coordinator first, then the sites one by one; no round is lost, the bits are the same."""
    run, names = tmp_path / "run", [*consortium.clients]
    consortium.stop()
    with started_as(OLD, tmp_path / "old"):
        consortium.start()
        consortium.hold("ash", 8)
        parameters = {"rounds": 50, "gate": str(consortium.gate)}
        process = consortium.coordinate("run", run, parameters=parameters, seed=2)
    consortium.wait_held("ash", 8)
    process.send_signal(signal.SIGKILL)
    process.wait()
    consortium.server.stop()
    consortium.release()
    with started_as(NEW, tmp_path / "new"):
        consortium.server.start()
        for number, name in enumerate(names):
            consortium.hold(name, 15 + 10 * number)
        process = consortium.coordinate("resume", run)
        for number, name in enumerate(names):
            consortium.wait_held(name, 15 + 10 * number)
            consortium.clients[name].stop()
            (consortium.gate / f"hold-{name}-{15 + 10 * number}").unlink()
            consortium.clients[name].start()
        ended = outcome(process, 400.0)
    assert ended["digest"] == ct.fit(Walking(rounds=50), tables, seed=2, progress=False).digest
    assert not ended["failures"]
    assert [len(record["received"]) for record in read_lines(run / "log.jsonl")] == [3] * 50
    consortium.stop()
    consortium.release()
    consortium.start()
