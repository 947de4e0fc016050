"""`SiteService`: what a site answers to each verb of the protocol, within its `SiteSettings`; without Flower."""

import dataclasses
import importlib
import json
import re
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from pydantic import Field

from cotempo.data import READERS, Table
from cotempo.data.argument_checks import check_choice
from cotempo.devices import Device, has_device
from cotempo.engines.flower.protocol import Invitation, Part, Parts, ResultReference, Verb, WireSchema
from cotempo.errors import CotempoError, DataError, EngineError, MessageError, ParameterError
from cotempo.federation.exchange import Expect
from cotempo.federation.fitted import Outcome
from cotempo.federation.message import Message
from cotempo.federation.registry import find_method
from cotempo.federation.shields import Shield
from cotempo.federation.site import Site
from cotempo.federation.wire import identify_question, question_from_bytes, summarize_message
from cotempo.settings import Settings, read_toml
from cotempo.storage.files import write_whole
from cotempo.storage.store import DiskStore
from cotempo.storage.tree import decode


class SitePolicy(Settings):
    """What a site demands of a run before it takes part."""

    minimum_rows: int = Field(default=0, ge=0)
    minimum_clients: int = Field(default=2, ge=1)


class SiteRandomness(Settings):
    """Where a site's random draws come from: its own secret number, or (None) the run's seed."""

    seed: int | None = Field(default=None, ge=0)


class SiteSettings(Settings):
    """The content of `site.toml`, whose template in `kit/` explains every key."""

    name: str
    server: str
    data: str | dict[str, str]
    methods: tuple[str, ...]
    identity: str | None = None
    peers: dict[str, str] = Field(default_factory=dict)
    imports: tuple[str, ...] = ()
    devices: tuple[Device, ...] = ("cpu",)
    privacy: SitePolicy = SitePolicy()
    random: SiteRandomness = SiteRandomness()

    @classmethod
    def from_kit(cls, kit: Path) -> Self:
        """Read a kit's `site.toml`; relative data paths start at the kit."""
        path = kit / "site.toml"
        if not path.is_file():
            raise EngineError(f"{kit} must be the folder of a startup kit, it holds no readable site.toml")
        settings = cls.read(read_toml(path), str(path))
        if not settings.data:
            raise ParameterError(f"{path}: data must name your table; fill it in")
        if settings.identity is not None:
            settings = settings.model_copy(update={"identity": str((kit / settings.identity).resolve())})
        if isinstance(settings.data, str):
            return settings.model_copy(update={"data": str((kit / settings.data).resolve())})
        for kind in settings.data:
            check_choice(f"{path}: data: a kind", kind, READERS)
        found = {kind: str((kit / source).resolve()) for kind, source in settings.data.items()}
        return settings.model_copy(update={"data": found})


class Refused(CotempoError):  # noqa: N818 - it says what happened
    """The site does not take part; its text may leave the site, so it quotes no data."""


class AcceptedInvitation(Invitation):
    """An invitation as the site keeps it, with the fingerprint of the table it was accepted for."""

    table: str


class SiteService:
    """One site, for as many runs as it is asked to join.

    In `home` it keeps a folder per run, with its memory, its answers and a record of everything it sent.
    """

    def __init__(self, settings: SiteSettings, home: Path):
        self.settings = settings
        self.home = home
        self._sites: dict[str, Site] = {}
        for module in settings.imports:
            importlib.import_module(module)

    def handle(self, verb: Verb, parts: Parts) -> Parts:
        """Answer a verb; of an error only the class name leaves, the rest stays in the site's log."""
        try:
            match verb:
                case Verb.JOIN:
                    return {Part.SCHEMA: self.join(Invitation.from_bytes(parts[Part.INVITATION])).to_bytes()}
                case Verb.ASK:
                    return {Part.REPLY: self.answer(parts[Part.QUESTION], parts[Part.COMMON])}
                case Verb.RESULT:
                    self.save_result(ResultReference.from_bytes(parts[Part.REFERENCE]), parts[Part.STATE])
                    return {}
            raise MessageError(f"the verb must be join, ask or result, got {verb!r}")
        except Refused as error:
            self.log(f"refused: {error}")
            return {Part.REFUSED: str(error).encode()}
        except Exception as error:
            return self.fail(error)

    def fail(self, error: Exception) -> Parts:
        """Log an error and return the answer that names its class."""
        self.log("".join(traceback.format_exception(error)))
        return {Part.FAILED: type(error).__name__.encode()}

    def log(self, text: str) -> None:
        """Write to the site's own log."""
        self.home.mkdir(parents=True, exist_ok=True)
        with open(self.home / "site.log", "a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(f"{datetime.now(UTC).isoformat(timespec='seconds')} {text.rstrip()}\n")

    def join(self, invitation: Invitation) -> WireSchema:
        """Check an invitation against the policy, accept or refuse it, and describe the table."""
        self._require_allowed(invitation)
        site = self._open(invitation)
        if site.schema.kind == site.method.kind:
            site.prepared  # noqa: B018 - so that bad data are known before the first round
        new = AcceptedInvitation(**invitation.model_dump(), table=site.table.fingerprint())
        path = self._folder(invitation.run) / "invitation.json"
        old = AcceptedInvitation.from_bytes(path.read_bytes()) if path.exists() else new
        if old.table != new.table:
            raise Refused("the site's table must be the one the run was begun on, it has changed since")
        if (old.method, old.parameters, old.seed, old.shields) != (
            new.method,
            new.parameters,
            new.seed,
            new.shields,
        ):
            raise Refused("the run must go on with the method, the seed and the shields it was begun with")
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, new.to_bytes())
        self._sites[invitation.run] = site
        self.log(f"joined run {invitation.run}: {invitation.method}")
        return WireSchema(**dataclasses.asdict(site.schema))

    def _require_allowed(self, invitation: Invitation) -> None:
        minimum, devices = self.settings.privacy.minimum_clients, self.settings.devices
        allowed = {find_method(method).__name__ for method in self.settings.methods}
        if find_method(invitation.method).__name__ not in allowed:
            raise Refused(f"this site approves {', '.join(sorted(allowed)) or 'no method'}, not {invitation.method}")
        device = invitation.parameters.get("device", "cpu")
        if device not in devices:
            raise Refused(f"this site computes on {', '.join(devices)}, not on {device}")
        if not has_device(device):
            raise Refused(f"this site has no GPU that torch finds, and is asked to compute on {device}")
        if invitation.clients < minimum:
            raise Refused(f"this site takes part among at least {minimum} clients, there are {invitation.clients}")

    def _open(self, invitation: Invitation) -> Site:
        """Return the site as a client of a run, with the memory it has of it."""
        method = find_method(invitation.method)(**invitation.parameters)
        table = self.read_table(method.kind)
        if table.rows < self.settings.privacy.minimum_rows:
            raise Refused(f"this site takes part once its table has {self.settings.privacy.minimum_rows} rows")
        seed = invitation.seed if self.settings.random.seed is None else self.settings.random.seed
        store = DiskStore(self._folder(invitation.run) / "memory", method.memory_types)
        shields = [self._shield(name) for name in invitation.shields]
        return Site(method, self.settings.name, table, seed, store, shields=shields)

    def _shield(self, name: str) -> Shield:
        """Return a shield of the site's own by the name an invitation asks for it."""
        if name != "secure_sum":
            raise Refused("this site knows the shield secure_sum and no other")
        if self.settings.identity is None or len(self.settings.peers) < 3:
            raise Refused("this site must have an identity and the keys of at least 3 peers for a secure sum")
        from cotempo.privacy.secure_sum.client import SumClient
        from cotempo.privacy.secure_sum.identity import Identity
        from cotempo.privacy.secure_sum.shield import SecureSumShield
        from cotempo.privacy.secure_sum.vault import DiskVault

        identity = Identity(self.settings.name, bytes.fromhex(Path(self.settings.identity).read_text().strip()))
        peers = {peer: bytes.fromhex(key) for peer, key in self.settings.peers.items()}

        def connect(client: str, run: str) -> SumClient:
            return SumClient(identity, peers, run, vault=DiskVault(self._folder(run) / "secrets"))

        return SecureSumShield(connect)

    def read_table(self, kind: str) -> Table:
        """Read the site's table of a kind."""
        source = self.settings.data if isinstance(self.settings.data, str) else self.settings.data.get(kind)
        if source is None:
            raise Refused(f"this site has no table of {kind}")
        tables = READERS[kind](source)
        if len(tables) > 1 and self.settings.name not in tables:
            raise DataError(f"the data must hold one client, or one named {self.settings.name}, got {len(tables)}")
        table: Table = tables[self.settings.name] if len(tables) > 1 else next(iter(tables.values()))
        return table

    def answer(self, question_bytes: bytes, common: bytes) -> bytes:
        """Answer a question of a run that was joined; the same question gets the same answer."""
        question = dataclasses.replace(question_from_bytes(question_bytes), common=Message.from_bytes(common))
        site = self._site(question.run)
        reply, data = site.answer_idempotent(question, identify_question(question_bytes, common))
        if reply.message is not None:  # the owner of the data can read what left
            expect = Expect({}, is_opaque=site.is_shields_own(question))
            with open(self._folder(question.run) / "messages.jsonl", "a", encoding="utf-8") as file:
                file.write(json.dumps(summarize_message(question, reply.message, expect)) + "\n")
        if reply.failure is not None:
            self.log(f"run {question.run}, step {question.step}: {reply.failure.kind}")
        return data

    def _site(self, run: str) -> Site:
        """Return the client of a run; after a restart open it from the accepted invitation."""
        if run not in self._sites:
            path = self._folder(run) / "invitation.json"
            if not path.is_file():
                raise Refused("this site was not invited to that run")
            accepted = AcceptedInvitation.from_bytes(path.read_bytes())
            self.join(Invitation(**accepted.model_dump(exclude={"table"})))
        return self._sites[run]

    def save_result(self, reference: ResultReference, state: bytes) -> None:
        """Save the result of a run as this site sees it: the server's state and the site's own memory."""
        site = self._site(reference.run)
        name, memory = self.settings.name, site.memory(reference.version)
        memories = {} if memory is None else {name: memory}
        outcome = Outcome(site.method, decode(state, site.method.State), {name: site.schema}, memories)
        site.method.result(outcome).save(self._folder(reference.run) / "result")

    def _folder(self, run: str) -> Path:
        if not re.fullmatch(r"[0-9a-f]{32}", run):
            raise MessageError("a run's identity must be 32 hexadecimal digits")
        return self.home / "runs" / run
