"""Processes in the background are found again, stopped with all they started, and never mistaken for others."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from cotempo.engines.flower.processes import Daemon, Patience, start_of, wait_until
from cotempo.errors import EngineError

PARENT = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'input()'], stdin=subprocess.PIPE).wait()"


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_it_is_found_again_and_stopped_with_its_children(tmp_path: Path) -> None:
    process = Daemon(tmp_path, "server").start([sys.executable, "-c", PARENT], {})
    again = Daemon(tmp_path, "server")
    assert again.pid == process.pid
    assert wait_until(lambda: bool(children(process.pid)), 30)
    (child,) = children(process.pid)
    with pytest.raises(EngineError, match="must not run twice"):
        again.start(["true"], {})
    assert again.stop()
    process.wait()
    assert wait_until(lambda: start_of(child) is None, 30)
    assert again.pid is None
    assert not again.stop()


def test_a_pid_that_belongs_to_another_process_now_does_not_count(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, "server")
    daemon.note(os.getpid())
    assert daemon.pid == os.getpid()
    daemon.pid_file.write_text(f"{os.getpid()} {(start_of(os.getpid()) or 0) + 1}")
    assert daemon.pid is None
    daemon.pid_file.write_text("nonsense")
    assert daemon.pid is None


def test_pauses_grow_to_the_longest_and_begin_again() -> None:
    patience = Patience(0.1, 3.0)
    pauses = [patience.next() for _ in range(100)]
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (0.1, 3.0)
    patience.reset()
    assert patience.next() == 0.1
