"""Processes in the background are found again, stopped with all they started, and never mistaken for others."""

from __future__ import annotations

import errno
import itertools
import os
import sys
import threading
from pathlib import Path
from typing import NoReturn

import psutil
import pytest

from cotempo.engines.flower.processes import Backoff, Daemon, Heartbeat, process_start_time, wait_until
from cotempo.engines.flower.site.daemon import SiteDaemon
from cotempo.engines.flower.site.settings import SiteSettings
from cotempo.errors import EngineError

PARENT = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'input()'], stdin=subprocess.PIPE).wait()"


def children(pid: int) -> list[int]:
    return [child.pid for child in psutil.Process(pid).children()]


def test_it_is_found_again_and_stopped_with_its_children(tmp_path: Path) -> None:
    process = Daemon(tmp_path, "server").launch([sys.executable, "-c", PARENT])
    again = Daemon(tmp_path, "server")
    assert again.pid == process.pid
    assert wait_until(lambda: bool(children(process.pid)), 30)
    (child,) = children(process.pid)
    with pytest.raises(EngineError, match="must not run twice"):
        again.launch(["true"])
    assert again.stop()
    process.wait()
    assert wait_until(lambda: process_start_time(child) is None, 30)
    assert again.pid is None
    assert not again.stop()


def test_a_pid_that_belongs_to_another_process_now_does_not_count(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, "server")
    daemon.write_pid(os.getpid())
    assert daemon.pid == os.getpid()
    daemon.pid_file.write_text(f"{os.getpid()} {(process_start_time(os.getpid()) or 0) + 1}")
    assert daemon.pid is None
    daemon.pid_file.write_text("nonsense")
    assert daemon.pid is None


def test_pauses_grow_to_the_longest_and_begin_again() -> None:
    backoff = Backoff(0.1, 3.0)
    pauses = [backoff.next() for _ in range(100)]
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (0.1, 3.0)
    backoff.reset()
    assert backoff.next() == 0.1


def full(*_: object) -> NoReturn:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_site_whose_disk_is_full_waits_and_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It could not even write its log, and its watcher died of that."""
    settings = SiteSettings(name="ash", server="localhost:1", data="data.csv", methods=())
    monkeypatch.setattr(SiteSettings, "from_kit", lambda kit: settings)
    site, tries = SiteDaemon(tmp_path), iter([full, full, lambda: sys.exit("joined")])
    monkeypatch.setattr(site, "write_pid", lambda pid: None)
    monkeypatch.setattr(site, "_verify_key", lambda: None)
    monkeypatch.setattr(site, "_run_worker", lambda: next(tries)())
    for name in ("signal.signal", "os.umask", "time.sleep"):
        monkeypatch.setattr(name, lambda *_: None)
    monkeypatch.setattr("cotempo.engines.flower.site.service.private", full)
    with pytest.raises(SystemExit, match="joined"):
        site.run_forever()


def test_a_heart_beats_on_after_a_beat_that_failed() -> None:
    beats, is_enough = itertools.count(), threading.Event()

    def beat() -> None:
        if next(beats) < 2:
            raise OSError("the server is away")
        is_enough.set()

    heartbeat = Heartbeat(beat, 0.001)
    assert is_enough.wait(30.0)
    heartbeat.stop()
