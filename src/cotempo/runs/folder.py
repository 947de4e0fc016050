"""`RunFolder`: one run on disk, with what was run, what happened, what each client sent, and two checkpoints."""

from __future__ import annotations

import importlib.metadata
import json
import platform
import sys
import tomllib
import traceback
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import tomli_w
from filelock import FileLock, Timeout

from cotempo.data import Schema
from cotempo.errors import RunError
from cotempo.federation.exchange import Expect, Failure, Question
from cotempo.federation.message import Message
from cotempo.federation.method import Method, State
from cotempo.federation.rounds import Checkpoint, RunRecorder, Step
from cotempo.federation.wire import summarize_message
from cotempo.runs.pulse import Pulse
from cotempo.storage.files import read_hashed, write_hashed, write_whole
from cotempo.storage.tree import TreeError, decode, encode, stack, unstack

PREVIEWS = "preview-*.safetensors"


class RunFolder(RunRecorder):
    """One run on disk.

    ========================  ===========================================================================
    ``experiment.toml``       the experiment as it was run
    ``id``                    the run's own identity, which no other run has
    ``environment.json``      versions of Python and packages, platform
    ``clients.json``          fingerprints of the tables, to refuse a resume on other data
    ``log.jsonl``             one line a step: time, metrics, bytes up and down per client, failures
    ``messages.jsonl``        what each client sent, field by field
    ``errors.log``            tracebacks of clients' errors
    ``now.json``              what is asked now and who has answered, for `cotempo watch`
    ``schemas.json``          the columns of the clients' tables, to draw what is learned before the end
    ``scales.jsonl``          public fixed-point scales, if the run used the secure sum
    ``checkpoints/``          the newest two, hashed, and a preview where answers are still to come
    ``result/``               what `Fitted.save` writes
    ``report.html``           the report
    ========================  ===========================================================================
    """

    def __init__(self, path: Path):
        self.path = path
        if (path / "lock").is_symlink():
            raise RunError(f"{path / 'lock'} must be a file of the run, it is a link, which somebody else put there")
        self._lock = FileLock(path / "lock", thread_local=False)  # held as long as the run
        try:
            self._lock.acquire(blocking=False)
        except Timeout:
            raise RunError(f"{path} must be used by one process at a time, another one is running it") from None
        self._records: list[str] = []
        self.pulse = Pulse(path / "now.json")

    @classmethod
    def create(cls, path: str | Path, experiment: Mapping[str, Any], fingerprints: Mapping[str, Any]) -> Self:
        """Make a new run folder."""
        path = Path(path)
        with run_folder_errors(path):
            if path.exists() and any(path.iterdir()):
                raise RunError(
                    f"{path} must be a new or empty folder; continue the run there with: cotempo resume {path}, "
                    "choose another folder (--run, run=), or begin again (cotempo run --force)"
                )
            (path / "checkpoints").mkdir(parents=True)
            path.chmod(0o700)  # checkpoints and results can hold what clients' rows say
            folder = cls(path)
            write_whole(path / "id", uuid.uuid4().hex.encode())
            write_whole(path / "environment.json", json.dumps(environment(), indent=1).encode())
            write_whole(path / "clients.json", json.dumps(dict(fingerprints), indent=1).encode())
            write_whole(path / "experiment.toml", tomli_w.dumps(without_none(experiment)).encode())
        return folder

    @classmethod
    def reopen(cls, path: str | Path) -> RunFolder:
        """Open the folder of a run that was started."""
        path = Path(path)
        if not (path / "experiment.toml").is_file():
            raise RunError(
                f"{path} must be the folder of a run, it holds no experiment.toml; create one with: cotempo run"
            )
        folder = cls(path)
        for name in ("messages.jsonl", "errors.log", "scales.jsonl"):
            _truncate_partial_line(path / name)
        for leftover in path.rglob(".*.part"):
            leftover.unlink(missing_ok=True)
        return folder

    def close(self) -> None:
        """Write what is pending and unlock the folder."""
        try:
            self._flush()
        finally:
            self._lock.release()

    def discard(self) -> None:
        """Unlock the folder of a run that never began, and leave nothing behind."""
        self._lock.release()
        for path in [*self.path.glob("checkpoints/*"), *self.path.glob("*.*"), self.path / "id", self.path / "lock"]:
            path.unlink(missing_ok=True)
        (self.path / "checkpoints").rmdir()

    @property
    def identity(self) -> str:
        """The run's unique identity, which no other run of the same name has."""
        return str(_read(self.path / "id", str.strip))

    @property
    def checkpoints(self) -> list[Path]:
        """The files of the checkpoints, oldest first; none before the run has begun."""
        return sorted((self.path / "checkpoints").glob("step-*.safetensors"))

    @property
    def fingerprints(self) -> dict[str, Any]:
        """The fingerprints of the tables the run was started on."""
        prints: dict[str, Any] = _read(self.path / "clients.json", lambda text: dict(json.loads(text)))
        return prints

    def write_schemas(self, schemas: Mapping[str, Schema]) -> None:
        """Store the schemas of the clients' tables."""
        with run_folder_errors(self.path):
            content = {name: vars(schema) for name, schema in schemas.items()}
            write_whole(self.path / "schemas.json", json.dumps(content).encode())

    # The recorder of the loop.

    def checkpoint(self, checkpoint: Checkpoint) -> None:
        """Store a checkpoint, and keep the one before it."""
        tree = {**vars(checkpoint), "memories": stack(checkpoint.memories)}
        with run_folder_errors(self.path):
            self._flush()
            write_hashed(self.path / "checkpoints" / f"step-{checkpoint.step:09d}.safetensors", encode(tree))
            for old in self.checkpoints[:-2]:
                old.unlink()
            self._drop_previews()

    def preview(self, state: State, answers: int) -> None:
        """Store the state of the answers that are there, to be looked at; a run never goes on from it."""
        with run_folder_errors(self.path):
            self._drop_previews()
            tree = encode({"state": state, "memories": stack({})})
            write_hashed(self.path / "checkpoints" / f"preview-{answers:06d}.safetensors", tree)

    def _drop_previews(self) -> None:
        for old in (self.path / "checkpoints").glob(PREVIEWS):
            old.unlink()

    def latest(self, method: Method) -> Checkpoint | None:
        """Return the newest intact checkpoint, `None` if the run has none yet; warn about a damaged newer one."""
        kinds = method.memory_types
        paths = self.checkpoints
        stored = {path: read_hashed(path) for path in paths}
        if paths and not any(stored.values()):
            raise RunError(
                f"{self.path} must have an intact checkpoint, damaged are {', '.join(path.name for path in paths)}; "
                "restore one from a backup, or begin the run anew in another folder. Its log and the list of what "
                "left are whole, and sites keep their memories"
            )
        while paths:
            path = paths.pop()
            data = stored[path]
            if data is None:
                warnings.warn(f"checkpoint {path.name} is damaged; continuing from the one before it", stacklevel=2)
                path.unlink()
                continue
            try:
                tree = decode(data, method.State, *kinds)
                return Checkpoint(**{**tree, "memories": unstack(tree["memories"], *kinds)})
            except (TreeError, TypeError, KeyError) as error:
                # The hash is right, so the file is intact and must not be deleted.
                raise RunError(
                    f"{path} must be a checkpoint of {type(method).__name__} as it is now; resume the run with the "
                    f"version of cotempo and of the method that started it: {error}"
                ) from error
        return None

    def log_questions(self, questions: Sequence[Question]) -> None:
        """Say who is asked, in ``now.json``."""
        self.pulse.ask(questions)

    def log_message(self, question: Question, message: Message, expect: Expect) -> None:
        """Record what a client sent, in a form its owner can read."""
        self.pulse.answer(question.client)
        self._records.append(json.dumps(summarize_message(question, message, expect)))

    def log_failure(self, failure: Failure, cause: BaseException | None = None) -> None:
        """Record a failure, with the client's traceback."""
        self.pulse.fail(failure)
        self._append("errors.log", "".join([f"{failure}\n", *(traceback.format_exception(cause) if cause else ())]))

    def _flush(self) -> None:
        if self._records:
            self._append("messages.jsonl", "".join(line + "\n" for line in self._records))
            self._records.clear()

    def _append(self, name: str, text: str) -> None:
        with (
            run_folder_errors(self.path),
            open(self.path / name, "a", encoding="utf-8", errors="backslashreplace") as file,
        ):
            file.write(text)

    # The log.

    def log(self, step: Step) -> None:
        """Append a step's record."""
        self._append("log.jsonl", json.dumps(describe_step(step)) + "\n")

    def rewind(self, step: int) -> None:
        """Drop what was logged after a step, and a partial last line."""
        path = self.path / "log.jsonl"
        if path.exists():
            records = [record for record in read_lines(path) if record["step"] <= step]
            with run_folder_errors(self.path):
                write_whole(path, "".join(json.dumps(record) + "\n" for record in records).encode())


@contextmanager
def run_folder_errors(path: Path) -> Iterator[None]:
    """Turn an `OSError` into a `RunError` that names the folder and says what to do."""
    try:
        yield
    except OSError as error:
        raise RunError(
            f"{path} must be a folder with room that can be written to: {error.strerror or error}. What was stored is "
            "intact: once there is room, resume the run"
        ) from error


def describe_step(step: Step) -> dict[str, Any]:
    """Return a step as a log record."""
    return {
        "step": step.step, "round": step.round, "phase": step.phase,
        "time": datetime.now(UTC).isoformat(timespec="milliseconds"), "seconds": round(step.seconds, 6),
        "metrics": {name: float(value) for name, value in step.metrics.items()},
        "sent": dict(step.sent), "received": dict(step.received),
        "failures": [asdict(failure) for failure in step.answers.failures],
    }  # fmt: skip


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the records of a JSON-lines file without a last line that was cut off; none if there is no file."""
    if not path.exists():
        return []
    records = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            records.append(json.loads(line))
        except ValueError:
            break
    return records


def environment() -> dict[str, Any]:
    """Return versions and platform, for reproducing a run."""
    names = ("cotempo", "numpy", "scipy", "scikit-learn", "torch", "pyarrow", "narwhals", "safetensors", "pydantic")
    versions = {}
    for name in names:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {"python": sys.version.split()[0], "platform": platform.platform(), "packages": versions}


def _truncate_partial_line(path: Path) -> None:
    """Drop a last line that a kill cut off, so that the next one starts on its own line."""
    if path.exists() and not (content := path.read_bytes()).endswith(b"\n"):
        write_whole(path, content[: content.rfind(b"\n") + 1])


def read_experiment(run: Path) -> dict[str, Any]:
    """Return the content of a run's `experiment.toml`."""
    return dict(_read(run / "experiment.toml", tomllib.loads))


def _read(path: Path, parse: Callable[[str], Any]) -> Any:
    try:
        return parse(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError) as error:
        raise RunError(f"{path} must be as the run wrote it, it cannot be read: {error}") from error


def without_none(tree: Any) -> Any:
    """Return a tree without keys that hold nothing, which TOML cannot say."""
    if isinstance(tree, Mapping):
        return {key: without_none(value) for key, value in tree.items() if value is not None}
    return tree
