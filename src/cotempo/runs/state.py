"""`RunState`: what the folder of a run says about it, whether it is at work, finished, paused or was killed."""

from __future__ import annotations

import json
import shlex
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from cotempo.data.tables import pluralize
from cotempo.errors import RunError
from cotempo.progress import duration
from cotempo.runs.folder import read_experiment
from cotempo.runs.pulse import DEAD_SECONDS, read_pulse

ANSWERED, LEFT_OUT = "answered", "left out"
STATES = {
    "starting": "Starting",
    "running": "Running",
    "finished": "Finished",
    "paused": "Paused",
    "stopped": "Stopped",
    "failed": "Failed",
    "killed": "Killed",
    "unfinished": "Unfinished",
}
GOING = ("starting", "running")


class NewLines:
    """The records that were added to a JSON-lines file since it was last read; a file replaced is read again."""

    def __init__(self, path: Path):
        self.path = path
        self.place = self.number = 0

    def read(self) -> tuple[bool, Iterator[dict[str, Any]]]:
        """Return whether the file is another one than before, and the records that are new, to be read at once."""
        try:
            about = self.path.stat()
        except OSError:
            return False, iter(())
        is_other = about.st_ino != self.number or about.st_size < self.place
        self.number, self.place = about.st_ino, 0 if is_other else self.place
        return is_other, self._records()

    def _records(self) -> Iterator[dict[str, Any]]:
        with suppress(OSError, ValueError), open(self.path, "rb") as file:
            file.seek(self.place)
            for line in file:
                if not line.endswith(b"\n"):  # it is being written
                    return
                yield json.loads(line)
                self.place += len(line)


class RunState:
    """A run as its folder tells it; `refresh` reads what is new. Nothing is written, and no lock is taken.

    Attributes
    ----------
    steps, round, phase, seconds
        How many steps were logged, the round and phase of the last, and the time all took.
    sent
        Bytes that left each client.
    metrics
        By name, the step and the value of each time it was measured.
    own
        By name of a metric and client, the client's own values where it sent them unmasked.
    failures
        Every answer that was not counted.
    cells
        By client, stretches of steps that went alike: the first, the last, and `ANSWERED` or `LEFT_OUT`.
    """

    def __init__(self, path: Path):
        self.path = path
        self.experiment = read_experiment(path)
        self._log, self._messages = NewLines(path / "log.jsonl"), NewLines(path / "messages.jsonl")
        self._clear()
        self.own: dict[str, dict[str, dict[int, float]]] = {}
        self.pulse: dict[str, Any] = {}
        self.now = time.time()

    def _clear(self) -> None:
        self.steps = self.round = 0
        self.phase, self.seconds, self.last_time = "", 0.0, ""
        self.sent, self.answers, self.lost = Counter[str](), Counter[str](), Counter[str]()
        self.metrics: dict[str, list[tuple[int, float]]] = {}
        self.failures: list[Mapping[str, Any]] = []
        self.cells: dict[str, list[tuple[int, int, str]]] = {}

    def refresh(self) -> Self:
        """Read what is new."""
        is_other, records = self._log.read()
        if is_other:
            self._clear()
        for record in records:
            self._take(record)
        _, messages = self._messages.read()  # what left has left: a resumed run adds to it
        for message in messages:
            for name, field in message["fields"].items():
                value = field.get("value")
                if name in self.metrics and isinstance(value, float | int):
                    of_name = self.own.setdefault(name, {})
                    of_name.setdefault(message["client"], {})[message["step"]] = float(value)
        self.pulse = read_pulse(self.path)
        self.now = time.time()
        return self

    def _take(self, record: Mapping[str, Any]) -> None:
        step = record["step"]
        self.steps, self.round, self.phase, self.last_time = step, record["round"], record["phase"], record["time"]
        self.seconds += record["seconds"]
        self.sent.update(record["received"])
        self.failures += record["failures"]
        failed = {failure["client"] for failure in record["failures"]}
        for name, value in record["metrics"].items():
            self.metrics.setdefault(name, []).append((step, value))
        for client in sorted({*record["received"], *failed}):  # who was asked may answer in a later step
            how = LEFT_OUT if client in failed else ANSWERED
            (self.lost if client in failed else self.answers)[client] += 1
            row = self.cells.setdefault(client, [])
            if row and row[-1][1:] == (step - 1, how):
                row[-1] = (row[-1][0], step, how)
            else:
                row.append((step, step, how))

    @property
    def name(self) -> str:
        """The run's name."""
        return str(self.experiment.get("name", self.path.name))

    @property
    def clients(self) -> list[str]:
        """All clients, those that never answered, too."""
        return sorted({*self.pulse.get("clients", ()), *self.cells})

    @property
    def beat(self) -> float:
        """When the run last gave a sign, in seconds since 1970."""
        return float(self.pulse.get("beat", 0.0))

    @property
    def status(self) -> str:
        """One of `STATES`."""
        if self.pulse and "ended" not in self.pulse:
            if self.now - self.beat > DEAD_SECONDS:
                return "killed"
            return "running" if "step" in self.pulse else "starting"
        kind = self.pulse.get("error", [""])[0]
        if kind:
            return {"QuorumError": "paused", "AwaitingApproval": "paused", "KeyboardInterrupt": "stopped"}.get(
                kind, "failed"
            )
        return "finished" if (self.path / "result" / "fitted.json").is_file() else "unfinished"

    @property
    def is_going(self) -> bool:
        """Whether there is more to come without anybody's doing."""
        return self.status in GOING

    @property
    def done(self) -> float | None:
        """Which share of the work is done; `None` where nobody can know it."""
        if self.status == "finished":
            return 1.0
        done, total = self.pulse.get("work", [0, None])
        return min(done / total, 1.0) if total else None

    @property
    def left(self) -> float | None:
        """How many seconds are left, if that can be known."""
        spent = self.seconds + (self.now - self.pulse.get("asked_at", self.now) if self._waiting else 0.0)
        return spent * (1 - self.done) / self.done if self.done else None

    @property
    def _waiting(self) -> list[str]:
        """The clients that are asked and have not answered."""
        over = {*self.pulse.get("answered", ()), *self.pulse.get("failed", ())}
        return [name for name in self.pulse.get("asked", ()) if name not in over]

    def line(self) -> str:
        """Return in one sentence how the run stands, and how long it will take or how to go on."""
        status = self.status
        where = f"after {pluralize(self.round, 'round')}" if self.steps else "before its first step"
        if status == "starting":
            return "Tables are read, and sites join."
        if status == "running":
            return self._running()
        if status == "finished":
            ended = self.pulse.get("ended") or _seconds(self.last_time)
            return f"{pluralize(self.round, 'round')} in {duration(self.seconds)}; ended {when(ended, self.now)}."
        first = "Once that is mended" if status == "failed" else "Continue with"
        again = f"{first}: cotempo resume {shlex.quote(str(self.path))}"
        if status == "killed":
            return f"No sign since {when(self.beat, self.now)}, {where}: the process or its machine is gone. {again}"
        if status == "stopped":
            return f"By its operator {where}, {when(self.pulse['ended'], self.now)}. {again}"
        if status in ("paused", "failed"):
            text = " ".join(str(self.pulse["error"][1]).split()) or self.pulse["error"][0]
            return f"{where[:1].upper()}{where[1:]}, {when(self.pulse['ended'], self.now)}: {text} {again}"
        return f"It has no result, {where}. {again}"

    def _running(self) -> str:
        asked, waiting = self.pulse["asked"], self._waiting
        parts = [f"round {self.pulse['round']}, {self.pulse['phase']}"]
        count = pluralize(len(asked), "site")
        parts.append(f"waiting for {len(waiting)} of {count}" if waiting else f"{count} answered")
        if self.left is not None and self.done is not None:
            parts.append(f"{self.done:.0%} done, about {duration(self.left)} left")
        else:
            parts.append(f"{duration(self.now - self.pulse['began'])} so far, the method decides when it ends")
        text = "; ".join(parts)
        return f"{text[:1].upper()}{text[1:]}."


def when(moment: float, now: float) -> str:
    """Return a time of this machine's clock, with the day if it is another one."""
    local, today = datetime.fromtimestamp(moment).astimezone(), datetime.fromtimestamp(now).astimezone()
    return f"at {local:%H:%M:%S}" if local.date() == today.date() else f"on {local:%Y-%m-%d at %H:%M}"


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp() if text else 0.0


def find_runs(folder: Path) -> dict[str, Path]:
    """Return the runs in a folder and in its folders, by name, the newest first; a run itself is the only one."""
    if (folder / "experiment.toml").is_file():
        return {folder.resolve().name: folder}
    found = [path.parent for depth in ("*", "*/*") for path in folder.glob(f"{depth}/experiment.toml")]
    if not found:
        raise RunError(
            f"{folder} must be a run, or a folder with runs, it holds no experiment.toml; create one with: cotempo run"
        )
    found.sort(key=lambda path: (-(path / "experiment.toml").stat().st_mtime, str(path)))
    return {path.relative_to(folder).as_posix(): path for path in found if not path.name.startswith(".")}
