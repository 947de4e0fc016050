"""A client's place: its prepared data, its versioned memory, and the one way it answers, on every engine."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from cotempo.data import Schema, Table
from cotempo.errors import MemoryLost, MessageError
from cotempo.federation.exchange import Failure, Question, Reply
from cotempo.federation.message import Message
from cotempo.federation.method import Memory, Method
from cotempo.federation.rng import Rng
from cotempo.storage.files import read_hashed, write_hashed
from cotempo.storage.tree import TreeError, decode, encode, freeze

KEPT_ANSWERS = 3


class Store(Protocol):
    """Where a client keeps versions of its memory, by the step that made them."""

    def load(self, version: int) -> Memory:
        """Return a version or raise `MemoryLost`."""

    def save(self, version: int, memory: Memory) -> None:
        """Keep a version."""

    def prune(self, keep: int, base: int) -> None:
        """Drop versions older than `keep`, and those after `base`: they came of answers that were not counted."""

    def answered(self, step: int) -> Mapping[str, Any] | None:
        """What `remember` kept for a step, if it still is there."""

    def remember(self, step: int, identity: str, reply: bytes) -> None:
        """Keep the answer given to a step, and the few before it."""


class RamStore:
    """Memory in this process."""

    def __init__(self) -> None:
        self.versions: dict[int, Memory] = {}
        self.answers: dict[int, Mapping[str, Any]] = {}

    def load(self, version: int) -> Memory:
        """Return a version or raise `MemoryLost`."""
        try:
            return self.versions[version]
        except KeyError:
            raise MemoryLost(f"memory of step {version} is not here") from None

    def save(self, version: int, memory: Memory) -> None:
        """Keep a version."""
        self.versions[version] = memory

    def prune(self, keep: int, base: int) -> None:
        """Drop what no kept checkpoint and no coming question needs."""
        for version in [v for v in self.versions if v < keep or v > base]:
            del self.versions[version]

    def answered(self, step: int) -> Mapping[str, Any] | None:
        """The answer kept for a step, if any."""
        return self.answers.get(step)

    def remember(self, step: int, identity: str, reply: bytes) -> None:
        """Keep an answer."""
        self.answers[step] = {"identity": identity, "reply": reply}
        for old in sorted(self.answers)[:-KEPT_ANSWERS]:
            del self.answers[old]


class DiskStore:
    """Memory in a folder of the client's, one hashed file a version."""

    def __init__(self, folder: Path, kind: type | None):
        self.folder = folder
        self.kind = kind
        folder.mkdir(parents=True, exist_ok=True)

    def _path(self, version: int) -> Path:
        return self.folder / f"memory-{version:09d}.safetensors"

    def load(self, version: int) -> Memory:
        """Return a version or raise `MemoryLost`."""
        data = read_hashed(self._path(version))
        if data is None:
            raise MemoryLost(f"memory of step {version} is not here or is damaged")
        return decode(data, *((self.kind,) if self.kind else ()))

    def save(self, version: int, memory: Memory) -> None:
        """Keep a version."""
        write_hashed(self._path(version), encode(memory))

    def prune(self, keep: int, base: int) -> None:
        """Drop what no kept checkpoint and no coming question needs."""
        for path in self.folder.glob("memory-*.safetensors"):
            version = path.stem.removeprefix("memory-")
            if version.isdecimal() and not keep <= int(version) <= base:
                path.unlink(missing_ok=True)

    def answered(self, step: int) -> Mapping[str, Any] | None:
        """The answer kept for a step, if any."""
        data = read_hashed(self.folder / f"answer-{step:09d}.safetensors")
        if data is None:
            return None
        tree = decode(data)
        return {"identity": tree["identity"], "reply": tree["reply"].tobytes()}

    def remember(self, step: int, identity: str, reply: bytes) -> None:
        """Keep an answer."""
        tree = {"identity": identity, "reply": np.frombuffer(reply, np.uint8)}
        write_hashed(self.folder / f"answer-{step:09d}.safetensors", encode(tree))
        for old in sorted(self.folder.glob("answer-*.safetensors"))[:-KEPT_ANSWERS]:
            old.unlink(missing_ok=True)


class Site:
    """One client at work.

    The same step from the same base gives the same answer however often it is asked: `answer` computes it again,
    `answer_idempotent` returns the stored one and refuses a step that comes again with another content.
    """

    def __init__(self, method: Method, client: str, table: Table, seed: int, store: Store):
        self.method = method
        self.client = client
        self.schema: Schema = table.schema
        self.table = table
        self.seed = seed
        self.store = store
        self._prepared: Any = None
        self._is_prepared = False

    @property
    def prepared(self) -> Any:
        """What the method made of the table, made once."""
        if not self._is_prepared:
            self._prepared = self.method.prepare(self.table)
            self._is_prepared = True
        return self._prepared

    def rng(self, step: int) -> Rng:
        """The client's random streams for a step."""
        return Rng(self.seed, self.client, step)

    def memory(self, version: int) -> Memory:
        """The memory as it was after a counted step; version 0 is the first memory, which can always be made."""
        if version == 0:
            return freeze(self.method.begin(self.prepared, self.rng(0)))
        return self.store.load(version)

    def finish(self, question: Question, message: Message, memory: Memory | None) -> Reply:
        """Keep the new memory, drop what nothing needs any more, and reply."""
        if not isinstance(message, Message):
            raise MessageError(f"answer must return a Message and a memory, not {type(message).__name__}")
        self.store.prune(question.keep, question.base)
        version = question.base
        if memory is not None:
            version = question.step
            self.store.save(version, freeze(memory))
        return Reply(question.client, question.step, version, message)

    def answer(self, question: Question) -> Reply:
        """Answer a question; an error becomes a failure that carries only the error's class name."""
        try:
            message, memory = self.method.answer(
                question, self.prepared, self.memory(question.base), self.rng(question.step)
            )
            return self.finish(question, message, memory)
        except Exception as error:
            return fail(question, error)

    def answer_bytes(self, data: bytes) -> bytes:
        """Answer a question that crossed a wire."""
        return self.answer_idempotent(question_from_bytes(data), identify_question(data))[1]

    def answer_idempotent(self, question: Question, identity: str) -> tuple[Reply, bytes]:
        """Return the reply to a question, also as bytes; a question that was answered before gets the stored reply.

        `identity` is `identify_question` of the bytes received.
        """
        stored = self.store.answered(question.step)
        if question.client != self.client:
            reply = question.fail("MessageError", "this question is for another client")
        elif stored is None:
            reply = self.answer(question)
        elif stored["identity"] == identity:
            return reply_from_bytes(stored["reply"]), stored["reply"]
        else:
            reply = question.fail("MessageError", "this step was asked before with another content")
        data = reply_to_bytes(reply)
        # A failure may pass (a full disk, too little memory): asked again, the client tries again.
        if reply.message is not None:
            self.store.remember(question.step, identity, data)
        return reply, data


def fail(question: Question, error: BaseException) -> Reply:
    """Make the reply that says an answer could not be had."""
    failure = Failure(question.client, question.step, question.phase, type(error).__name__)
    return Reply(question.client, question.step, question.base, None, failure, error)


def question_to_bytes(question: Question) -> bytes:
    """Serialise a question; the first eight bytes are `keep`, which may differ in a resumed run."""
    tree = {
        "run": question.run, "step": question.step, "round": question.round, "phase": question.phase,
        "client": question.client, "base": question.base, "common": question.common.to_tree(),
        "own": question.own.to_tree(),
    }  # fmt: skip
    return question.keep.to_bytes(8, "big", signed=True) + encode(tree)


def identify_question(data: bytes, common: bytes = b"") -> str:
    """Return the hash of a question's bytes without `keep`, and of `common` if it travels separately."""
    digest = hashlib.sha256(memoryview(data)[8:])
    digest.update(common)
    return digest.hexdigest()


def question_from_bytes(data: bytes) -> Question:
    """Read `question_to_bytes`."""
    kinds = {"run": str, "step": int, "round": int, "phase": str, "client": str, "base": int}
    tree = _checked(_decode(data[8:]), kinds, "common", "own")
    common, own = Message.from_tree(tree.pop("common")), Message.from_tree(tree.pop("own"))
    return Question(**tree, keep=int.from_bytes(data[:8], "big", signed=True), common=common, own=own)


def reply_to_bytes(reply: Reply) -> bytes:
    """Serialise a reply; the client's exception stays behind."""
    failure = reply.failure
    tree = {
        "client": reply.client, "step": reply.step, "version": reply.version,
        "message": None if reply.message is None else reply.message.to_tree(),
        "failure": None if failure is None else {
            "client": failure.client, "step": failure.step, "phase": failure.phase,
            "kind": failure.kind, "about": failure.about,
        },
    }  # fmt: skip
    return encode(tree)


def reply_from_bytes(data: bytes) -> Reply:
    """Read `reply_to_bytes`."""
    tree = _checked(_decode(data), {"client": str, "step": int, "version": int}, "message", "failure")
    message = None if tree["message"] is None else Message.from_tree(tree["message"])
    failure = tree["failure"]
    if failure is not None:
        kinds = {"client": str, "step": int, "phase": str, "kind": str, "about": str}
        failure = Failure(**_checked(failure, kinds))
    if (message is None) == (failure is None):
        raise MessageError("a reply must hold either a message or a failure")
    return Reply(tree["client"], tree["step"], tree["version"], message, failure)


def receive(question: Question, data: bytes, limit: int = 2**31) -> Reply:
    """Read what came back for a question; bytes that are no reply are a failure of the client that was asked."""
    try:
        if len(data) > limit:
            raise MessageError(f"a reply must be at most {limit} bytes, this one has {len(data)}")
        reply = reply_from_bytes(data)
        if reply.client != question.client:
            raise MessageError("a client must answer in its own name")
        return reply
    except MessageError as error:
        failure = Failure(question.client, question.step, question.phase, "MessageError", str(error))
        return Reply(question.client, question.step, question.base, None, failure)


def _decode(data: bytes) -> Any:
    try:
        return decode(data)
    except TreeError as error:
        raise MessageError(str(error)) from error


def _checked(tree: Any, kinds: Mapping[str, type], *others: str) -> dict[str, Any]:
    if not isinstance(tree, dict) or set(tree) != {*kinds, *others}:
        raise MessageError(f"{', '.join([*kinds, *others])} must be there, and nothing else")
    for key, kind in kinds.items():
        if type(tree[key]) is not kind:
            raise MessageError(f"{key} must be {kind.__name__}, it is {type(tree[key]).__name__}")
    return dict(tree)
