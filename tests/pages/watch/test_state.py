"""What a run's folder says: while it runs, at its end, after a kill, an error or Ctrl-C, and once resumed."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pacing import ROUNDS, Paced, make_clients, pretend

import cotempo as ct
from cotempo.errors import QuorumError, RunError
from cotempo.runs.lights import Light, lights
from cotempo.runs.pulse import DEAD_SECONDS, read_pulse
from cotempo.runs.state import LEFT_OUT, RunState, find_runs

NAMES = ("ash", "birch", "cedar")
PARTS = shutil.ignore_patterns(".*")  # files that are being written


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Run `Paced`, and call a function whenever a client is asked."""

    def fit(look: Callable[[Any], None], run: Path, **options: Any) -> Any:
        answer = Paced.answer

        def looking(self: Paced, question: Any, *rest: Any) -> Any:
            look(question)
            return answer(self, question, *rest)

        with monkeypatch.context() as patch:
            patch.setattr(Paced, "answer", looking)
            return Paced().fit(make_clients(NAMES), run=run, progress=False, **options)

    return fit


def read(run: Path) -> RunState:
    return RunState(run).refresh()


def written(run: Path, **wanted: Any) -> dict[str, Any]:
    """Wait until the run's thread has written these values."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        found = read_pulse(run)
        if all(found.get(name) == value for name, value in wanted.items()):
            return found
        time.sleep(0.05)
    raise AssertionError(f"{wanted} was never written, but {read_pulse(run)}")


def test_while_it_runs_each_site_has_a_light(seen: Callable[..., Any], tmp_path: Path) -> None:
    found: list[tuple[str, str, list[Light]]] = []

    def look(question: Any) -> None:
        if question.round == 3 and question.client == "cedar":
            written(tmp_path, round=3, phase="walk", work=[2, ROUNDS])
            while len(read_pulse(tmp_path)["answered"]) < 2:
                time.sleep(0.02)
            state = read(tmp_path)
            found.append((state.status, state.line(), list(lights(state))))

    seen(look, tmp_path)
    ((status, line, lit),) = found
    assert status == "running"
    assert line.startswith("Round 3, walk; waiting for 1 of 3 sites; 33% done, about ")
    assert [(light.client, light.word) for light in lit] == [
        ("ash", "answered"), ("birch", "answered"), ("cedar", "computing"),
    ]  # fmt: skip


def test_a_finished_run_is_read_whole(seen: Callable[..., Any], tmp_path: Path) -> None:
    fitted = seen(lambda question: None, tmp_path)
    state = read(tmp_path)
    assert (state.status, state.done, state.round, state.steps) == ("finished", 1.0, ROUNDS, ROUNDS)
    assert state.line().startswith(f"{ROUNDS} rounds in ")
    assert state.sent == dict.fromkeys(NAMES, 16 * ROUNDS)  # a loss and a weight
    assert state.metrics["loss"] == [(record["step"], record["metrics"]["loss"]) for record in fitted.history]
    assert state.own["loss"]["ash"] == {step: 3 + 1 / step for step in range(1, ROUNDS + 1)}
    assert state.cells == {name: [(1, ROUNDS, "answered")] for name in NAMES}
    assert [light.detail for light in lights(state)] == [f"answered {ROUNDS} of {ROUNDS} questions"] * 3


def test_watching_changes_no_result(seen: Callable[..., Any], tmp_path: Path) -> None:
    kept = seen(lambda question: read(tmp_path) if question.step > 1 else None, tmp_path)
    assert kept.digest == Paced().fit(make_clients(NAMES), progress=False).digest


def test_what_is_new_is_read_and_nothing_twice(seen: Callable[..., Any], tmp_path: Path) -> None:
    states: list[RunState] = []

    def look(question: Any) -> None:
        if question.client == "ash" and question.step > 1:
            states[:] = [(states[0] if states else RunState(tmp_path)).refresh()]
            assert states[0].steps == question.step - 1

    seen(look, tmp_path)
    followed, whole = states[0].refresh(), read(tmp_path)
    for name in ("steps", "seconds", "sent", "metrics", "own", "cells", "answers"):
        assert getattr(followed, name) == getattr(whole, name), name


def test_a_run_whose_process_was_killed_is_told_from_one_at_work(seen: Callable[..., Any], tmp_path: Path) -> None:
    copies: list[Path] = []

    def look(question: Any) -> None:
        if question.round == 4 and not copies:
            written(tmp_path / "run", round=4)
            copies.append(Path(shutil.copytree(tmp_path / "run", tmp_path / "copy", ignore=PARTS)))

    seen(look, tmp_path / "run")
    state = read(copies[0])
    state.now = state.beat + DEAD_SECONDS / 2
    assert state.status == "running"
    state.now = state.beat + 2 * DEAD_SECONDS
    assert state.status == "killed"
    assert "after 3 rounds: the process or its machine is gone. Continue with: cotempo resume" in state.line()
    assert [light.detail for light in lights(state)] == ["answered 3 of 3 questions"] * 3
    ct.resume(copies[0], make_clients(NAMES), progress=False)
    again = read(copies[0])
    assert (again.status, again.steps) == ("finished", ROUNDS)
    assert again.cells == {name: [(1, ROUNDS, "answered")] for name in NAMES}


def test_failures_quorum_and_interruption_are_told_apart(seen: Callable[..., Any], tmp_path: Path) -> None:
    def break_birch(question: Any) -> None:
        if question.client == "birch" and question.step == 2:
            raise ValueError("a secret of the data")

    def break_all(question: Any) -> None:
        if question.step == 3:
            raise ValueError("a secret of the data")

    def interrupt(question: Any) -> None:
        if question.step == 3:
            raise KeyboardInterrupt

    seen(break_birch, tmp_path / "one")
    state = read(tmp_path / "one")
    assert state.status == "finished"
    assert [(failure["client"], failure["kind"]) for failure in state.failures] == [("birch", "ValueError")]
    assert state.cells["birch"] == [(1, 1, "answered"), (2, 2, LEFT_OUT), (3, ROUNDS, "answered")]
    with pytest.raises(QuorumError):
        seen(break_all, tmp_path / "all")
    paused = read(tmp_path / "all")
    assert paused.status == "paused"
    assert "at least 50% of the 3 clients asked must answer, 0 did" in paused.line()
    assert "a secret" not in paused.line()
    assert {light.word for light in lights(paused)} == {"left out"}
    with pytest.raises(KeyboardInterrupt):
        seen(interrupt, tmp_path / "stopped")
    assert read(tmp_path / "stopped").status == "stopped"
    assert list(find_runs(tmp_path)) == ["stopped", "all", "one"]


def pretended(run: Path, **pulse: Any) -> RunState:
    pretend(run, **pulse)
    return read(run)


def test_late_refused_and_gone_sites_have_lights_of_their_own(seen: Callable[..., Any], tmp_path: Path) -> None:
    seen(lambda question: None, tmp_path)
    now = time.time()
    late = pretended(tmp_path, answered={"ash": now - 49})
    assert [light.word for light in lights(late)] == ["answered", "late", "late"]
    assert "others took 1.0 s" in list(lights(late))[1].detail
    nobody = pretended(tmp_path)
    assert [light.word for light in lights(nobody)] == ["computing"] * 3  # all are equally slow
    refused = pretended(tmp_path, failed={"ash": ["Refused", "this site approves FDBNL"], "birch": ["Lost", ""]})
    found = list(lights(refused))
    assert found[0] == Light("ash", "refused", "this site approves FDBNL")
    assert found[1] == Light("birch", "left out", "no answer came")
    gone = list(lights(pretended(tmp_path, away={"birch": now - 20})))
    assert gone[1].word == "gone"
    assert gone[1].detail.startswith(f"since {time.strftime('%H:%M', time.localtime(now - 20))}")


def test_a_folder_without_runs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="must be a run, or a folder with runs"):
        find_runs(tmp_path)
