"""The engine: clients are sites, and an exchange is one list of messages on Flower's grid."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping, Sequence

from flwr.serverapp import Grid

from cotempo.data import Schema
from cotempo.engines.flower.desk import from_json, schema_from, to_json
from cotempo.engines.flower.grid import Answer, send
from cotempo.engines.flower.runtime import ServerTask
from cotempo.engines.flower.server import Server
from cotempo.engines.flower.speaking import speaking
from cotempo.engines.settings import FlowerSettings
from cotempo.errors import EngineError, ParameterError
from cotempo.federation.exchange import Question, Reply
from cotempo.federation.message import EMPTY
from cotempo.federation.method import Memory, Method, State
from cotempo.federation.rounds import printable
from cotempo.federation.site import question_to_bytes, receive
from cotempo.storage.tree import encode

GATHERING = 120.0  # seconds for all sites to be there
READING = 600.0  # seconds a site may take at least to read its table


class Flower:
    """Sites across organisations.

    Parameters
    ----------
    settings
        Where the server's folder is, who takes part, and whether sites get the result: they can then see what the
        final state holds of others.
    run
        The run's identity, by which sites find their memory again.
    """

    def __init__(self, method: Method, settings: FlowerSettings, *, run: str, seed: int):
        if settings.server is None:
            raise ParameterError("the engine flower must know the server's folder: [engine] server, or --server")
        self.method = method
        self.server = Server(settings.server)
        self.deadline = 3600.0 if settings.deadline is None else settings.deadline
        self.share_result = settings.share_result
        wanted = sorted(settings.participants) or sorted(
            path.stem for path in (self.server.folder / "sites").glob("*.pub")
        )
        self.invitation = {
            "run": run, "seed": seed, "method": type(method).__name__, "clients": len(wanted), "privacy": {},
            "parameters": method.model_dump(mode="json"),
        }  # fmt: skip
        self._run = run
        self._schemas: dict[str, Schema] = {}
        self._is_finished = False
        with speaking(self.server.local), self.server.alone():
            self.task = ServerTask(self.server.local, self.server.folder)
        try:
            self.wanted = self._gather(wanted)
        except BaseException:
            self.task.close(failed=True)
            raise

    @property
    def grid(self) -> Grid:
        """Where messages go and come from."""
        return self.task.grid

    def _nodes(self) -> dict[str, int]:
        """The sites that are there, by name; names are the server's own, given with the key."""
        with speaking(self.server.local):
            return {node.name: node.node_id for node in self.grid.get_nodes()}

    def _gather(self, wanted: Sequence[str]) -> tuple[str, ...]:
        """Wait until everyone who takes part is there."""
        until = time.monotonic() + GATHERING
        while missing := [name for name in wanted if name not in self._nodes()]:
            if time.monotonic() > until:
                raise EngineError(
                    f"all sites that take part must be joined, {', '.join(missing)} did not within {GATHERING:g} s; "
                    "start them, or name those that take part: [engine] participants"
                )
            time.sleep(0.2)
        return tuple(wanted)

    def names(self) -> tuple[str, ...]:
        """The sites that are there now; once the run is finished, all whose tables were seen in it."""
        here = {*self._nodes(), *(self._schemas if self._is_finished else ())}
        return tuple(name for name in self.wanted if name in here)

    def schemas(self, names: Sequence[str]) -> Mapping[str, Schema]:
        """Invite sites; each says what its table looks like, or why it does not take part."""
        new = [name for name in names if name not in self._schemas]
        invitation = to_json(self.invitation)
        troubles = dict.fromkeys(new, "no answer came")
        for name, parts in self._send("join", {name: {"invitation": invitation} for name in new}):
            trouble = what_instead(parts, "joined")
            if trouble is None:
                self._schemas[name] = schema_from(from_json(parts["joined"])["schema"])
            else:
                troubles[name] = ": ".join(filter(None, trouble))
        if missing := [name for name in new if name not in self._schemas]:
            listed = "\n".join(f"  {name}: {troubles[name]}" for name in missing)
            raise EngineError(
                f"every site that takes part must accept, these do not:\n{listed}\n"
                "Their own logs say more. To go on without them, name those that take part: [engine] participants"
            )
        return {name: self._schemas[name] for name in names}

    def exchange(self, questions: Sequence[Question]) -> Iterator[Reply]:
        """Ask all, and yield what comes back as it comes; what does not come by the deadline is lost."""
        asked = {question.client: question for question in questions}
        common = questions[0].common.to_bytes()  # one for all; Flower uploads it once
        parts = {
            name: {"question": question_to_bytes(question, common=EMPTY), "common": common}
            for name, question in asked.items()
        }
        for name, answer in self._send("ask", parts):
            question, trouble = asked[name], what_instead(answer, "reply")
            if trouble is None:
                yield receive(question, answer["reply"])
            else:
                yield question.fail(*trouble)

    def _send(self, verb: str, parts: Mapping[str, Mapping[str, bytes]]) -> Iterator[tuple[str, Answer]]:
        """Send to the sites that are there and yield their answers as they come."""
        here = self._nodes()
        names = {here[name]: name for name in sorted(parts) if name in here}
        deadline = max(self.deadline, READING) if verb == "join" else self.deadline
        with speaking(self.server.local):
            for node, answer in send(self.grid, verb, {node: parts[names[node]] for node in names}, deadline):
                yield names[node], answer

    def memories(self, ledger: Mapping[str, int]) -> Mapping[str, Memory]:
        """None: sites keep theirs."""
        return {}

    def restore(self, memories: Mapping[str, Memory], ledger: Mapping[str, int]) -> None:
        """Nothing to give back."""

    def finish(self, state: State, ledger: Mapping[str, int]) -> None:
        """Hand the result to the sites, where that was asked for."""
        if self.share_result:
            data = encode(state)
            parts = {
                name: {"about": to_json({"run": self._run, "version": ledger.get(name, 0)}), "state": data}
                for name in self.names()
            }
            for _ in self._send("result", parts):
                pass
        self._is_finished = True
        if missing := set(self.wanted) - set(self.names()):
            warnings.warn(f"away at the end, and not named in the result: {', '.join(sorted(missing))}", stacklevel=2)

    def close(self) -> None:
        """End the Flower run."""
        self.task.close()


def what_instead(answer: Answer, wanted: str) -> tuple[str, str] | None:
    """What came in the place of an answer: a kind of trouble and words about it; `None` where all is well."""
    if "lost" in answer:
        return "Lost", printable(answer["lost"].decode(errors="replace"))
    if "refused" in answer:
        return "Refused", printable(str(from_json(answer["refused"]).get("why")))
    if "failed" in answer:
        return printable(str(from_json(answer["failed"]).get("kind"))), ""
    return None if wanted in answer else ("MessageError", f"the answer has no part {wanted!r}")
