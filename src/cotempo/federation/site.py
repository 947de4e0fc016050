"""`Site`: one client, with its prepared data and versioned memory, and the one way it answers on every engine."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from cotempo.data import Schema, Table
from cotempo.errors import MessageError, warn
from cotempo.federation.exchange import Question, Reply
from cotempo.federation.message import EMPTY, Message
from cotempo.federation.method import Memory, Method
from cotempo.federation.rng import Rng
from cotempo.federation.shields import Shield
from cotempo.federation.wire import identify_question, question_from_bytes, reply_from_bytes, reply_to_bytes
from cotempo.storage.store import Store
from cotempo.storage.tree import freeze


@dataclass(eq=False, repr=False)
class Site:
    """One client at work.

    The same step from the same base gives the same answer however often it is asked: `answer` computes it again,
    `answer_idempotent` returns the stored one and refuses a step that comes again with other content. `store` keeps its
    memory; `shields` are applied to every message before it leaves.
    """

    method: Method
    client: str
    table: Table
    seed: int
    store: Store
    shields: Sequence[Shield] = field(default=(), kw_only=True)

    @property
    def schema(self) -> Schema:
        """What the table looks like."""
        return self.table.schema

    @cached_property
    def prepared(self) -> Any:
        """What the method made of the table; computed once."""
        return self.method.prepare(self.table)

    def is_shields_own(self, question: Question) -> bool:
        """Return whether a shield answers this question in place of the method."""
        return any(question.phase in shield.phases for shield in self.shields)

    def rng(self, step: int) -> Rng:
        """Return the client's random streams for a step."""
        return Rng(self.seed, self.client, step)

    def memory(self, version: int) -> Memory:
        """Return the memory after a counted step; version 0 is the first memory, which can always be made."""
        if version == 0:
            return freeze(self.method.begin(self.prepared, self.rng(0)))
        return self.store.load(version)

    def finish(self, question: Question, message: Message, memory: Memory | None) -> Reply:
        """Store the new memory, drop versions nothing needs any more, and reply with the protected message."""
        if not isinstance(message, Message):
            raise MessageError(f"answer must return a Message and a memory, got {type(message).__name__}")
        self.store.prune(question.keep, question.base)
        version = question.base
        is_silent = question.phase in self.method.silent_phases
        if is_silent and memory is None:  # its version leaves, and must not tell whether there is a new one
            memory = self.memory(question.base)
        if is_silent or memory is not None:
            version = question.step
            self.store.save(version, freeze(memory))
        for shield in self.shields:
            message = shield.protect(message, question, self.rng(question.step))
        return question.reply(message, version)

    def answer(self, question: Question) -> Reply:
        """Answer a question; an error becomes a failure that carries only the error's class name."""
        try:
            for shield in self.shields:
                if question.phase in shield.phases:
                    return question.reply(shield.answer(question))
            message, memory = self._compute(question)
            return self.finish(question, message, memory)
        except Exception as error:
            return question.fail(type(error).__name__, cause=error)

    def _compute(self, question: Question) -> tuple[Message, Memory | None]:
        """Return what the method answers; in a silent phase nothing also where it fails, which is said here alone."""
        known, rng = (self.prepared, self.memory(question.base)), self.rng(question.step)
        try:
            message, memory = self.method.answer(question, *known, rng)
        except Exception as error:
            if question.phase not in self.method.silent_phases:
                raise
            warn(f"{self.client} has no result of phase {question.phase!r}: {type(error).__name__}: {error}")
            return EMPTY, None
        return message, memory

    def follow(self, question: Question, reply: Reply) -> Reply:
        """Return the answer to what a shield asks about a reply, in place of it; a failure as it is."""
        then = question.then
        if then is None or reply.message is None:
            return reply
        if not self.is_shields_own(then):
            return question.fail("MessageError", "only a shield's question may follow another")
        return replace(self.answer(then), version=reply.version)

    def answer_bytes(self, data: bytes) -> bytes:
        """Answer a question that crossed a wire."""
        return self.answer_idempotent(question_from_bytes(data), identify_question(data))[1]

    def answer_idempotent(self, question: Question, identity: str) -> tuple[Reply, bytes]:
        """Return the reply to a question, also as bytes; a question that was answered before gets the stored reply.

        `identity` is `identify_question` of the bytes received. A shield that asks questions of its own keeps its own
        record of them: several come in one step.
        """
        if question.client == self.client and self.is_shields_own(question):
            reply = self.answer(question)
            return reply, reply_to_bytes(reply)
        reply, data = self._answer_once(question, identity)
        if question.then is not None:
            reply = self.follow(question, reply)
            data = reply_to_bytes(reply)
        return reply, data

    def _answer_once(self, question: Question, identity: str) -> tuple[Reply, bytes]:
        """Return the reply of the method, stored or computed."""
        stored = self.store.cached_answer(question.step)
        if question.client != self.client:
            reply = question.fail("MessageError", "this question is for another client")
        elif stored is None and question.step < self.store.last_answered:
            # Answered again, with other noise or from another memory, it would tell more than it did.
            reply = question.fail("MessageError", "a step before the last one answered is not answered again")
        elif stored is None:
            reply = self.answer(question)
        elif stored[0] == identity:
            return reply_from_bytes(stored[1]), stored[1]
        else:
            reply = question.fail("MessageError", "this step was asked before with another content")
        data = reply_to_bytes(reply)
        # A failure may be transient (a full disk, too little memory): asked again, the client tries again.
        if reply.message is not None:
            self.store.cache_answer(question.step, identity, data)
        return reply, data
