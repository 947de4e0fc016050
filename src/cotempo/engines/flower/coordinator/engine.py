"""`Flower`, the engine: clients are sites, and this process is the ServerApp of a Flower run."""

import dataclasses
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence

from cotempo.data import Schema
from cotempo.engines.flower.coordinator.heard import shown_key, silent_sites
from cotempo.engines.flower.coordinator.server import Server
from cotempo.engines.flower.coordinator.task import ServerTask
from cotempo.engines.flower.processes import Backoff, wait_until
from cotempo.engines.flower.protocol import (
    Consents,
    Envelope,
    Part,
    Parts,
    ResultReference,
    Verb,
    WireSchema,
    failure_in,
)
from cotempo.engines.flower.transport import Outbox, send
from cotempo.engines.flower.wire import translate_http_errors
from cotempo.engines.settings import OFF, FlowerSettings
from cotempo.errors import AwaitingApproval, EngineError, ParameterError
from cotempo.federation.exchange import Question, Reply
from cotempo.federation.message import EMPTY
from cotempo.federation.method import Memory, Method, State
from cotempo.federation.wire import parse_reply, question_to_bytes
from cotempo.privacy.contract import CODE_VERSION, Consent, Contract
from cotempo.privacy.orders import require_order
from cotempo.privacy.private_form import PrivateForm
from cotempo.privacy.secure_sum.shield import MASKED, UNMASK
from cotempo.privacy.settings import Privacy
from cotempo.storage.tree import encode

JOIN_SECONDS = 120.0  # for all sites to be online
READ_SECONDS = 600.0  # a site may take at least this long to read its table
ANSWER_SECONDS = 3600.0
END_SECONDS = 30.0  # for a site to note that a run has ended: the run does not depend on it
REPEAT_SECONDS = 60.0  # until a site that does not answer is asked again, which gives what it has computed
ASK_AGAIN_SECONDS = 1.0, 30.0  # between two questions to a site that asks its people, at first and at most


class Flower:
    """Sites across organisations, which find their memory again by the identity of a `run`.

    With `settings.share_result` they see the final state, and what it holds of others. Every site must sign the
    `contract`, which says what the run is and, by `privacy`, what protects its messages.
    """

    def __init__(self, method: Method, settings: FlowerSettings, *, run: str, seed: int, privacy: Privacy = OFF):
        if settings.server is None:
            raise ParameterError("the engine flower must know the server's folder: [engine] server, or --server")
        self.settings = settings
        self.server = Server(settings.server)
        self.wanted = settings.client_names({})
        if paused := sorted({*self.wanted} & self.server.paused):
            raise EngineError(
                f"sites that take part must not be paused, {', '.join(paused)} is; ask it again with: cotempo server "
                "pause --off, or name those that take part: [engine] participants"
            )
        asked = method.inner if isinstance(method, PrivateForm) else method
        self.contract = Contract(
            run=run, seed=seed, method=type(asked).__name__, parameters=asked.model_dump(mode="json"),
            participants=self.server.signing_keys(self.wanted), coordinator=self.server.identity.public.hex(),
            privacy=privacy.model_dump(mode="json"), version=CODE_VERSION, purpose=settings.purpose,
        )  # fmt: skip
        require_order(self.server.folder, settings.order, self.contract)
        self._consents: dict[str, Consent] = {}
        self._schemas: dict[str, Schema] = {}
        self._awaited: set[str] = set()
        self._rows: dict[str, int] = {}
        self._spoken: dict[str, int] = {}  # the version of the protocol that was agreed with each site
        self._meeting: object = None  # the session whose second question sites may have answered by themselves
        self._is_finished = False
        self._open: dict[int, Question] = {}  # by node, what was asked and not yet answered
        with translate_http_errors(self.server.local_address), self.server.exclusive():
            self.task = ServerTask(self.server, run)
        self._outbox = Outbox(self.task, ask_again=REPEAT_SECONDS)
        try:
            wait_until(lambda: not self._missing(), JOIN_SECONDS)
            if missing := self._missing():
                raise EngineError(
                    f"all sites that take part must be joined, {missing} did not within {JOIN_SECONDS:g} s; start "
                    "them, or name those that take part: [engine] participants"
                )
        except BaseException:
            self.task.close(failed=True)
            raise

    def _nodes(self) -> dict[str, int]:
        """Return the sites that are online and not paused; where nobody is, wait a while.

        A server that was started again knows of no site until it hears of one.
        """
        if not (found := self._online()) and not self._is_finished:
            wait_until(lambda: bool(self._online()), JOIN_SECONDS)
            found = self._online()
        return found

    def _online(self) -> dict[str, int]:
        """Return the sites that are online and not paused, by the names the server gave their keys."""
        with translate_http_errors(self.server.local_address):
            nodes, paused = self.task.nodes(), self.server.paused
            return {name: node for name, node in nodes.items() if name not in paused}

    def _missing(self) -> str:
        return ", ".join(sorted({*self.wanted} - {*self.names()}))

    def names(self) -> tuple[str, ...]:
        """Return the sites that are online; once the run is finished, also those that were in it."""
        here = {*self._nodes(), *(self._schemas if self._is_finished else ())}
        return tuple(name for name in self.wanted if name in here)

    def silence(self) -> Mapping[str, float]:
        """Return the sites that the server has not heard of for seconds, and when it last did."""
        return silent_sites(self.server.folder, self.wanted)

    def schemas(self, names: Sequence[str]) -> Mapping[str, Schema]:
        """Have sites sign the contract and describe their tables, or say why they do not take part."""
        new = [name for name in names if name not in self._schemas]
        signature = self.contract.sign(self.server.identity, "coordinator").encode()
        invitation = {Part.CONTRACT: self.contract.to_bytes(), Part.SIGNATURE: signature}
        found = self._require_all(Verb.JOIN, dict.fromkeys(new, invitation), Part.SCHEMA)
        for name, parts in found.items():
            schema = WireSchema.from_bytes(parts[Part.SCHEMA])
            self._schemas[name] = Schema(**schema.model_dump(exclude={"rows"}))
            self._rows |= {} if schema.rows is None else {name: schema.rows}
            self._consents[name] = Consent.model_validate_json(parts[Part.CONSENT])
        if new:
            signed = Consents(run=self.contract.run, sites=self._consents).to_bytes()
            self._require_all(Verb.AGREE, {name: {Part.CONSENTS: signed} for name in new}, None)
        return {name: self._schemas[name] for name in names}

    def declared_rows(self) -> Mapping[str, int]:
        """Return how many rows sites said they have; under a secure sum they do not."""
        return self._rows

    def _require_all(self, verb: Verb, sent: Mapping[str, Parts], wanted: Part | None) -> dict[str, Parts]:
        """Return the answer of every site; raise `EngineError` that names those that refuse or do not answer.

        Sites that ask their people are asked again until these have decided, or patience ends.
        """
        found, failures, waiting, left = dict[str, Parts](), dict[str, str](), dict[str, str](), dict(sent)
        until, pauses = time.monotonic() + self.settings.patience, Backoff(*ASK_AGAIN_SECONDS)
        while left and not failures:
            waiting, failures = {}, dict.fromkeys(left, "no answer came")
            for name, parts in self._send(verb, left):
                del failures[name]
                if failure := failure_in(parts, wanted):
                    (waiting if Part.WAITING in parts else failures)[name] = ": ".join(filter(None, failure))
                else:
                    found[name] = parts
            left = {name: sent[name] for name in waiting}
            if waiting and not failures:
                self._wait_for_people(waiting, until, pauses.next())
        if failures:
            raise EngineError(
                f"every site that takes part must accept, these do not:\n{_listed(failures | waiting)}\n"
                "Their own logs say more. To go on without them, name those that take part: [engine] participants"
            )
        return found

    def _wait_for_people(self, waiting: Mapping[str, str], until: float, seconds: float) -> None:
        """Say who has not decided yet, and wait; raise `AwaitingApproval` at the end of patience."""
        if time.monotonic() + seconds > until:
            raise AwaitingApproval(
                f"people must approve the run, at these sites they have not yet:\n{_listed(waiting)}\n"
                "With a run folder, go on once they have: cotempo resume; to wait longer: [engine] patience"
            )
        if {*waiting} != self._awaited:
            self._awaited = {*waiting}
            warnings.warn(f"waiting for people at {', '.join(sorted(waiting))} to approve the run", stacklevel=2)
        time.sleep(seconds)

    def exchange(self, questions: Sequence[Question]) -> Iterator[Reply]:
        """Ask all, and yield replies as they arrive; what does not arrive by the deadline is lost.

        What was asked in an exchange that was left early is waited for, not asked again.
        """
        met = self._met(questions)
        for question in questions:
            if question.client in met:
                yield parse_reply(question, met[question.client])
        yield from self._ask([question for question in questions if question.client not in met])

    def _ask(self, questions: Sequence[Question]) -> Iterator[Reply]:
        """Ask the sites that are online what they were not asked yet, and yield all replies as they arrive."""
        wanted = {(question.client, question.step) for question in questions}
        self._outbox.drop([node for node, one in self._open.items() if (one.client, one.step) not in wanted])
        self._open = {node: one for node, one in self._open.items() if (one.client, one.step) in wanted}
        out = {question.client for question in self._open.values()}
        here, commons, envelopes = self._nodes(), dict[int, bytes](), dict[int, Envelope]()
        new = {here[one.client]: one for one in questions if one.client in here and one.client not in out}
        for node, question in new.items():
            if question.step not in commons:  # the same for all that are asked in a step; Flower uploads it once
                commons[question.step] = question.common.to_bytes()
            own = question_to_bytes(dataclasses.replace(question, common=EMPTY))
            parts = {Part.QUESTION: own, Part.COMMON: commons[question.step]}
            envelopes[node] = Envelope.write(Verb.ASK, parts, self._spoken.get(question.client))
        self._open |= new
        self._outbox.add(envelopes, self.settings.deadline or ANSWER_SECONDS)
        for question in questions:
            if question.client not in here and question.client not in out:
                yield question.fail("Lost", "no answer came")
        with translate_http_errors(self.server.local_address):
            for node, answer in self._outbox.arriving():
                yield self._reply(self._open.pop(node), answer)

    def _reply(self, question: Question, answer: Envelope | None) -> Reply:
        """Return what a site answered, or why it does not count."""
        if answer is None:
            return question.fail("Lost", "no answer came")
        if answer.common_version is not None:
            self._spoken[question.client] = answer.common_version
        if failure := failure_in(answer.parts, Part.REPLY):
            return question.fail(*failure)
        return parse_reply(question, answer.parts[Part.REPLY])

    def _met(self, questions: Sequence[Question]) -> dict[str, bytes]:
        """Return the answers that sites gave to each other's signatures, before these were sent to them."""
        last, session = questions[0].then or questions[0], self._meeting
        self._meeting = last.common["session"] if last.phase == MASKED and "session" in last.own else None
        if session is None or last.phase != UNMASK or last.common["session"] != session:
            return {}
        with translate_http_errors(self.server.local_address):
            found = self.task.collect(str(session))
        keys = {question.client: shown_key(self.server.folder, question.client) for question in questions}
        return {name: found[key] for name, key in keys.items() if key in found}

    def _send(
        self, verb: Verb, parts: Mapping[str, Parts], seconds: float = ANSWER_SECONDS
    ) -> Iterator[tuple[str, Parts]]:
        """Send to the sites that are online and yield their answers as they arrive."""
        here = self._nodes()
        names = {here[name]: name for name in sorted(parts) if name in here}
        deadline = max(min(self.settings.deadline or seconds, seconds), READ_SECONDS if verb == Verb.JOIN else 0.0)
        envelopes = {node: Envelope.write(verb, parts[name], self._spoken.get(name)) for node, name in names.items()}
        with translate_http_errors(self.server.local_address):
            for node, answer in send(self.task, envelopes, deadline):
                if answer.common_version is not None:
                    self._spoken[names[node]] = answer.common_version
                yield names[node], answer.parts

    def memories(self, ledger: Mapping[str, int]) -> Mapping[str, Memory]:
        """Return nothing: sites keep their memories."""
        return {}

    def restore(self, memories: Mapping[str, Memory], ledger: Mapping[str, int]) -> None:
        """Have sites, which keep their memories, sign the contract now that all are here: later some may be away."""
        self.schemas(self.names())

    def finish(self, state: State, ledger: Mapping[str, int]) -> None:
        """Tell the sites that are online that the run has ended, with the result if they may have it."""
        self._is_finished = not self.settings.share_result
        shared = {Part.STATE: encode(state)} if self.settings.share_result else {}
        versions = {name: ledger.get(name, 0) for name in self.names()}
        parts = {
            name: {Part.REFERENCE: ResultReference(run=self.contract.run, version=version).to_bytes(), **shared}
            for name, version in versions.items()
        }
        list(self._send(Verb.RESULT, parts, ANSWER_SECONDS if shared else END_SECONDS))
        self._is_finished = True
        if missing := self._missing():
            warnings.warn(f"away at the end, and not named in the result: {missing}", stacklevel=2)

    def close(self) -> None:
        """End the Flower run."""
        self.task.close()


def _listed(reasons: Mapping[str, str]) -> str:
    return "\n".join(f"  {name}: {reason}" for name, reason in sorted(reasons.items()))
