"""`RunQueue`: runs that wait at a server and are run one after another, each among its own participants.

Its process is python -m cotempo.runs.queue SERVER. It starts `cotempo run` for each, begins where there is something to
do, ends where there is not, and resumes what it, or its machine, was killed in.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import tomli_w
from filelock import FileLock

from cotempo.alerts import Alerts
from cotempo.engines.flower.coordinator.server import Server
from cotempo.engines.flower.processes import Daemon
from cotempo.engines.settings import FlowerSettings, paused_sites
from cotempo.errors import ParameterError
from cotempo.privacy.orders import Order, read_people
from cotempo.runs.experiment import Experiment
from cotempo.runs.folder import without_none
from cotempo.runs.run import Run, loop_options
from cotempo.settings import Settings
from cotempo.storage.files import write_whole

LOOK_SECONDS = 2.0  # while all that wait are held up by a paused site
CHILD = (
    "from cotempo.engines.flower.processes import exit_with_parent; exit_with_parent(); "
    "from cotempo.cli import main; main()"
)
OPEN = ("waiting", "running", "paused")  # what can be cancelled
PAUSED, INTERRUPTED = 4, 130  # exit codes of `cotempo run`


class QueuedRun(Settings):
    """A run in the queue: what it is, where it is kept, and how it stands."""

    number: int
    name: str
    method: str
    participants: tuple[str, ...]
    by: str
    run: str
    added: str
    status: Literal["waiting", "running", "finished", "paused", "failed", "cancelled"] = "waiting"
    says: str = ""
    process: int | None = None


class RunQueue(Daemon):
    """The queue of a server, a folder per run."""

    def __init__(self, server: str | Path):
        self.server = Server(server)
        self.folder = self.server.folder / "queue"
        super().__init__(self.server.state, "queue")
        settings = FlowerSettings(server=str(self.server.folder)).alerts()
        self.alerts = Alerts(settings, lambda text: print(json.dumps({"event": "note", "text": text}), flush=True))

    @property
    def runs(self) -> list[QueuedRun]:
        """All runs that were queued, oldest first."""
        paths = sorted(self.folder.glob("*/queued.json"), key=lambda path: int(path.parent.name))
        return [QueuedRun.read(json.loads(path.read_bytes()), str(path)) for path in paths]

    def _lock(self) -> FileLock:
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return FileLock(self.folder / "lock")

    def _write(self, queued: QueuedRun, **changes: Any) -> QueuedRun:
        changed = queued.model_copy(update=changes)
        write_whole(self.folder / str(queued.number) / "queued.json", changed.model_dump_json().encode())
        return changed

    def add(self, experiment: Experiment, run: Path, *, key: Path | None = None) -> QueuedRun:
        """Queue an experiment, signed with a person's `key` if the server lists who may start runs; begin it if it can.

        Who takes part is decided now.
        """
        engine, people = experiment.engine, read_people(self.server.folder)
        if not isinstance(engine, FlowerSettings):
            raise ParameterError(f"runs at a server must be on the engine flower, got {engine.name}")
        if run.exists() and any(run.iterdir()):
            raise ParameterError(f"{run} must be a new or empty folder; choose another with --run")
        if people and key is None:
            raise ParameterError(f"the order must be signed by {' or '.join(sorted(people))}; name the key with --key")
        engine = engine.model_copy(update={"server": str(self.server.folder)}).with_participants()
        self.server.signing_keys(engine.participants)
        method = experiment.make_method()
        prepared = Run.of(method, {}, engine, loop_options(experiment)).guarded(experiment.privacy)
        order = key and Order.sign(
            key, method=type(method).__name__, parameters=method.model_dump(mode="json"), seed=experiment.seed,
            participants=engine.participants, privacy=prepared.privacy.model_dump(mode="json"), purpose=engine.purpose,
        )  # fmt: skip
        if order and people:
            order.require_signed(people)
        with self._lock():
            number = max((queued.number for queued in self.runs), default=0) + 1
            folder = self.folder / str(number)
            folder.mkdir(mode=0o700)
            if order:
                order.save(folder / "order.json")
                engine = engine.model_copy(update={"order": str(folder / "order.json")})
            content = experiment.model_copy(update={"engine": engine}).to_dict()
            write_whole(folder / "experiment.toml", tomli_w.dumps(without_none(content)).encode())
            queued = QueuedRun(
                number=number, name=experiment.name, method=experiment.method, participants=engine.participants,
                by=order.by if order else "", run=str(run.resolve()),
                added=datetime.now(UTC).isoformat(timespec="seconds"),
            )  # fmt: skip
            return self._write(queued)

    def start(self) -> None:
        """Work on what waits, in the background, unless that is done already."""
        with self._lock():
            if self.pid is None and any(queued.status in ("waiting", "running") for queued in self.runs):
                self.launch([sys.executable, "-m", "cotempo.runs.queue", str(self.server.folder)])

    def cancel(self, number: int) -> QueuedRun:
        """Take a run out of the queue; one that is at work stops, and its folder can be resumed."""
        with self._lock():
            runs = {queued.number: queued for queued in self.runs if queued.status in OPEN}
            if number not in runs:
                known = ", ".join(map(str, runs)) or "none"
                raise ParameterError(f"the run must be one that waits, is paused or is at work, {known}, got {number}")
            queued = runs[number]
            if queued.status == "running" and queued.process is not None and self.pid is not None:
                os.kill(queued.process, signal.SIGINT)
            return self._write(queued, status="cancelled", process=None)

    def work(self) -> None:
        """Run what waits, one after another, until nothing does."""
        while True:
            with self._lock():
                waiting = [queued for queued in self.runs if queued.status in ("waiting", "running")]
                if not waiting:
                    self.pid_file.unlink(missing_ok=True)  # under the lock: what is added now starts another process
                    return
                paused = paused_sites(self.server.folder)
                ready = [queued for queued in waiting if not {*queued.participants} & paused]
                process = self._begin(ready[0]) if ready else None
            if process is None:
                time.sleep(LOOK_SECONDS)
            else:
                self._finish(ready[0], process)

    def _begin(self, queued: QueuedRun) -> subprocess.Popen[str]:
        """Start a run, or resume it if it had begun."""
        run = Path(queued.run)
        path = self.folder / str(queued.number) / "experiment.toml"
        words = ["resume", str(run)] if (run / "experiment.toml").is_file() else ["run", str(path), "--run", str(run)]
        process = subprocess.Popen(
            [sys.executable, "-c", CHILD, *words, "--json"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
        )
        self._log("began", queued)
        self._write(queued, status="running", process=process.pid)
        return process

    def _finish(self, queued: QueuedRun, process: subprocess.Popen[str]) -> None:
        """Wait for a run and note how it ended."""
        said, _ = process.communicate()
        try:
            text = str(json.loads(said.splitlines()[-1]).get("message", ""))
        except (ValueError, IndexError):
            text = "" if process.returncode in (0, INTERRUPTED) else f"it ended with code {process.returncode}"
        ended: dict[int, Any] = {0: "finished", PAUSED: "paused", INTERRUPTED: "cancelled"}
        status = ended.get(process.returncode, "failed")
        if process.returncode < 0:  # one that fails tells by itself
            self.alerts.tell("run failed", queued.name, f"its process was killed by signal {-process.returncode}")
        with self._lock():
            is_cancelled = any(one.number == queued.number and one.status == "cancelled" for one in self.runs)
            status = "cancelled" if is_cancelled else status
            self._log(status, self._write(queued, status=status, says=text, process=None))

    def _log(self, event: str, queued: QueuedRun) -> None:
        """Write a JSON line to the queue's log."""
        entry = {
            "time": datetime.now(UTC).isoformat(timespec="seconds"), "event": event, "number": queued.number,
            "name": queued.name, "method": queued.method, "participants": queued.participants, "by": queued.by,
        }  # fmt: skip
        print(json.dumps(entry), flush=True)


if __name__ == "__main__":
    RunQueue(sys.argv[1]).work()
