"""Run cotempo's command line in child processes that kill themselves at a given checkpoint.

Reads jobs as JSON, `[[arguments, step, point], ...]`, and prints the exit status of each, negative for a signal.
Only this script imports cotempo; every job is a fork of it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import cotempo.storage.files as files
from cotempo.cli import main
from cotempo.runs.folder import RunFolder


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def arm(step: int, point: str) -> None:
    """Die before the checkpoint of a step is written, in the middle of writing it, or after it."""
    save, write = RunFolder.checkpoint, files.write_whole

    def checkpoint(self: RunFolder, checkpoint: Any) -> None:
        if checkpoint.step == step and point == "before":
            die()
        save(self, checkpoint)
        if checkpoint.step == step and point == "after":
            die()

    def write_whole(path: Path, data: bytes) -> None:
        if point == "middle" and path.name == f"step-{step:09d}.safetensors":
            path.with_name(f".{path.name}.{os.getpid()}.part").write_bytes(data[: len(data) // 2])
            die()
        write(path, data)

    RunFolder.checkpoint = checkpoint  # type: ignore[method-assign]
    files.write_whole = write_whole


def run(arguments: list[str], step: int, point: str) -> int:
    child = os.fork()
    if child == 0:
        arm(step, point)
        code: Any = 1
        try:
            main(arguments)
        except SystemExit as end:
            code = end.code
        finally:
            os._exit(code or 0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    print(json.dumps([run(*job) for job in json.load(sys.stdin)]))
