"""The queue of a server: one run after another, each among its own, whatever ends or is killed in between."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cotempo.engines.flower.coordinator.membership import pause_site
from cotempo.engines.flower.provision import Federation, provision
from cotempo.errors import EngineError, ParameterError
from cotempo.privacy.orders import Order, make_key
from cotempo.runs import queue as queue_module
from cotempo.runs.experiment import Experiment
from cotempo.runs.queue import QueuedRun, RunQueue

# In the place of `cotempo run`: writes down how it was called, and ends as the run's folder is named.
STAND_IN = """
import json, pathlib, sys
verb, first, *rest = sys.argv[1:]
run = pathlib.Path(first if verb == "resume" else rest[1])
with open(run.parent / "calls", "a") as file:
    file.write(f"{verb} {run.name}\\n")
ends = {"good": 0, "refused": 6, "patient": 4, "stopped": 130}
print(json.dumps({"message": f"{run.name}, and why"} if ends[run.name] else {}))
sys.exit(ends[run.name])
"""


@pytest.fixture
def queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunQueue:
    provision(Federation(name="icu", sites=("ash", "birch", "cedar")), tmp_path / "made", with_keys=True)
    monkeypatch.setattr(queue_module, "CHILD", STAND_IN)
    return RunQueue(tmp_path / "made" / "server")


def add(queue: RunQueue, name: str, key: Path | None = None, **engine: Any) -> QueuedRun:
    experiment = Experiment(name="means", method="FedMean", engine={"name": "flower", **engine})
    return queue.add(experiment, queue.server.folder.parent / name, key=key)


def calls(queue: RunQueue) -> list[str]:
    return (queue.server.folder.parent / "calls").read_text().splitlines()


def states(queue: RunQueue) -> dict[str, str]:
    return {Path(one.run).name: one.status for one in queue.runs}


def test_runs_are_run_in_turn_and_one_that_fails_holds_up_none(queue: RunQueue) -> None:
    names = ("refused", "patient", "stopped", "good")
    assert [add(queue, name).number for name in names] == [1, 2, 3, 4]
    queue.work()
    assert calls(queue) == [f"run {name}" for name in names]
    assert states(queue) == {"refused": "failed", "patient": "paused", "stopped": "cancelled", "good": "finished"}
    assert [one.says for one in queue.runs][:2] == ["refused, and why", "patient, and why"]


def test_each_has_the_participants_it_was_queued_with(queue: RunQueue) -> None:
    assert add(queue, "good").participants == ("ash", "birch", "cedar")
    few = add(queue, "stopped", participants=["cedar", "ash"])
    assert few.participants == ("ash", "cedar")
    kept = Experiment.from_file(queue.folder / str(few.number) / "experiment.toml")
    assert kept.engine.client_names({}) == ("ash", "cedar")
    with pytest.raises(EngineError, match="must be admitted, elm is not"):
        add(queue, "refused", participants=["ash", "elm"])


def test_a_run_with_a_paused_site_is_passed_over_until_it_is_asked_again(
    queue: RunQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(queue, "stopped")
    add(queue, "good", participants=["ash", "birch"])
    pause_site(queue.server, "cedar", paused=True)

    def look(seconds: float) -> None:
        assert states(queue) == {"stopped": "waiting", "good": "finished"}
        pause_site(queue.server, "cedar", paused=False)

    monkeypatch.setattr(queue_module.time, "sleep", look)
    queue.work()
    assert calls(queue) == ["run good", "run stopped"]


def test_what_the_queue_was_killed_in_is_resumed_first(queue: RunQueue) -> None:
    begun = add(queue, "good")
    add(queue, "stopped")
    queue._write(begun, status="running", process=1)
    Path(begun.run).mkdir()
    (Path(begun.run) / "experiment.toml").write_text("")
    queue.work()
    assert calls(queue) == ["resume good", "run stopped"]


def test_a_run_that_waits_can_be_cancelled_one_that_ended_cannot(queue: RunQueue) -> None:
    add(queue, "good")
    add(queue, "refused")
    queue.cancel(2)
    queue.work()
    assert states(queue) == {"good": "finished", "refused": "cancelled"}
    assert calls(queue) == ["run good"]
    with pytest.raises(ParameterError, match="waits, is paused or is at work, none, got 1"):
        queue.cancel(1)


def test_a_run_that_is_paused_can_be_cancelled(queue: RunQueue) -> None:
    add(queue, "patient")
    queue.work()
    queue.cancel(1)
    assert states(queue) == {"patient": "cancelled"}


def test_cancelling_interrupts_the_run_at_work(queue: RunQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    code = (
        "import time\nprint('ready', flush=True)\ntry:\n    time.sleep(600)\nexcept KeyboardInterrupt:\n    exit(130)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        queued = queue._write(add(queue, "good"), status="running", process=process.pid)
        monkeypatch.setattr(RunQueue, "pid", process.pid)  # the queue is at work
        queue.cancel(queued.number)
        queue._finish(queued, process)
    assert process.returncode == 130
    assert states(queue) == {"good": "cancelled"}


def test_what_is_started_in_the_background_is_worked_off(queue: RunQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    queue.start()
    assert queue.pid is None  # nothing waits
    launched: list[list[str]] = []
    monkeypatch.setattr(RunQueue, "launch", lambda self, command: launched.append(command))
    add(queue, "good")
    queue.start()
    assert launched == [[sys.executable, "-m", "cotempo.runs.queue", str(queue.server.folder)]]


def test_only_those_on_the_list_may_queue_and_their_order_goes_along(queue: RunQueue, tmp_path: Path) -> None:
    public = make_key("anna", tmp_path / "anna.key")
    make_key("bert", tmp_path / "bert.key")
    (queue.server.folder / "people.toml").write_text(f'anna = "{public}"\n')
    with pytest.raises(ParameterError, match="signed by anna; name the key with --key"):
        add(queue, "good")
    with pytest.raises(EngineError, match="started by anna only, not by bert"):
        add(queue, "good", key=tmp_path / "bert.key")
    queued = add(queue, "good", key=tmp_path / "anna.key", purpose="Learn who falls ill.")
    assert queued.by == "anna"
    order = queue.folder / "1" / "order.json"
    assert Order.from_file(order).purpose == "Learn who falls ill."
    kept = Experiment.from_file(queue.folder / "1" / "experiment.toml").engine
    assert kept.model_dump()["order"] == str(order)


def test_its_log_is_json_lines_without_paths(queue: RunQueue, capsys: pytest.CaptureFixture[str]) -> None:
    add(queue, "good")
    queue.work()
    said = capsys.readouterr().out
    assert [json.loads(line)["event"] for line in said.splitlines()] == ["began", "finished"]
    assert str(queue.server.folder.parent) not in said
