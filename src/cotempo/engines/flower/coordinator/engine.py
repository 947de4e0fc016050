"""`Flower`, the engine: clients are sites, and an exchange is one list of messages on Flower's grid."""

import dataclasses
import warnings
from collections.abc import Iterator, Mapping, Sequence

from cotempo.data import Schema
from cotempo.engines.flower.coordinator.grid import send
from cotempo.engines.flower.coordinator.runtime import ServerTask
from cotempo.engines.flower.coordinator.server import Server
from cotempo.engines.flower.processes import wait_until
from cotempo.engines.flower.protocol import Invitation, Part, Parts, ResultReference, Verb, WireSchema, failure_in
from cotempo.engines.flower.transport import translate_http_errors
from cotempo.engines.settings import FlowerSettings
from cotempo.errors import EngineError, ParameterError
from cotempo.federation.exchange import Question, Reply
from cotempo.federation.message import EMPTY
from cotempo.federation.method import Memory, Method, State
from cotempo.federation.wire import parse_reply, question_to_bytes
from cotempo.storage.tree import encode

JOIN_SECONDS = 120.0  # for all sites to be online
READ_SECONDS = 600.0  # a site may take at least this long to read its table
ANSWER_SECONDS = 3600.0


class Flower:
    """Sites across organisations.

    Parameters
    ----------
    settings
        Where the server's folder is, who takes part, and whether sites get the result: they can then see what the
        final state holds of others.
    run
        The run's identity, by which sites find their memory again.
    shields
        The names of those that every site must apply.
    """

    def __init__(self, method: Method, settings: FlowerSettings, *, run: str, seed: int, shields: tuple[str, ...] = ()):
        if settings.server is None:
            raise ParameterError("the engine flower must know the server's folder: [engine] server, or --server")
        self.method = method
        self.settings = settings
        self.server = Server(settings.server)
        self.wanted = tuple(sorted(settings.participants) or self.server.site_names)
        self.invitation = Invitation(
            run=run, seed=seed, method=type(method).__name__, parameters=method.model_dump(mode="json"),
            clients=len(self.wanted), shields=shields,
        )  # fmt: skip
        self._schemas: dict[str, Schema] = {}
        self._is_finished = False
        with translate_http_errors(self.server.local_address), self.server.exclusive():
            self.task = ServerTask(self.server.local_address, self.server.folder)
        try:
            self._wait_for_sites()
        except BaseException:
            self.task.close(failed=True)
            raise

    def _nodes(self) -> dict[str, int]:
        """Return the sites that are online, by the names the server gave their keys."""
        with translate_http_errors(self.server.local_address):
            return {node.name: node.node_id for node in self.task.grid.get_nodes()}

    def _wait_for_sites(self) -> None:
        wait_until(lambda: len(self.names()) == len(self.wanted), JOIN_SECONDS)
        if missing := set(self.wanted) - set(self.names()):
            raise EngineError(
                f"all sites that take part must be joined, {', '.join(sorted(missing))} did not within "
                f"{JOIN_SECONDS:g} s; start them, or name those that take part: [engine] participants"
            )

    def names(self) -> tuple[str, ...]:
        """Return the sites that are online; once the run is finished, also those that were in it."""
        here = {*self._nodes(), *(self._schemas if self._is_finished else ())}
        return tuple(name for name in self.wanted if name in here)

    def schemas(self, names: Sequence[str]) -> Mapping[str, Schema]:
        """Invite sites; each describes its table, or says why it does not take part."""
        failures = {name: "no answer came" for name in names if name not in self._schemas}
        invitation = {Part.INVITATION: self.invitation.to_bytes()}
        for name, parts in self._send(Verb.JOIN, dict.fromkeys(failures, invitation)):
            if failure := failure_in(parts, Part.SCHEMA):
                failures[name] = ": ".join(filter(None, failure))
            else:
                self._schemas[name] = Schema(**WireSchema.from_bytes(parts[Part.SCHEMA]).model_dump())
                del failures[name]
        if failures:
            listed = "\n".join(f"  {name}: {failure}" for name, failure in failures.items())
            raise EngineError(
                f"every site that takes part must accept, these do not:\n{listed}\n"
                "Their own logs say more. To go on without them, name those that take part: [engine] participants"
            )
        return {name: self._schemas[name] for name in names}

    def exchange(self, questions: Sequence[Question]) -> Iterator[Reply]:
        """Ask all, and yield replies as they arrive; what does not arrive by the deadline is lost."""
        asked = {question.client: question for question in questions}
        common = questions[0].common.to_bytes()  # the same for all; Flower uploads it once
        parts = {
            name: {Part.QUESTION: question_to_bytes(dataclasses.replace(question, common=EMPTY)), Part.COMMON: common}
            for name, question in asked.items()
        }
        for name, answer in self._send(Verb.ASK, parts):
            if failure := failure_in(answer, Part.REPLY):
                yield asked[name].fail(*failure)
            else:
                yield parse_reply(asked[name], answer[Part.REPLY])

    def _send(self, verb: Verb, parts: Mapping[str, Parts]) -> Iterator[tuple[str, Parts]]:
        """Send to the sites that are online and yield their answers as they arrive."""
        here = self._nodes()
        names = {here[name]: name for name in sorted(parts) if name in here}
        deadline = self.settings.deadline or ANSWER_SECONDS
        if verb == Verb.JOIN:
            deadline = max(deadline, READ_SECONDS)
        with translate_http_errors(self.server.local_address):
            for node, answer in send(self.task.grid, verb, {node: parts[names[node]] for node in names}, deadline):
                yield names[node], answer

    def memories(self, ledger: Mapping[str, int]) -> Mapping[str, Memory]:
        """Return nothing: sites keep their memories."""
        return {}

    def restore(self, memories: Mapping[str, Memory], ledger: Mapping[str, int]) -> None:
        """Do nothing: sites keep their memories."""

    def finish(self, state: State, ledger: Mapping[str, int]) -> None:
        """Send the result to the sites, if they may have it."""
        if self.settings.share_result:
            data, run = encode(state), self.invitation.run
            references = {name: ResultReference(run=run, version=ledger.get(name, 0)) for name in self.names()}
            parts = {name: {Part.REFERENCE: ref.to_bytes(), Part.STATE: data} for name, ref in references.items()}
            for _ in self._send(Verb.RESULT, parts):
                pass
        self._is_finished = True
        if missing := set(self.wanted) - set(self.names()):
            warnings.warn(f"away at the end, and not named in the result: {', '.join(sorted(missing))}", stacklevel=2)

    def close(self) -> None:
        """End the Flower run."""
        self.task.close()
