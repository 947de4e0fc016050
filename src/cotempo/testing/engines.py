"""Engines that misbehave on purpose."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from cotempo.data import Schema, Table
from cotempo.engines.inprocess import InProcess
from cotempo.engines.settings import InProcessSettings
from cotempo.federation.engine import Engine
from cotempo.federation.exchange import Question, Reply
from cotempo.federation.method import Memory, Method
from cotempo.federation.rng import Rng
from cotempo.federation.site import Site
from cotempo.federation.wire import parse_reply, question_to_bytes
from cotempo.storage.store import DiskStore


class Killed(BaseException):
    """Stands for SIGKILL: nothing catches it."""


class Bytewise(Engine):
    """Everything crosses as bytes, memory is read from disk, every message finds a fresh site.

    Questions go out in random order, and a third of them twice.
    """

    def __init__(self, method: Method, clients: Mapping[str, Table], folder: Path, *, seed: int = 0):
        self.method = method
        self.clients = dict(clients)
        self.folder = folder
        self.seed = seed

    def site(self, name: str) -> Site:
        """Return a site as a newly started process would make it."""
        store = DiskStore(self.folder / name, self.method.memory_types)
        return Site(self.method, name, self.clients[name], self.seed, store)

    def names(self) -> tuple[str, ...]:
        """All clients."""
        return tuple(sorted(self.clients))

    def schemas(self, names: Sequence[str]) -> Mapping[str, Schema]:
        """What the clients' tables look like."""
        return {name: self.clients[name].schema for name in names}

    def exchange(self, questions: Sequence[Question]) -> Iterator[Reply]:
        """Ask by bytes, shuffled, some twice."""
        stream = Rng(self.seed, "bytewise", questions[0].step)("order")
        doubled = [*questions, *(question for question in questions if stream.random() < 1 / 3)]
        for index in stream.permutation(len(doubled)):
            question = doubled[index]
            yield parse_reply(question, self.site(question.client).answer_bytes(question_to_bytes(question)))


Tamper = Callable[[Question, Reply], Reply | None]


class Faulty(Engine):
    """Wrap an engine: lose questions, tamper with replies, let clients come and go, die in the middle.

    Parameters
    ----------
    deliver
        Says whether a question reaches its client.
    tamper
        Changes a reply on its way back, or loses it (`None`).
    present
        Says who is there at the time of the n-th call of `names`.
    kill
        `(step, point)` to die at: `"ask"`, `"reply"` or `"exchange"`.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        deliver: Callable[[Question], bool] = lambda question: True,
        tamper: Tamper = lambda question, reply: reply,
        present: Callable[[int, Sequence[str]], Sequence[str]] = lambda call, names: names,
        kill: tuple[int, str] | None = None,
    ):
        self.engine = engine
        self.deliver = deliver
        self.tamper = tamper
        self.present = present
        self.kill = kill
        self.calls = 0

    def names(self) -> tuple[str, ...]:
        """Who is there now."""
        self.calls += 1
        return tuple(self.present(self.calls, self.engine.names()))

    def schemas(self, names: Sequence[str]) -> Mapping[str, Schema]:
        """What the clients' tables look like."""
        return self.engine.schemas(names)

    def declared_rows(self) -> Mapping[str, int]:
        """How many rows they said they have."""
        return self.engine.declared_rows()

    def exchange(self, questions: Sequence[Question]) -> Iterator[Reply]:
        """Exchange, with faults."""
        step = questions[0].step
        self._die(step, "ask")
        by_client = {question.client: question for question in questions}
        delivered = [question for question in questions if self.deliver(question)]
        replies: Iterable[Reply] = self.engine.exchange(delivered) if delivered else ()
        for reply in replies:
            tampered = self.tamper(by_client[reply.client], reply)
            if tampered is not None:
                yield tampered
            self._die(step, "reply")
        self._die(step, "exchange")

    def _die(self, step: int, point: str) -> None:
        if self.kill == (step, point):
            raise Killed

    def memories(self, ledger: Mapping[str, int]) -> Mapping[str, Memory]:
        """As the wrapped engine."""
        return self.engine.memories(ledger)


def direct(method: Method, clients: Mapping[str, Table], *, batched: bool = False) -> InProcess:
    """The default engine, looped unless asked otherwise."""
    return InProcess(method, clients, InProcessSettings(batched=batched), seed=0)
