"""A site's desk: what is asked of it comes in, what it allows goes out. It knows nothing of Flower."""

from __future__ import annotations

import dataclasses
import importlib
import json
import re
import tomllib
import traceback
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cotempo.data import READERS, Schema, Table, detect_kind
from cotempo.devices import Device, has_device
from cotempo.errors import CotempoError, DataError, EngineError, MessageError, ParameterError, nearest
from cotempo.federation.exchange import Expect, Question
from cotempo.federation.fitted import Outcome
from cotempo.federation.message import Message
from cotempo.federation.registry import find_method
from cotempo.federation.site import DiskStore, Site, question_from_bytes, reply_from_bytes
from cotempo.runs.folder import sketch_message
from cotempo.storage.files import write_whole
from cotempo.storage.tree import decode

Parts = Mapping[str, bytes]


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Floor(_Section):
    """What a site asks before it answers at all."""

    minimum_rows: int = Field(0, ge=0)
    minimum_clients: int = Field(2, ge=1)
    epsilon: float | None = Field(None, gt=0)


class Randomness(_Section):
    """Where a site's random draws come from: a secret number of its own, or (none) the run's seed."""

    seed: int | None = Field(None, ge=0)


class SiteSettings(_Section):
    """The content of `site.toml`.

    `imports` names modules that register methods of the site's own choice, `devices` where networks may be computed.
    """

    name: str
    server: str
    data: str | dict[str, str]
    methods: tuple[str, ...]
    imports: tuple[str, ...] = ()
    devices: tuple[Device, ...] = ("cpu",)
    privacy: Floor = Floor()
    random: Randomness = Randomness()

    @classmethod
    def read(cls, kit: Path) -> SiteSettings:
        """Read a kit's `site.toml`; a relative data path is looked for beside it."""
        path = kit / "site.toml"
        try:
            content = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise EngineError(f"{kit} must be the folder of a startup kit, it holds no readable site.toml") from error
        except ValueError as error:
            raise ParameterError(f"{path} must be a TOML file: {error}") from error
        try:
            settings = cls(**content)
        except ValidationError as error:
            raise ParameterError(_explain(path, error)) from None
        if not settings.data:
            raise ParameterError(f"{path}: data must name your table; fill it in")
        if unknown := [kind for kind in settings.data if not isinstance(settings.data, str) and kind not in READERS]:
            raise ParameterError(f"{path}: data: a kind must be one of {', '.join(READERS)}, not {unknown[0]!r}")
        if isinstance(settings.data, str):
            return settings.model_copy(update={"data": str((kit / settings.data).resolve())})
        found = {kind: str((kit / source).resolve()) for kind, source in settings.data.items()}
        return settings.model_copy(update={"data": found})

    @property
    def sources(self) -> dict[str, str]:
        """Where the tables are, by kind; one table alone tells its kind by its columns."""
        return {detect_kind(self.data): self.data} if isinstance(self.data, str) else {**self.data}


def _explain(path: Path, error: ValidationError) -> str:
    sections: dict[str, type[BaseModel]] = {"privacy": Floor, "random": Randomness}
    lines = []
    for item in error.errors():
        *outer, last = [str(part) for part in item["loc"]]
        known = (sections[outer[0]] if outer and outer[0] in sections else SiteSettings).model_fields
        if item["type"] == "extra_forbidden":
            lines.append(f"{path} has no key {last!r}{nearest(last, known)}")
        else:
            lines.append(f"{path}: {'.'.join([*outer, last])}: {item['msg']}, was given {item['input']!r}")
    return "\n".join(lines)


class Refused(CotempoError):  # noqa: N818 - it says what happened
    """The site does not take part; its text may leave the site, so it quotes no data."""


class Desk:
    """One site at work, for as many runs as it is asked to join.

    Parameters
    ----------
    home
        The site's own folder: a folder per run with its memory, its answers and a record of everything it sent.
    """

    def __init__(self, settings: SiteSettings, home: Path):
        self.settings = settings
        self.home = home
        self._sites: dict[str, Site] = {}
        for module in settings.imports:
            importlib.import_module(module)

    def handle(self, verb: str, parts: Parts) -> dict[str, bytes]:
        """Answer a verb; what goes wrong goes out as the error's class name, the rest stays in the site's log."""
        try:
            if verb == "join":
                return {"joined": to_json(self.join(from_json(parts["invitation"])))}
            if verb == "ask":
                return {"reply": self.answer(parts["question"], parts["common"])}
            if verb == "result":
                return {"kept": to_json({"kept": self.keep(from_json(parts["about"]), parts["state"])})}
            raise MessageError(f"the verb must be join, ask or result, not {verb!r}")
        except Refused as error:
            self.note(f"refused: {error}")
            return {"refused": to_json({"why": str(error)})}
        except Exception as error:
            self.note("".join(traceback.format_exception(error)))
            return {"failed": to_json({"kind": type(error).__name__})}

    def note(self, text: str) -> None:
        """Write to the site's own log."""
        self.home.mkdir(parents=True, exist_ok=True)
        with open(self.home / "site.log", "a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(f"{datetime.now(UTC).isoformat(timespec='seconds')} {text.rstrip()}\n")

    def join(self, invitation: Mapping[str, Any]) -> dict[str, Any]:
        """Look at who invites to what; approve or refuse; say what the table looks like."""
        run = self._folder(invitation["run"])
        self._approve(invitation)
        site = self._open(invitation)
        if site.schema.kind == site.method.kind:
            site.prepared  # noqa: B018 - made here, so that bad data are known before the first round
        paper, kept = run / "invitation.json", {**invitation, "table": site.table.fingerprint()}
        before = json.loads(paper.read_text()) if paper.exists() else kept
        if before["table"] != kept["table"]:
            raise Refused("the site's table must be the one the run was begun on, it has changed since")
        if any(before[key] != kept[key] for key in ("method", "parameters", "seed")):
            raise Refused("the run must go on with the method and the seed it was begun with")
        run.mkdir(parents=True, exist_ok=True)
        write_whole(paper, to_json(kept))
        self._sites[invitation["run"]] = site
        self.note(f"joined run {invitation['run']}: {invitation['method']}")
        return {"schema": dataclasses.asdict(site.schema)}

    def _approve(self, invitation: Mapping[str, Any]) -> None:
        floor = self.settings.privacy
        name, promised = invitation["method"], invitation["privacy"].get("epsilon")
        approved = {find_method(method).__name__ for method in self.settings.methods}
        if find_method(name).__name__ not in approved:
            raise Refused(f"this site approves {', '.join(sorted(approved)) or 'no method'}, not {name}")
        device = invitation["parameters"].get("device", "cpu")
        if device not in self.settings.devices:
            raise Refused(f"this site computes on {', '.join(self.settings.devices)}, not on {device}")
        if not has_device(device):
            raise Refused(f"this site has no GPU that torch finds, and is asked to compute on {device}")
        if invitation["clients"] < floor.minimum_clients:
            raise Refused(
                f"this site takes part among at least {floor.minimum_clients} clients, there are "
                f"{invitation['clients']}"
            )
        if floor.epsilon is not None and (promised is None or promised > floor.epsilon):
            offered = "none is promised" if promised is None else f"{promised:g} is promised"
            raise Refused(
                f"this site asks for differential privacy with epsilon of at most {floor.epsilon:g}, {offered}"
            )

    def _open(self, invitation: Mapping[str, Any]) -> Site:
        """The site as a client of a run, with its memory where it was left."""
        method = find_method(invitation["method"])(**invitation["parameters"])
        table = self.read_table(method.kind)
        if table.rows < self.settings.privacy.minimum_rows:
            raise Refused(f"this site takes part once its table has {self.settings.privacy.minimum_rows} rows")
        seed = self.settings.random.seed
        store = DiskStore(self._folder(invitation["run"]) / "memory", method.Memory)
        return Site(method, self.settings.name, table, invitation["seed"] if seed is None else seed, store)

    def read_table(self, kind: str) -> Table:
        """The site's table of a kind."""
        source = self.settings.data if isinstance(self.settings.data, str) else self.settings.data.get(kind)
        if source is None:
            raise Refused(f"this site has no table of {kind}")
        windows = [path for path in Path(source).parent.glob(f"{Path(source).stem}.windows.*") if kind == "events"]
        tables = READERS[kind](source, **({"windows": windows[0]} if windows else {}))
        if len(tables) > 1 and self.settings.name not in tables:
            raise DataError(
                f"the data must hold one client, or one named {self.settings.name}; they hold {len(tables)}"
            )
        table: Table = tables[self.settings.name] if len(tables) > 1 else next(iter(tables.values()))
        return table

    def answer(self, question_bytes: bytes, common: bytes) -> bytes:
        """Answer a question of a run that was joined; the same question gets the same answer."""
        question = question_from_bytes(question_bytes)
        question = dataclasses.replace(question, common=Message.from_bytes(common))
        reply = self._site(question.run).answer_once(question)
        self._record(question, reply)
        return reply

    def _site(self, run: str) -> Site:
        """The client of a run; after a restart it is opened again from what was approved."""
        if run not in self._sites:
            paper = self._folder(run) / "invitation.json"
            if not paper.is_file():
                raise Refused("this site was not invited to that run")
            self.join({key: value for key, value in json.loads(paper.read_text()).items() if key != "table"})
        return self._sites[run]

    def _record(self, question: Question, reply: bytes) -> None:
        """Write down what leaves, in a form the owner of the data can read."""
        read = reply_from_bytes(reply)
        path = self._folder(question.run) / "messages.jsonl"
        with open(path, "a", encoding="utf-8") as file:
            if read.message is not None:
                file.write(json.dumps(sketch_message(question, read.message, Expect({}))) + "\n")
        if read.failure is not None:
            self.note(f"run {question.run}, step {question.step}: {read.failure.kind}")

    def keep(self, about: Mapping[str, Any], state: bytes) -> bool:
        """Keep the result of a run as this site sees it: the server's state and the site's own memory."""
        site = self._site(about["run"])
        name, memory = self.settings.name, site.memory(int(about["version"]))
        memories = {} if memory is None else {name: memory}
        outcome = Outcome(site.method, decode(state, site.method.State), {name: site.schema}, memories)
        site.method.result(outcome).save(self._folder(about["run"]) / "result")
        return True

    def _folder(self, run: str) -> Path:
        if not isinstance(run, str) or not re.fullmatch(r"[0-9a-f]{32}", run):
            raise MessageError("a run's identity must be 32 hexadecimal digits")
        return self.home / "runs" / run


def to_json(content: Mapping[str, Any]) -> bytes:
    """Plain values as bytes."""
    return json.dumps(dict(content)).encode()


def from_json(data: bytes) -> dict[str, Any]:
    """Read `to_json`."""
    try:
        content = json.loads(data)
    except ValueError as error:
        raise MessageError("the part must be JSON") from error
    if not isinstance(content, dict):
        raise MessageError("the part must be a JSON object")
    return content


def schema_from(content: Mapping[str, Any]) -> Schema:
    """Read the schema a site sent."""
    try:
        kind, columns, unit = content["kind"], tuple(content["columns"]), content["unit"]
    except (KeyError, TypeError) as error:
        raise MessageError("a schema must have kind, columns and unit") from error
    if not all(isinstance(word, str) for word in (kind, unit, *columns)) or len(columns) > 100_000:
        raise MessageError("a schema must be made of words")
    return Schema(kind, columns, unit)
