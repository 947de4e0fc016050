"""`LocalEngine`: the base of every engine whose clients are on this machine."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property

from cotempo.data import Schema, Table
from cotempo.engines.settings import EngineSettings
from cotempo.errors import DataError, Problem
from cotempo.federation.exchange import Question, Reply
from cotempo.federation.method import Memory, Method, State
from cotempo.federation.shields import Shield
from cotempo.federation.site import Site
from cotempo.storage.store import RamStore
from cotempo.storage.tree import encode


@dataclass(eq=False, repr=False)
class LocalEngine(ABC):
    """An engine that holds the clients' tables and memories in this process, wherever they compute.

    A checkpoint then needs no collecting, and a worker process that dies takes nothing with it. A subclass writes
    `compute`, and `close` if it has something to close.
    """

    method: Method
    tables: Mapping[str, Table]
    settings: EngineSettings | None = None
    _: KW_ONLY
    seed: int
    shields: Sequence[Shield] = ()

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

    def exchange(self, questions: Sequence[Question]) -> Iterable[Reply]:
        """Ask, and yield one reply per question, in any order; what shields ask is answered in this process."""
        if any(questions[0].phase in shield.phases for shield in self.shields):
            return (self.sites[question.client].answer(question) for question in questions)
        return self.compute(questions)

    @abstractmethod
    def compute(self, questions: Sequence[Question]) -> Iterable[Reply]:
        """Let the method answer, wherever this engine's clients compute."""

    def memory_bytes(self, question: Question) -> bytes:
        """Return the memory a question starts from, for a worker process; the first one is made there."""
        return encode(self.sites[question.client].store.load(question.base) if question.base else None)

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
        """Do nothing."""
