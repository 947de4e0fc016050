"""All clients in this process, called directly, or as one batch where the method can answer for a whole cohort."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cotempo.data import Schema, Table
from cotempo.errors import CotempoError, DataError, MessageError, Problem
from cotempo.federation.exchange import Question, Reply
from cotempo.federation.message import Message
from cotempo.federation.method import Memory, Method, State
from cotempo.federation.site import RamStore, Site


class InProcess:
    """The default engine.

    Parameters
    ----------
    batched
        Let a method that offers `answer_all` answer for the whole cohort at once. Batched and looped answers agree
        within rounding, not in bits; an exception in a batch falls back to the loop, which names the client.
    """

    def __init__(self, method: Method, clients: Mapping[str, Table], *, seed: int, batched: bool = True):
        self.method = method
        self.batched = batched and method.batches
        self.sites = {name: Site(method, name, table, seed, RamStore()) for name, table in sorted(clients.items())}

    def names(self) -> tuple[str, ...]:
        """All clients."""
        return tuple(self.sites)

    def schemas(self, names: Sequence[str]) -> Mapping[str, Schema]:
        """What the clients' tables look like; data the method cannot work with are refused here, by client."""
        problems = []
        for name in names:
            if self.sites[name].schema.kind != self.method.kind:
                continue  # for `check` to refuse: `prepare` may count on its own kind of table
            try:
                self.sites[name].prepared  # noqa: B018 - made here, so that bad data are known before round 1
            except DataError as error:
                problems += [Problem(p.must, p.client or name, p.column, p.row) for p in error.problems]
        if problems:
            raise DataError(problems)
        return {name: self.sites[name].schema for name in names}

    def exchange(self, questions: Sequence[Question]) -> Iterable[Reply]:
        """Ask each client in turn, or all at once."""
        if self.batched and len(questions) > 1:
            replies = self._answer_all(questions)
            if replies is not None:
                return replies
        return (self.sites[question.client].answer(question) for question in questions)

    def _answer_all(self, questions: Sequence[Question]) -> list[Reply] | None:
        """Answer in one batch; `None` where that fails, so that the loop can find out at which client."""
        sites = [self.sites[question.client] for question in questions]
        try:
            answers = self.method.answer_all(
                questions,
                [site.prepared for site in sites],
                [site.memory(question.base) for site, question in zip(sites, questions, strict=True)],
                [site.rng(question.step) for site, question in zip(sites, questions, strict=True)],
            )
            _need_all(questions, answers)
            return [
                site.finish(question, *answer) for site, question, answer in zip(sites, questions, answers, strict=True)
            ]
        except Exception as error:
            name, about = type(self.method).__name__, f": {error}" if isinstance(error, CotempoError) else ""
            warnings.warn(
                f"{name}.answer_all failed ({type(error).__name__}{about}); clients are asked one by one", stacklevel=2
            )
            return None

    def memories(self, ledger: Mapping[str, int]) -> Mapping[str, Memory]:
        """The counted memory of every client that has one."""
        return {name: self.sites[name].store.load(version) for name, version in ledger.items() if version}

    def restore(self, memories: Mapping[str, Memory], ledger: Mapping[str, int]) -> None:
        """Put memories back under the versions the ledger names."""
        for name, memory in memories.items():
            self.sites[name].store.save(ledger[name], memory)

    def finish(self, state: State, ledger: Mapping[str, int]) -> None:
        """Nothing to hand over."""

    def close(self) -> None:
        """Nothing to let go of."""


def _need_all(questions: Sequence[Question], answers: Sequence[Any]) -> None:
    """Raise `MessageError` unless a batch holds a message and a memory for every client."""
    if len(answers) != len(questions):
        raise MessageError(f"answer_all must return {len(questions)} answers, one a client, it returned {len(answers)}")
    for question, answer in zip(questions, answers, strict=True):
        if not (isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[0], Message)):
            raise MessageError(f"answer_all must return a Message and a memory for client {question.client}")
