"""Marks of time in the processes of a deployment: when each slept, and the stations of a message.

`exchange.py` puts a `sitecustomize` module on PYTHONPATH that calls `mark` in every process started from then on. The
clock is the machine's own, the same for all processes.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

FOLDER = "COTEMPO_MARKS"
Mark = tuple[str, float, float]
"""What, from when, to when."""


class Marks:
    """A process's file of marks; sleeps are always marked."""

    def __init__(self, name: str):
        self.path = Path(os.environ[FOLDER]) / f"{name}.jsonl"
        self.file = open(self.path, "a", buffering=1)  # noqa: SIM115 - for as long as the process lives
        self.watch("sleep", time, "sleep")

    def watch(self, what: str, place: Any, name: str) -> None:
        """Mark every call of a function, of sleep only the main thread's."""
        call = getattr(place, name)

        def watched(*given: Any, **named: Any) -> Any:
            if what == "sleep" and threading.current_thread() is not threading.main_thread():
                return call(*given, **named)
            began = time.monotonic()
            try:
                return call(*given, **named)
            finally:
                self.file.write(json.dumps([what, began, time.monotonic()]) + "\n")

        setattr(place, name, watched)


def mark() -> None:
    """Watch this process if it is a site's worker, which names the site's folder on its command line."""
    if "cotempo.engines.flower.site.worker" in sys.orig_argv:
        watch_worker(Marks(Path(sys.orig_argv[-1]).name))


def watch_worker(marks: Marks) -> None:
    """A message's content is fetched from the server, the question answered, and the answer brought there."""
    from cotempo.engines.flower.site.link import SiteLink
    from cotempo.engines.flower.site.service import SiteService

    marks.watch("fetched", SiteLink, "read")
    marks.watch("handled", SiteService, "handle")
    marks.watch("brought", SiteLink, "reply")


def read_marks(path: Path) -> list[Mark]:
    """The marks of a process, in order of their ends."""
    return [(what, began, ended) for what, began, ended in map(json.loads, path.read_text().splitlines())]
