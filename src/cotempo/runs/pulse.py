"""`Pulse`: ``now.json``, a small file in a run's folder that says what is asked now and who has answered."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from cotempo.federation.exchange import Failure, Question
from cotempo.storage.files import private

BEAT_SECONDS = 0.5  # between two looks of the thread; it writes what is new, and at least every two seconds
QUIET_SECONDS = 2.0
DEAD_SECONDS = 10.0  # a file older than this is of a process that was killed

Silence = Callable[[], Mapping[str, float]]


class Pulse:
    """Keeps ``now.json`` fresh as long as a run is at work, for those who watch it.

    The run only sets values in memory; a thread writes them. Nothing of it enters a result: a run is the same with a
    full disk, on which nobody can watch it.
    """

    def __init__(self, path: Path):
        self.path = path
        self._now: dict[str, Any] = {}
        self._is_new = False
        self._lock = threading.Lock()
        self._silence: Silence | None = None

    def _set(self, **values: Any) -> None:
        with self._lock:
            self._now.update(values)
            self._is_new = True

    @contextmanager
    def beating(self, clients: Iterable[str]) -> Iterator[None]:
        """Write while a run is at work, and at its end how it ended."""
        self._now = {"began": time.time(), "clients": sorted(clients), "away": {}}
        stop = threading.Event()
        thread = threading.Thread(target=self._beat, args=(stop,), name="pulse", daemon=True)
        thread.start()
        try:
            yield
        except BaseException as error:
            self._set(error=[type(error).__name__, str(error)])
            raise
        finally:
            self._silence = None
            stop.set()
            thread.join()
            self._set(ended=time.time())
            self._write()

    def follow(self, silence: Silence) -> None:
        """Ask from now on which clients cannot be reached, and since when."""
        self._silence = silence

    def ask(self, questions: Sequence[Question]) -> None:
        """Note that clients are asked."""
        if questions:
            first = questions[0]
            self._set(
                step=first.step, round=first.round, phase=first.phase, asked_at=time.time(),
                asked=[question.client for question in questions], answered={}, failed={},
            )  # fmt: skip

    def answer(self, client: str) -> None:
        """Note that a client's message has come."""
        with self._lock:
            self._now.setdefault("answered", {})[client] = time.time()
            self._is_new = True

    def fail(self, failure: Failure) -> None:
        """Note why a client's answer does not count."""
        with self._lock:
            self._now.setdefault("failed", {})[failure.client] = [failure.kind, failure.detail]
            self._is_new = True

    def work(self, done: float, total: float | None) -> None:
        """Note how much is done of how much, in units that take about equally long."""
        self._set(work=[done, total])

    def _beat(self, stop: threading.Event) -> None:
        written = 0.0
        while not stop.wait(BEAT_SECONDS if written else 0.0):
            if self._silence and time.monotonic() - written >= QUIET_SECONDS / 2:
                with suppress(Exception):  # whoever cannot be asked is not known to be away
                    self._set(away=dict(self._silence()))
            if self._is_new or time.monotonic() - written >= QUIET_SECONDS:
                self._write()
                written = time.monotonic()

    def _write(self) -> None:
        with self._lock:
            data = json.dumps({**self._now, "beat": time.time()})
            self._is_new = False
        temporary = self.path.with_name(f".{self.path.name}.part")
        with suppress(OSError):
            with open(temporary, "w", opener=private) as file:
                file.write(data)
            os.replace(temporary, self.path)


def read_pulse(run: Path) -> dict[str, Any]:
    """Return what ``now.json`` says; empty for a run that has none."""
    try:
        found = json.loads((run / "now.json").read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
