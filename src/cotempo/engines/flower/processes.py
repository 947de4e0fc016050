"""`Daemon`, a background process with a pid file and a log, and the helpers that all our processes share."""

import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from cotempo.errors import EngineError
from cotempo.storage.files import write_whole

STOP_SECONDS = 20.0


class Daemon:
    """A background process, identified by the pid file in its folder; it outlives the command that starts it."""

    def __init__(self, folder: Path, name: str):
        self.pid_file = folder / f"{name}.pid"
        self.log_file = folder / f"{name}.log"

    @property
    def pid(self) -> int | None:
        """The process's id while it is alive; an id that was reused by another process does not count."""
        try:
            pid, noted = self.pid_file.read_text().split()
            started = process_start_time(int(pid))
            return int(pid) if started is not None and abs(started - float(noted)) < 0.1 else None
        except (OSError, ValueError):
            return None

    def launch(self, command: Sequence[str], **environment: str) -> subprocess.Popen[bytes]:
        """Start the process in its own session, with its output in the log."""
        if self.pid is not None:
            raise EngineError(f"it must not run twice, it already runs as process {self.pid}; stop it first")
        self.log_file.parent.mkdir(parents=True, exist_ok=True)
        with open(self.log_file, "ab") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                env={**os.environ, **environment},
            )  # fmt: skip
        self.write_pid(process.pid)
        return process

    def write_pid(self, pid: int) -> None:
        """Record which process this daemon is."""
        write_whole(self.pid_file, f"{pid} {process_start_time(pid)}".encode())

    def stop(self) -> bool:
        """End the process and its children, by force after 20 s; return whether it was running."""
        pid = self.pid
        if pid is None:
            return False
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                # In the background it leads its own process group; in the foreground it belongs to its shell's.
                (os.killpg if os.getpgid(pid) == pid else os.kill)(pid, number)
            except ProcessLookupError:
                break
            if wait_until(lambda: process_start_time(pid) is None, STOP_SECONDS):
                break
        self.pid_file.unlink(missing_ok=True)
        return True

    def tail(self, lines: int = 12) -> str:
        """Return the end of the log."""
        text = self.log_file.read_text(errors="replace") if self.log_file.exists() else ""
        return "\n".join(text.splitlines()[-lines:])


def process_start_time(pid: int) -> float | None:
    """Return when a live process started, in seconds after boot: setting the clock does not move it."""
    try:
        process = psutil.Process(pid)
        is_zombie = process.status() == psutil.STATUS_ZOMBIE
        return None if is_zombie else process.create_time() - psutil.boot_time()
    except psutil.NoSuchProcess:
        return None


def exit_with_parent() -> None:
    """End this process when its parent ends, even if the parent is killed."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    """Return whether a condition becomes true within a time."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


def free_port() -> int:
    """Return a port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Heartbeat:
    """Call a function every so many seconds, in a thread, until stopped.

    Its errors are passed over: the next beat comes soon, and the requests of the main thread say what is wrong.
    """

    def __init__(self, beat: Callable[[], object], seconds: float):
        self._stopped = threading.Event()
        self._beat, self._seconds = beat, seconds
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopped.wait(self._seconds):
            with suppress(Exception):
                self._beat()

    def stop(self) -> None:
        """Stop; a call that is going on ends first."""
        self._stopped.set()
        self._thread.join()


class Backoff:
    """Pauses that grow by a tenth each time, from the shortest to the longest."""

    def __init__(self, shortest: float, longest: float):
        self.shortest, self.longest, self.pause = shortest, longest, shortest

    def next(self) -> float:
        """Return the pause to make now."""
        pause, self.pause = self.pause, min(1.1 * self.pause, self.longest)
        return pause

    def sleep(self, began: float, least: float = 0.0) -> None:
        """Sleep for what is left of the next pause, which began at a time of the monotonic clock."""
        time.sleep(max(began + self.next() - time.monotonic(), least))

    def reset(self) -> None:
        """Start again with the shortest pause."""
        self.pause = self.shortest
