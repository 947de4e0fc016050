"""`LocalEngine`, the base of engines whose clients are on this machine, and `HostedClients` in a worker process.

What is pickled here is written and read by processes of the same user on the same machine, never from elsewhere.
"""

import pickle
import traceback
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property

from cotempo.data import Schema
from cotempo.engines.settings import EngineSettings, Shields, Tables
from cotempo.errors import DataError, ParameterError, Problem
from cotempo.federation.exchange import Question, Reply
from cotempo.federation.method import Memory, Method, State
from cotempo.federation.site import Site
from cotempo.federation.wire import question_from_bytes, reply_to_bytes
from cotempo.storage.store import RamStore
from cotempo.storage.tree import decode, encode


@dataclass(eq=False, repr=False)
class LocalEngine(ABC):
    """An engine that holds the clients' tables and memories in this process, wherever they compute.

    A checkpoint then needs no collecting, and a worker process that dies takes nothing with it. A subclass writes
    `compute`; one with worker processes starts them in `__post_init__` and ends them in `close`.
    """

    method: Method
    tables: Tables
    settings: EngineSettings | None = None
    _: KW_ONLY
    seed: int
    shields: Shields = ()

    @cached_property
    def sites(self) -> dict[str, Site]:
        """The clients by name, in order."""
        return {
            name: Site(self.method, name, self.tables[name], self.seed, RamStore(), shields=self.shields)
            for name in sorted(self.tables)
        }

    def names(self) -> tuple[str, ...]:
        """Return all clients."""
        return tuple(self.sites)

    def schemas(self, names: Sequence[str]) -> Mapping[str, Schema]:
        """Return the clients' schemas; data the method cannot work with are refused here, by client."""
        problems = []
        for name in names:
            if self.tables[name].kind != self.method.kind:
                continue  # for `check` to refuse: `prepare` may count on its own kind of table
            try:
                self.sites[name].prepared  # noqa: B018 - made here, so that bad data are known before round 1
            except DataError as error:
                problems += [Problem(p.must, p.client or name, p.column, p.row) for p in error.problems]
        if problems:
            raise DataError(problems)
        return {name: self.tables[name].schema for name in names}

    def declared_rows(self) -> Mapping[str, int]:
        """Return how many rows each table has."""
        return {name: table.rows for name, table in self.tables.items()}

    def exchange(self, questions: Sequence[Question]) -> Iterable[Reply]:
        """Ask, and yield one reply per question, in any order; what shields ask is answered in this process."""
        if any(questions[0].phase in shield.phases for shield in self.shields):
            return (self.sites[question.client].answer(question) for question in questions)
        if questions[0].then is None:
            return self.compute(questions)
        asked = {question.client: question for question in questions}
        return (self.sites[reply.client].follow(asked[reply.client], reply) for reply in self.compute(questions))

    @abstractmethod
    def compute(self, questions: Sequence[Question]) -> Iterable[Reply]:
        """Let the method answer, wherever this engine's clients compute."""

    def pack_clients(self, names: Iterable[str]) -> bytes:
        """Return everything a worker process needs to be `HostedClients`."""
        if type(self.method).__module__ == "__main__":
            raise ParameterError(
                f"{type(self.method).__name__} must be importable to run in worker processes; it is defined in the "
                "main script. Move it to a module of its own."
            )
        return pickle.dumps((self.method, {name: self.sites[name].table for name in names}, self.seed))

    def memory_bytes(self, question: Question) -> bytes:
        """Return the memory a question starts from, for a worker process; the first one is made there."""
        return encode(self.sites[question.client].store.load(question.base) if question.base else None)

    def accept(self, question: Question, reply: Reply, memory_bytes: bytes) -> Reply:
        """Store the new memory that came with a worker process's reply."""
        if reply.message is None:
            return reply
        memory = decode(memory_bytes, *self.method.memory_types)
        return self.sites[question.client].finish(question, reply.message, memory)

    def memories(self, ledger: Mapping[str, int]) -> Mapping[str, Memory]:
        """Return the counted memory of every client that has one."""
        return {name: self.sites[name].store.load(version) for name, version in ledger.items() if version}

    def restore(self, memories: Mapping[str, Memory], ledger: Mapping[str, int]) -> None:
        """Store memories under the versions the ledger names."""
        for name, memory in memories.items():
            self.sites[name].store.save(ledger[name], memory)

    def finish(self, state: State, ledger: Mapping[str, int]) -> None:  # noqa: B027 - the result is here already
        """Do nothing."""

    def close(self) -> None:  # noqa: B027 - for engines with processes
        """Stop the worker processes."""


class HostedClients:
    """Clients in a worker process: their tables come once, from `pack_clients`, then questions with memories."""

    def __init__(self, packed: bytes):
        method, tables, seed = pickle.loads(packed)
        self.memory_types = method.memory_types
        self.sites = {name: Site(method, name, table, seed, RamStore()) for name, table in tables.items()}

    def answer(self, question_bytes: bytes, memory_bytes: bytes) -> tuple[bytes, bytes, str]:
        """Return the reply, the new memory (`None` if unchanged), and the traceback if the client failed."""
        question = question_from_bytes(question_bytes)
        site = self.sites[question.client]
        if question.base:  # the first memory is made here
            site.store.save(question.base, decode(memory_bytes, *self.memory_types))
        reply = site.answer(question)
        changed = reply.message is not None and reply.version == question.step
        memory = site.store.load(question.step) if changed else None
        trace = "".join(traceback.format_exception(reply.cause)) if reply.cause else ""
        return reply_to_bytes(reply), encode(memory), trace
