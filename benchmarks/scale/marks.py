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
    """Watch this process if it is one of a site's two; both name the site's folder on their command lines."""
    words = sys.orig_argv
    if "cotempo.engines.flower.site.node" in words:
        site = Path(words[words.index("--auth-supernode-private-key") + 1]).parent.name
        watch_node(Marks(f"{site}-node"))
    elif "cotempo.engines.flower.site.worker" in words:
        watch_worker(Marks(f"{Path(words[-2]).name}-worker"))


def watch_node(marks: Marks) -> None:
    """A message's content is fetched from the server; its answer is waited for and brought there."""
    from flwr.supernode import start_client_internal as place

    marks.watch("fetched", place, "pull_objects")
    marks.watch("brought", place, "_push_messages")


def watch_worker(marks: Marks) -> None:
    """A task is taken and read, the question answered, and the answer handed over."""
    from flwr.supernode.runtime import run_clientapp

    from cotempo.engines.flower.site.service import SiteService

    marks.watch("taken", run_clientapp, "pull_task_input")
    marks.watch("handled", SiteService, "handle")
    marks.watch("replied", run_clientapp, "push_message")


def read_marks(path: Path) -> list[Mark]:
    """The marks of a process, in order of their ends."""
    return [(what, began, ended) for what, began, ended in map(json.loads, path.read_text().splitlines())]
