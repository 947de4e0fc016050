"""`SiteService`: what a site answers to each verb of the protocol, within its `SiteSettings`; without Flower."""

import dataclasses
import errno
import json
import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from cotempo.alerts import NEARLY_SPENT, Alerts
from cotempo.data import READERS, Series, Table
from cotempo.devices import has_device
from cotempo.engines.flower.protocol import Consents, Part, Parts, ResultReference, Verb, WireSchema
from cotempo.engines.flower.site.joined import Accepted, JoinedRun
from cotempo.engines.flower.site.log import REFUSED, SiteLog
from cotempo.engines.flower.site.meeting import Meeting
from cotempo.engines.flower.site.settings import SiteSettings
from cotempo.engines.flower.site.words import clear_phases
from cotempo.errors import AwaitingApproval, DataError, MessageError, ParameterError
from cotempo.federation.exchange import Expect, Question, Reply
from cotempo.federation.fitted import Outcome
from cotempo.federation.message import Message
from cotempo.federation.method import Method
from cotempo.federation.registry import find_method, import_modules
from cotempo.federation.rng import Rng
from cotempo.federation.shields import Shield
from cotempo.federation.site import Site
from cotempo.federation.wire import identify_question, question_from_bytes, summarize_message
from cotempo.privacy.approval import ENDED, Request, RequestInbox
from cotempo.privacy.contract import CODE_VERSION, Consent, Contract, are_neighbours
from cotempo.privacy.keys import PeerBook, SiteKeys
from cotempo.privacy.ledger import Ledger, LedgerChanged, require_no_difference
from cotempo.privacy.noise import Noise
from cotempo.privacy.policy import Refused, require_as_read
from cotempo.privacy.private_form import PrivateForm
from cotempo.privacy.questions import QuestionLog
from cotempo.privacy.secure_sum.client import SumClient, read_names
from cotempo.privacy.secure_sum.shield import ECHO, MASKED, UNMASK, SecureSumShield
from cotempo.privacy.secure_sum.vault import DiskVault
from cotempo.storage.files import private, write_whole
from cotempo.storage.store import DiskStore
from cotempo.storage.tree import decode

CHANGED = "the record of what left this site was changed, and nothing is answered before its people have looked at it"


class SiteService:
    """One site, for as many runs as it is asked to join.

    In `home`, inside the folder of the kit, it keeps its ledger and a folder per run, with its memory, its answers, and
    a record of everything it was asked and sent.
    """

    def __init__(self, settings: SiteSettings, home: Path):
        self.settings = settings
        self.home = home
        self.ledger = Ledger(home / "ledger.jsonl")
        self.inbox = RequestInbox(home)
        self.meeting: Meeting | None = None  # to which the last answer leads
        self.log = SiteLog(home, settings.name, as_json=settings.log == "json")
        self.alerts = Alerts(settings.alerts, self.log)
        self._runs: dict[str, JoinedRun] = {}
        import_modules(settings.imports, home.parent)  # the site's own choice, never the contract's

    @cached_property
    def keys(self) -> SiteKeys:
        """The site's keys."""
        return SiteKeys.load(self.settings.name, self.home.parent / "keys")

    @property
    def peers(self) -> PeerBook:
        """The keys this site has pinned, as they are now."""
        path = self.home.parent / "peers.toml"
        if not path.is_file():
            raise Refused("this site has pinned no keys; it must, with: cotempo client pin")
        return PeerBook.from_file(path)

    def handle(self, verb: Verb, parts: Parts) -> Parts:
        """Answer a verb; of an error only the class name leaves, the rest stays in the site's log."""
        try:
            if verb != Verb.RESULT:  # a site that is paused hears that a run has ended, and sends nothing
                self.inbox.require_running()
            self.ledger.require_whole()
            match verb:
                case Verb.JOIN:
                    schema, consent = self.join(parts[Part.CONTRACT], parts[Part.SIGNATURE].decode())
                    return {Part.SCHEMA: schema.to_bytes(), Part.CONSENT: consent.model_dump_json().encode()}
                case Verb.AGREE:
                    self.agree(Consents.from_bytes(parts[Part.CONSENTS]))
                    return {}
                case Verb.ASK:
                    return {Part.REPLY: self.answer(parts[Part.QUESTION], parts[Part.COMMON])}
                case Verb.RESULT:
                    self.end(ResultReference.from_bytes(parts[Part.REFERENCE]), parts.get(Part.STATE))
                    return {}
            raise MessageError(f"the verb must be join, agree, ask or result, got {verb!r}")
        except LedgerChanged as error:
            return self._refuse(CHANGED, f"{CHANGED}: {error}", f"the ledger of {self.settings.name}")
        except Refused as error:
            return self._refuse(str(error), str(error), self.settings.name)
        except AwaitingApproval as error:
            return {Part.WAITING: str(error).encode()}
        except Exception as error:
            return self.fail(error)

    def _refuse(self, said: str, noted: str, about: str) -> Parts:
        """Return a refusal, and tell people at the site, who may know more than leaves."""
        self.log(f"{REFUSED}{noted}", "refused")
        self.alerts.tell("refused", about, noted)
        return {Part.REFUSED: said.encode()}

    def fail(self, error: Exception) -> Parts:
        """Log an error and return the answer that names its class, or that the disk is full."""
        self.log.fail(error)
        is_full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
        return {Part.FAILED: ("DiskFull" if is_full else type(error).__name__).encode()}

    def join(self, data: bytes, signature: str) -> tuple[WireSchema, Consent]:
        """Check a contract against keys, policy, ledger and people; refuse it, or sign it and describe the table."""
        contract = Contract.from_bytes(data)
        self._require_signed(contract, signature)
        old = self._accepted(contract.run)
        if old is not None and not contract.continues(Contract.from_bytes(old.contract.encode())):
            raise Refused("the run must go on under the contract it was begun with, it was changed")
        if old is None and self.ledger.find_run(contract.run) is not None:
            raise Refused(
                "this site took part in that run and has no record of its answers any more; begin another run"
            )
        if self.inbox.is_known(contract):  # a coordinator that waits asks often: the table is not read each time
            self.inbox.require_allowed(contract, ask=self.settings.approval.ask)
        joined = self._open(contract)
        if old is not None and old.table != joined.table:
            raise Refused("the site's table must be the one the run was begun on, it has changed since")
        self._require_unspent(joined)
        if self.settings.approval.ask:
            self.inbox.submit(Request.of(contract, joined.site.table))
            self.log(f"asked to join run {contract.run}: {contract.method}", "asked")
        self.inbox.require_allowed(contract, ask=self.settings.approval.ask)
        if joined.site.schema.kind == joined.site.method.kind:
            joined.site.prepared  # noqa: B018 - so that bad data are known before the first round
        joined.history = None if old is None else old.history
        self._runs[contract.run] = joined
        self._keep(joined)
        self.log(
            f"joined run {contract.run}: {contract.method} among {', '.join(sorted(contract.participants))}", "joined"
        )
        told, rows = joined.site.schema, None if contract.privacy.get("secure_sum") else joined.site.table.rows
        if isinstance(joined.site.method, PrivateForm):
            told, rows = joined.site.method.public_schema(told), None
        schema = WireSchema(**dataclasses.asdict(told), rows=rows)
        history = self.ledger.history(contract, joined.table)
        return schema, Consent(signature=contract.sign(self.keys.identity, "site", history), history=history)

    def agree(self, consents: Consents) -> None:
        """Check that all participants signed the contract of a run; without it nothing is answered."""
        joined = self._joined(consents.run)
        if missing := joined.contract.unsigned(consents.sites):
            raise Refused(f"every participant must have signed this contract, {', '.join(missing)} did not")
        told = {tuple(members) for consent in consents.sites.values() for members in consent.history}
        history = [list(members) for members in sorted(told)]
        require_no_difference(history, joined.contract.participants)
        joined.history = history
        self._keep(joined)

    def _require_signed(self, contract: Contract, signature: str) -> None:
        """Refuse a contract of strangers, or of another version of the code."""
        peers, own = self.peers, self.settings.name
        if contract.coordinator != peers.coordinator or not contract.is_from_coordinator(signature):
            raise Refused("the contract must be signed with the coordinator's key that this site has pinned")
        if contract.participants.get(own) != self.keys.identity.public.hex():
            raise Refused(f"the contract must name {own} with its own key, it does not")
        pinned = {name: key.hex() for name, key in peers.signing.items()}
        if strangers := [name for name, key in sorted(contract.participants.items()) if pinned.get(name) != key]:
            raise Refused(
                "the contract must name every participant with the key this site has pinned, "
                f"{', '.join(strangers)[:200]} has another; compare fingerprints, then: cotempo client pin"
            )
        if not are_neighbours(contract.version, CODE_VERSION):
            raise Refused(
                "site and coordinator must run the same release of cotempo or consecutive ones, "
                f"{CODE_VERSION} here, got {contract.version}; upgrade release by release"
            )

    def _require_unspent(self, joined: JoinedRun) -> None:
        """Refuse a run that the ledger forbids."""
        contract, budget = joined.contract, self.settings.privacy.budget
        self.ledger.require_budget(contract, joined.site.schema.kind, budget)
        require_no_difference(self.ledger.history(contract, joined.table), contract.participants)

    def _tell_of_budget(self, kind: str) -> None:
        """Tell people at the site before the budget is spent."""
        spent, budget = self.ledger.spent(kind), self.settings.privacy.budget
        if budget is not None and spent >= NEARLY_SPENT * budget:
            self.alerts.tell("budget nearly spent", kind, f"of the budget of {budget:g} for {kind}, {spent:g} is spent")

    def _require_method(self, contract: Contract) -> Method:
        """Refuse a method, a parameter or a device that this site does not approve; return the method."""
        devices = self.settings.devices
        allowed = {find_method(method).__name__ for method in self.settings.methods}
        try:
            asked = find_method(contract.method)
        except ParameterError:
            raise Refused(f"this site has no method {contract.method!r}") from None
        if asked.__name__ not in allowed:
            raise Refused(f"this site approves {', '.join(sorted(allowed)) or 'no method'}, not {contract.method}")
        try:
            method = asked(**contract.parameters)
        except ParameterError as error:
            raise Refused(f"cotempo {CODE_VERSION} at this site must know the method's parameters: {error}") from error
        require_as_read(contract.parameters, method.model_dump(mode="json"))
        self.settings.privacy.require_parameters(method, self.settings.parameters)
        device = getattr(method, "device", "cpu")
        if device not in devices:
            raise Refused(f"this site computes on {', '.join(devices)}, not on {device}")
        if not has_device(device):
            raise Refused(f"this site has no GPU that torch finds, and is asked to compute on {device}")
        return self.settings.privacy.guard(method)

    def _open(self, contract: Contract) -> JoinedRun:
        """Return the run with the site as its client, and the memory it has of it."""
        policy, name = self.settings.privacy, self.settings.name
        method, privacy = self._require_method(contract), policy.require_privacy(contract)
        table = self.read_table(method.kind)
        policy.require_rows(method, table)
        contents = table.fingerprint()
        if policy.weigh_rows and not self.settings.random.shared and isinstance(table, Series):
            # The same weights in every run: over many runs, others would average out.
            table = table.weigh_rows(Rng(self.keys.seed_of("row weights"), contents)("weights"))
        if privacy.epsilon is not None:
            method = method.private(privacy)
        secure_sum = self._secure_sum(contract, clear_phases(method, table.schema)) if privacy.secure_sum else None
        shields: list[Shield] = [] if secure_sum is None else [secure_sum]
        if isinstance(method, PrivateForm):
            shields = [Noise.among(method, shields, self._folder(contract.run) / "noised.json"), *shields]
        seed = contract.seed if self.settings.random.shared else self.keys.seed_of(contract.run)
        store = DiskStore(self._folder(contract.run) / "memory", method.memory_types)
        site = Site(method, name, table, seed, store, shields=shields)
        questions = QuestionLog(self._folder(contract.run) / "questions.jsonl", method)
        return JoinedRun(contract, site, contents, questions)

    def _secure_sum(self, contract: Contract, clear: Sequence[str] | None) -> SecureSumShield:
        """Return the site's part in secure sums among the participants of a contract."""
        peers = {peer: bytes.fromhex(key) for peer, key in contract.participants.items()}

        def connect(client: str, run: str) -> SumClient:
            return SumClient(self.keys.identity, peers, run, vault=DiskVault(self._folder(run) / "secrets"))

        return SecureSumShield(connect, clear)

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
        """Answer a question of a run that all have signed; the same question gets the same answer."""
        question = dataclasses.replace(question_from_bytes(question_bytes), common=Message.from_bytes(common))
        reply, data = self._answer(question, identify_question(question_bytes, common))
        self.meeting = Meeting.after(question, reply)
        return data

    def answer_met(self, meeting: Meeting, words: Sequence[str]) -> bytes | None:
        """Answer, unasked, what the words of all in a meeting allow; `None` if they do not."""
        try:
            reply, data = self._answer(meeting.question(words), "")
        except Exception as error:
            self.fail(error)
            return None
        return None if reply.message is None else data

    def _answer(self, question: Question, identity: str) -> tuple[Reply, bytes]:
        joined = self._joined(question.run)
        site, contract = joined.site, joined.contract
        decision = self.inbox.require_allowed(contract, ask=self.settings.approval.ask)
        if joined.history is None:
            raise Refused("every participant must have signed the contract before anything is asked")
        if self.ledger.find_end(question.run) and not joined.questions.has_step(question.step):
            raise Refused(f"{ENDED}, as its coordinator said; nothing new is answered")
        for asked in filter(None, (question, question.then)):
            joined.questions.admit(asked, is_shields_own=site.is_shields_own(asked))
        if self.ledger.find_run(question.run) is None:
            self._require_unspent(joined)
            self.ledger.begin(contract, site.schema.kind, joined.table, decision.by if decision else "site.toml")
            self._tell_of_budget(site.schema.kind)
        last = question.then or question
        if last.phase in (MASKED, ECHO):  # the site signs over whom a sum will be
            signed = read_names(last.common["members" if last.phase == MASKED else "survivors"])
            require_no_difference([*joined.history, *self.ledger.history(contract, joined.table)], signed)
        reply, data = site.answer_idempotent(question, identity)
        if reply.message is not None:
            self._enter_message(joined, question, reply.message)
        if reply.failure is not None:
            self.log(f"run {question.run}, step {question.step}: {reply.failure.kind}", "failed")
        return reply, data

    def _enter_message(self, joined: JoinedRun, question: Question, message: Message) -> None:
        """Record a message that leaves: field by field for the owner of the data, and its size in the ledger."""
        if message.nbytes > self.settings.privacy.megabytes * 1e6:
            raise Refused(
                f"this site sends at most {self.settings.privacy.megabytes:g} megabytes at once; this answer has more"
            )
        is_shields_own = joined.site.is_shields_own(question.then or question)
        is_masked = (question.then or question).phase == MASKED
        expect = Expect({}, sums=is_masked, is_opaque=is_shields_own)
        record = {**summarize_message(question, message, expect), "masked": is_masked}
        with open(self._folder(question.run) / "messages.jsonl", "a", encoding="utf-8", opener=private) as file:
            file.write(json.dumps(record) + "\n")
        if question.phase == UNMASK and (survivors := joined.survivors) not in joined.sums:
            self.ledger.append("sum", question.run, participants=survivors)
            joined.sums.append(survivors)
        if is_masked or (not is_shields_own and len(message)):
            self.ledger.append(
                "message", question.run, step=question.step, phase=question.phase, bytes=message.nbytes,
                is_masked=is_shields_own,
            )  # fmt: skip

    def _joined(self, run: str) -> JoinedRun:
        """Return a run; after a restart open it from what was accepted."""
        if run not in self._runs:
            accepted = self._accepted(run)
            if accepted is None:
                raise Refused("this site was not invited to that run")
            joined = self._open(Contract.from_bytes(accepted.contract.encode()))
            if joined.table != accepted.table:
                raise Refused("the site's table must be the one the run was begun on, it has changed since")
            joined.history = accepted.history
            self._runs[run] = joined
        return self._runs[run]

    def _accepted(self, run: str) -> Accepted | None:
        path = self._folder(run) / "accepted.json"
        return Accepted.read(json.loads(path.read_bytes()), str(path)) if path.is_file() else None

    def contract(self, run: str) -> Contract | None:
        """Return the contract that this site accepted for a run."""
        accepted = self._accepted(run)
        return None if accepted is None else Contract.from_bytes(accepted.contract.encode())

    def _keep(self, joined: JoinedRun) -> None:
        """Store what was accepted."""
        contract = joined.contract.to_bytes().decode()
        kept = Accepted(contract=contract, table=joined.table, history=joined.history)
        write_whole(self._folder(joined.contract.run) / "accepted.json", kept.model_dump_json().encode())

    def end(self, reference: ResultReference, state: bytes | None) -> None:
        """Note that a run has ended, and save its result if the coordinator shares it."""
        if self._accepted(reference.run) is None:
            raise Refused("this site was not invited to that run")
        self.ledger.end(reference.run)
        self.log(f"run {reference.run} has ended", "ended")
        if state is not None:
            self._save_result(reference, state)
        self._runs.pop(reference.run, None)  # with its table; opened again if somebody asks again

    def _save_result(self, reference: ResultReference, state: bytes) -> None:
        """Save the result of a run as this site sees it: the server's state and the site's own memory."""
        site = self._joined(reference.run).site
        name, memory = self.settings.name, site.memory(reference.version)
        memories = {} if memory is None else {name: memory}
        outcome = Outcome(site.method, decode(state, site.method.State), {name: site.schema}, memories)
        site.method.result(outcome).save(self._folder(reference.run) / "result")

    def _folder(self, run: str) -> Path:
        if not re.fullmatch(r"[0-9a-f]{32}", run):
            raise MessageError("a run's identity must be 32 hexadecimal digits")
        return self.home / "runs" / run
