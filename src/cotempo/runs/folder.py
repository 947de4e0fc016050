"""A run's folder: what was run, what happened, what each client sent, and the two checkpoints it can go on from."""

from __future__ import annotations

import fcntl
import importlib.metadata
import json
import platform
import sys
import tomllib
import traceback
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

import numpy as np
import tomli_w

from cotempo.errors import RunError
from cotempo.federation.exchange import Expect, Failure, Question
from cotempo.federation.message import Message
from cotempo.federation.method import Method
from cotempo.federation.rounds import Checkpoint, Progress
from cotempo.storage.files import read_hashed, write_hashed, write_whole
from cotempo.storage.tree import TreeError, decode, encode, stack, unstack


class RunFolder:
    """One execution on disk.

    ========================  ===========================================================================
    ``experiment.toml``       the experiment as it was run
    ``id``                    the run's own identity, which no other run has
    ``environment.json``      versions of Python and packages, platform
    ``clients.json``          fingerprints of the tables, to refuse a resume on other data
    ``log.jsonl``             one line a step: time, metrics, bytes up and down per client, failures
    ``messages.jsonl``        what each client sent, field by field
    ``errors.log``            tracebacks of clients' errors
    ``checkpoints/``          the newest two, hashed
    ``result/``               what `Fitted.save` writes
    ``report.html``           the report
    ========================  ===========================================================================
    """

    def __init__(self, path: Path):
        self.path = path
        self._lock: IO[str] = open(path / "lock", "w")  # noqa: SIM115 - held as long as the run
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            raise RunError(f"{path} must be used by one process at a time, another one is running it") from None
        self._records: list[str] = []

    @classmethod
    def create(cls, path: str | Path, experiment: Mapping[str, Any], fingerprints: Mapping[str, Any]) -> RunFolder:
        """Make a new run folder."""
        path = Path(path)
        with telling(path):
            if path.exists() and any(path.iterdir()):
                raise RunError(f"{path} must be a new or empty folder; to go on with a run there, resume it")
            (path / "checkpoints").mkdir(parents=True)
            folder = cls(path)
            write_whole(path / "id", uuid.uuid4().hex.encode())
            write_whole(path / "environment.json", json.dumps(environment(), indent=1).encode())
            write_whole(path / "clients.json", json.dumps(dict(fingerprints), indent=1).encode())
            write_whole(path / "experiment.toml", tomli_w.dumps(_without_none(experiment)).encode())
        return folder

    @classmethod
    def reopen(cls, path: str | Path) -> RunFolder:
        """Open the folder of a run that was begun."""
        path = Path(path)
        if not (path / "experiment.toml").is_file():
            raise RunError(
                f"{path} must be the folder of a run, it holds no experiment.toml; begin one by: cotempo run"
            )
        folder = cls(path)
        for name in ("messages.jsonl", "errors.log"):
            _drop_cut_line(path / name)
        for leftover in path.rglob(".*.part"):
            leftover.unlink(missing_ok=True)
        return folder

    def close(self) -> None:
        """Let go of the folder."""
        try:
            self._flush()
        finally:
            self._unlock()

    def _unlock(self) -> None:
        """Unlock before closing: a process forked from this one may still have the file open."""
        if not self._lock.closed:
            fcntl.flock(self._lock, fcntl.LOCK_UN)
        self._lock.close()

    def discard(self) -> None:
        """Let go of the folder of a run that never began, and leave nothing behind."""
        self._unlock()
        for path in [
            *(self.path / "checkpoints").iterdir(),
            *self.path.glob("*.*"),
            self.path / "id",
            self.path / "lock",
        ]:
            path.unlink(missing_ok=True)
        (self.path / "checkpoints").rmdir()

    @property
    def identity(self) -> str:
        """What tells this run from every other, also from one of the same name."""
        return _text(self.path / "id").strip()

    @property
    def has_begun(self) -> bool:
        """Whether there is a checkpoint to go on from."""
        return any((self.path / "checkpoints").glob("step-*.safetensors"))

    @property
    def experiment(self) -> dict[str, Any]:
        """The content of `experiment.toml`."""
        return read_experiment(self.path)

    @property
    def fingerprints(self) -> dict[str, Any]:
        """The fingerprints of the tables the run was begun on."""
        return _read(self.path / "clients.json", json.loads)

    # The keeper of the loop.

    def checkpoint(self, checkpoint: Checkpoint) -> None:
        """Keep a checkpoint, and the one before it."""
        tree = {
            "step": checkpoint.step, "round": checkpoint.round, "ledger": checkpoint.ledger,
            "cohort": checkpoint.cohort, "known": checkpoint.known, "state": checkpoint.state,
            "memories": stack(checkpoint.memories), "earlier": checkpoint.earlier,
        }  # fmt: skip
        with telling(self.path):
            self._flush()
            write_hashed(self.path / "checkpoints" / f"step-{checkpoint.step:09d}.safetensors", encode(tree))
            for old in sorted((self.path / "checkpoints").glob("step-*.safetensors"))[:-2]:
                old.unlink()

    def latest(self, method: Method) -> Checkpoint | None:
        """The newest checkpoint that is whole; says so where a newer one is damaged."""
        kinds = method.memory_types
        paths = sorted((self.path / "checkpoints").glob("step-*.safetensors"))
        while paths:
            path = paths.pop()
            data = read_hashed(path)
            if data is None:
                follows = "the one before it" if paths else "the beginning, as no other is left"
                warnings.warn(f"checkpoint {path.name} is damaged; going on from {follows}", stacklevel=2)
                path.unlink()
                continue
            try:
                tree = decode(data, method.State, *kinds)
                return Checkpoint(**{**tree, "memories": unstack(tree["memories"], *kinds)})
            except (TreeError, TypeError, KeyError) as error:
                # Whole, so nothing is wrong with the file: it must not be thrown away.
                raise RunError(
                    f"{path} must be a checkpoint of {type(method).__name__} as it is now; resume the run with the "
                    f"version of cotempo and of the method that began it: {error}"
                ) from error
        return None

    def record(self, question: Question, message: Message, expect: Expect) -> None:
        """Note what a client sent, in a form its owner can read."""
        self._records.append(json.dumps(sketch_message(question, message, expect)))

    def trouble(self, failure: Failure, cause: BaseException | None) -> None:
        """Note a failure, with the client's traceback."""
        with (
            telling(self.path),
            open(self.path / "errors.log", "a", encoding="utf-8", errors="backslashreplace") as file,
        ):
            file.write(f"{failure}\n")
            if cause is not None:
                file.writelines(traceback.format_exception(cause))

    def _flush(self) -> None:
        if self._records:
            with telling(self.path), open(self.path / "messages.jsonl", "a", encoding="utf-8") as file:
                file.writelines(line + "\n" for line in self._records)
            self._records.clear()

    # The log.

    def log(self, progress: Progress) -> None:
        """Append a step's record."""
        record = describe_step(progress)
        with telling(self.path), open(self.path / "log.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")

    def rewind(self, step: int) -> None:
        """Drop what was logged after a step, and a line cut off by a kill."""
        path = self.path / "log.jsonl"
        if path.exists():
            records = [record for record in read_lines(path) if record["step"] <= step]
            with telling(self.path):
                write_whole(path, "".join(json.dumps(record) + "\n" for record in records).encode())


@contextmanager
def telling(path: Path) -> Iterator[None]:
    """Say which folder could not be written, and what to do."""
    try:
        yield
    except OSError as error:
        raise RunError(
            f"{path} must be a folder with room that can be written to: {error.strerror or error}. What was kept is "
            "whole: once there is room, resume the run"
        ) from error


def _drop_cut_line(path: Path) -> None:
    """Drop a last line that a kill cut off, so that the next one begins on a line of its own."""
    if path.exists() and not (content := path.read_bytes()).endswith(b"\n"):
        write_whole(path, content[: content.rfind(b"\n") + 1])


def read_experiment(run: Path) -> dict[str, Any]:
    """The content of a run's `experiment.toml`."""
    return _read(run / "experiment.toml", tomllib.loads)


def _read(path: Path, parse: Callable[[str], Any]) -> dict[str, Any]:
    try:
        return dict(parse(_text(path)))
    except (ValueError, TypeError) as error:
        raise RunError(f"{path} must be as the run wrote it, it cannot be read: {error}") from error


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise RunError(f"{path} must be as the run wrote it, it cannot be read: {error}") from error


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Read a JSON-lines file, leaving out a last line that was cut off."""
    if not path.exists():
        return []
    records = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            records.append(json.loads(line))
        except ValueError:
            break
    return records


def describe_step(progress: Progress) -> dict[str, Any]:
    """A step as a log record."""
    return {
        "step": progress.step, "round": progress.round, "phase": progress.phase,
        "time": datetime.now(UTC).isoformat(timespec="milliseconds"), "seconds": round(progress.seconds, 6),
        "metrics": {name: float(value) for name, value in progress.metrics.items()},
        "sent": dict(progress.sent), "received": dict(progress.received),
        "failures": [
            {"client": f.client, "step": f.step, "phase": f.phase, "kind": f.kind, "about": f.about}
            for f in progress.answers.failures
        ],
    }  # fmt: skip


def environment() -> dict[str, Any]:
    """Versions and platform, for reproducing a run."""
    names = ("cotempo", "numpy", "scipy", "scikit-learn", "torch", "pyarrow", "narwhals", "safetensors", "pydantic")
    versions = {}
    for name in names:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {"python": sys.version.split()[0], "platform": platform.platform(), "packages": versions}


def sketch_message(question: Question, message: Message, expect: Expect) -> dict[str, Any]:
    """What a client sent, field by field, in a form its owner can read."""
    fields = {
        name: {"about": expect.fields[name].description if name in expect.fields else "", **_sketch(value)}
        for name, value in message.items()
    }
    return {
        "client": question.client, "step": question.step, "round": question.round, "phase": question.phase,
        "bytes": message.nbytes, "weight": message.weight, "summed": expect.sums, "fields": fields,
    }  # fmt: skip


def _sketch(value: Any) -> dict[str, Any]:
    """An array's size, range and first values; a scalar as it is."""
    if not isinstance(value, np.ndarray):
        return {"value": value[:200] if isinstance(value, str) else value}
    sketch: dict[str, Any] = {"shape": list(value.shape), "dtype": str(value.dtype), "bytes": value.nbytes}
    if value.size:
        sketch |= {"smallest": value.min().item(), "largest": value.max().item(), "first": value.ravel()[:3].tolist()}
    return sketch


def _without_none(tree: Any) -> Any:
    if isinstance(tree, Mapping):
        return {key: _without_none(value) for key, value in tree.items() if value is not None}
    return tree
