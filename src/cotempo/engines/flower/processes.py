"""Processes that outlive the command that started them: a pid file, a log, and a way to stop them."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from cotempo.errors import EngineError
from cotempo.storage.files import write_whole

STOPPING = 20.0


class Daemon:
    """A process of ours, known by the pid file and the log in its folder."""

    def __init__(self, folder: Path, name: str):
        self.folder = folder
        self.pid_file = folder / f"{name}.pid"
        self.log = folder / f"{name}.log"

    @property
    def pid(self) -> int | None:
        """The process, where it is alive; a pid that now belongs to another process does not count."""
        try:
            pid, started = (int(word) for word in self.pid_file.read_text().split())
        except (OSError, ValueError):
            return None
        return pid if started == start_of(pid) else None

    def start(self, command: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
        """Start it, in a session of its own, writing to the log."""
        if self.pid is not None:
            raise EngineError(f"it must not run twice, it already runs as process {self.pid}; stop it first")
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self.log, "ab") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                env={**os.environ, **environment},
            )  # fmt: skip
        self.note(process.pid)
        return process

    def note(self, pid: int) -> None:
        """Write down which process it is."""
        write_whole(self.pid_file, f"{pid} {start_of(pid)}".encode())

    def stop(self) -> bool:
        """Ask it to end, with all it started; force it when it does not. Says whether there was one."""
        pid = self.pid
        if pid is None:
            return False
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                # In the background it leads a group of its own; in the foreground it is in its shell's.
                (os.killpg if os.getpgid(pid) == pid else os.kill)(pid, number)
            except ProcessLookupError:
                break
            if wait_until(lambda: start_of(pid) is None, STOPPING):
                break
        self.pid_file.unlink(missing_ok=True)
        return True

    def tail(self, lines: int = 12) -> str:
        """The end of the log."""
        try:
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
        except OSError:
            return ""


def start_of(pid: int) -> int | None:
    """When a live process was started, in clock ticks since boot; with the pid it names one process for ever.

    Where a system does not tell, 0: then a pid that was given out again is taken for the old process.
    """
    if not Path("/proc/self/stat").exists():
        try:
            os.kill(pid, 0)
        except OSError:
            return None
        return 0
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[19])


def follow() -> None:
    """End this process when its parent ends, however that ends."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    """Whether a condition comes true within so many seconds."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


class Patience:
    """Ever longer pauses, from the shortest to the longest, a tenth more each time."""

    def __init__(self, shortest: float, longest: float):
        self.shortest, self.longest = shortest, longest
        self.pause = shortest

    def next(self) -> float:
        """The pause to make now."""
        pause = self.pause
        self.pause = min(1.1 * pause, self.longest)
        return pause

    def reset(self) -> None:
        """Something happened: begin again with the shortest."""
        self.pause = self.shortest
