"""A run's folder: what was run, what happened, what each client sent, and the two checkpoints it can go on from."""

from __future__ import annotations

import fcntl
import importlib.metadata
import json
import platform
import sys
import traceback
import warnings
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

import numpy as np
import tomli_w

from cotempo.errors import RunError
from cotempo.federation.exchange import Expect, Failure, Question
from cotempo.federation.files import read_hashed, write_hashed, write_whole
from cotempo.federation.message import Message
from cotempo.federation.method import Method
from cotempo.federation.rounds import Checkpoint, Progress
from cotempo.federation.tree import TreeError, decode, encode, stack, unstack


class RunFolder:
    """One execution on disk.

    ========================  ===========================================================================
    ``experiment.toml``       the experiment as it was run
    ``environment.json``      versions of Python and packages, platform
    ``clients.json``          fingerprints of the clients' tables, to refuse a resume on other data
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
    def create(cls, path: str | Path, experiment: Mapping[str, Any], fingerprints: Mapping[str, str]) -> RunFolder:
        """Make a new run folder."""
        path = Path(path)
        if path.exists() and any(path.iterdir()):
            raise RunError(f"{path} must be a new or empty folder; to go on with a run there, resume it")
        (path / "checkpoints").mkdir(parents=True)
        folder = cls(path)
        write_whole(path / "environment.json", json.dumps(environment(), indent=1).encode())
        write_whole(path / "clients.json", json.dumps(dict(fingerprints), indent=1).encode())
        write_whole(path / "experiment.toml", tomli_w.dumps(_without_none(experiment)).encode())
        return folder

    @classmethod
    def reopen(cls, path: str | Path) -> RunFolder:
        """Open the folder of a run that was begun."""
        path = Path(path)
        if not (path / "experiment.toml").is_file():
            raise RunError(f"{path} must be the folder of a run, it holds no experiment.toml")
        return cls(path)

    def close(self) -> None:
        """Let go of the folder."""
        self._flush()
        self._lock.close()

    @property
    def fingerprints(self) -> dict[str, str]:
        """The fingerprints of the tables the run was begun on."""
        return dict(json.loads((self.path / "clients.json").read_text()))

    # The keeper of the loop.

    def checkpoint(self, checkpoint: Checkpoint) -> None:
        """Keep a checkpoint, and the one before it."""
        self._flush()
        tree = {
            "step": checkpoint.step, "round": checkpoint.round, "ledger": checkpoint.ledger,
            "cohort": checkpoint.cohort, "state": checkpoint.state, "memories": stack(checkpoint.memories),
        }  # fmt: skip
        write_hashed(self.path / "checkpoints" / f"step-{checkpoint.step:09d}.safetensors", encode(tree))
        for old in sorted((self.path / "checkpoints").glob("step-*.safetensors"))[:-2]:
            old.unlink()

    def latest(self, method: Method) -> Checkpoint | None:
        """The newest checkpoint that is whole; says so where a newer one is damaged."""
        kinds = (method.Memory,) if method.Memory else ()
        for path in sorted((self.path / "checkpoints").glob("step-*.safetensors"), reverse=True):
            data = read_hashed(path)
            try:
                if data is not None:
                    tree = decode(data, method.State, *kinds)
                    return Checkpoint(**{**tree, "memories": unstack(tree["memories"], *kinds)})
            except TreeError:
                pass
            warnings.warn(f"checkpoint {path.name} is damaged; going on from the one before it", stacklevel=2)
            path.unlink()
        return None

    def record(self, question: Question, message: Message, expect: Expect) -> None:
        """Note what a client sent, in a form its owner can read."""
        fields = {
            name: {"about": expect.fields[name].about if name in expect.fields else "", **_sketch(value)}
            for name, value in message.items()
        }
        line = {
            "client": question.client, "step": question.step, "round": question.round, "phase": question.phase,
            "bytes": message.nbytes, "weight": message.weight, "summed": expect.sums, "fields": fields,
        }  # fmt: skip
        self._records.append(json.dumps(line))

    def trouble(self, failure: Failure, cause: BaseException | None) -> None:
        """Note a failure, with the client's traceback."""
        with open(self.path / "errors.log", "a") as file:
            file.write(f"{failure}\n")
            if cause is not None:
                file.writelines(traceback.format_exception(cause))

    def _flush(self) -> None:
        if self._records:
            with open(self.path / "messages.jsonl", "a") as file:
                file.writelines(line + "\n" for line in self._records)
            self._records.clear()

    # The log.

    def log(self, record: Mapping[str, Any]) -> None:
        """Append a step's record."""
        with open(self.path / "log.jsonl", "a") as file:
            file.write(json.dumps(record) + "\n")

    def history(self, until: int) -> list[dict[str, Any]]:
        """The records up to a step; later ones, and a line cut off by a kill, are dropped from the log."""
        path = self.path / "log.jsonl"
        records = [record for record in read_lines(path) if record["step"] <= until]
        if path.exists():
            write_whole(path, "".join(json.dumps(record) + "\n" for record in records).encode())
        return records


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Read a JSON-lines file, leaving out a last line that was cut off."""
    if not path.exists():
        return []
    records = []
    for line in path.read_text().splitlines():
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


def _sketch(value: Any) -> dict[str, Any]:
    """An array's size, range and first values; a scalar as it is."""
    if not isinstance(value, np.ndarray):
        return {"value": value}
    sketch: dict[str, Any] = {"shape": list(value.shape), "dtype": str(value.dtype), "bytes": value.nbytes}
    if value.size:
        sketch |= {"smallest": value.min().item(), "largest": value.max().item(), "first": value.ravel()[:3].tolist()}
    return sketch


def _without_none(tree: Any) -> Any:
    if isinstance(tree, Mapping):
        return {key: _without_none(value) for key, value in tree.items() if value is not None}
    return tree
