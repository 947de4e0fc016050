"""Faults 1 to 14 on a real deployment: each is survived, nothing is lost, and the run says what happened.

After a fault that costs answers, the result must be the one of a run in process from which just those answers are
missing, bit for bit: what was not counted never happened. Faults that need no network are also in
`test_paper_faults.py`, which takes seconds.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from consortium import PATIENCE, Consortium, outcome
from replaying import ROUNDS, failures, replay, whole
from walking import Walking

import cotempo as ct
from cotempo.engines.flower.processes import wait_until
from cotempo.runs.folder import read_lines

pytestmark = pytest.mark.xdist_group("deployment")
REPEATS = [0, *(pytest.param(number, marks=pytest.mark.slow) for number in range(1, 5))]
repeated = pytest.mark.parametrize("repeat", REPEATS)
only_slow = pytest.mark.slow
five = pytest.mark.parametrize("repeat", [pytest.param(number, marks=only_slow) for number in range(5)])
DEADLINE = 20

Begin = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def begin(consortium: Consortium, tmp_path: Path) -> Iterator[Begin]:
    """Begin a run; what it left behind is cleared away."""
    started: list[subprocess.Popen[str]] = []

    def start(seed: int, **options: Any) -> subprocess.Popen[str]:
        parameters = {"rounds": ROUNDS, "gate": str(consortium.gate)}
        started.append(consortium.coordinate("run", tmp_path / "run", parameters=parameters, seed=seed, **options))
        return started[-1]

    consortium.wait_for(*consortium.clients)
    yield start
    consortium.proxy.mend()
    consortium.release()
    for process in started:
        process.kill()
        process.wait()


def kill(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()


def wait_for_step(run: Path, step: int) -> None:
    log = run / "log.jsonl"
    assert wait_until(lambda: any(record["step"] == step for record in read_lines(log)), PATIENCE)


@five
def test_fault_01_a_client_is_killed_in_the_middle_of_a_round(
    consortium: Consortium, tables: dict[str, ct.Series], begin: Begin, tmp_path: Path, repeat: int
) -> None:
    consortium.hold("birch", 2)
    process = begin(repeat)
    os.kill(consortium.wait_held("birch", 2), signal.SIGKILL)
    consortium.release()
    assert outcome(process)["digest"] == whole(tables, repeat)  # it came back and was asked again
    assert failures(tmp_path / "run") == []


@five
def test_fault_01_a_client_is_killed_and_stays_away(
    consortium: Consortium, tables: dict[str, ct.Series], begin: Begin, tmp_path: Path, repeat: int
) -> None:
    consortium.hold("birch", 3)
    process = begin(repeat, deadline=DEADLINE)
    worker = consortium.wait_held("birch", 3)
    consortium.clients["birch"].stop()
    with contextlib.suppress(ProcessLookupError):
        os.kill(worker, signal.SIGKILL)
    ended = outcome(process)
    consortium.release()
    consortium.clients["birch"].start()
    lost = set(failures(tmp_path / "run"))
    assert ("birch", 3, "Lost") in lost
    assert lost <= {("birch", 3, "Lost"), ("birch", 4, "Lost")}  # once it is known to be away it is not asked
    assert "birch" in ended["names"]  # it took part
    assert ended["digest"] == replay(tables, repeat, tmp_path / "run")


@five
def test_fault_02_a_client_hangs_past_its_deadline(
    consortium: Consortium, tables: dict[str, ct.Series], begin: Begin, tmp_path: Path, repeat: int
) -> None:
    consortium.hold("cedar", 2)
    process = begin(repeat, deadline=DEADLINE)
    consortium.wait_held("cedar", 2)
    wait_for_step(tmp_path / "run", 2)
    consortium.release()
    ended = outcome(process)
    assert ("cedar", 2, "Lost") in failures(tmp_path / "run")
    assert ended["digest"] == replay(tables, repeat, tmp_path / "run")


@five
def test_fault_03_an_answer_holds_nan(
    consortium: Consortium, tables: dict[str, ct.Series], begin: Begin, tmp_path: Path, repeat: int
) -> None:
    (consortium.gate / "spoil-ash-2").touch()
    ended = outcome(begin(repeat))
    assert failures(tmp_path / "run") == [("ash", 2, "MessageError")]
    assert ended["digest"] == replay(tables, repeat, tmp_path / "run")


@repeated
@pytest.mark.parametrize("step", [pytest.param(step, marks=only_slow) for step in (1, 3, 4)])
def test_fault_04_the_coordinator_is_killed(
    consortium: Consortium, tables: dict[str, ct.Series], begin: Begin, tmp_path: Path, repeat: int, step: int
) -> None:
    consortium.hold("birch", step)
    process = begin(repeat)
    consortium.wait_held("birch", step)
    kill(process)
    consortium.release()
    assert outcome(consortium.coordinate("resume", tmp_path / "run"))["digest"] == whole(tables, repeat)


@five
def test_fault_04_the_coordinator_dies_between_a_questions_announcement_and_its_contents(
    consortium: Consortium, tables: dict[str, ct.Series], begin: Begin, tmp_path: Path, repeat: int
) -> None:
    """Every site waits for contents that never come; the resumed run must get them back at once."""
    assert begin(repeat, announces=2).wait(PATIENCE) == 1
    resumed = consortium.coordinate("resume", tmp_path / "run")
    assert outcome(resumed)["digest"] == whole(tables, repeat)


@five
def test_fault_04_the_server_itself_is_killed(
    consortium: Consortium, tables: dict[str, ct.Series], begin: Begin, tmp_path: Path, repeat: int
) -> None:
    consortium.hold("birch", 2)
    process = begin(repeat)
    consortium.wait_held("birch", 2)
    pid = consortium.server.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    kill(process)
    consortium.release()
    assert wait_until(lambda: consortium.server.pid is None, PATIENCE)
    consortium.server.start()
    consortium.wait_for(*consortium.clients)
    assert outcome(consortium.coordinate("resume", tmp_path / "run"))["digest"] == whole(tables, repeat)


@five
def test_fault_05_the_disk_is_full_at_a_checkpoint(
    consortium: Consortium, tables: dict[str, ct.Series], begin: Begin, tmp_path: Path, repeat: int
) -> None:
    ended = outcome(begin(repeat, full_at=2))
    assert ended["error"] == "RunError"
    assert "No space left" in ended["text"]
    assert "resume" in ended["text"]
    assert outcome(consortium.coordinate("resume", tmp_path / "run"))["digest"] == whole(tables, repeat)


@five
def test_fault_06_the_newest_checkpoint_is_damaged(
    consortium: Consortium, tables: dict[str, ct.Series], begin: Begin, tmp_path: Path, repeat: int
) -> None:
    consortium.hold("birch", 3)
    process = begin(repeat)
    consortium.wait_held("birch", 3)
    kill(process)
    consortium.release()
    newest = max((tmp_path / "run" / "checkpoints").iterdir())
    newest.write_bytes(newest.read_bytes()[:-20])
    assert outcome(consortium.coordinate("resume", tmp_path / "run"))["digest"] == whole(tables, repeat)


@five
def test_fault_07_every_answer_comes_twice(
    consortium: Consortium, tables: dict[str, ct.Series], begin: Begin, tmp_path: Path, repeat: int
) -> None:
    assert outcome(begin(repeat, twice=True))["digest"] == whole(tables, repeat)
    assert (tmp_path / "run" / "errors.log").read_text().count("Unasked") == 3 * ROUNDS


@five
def test_fault_08_an_answer_comes_late(
    consortium: Consortium, tables: dict[str, ct.Series], begin: Begin, tmp_path: Path, repeat: int
) -> None:
    consortium.hold("cedar", 2)
    consortium.hold("ash", 3)
    process = begin(repeat, deadline=DEADLINE)
    consortium.wait_held("ash", 3)  # step 2 is over, cedar's answer to it is still to come
    (consortium.gate / "hold-cedar-2").unlink()
    (consortium.gate / "hold-ash-3").unlink()
    ended = outcome(process)
    assert ("cedar", 2, "Lost") in failures(tmp_path / "run")
    assert ended["digest"] == replay(tables, repeat, tmp_path / "run")


SKEW = """
import time
clock, offset = time.time, float(OFFSET)
time.time = lambda: clock() + offset
"""


def skew(consortium: Consortium, folder: Path, offset: float, patch: pytest.MonkeyPatch) -> None:
    """Processes started from now on have another clock."""
    folder.mkdir(exist_ok=True)
    (folder / "sitecustomize.py").write_text(SKEW.replace("OFFSET", str(offset)))
    patch.setenv("PYTHONPATH", f"{folder}{os.pathsep}{os.environ['PYTHONPATH']}")


@five
def test_fault_09_a_clock_is_wrong(
    consortium: Consortium, tables: dict[str, ct.Series], begin: Begin, tmp_path: Path, repeat: int
) -> None:
    cedar = consortium.clients["cedar"]
    cedar.stop()
    with pytest.MonkeyPatch.context() as patch:
        skew(consortium, tmp_path / "clock", -240.0, patch)
        cedar.start()
    consortium.wait_for("cedar")
    assert outcome(begin(repeat))["digest"] == whole(tables, repeat)
    cedar.stop()
    cedar.start()
    consortium.wait_for("cedar")


@five
def test_fault_10_a_client_comes_back_without_its_memory(
    consortium: Consortium, tables: dict[str, ct.Series], begin: Begin, tmp_path: Path, repeat: int
) -> None:
    consortium.hold("ash", 2)
    process = begin(repeat, deadline=60)
    consortium.wait_held("ash", 2)
    wiped = consortium.clients["cedar"].home / "runs" / (tmp_path / "run" / "id").read_text()
    assert wait_until(lambda: (wiped / "memory" / "answer-000000002.safetensors").exists(), PATIENCE)
    for path in (wiped / "memory").glob("memory-*"):
        path.unlink()
    consortium.release()
    ended = outcome(process)
    assert failures(tmp_path / "run") == [("cedar", 3, "MemoryLost"), ("cedar", 4, "MemoryLost")]
    assert ended["digest"] == replay(tables, repeat, tmp_path / "run")


@five
def test_fault_11_half_the_clients_each_round(
    consortium: Consortium, tables: dict[str, ct.Series], begin: Begin, repeat: int
) -> None:
    ended = outcome(begin(repeat, cohort=2))
    assert ended["digest"] == ct.fit(Walking(rounds=ROUNDS), tables, seed=repeat, cohort=2, progress=False).digest


@repeated
def test_fault_12_the_network_is_cut_and_mended(
    consortium: Consortium, tables: dict[str, ct.Series], begin: Begin, tmp_path: Path, repeat: int
) -> None:
    consortium.hold("birch", 2)
    process = begin(repeat)
    consortium.wait_held("birch", 2)
    consortium.proxy.cut()
    consortium.release()  # the answer is there, but cannot leave
    memory = consortium.clients["birch"].home / "runs" / (tmp_path / "run" / "id").read_text() / "memory"
    assert wait_until(lambda: (memory / "answer-000000002.safetensors").exists(), PATIENCE)
    consortium.proxy.mend()
    assert outcome(process)["digest"] == whole(tables, repeat)


@five
def test_fault_13_below_quorum_the_run_pauses(
    consortium: Consortium, tables: dict[str, ct.Series], begin: Begin, tmp_path: Path, repeat: int
) -> None:
    (consortium.gate / "starve-birch-3").touch()
    ended = outcome(begin(repeat, quorum=1.0))
    assert ended["error"] == "QuorumError"
    assert "birch" in ended["text"]
    assert outcome(consortium.coordinate("resume", tmp_path / "run"))["digest"] == whole(tables, repeat)


@five
def test_fault_14_a_client_runs_out_of_memory(
    consortium: Consortium, tables: dict[str, ct.Series], begin: Begin, tmp_path: Path, repeat: int
) -> None:
    (consortium.gate / "starve-birch-2").touch()
    ended = outcome(begin(repeat))
    [(client, step, kind)] = failures(tmp_path / "run")
    assert (client, step) == ("birch", 2)
    assert "MemoryError" in kind
    assert ended["digest"] == replay(tables, repeat, tmp_path / "run")
