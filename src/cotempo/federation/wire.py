"""Questions and replies as bytes and back, and messages in a form their owners can read."""

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from cotempo.errors import MessageError
from cotempo.federation.exchange import Expect, Failure, Question, Reply
from cotempo.federation.message import Message
from cotempo.storage.tree import TreeError, decode, encode

EMPTY = "nothing but that it is done"  # in words, what a message without fields says
LONGEST_TEXT = 1000  # of names, phases and errors, which are repeated in logs


def question_to_bytes(question: Question) -> bytes:
    """Serialise a question.

    Eight bytes of `keep`, eight of the length of what follows, which is the same in a resumed run; then `then`, if any.
    """
    tree = {
        "run": question.run, "step": question.step, "round": question.round, "phase": question.phase,
        "client": question.client, "base": question.base, "common": question.common.to_tree(),
        "own": question.own.to_tree(),
    }  # fmt: skip
    content = encode(tree)
    head = question.keep.to_bytes(8, "big", signed=True) + len(content).to_bytes(8, "big")
    return head + content + (b"" if question.then is None else question_to_bytes(question.then))


def identify_question(data: bytes, common: bytes = b"") -> str:
    """Return the hash of a question's bytes without `keep` and `then`, and of `common` if it travels separately."""
    digest = hashlib.sha256(memoryview(data)[16 : _end(data)])
    digest.update(common)
    return digest.hexdigest()


def question_from_bytes(data: bytes, *, is_last: bool = False) -> Question:
    """Read what `question_to_bytes` wrote; raise `MessageError` if the bytes are no question."""
    kinds = {"run": str, "step": int, "round": int, "phase": str, "client": str, "base": int}
    end = _end(data)
    tree = _checked(_decode(data[16:end]), kinds, "common", "own")
    common, own = Message.from_tree(tree.pop("common")), Message.from_tree(tree.pop("own"))
    question = Question(**tree, keep=int.from_bytes(data[:8], "big", signed=True), common=common, own=own)
    if end >= len(data):
        return question
    then = None if is_last else question_from_bytes(data[end:], is_last=True)
    if then is None or (then.run, then.step, then.client) != (question.run, question.step, question.client):
        raise MessageError("a question may be followed by one about the same step of the same client, and no other")
    return replace(question, then=then)


def _end(data: bytes) -> int:
    """Return where a question ends and `then` begins."""
    return 16 + int.from_bytes(data[8:16], "big")


def reply_to_bytes(reply: Reply) -> bytes:
    """Serialise a reply; the client's exception is not part of it."""
    tree = {
        "client": reply.client, "step": reply.step, "version": reply.version,
        "message": None if reply.message is None else reply.message.to_tree(),
        "failure": reply.failure and asdict(reply.failure),
    }  # fmt: skip
    return encode(tree)


def reply_from_bytes(data: bytes) -> Reply:
    """Read what `reply_to_bytes` wrote; raise `MessageError` if the bytes are no reply."""
    tree = _checked(_decode(data), {"client": str, "step": int, "version": int}, "message", "failure")
    message = None if tree["message"] is None else Message.from_tree(tree["message"])
    failure = tree["failure"]
    if failure is not None:
        kinds = {"client": str, "step": int, "phase": str, "kind": str, "detail": str}
        failure = Failure(**_checked(failure, kinds))
    if (message is None) == (failure is None):
        raise MessageError("a reply must hold either a message or a failure")
    return Reply(tree["client"], tree["step"], tree["version"], message, failure)


def parse_reply(question: Question, data: bytes, limit: int = 2**31) -> Reply:
    """Read what came back for a question; bytes that are no reply become a failure of the asked client."""
    try:
        if len(data) > limit:
            raise MessageError(f"a reply must be at most {limit} bytes, got {len(data)}")
        reply = reply_from_bytes(data)
        if reply.client != question.client:
            raise MessageError("a client must answer in its own name")
        return reply
    except MessageError as error:
        return question.fail("MessageError", str(error))


def summarize_message(question: Question, message: Message, expect: Expect) -> dict[str, Any]:
    """Return what a client sent, field by field, in a form its owner can read."""
    fields = {
        name: {
            "description": expect.fields[name].description if name in expect.fields else "",
            **_summary(value, expect.is_opaque),
        }
        for name, value in message.items()
    }
    return {
        "client": question.client, "step": question.step, "round": question.round, "phase": question.phase,
        "bytes": message.nbytes, "weight": message.weight, "summed": expect.sums, "fields": fields,
    }  # fmt: skip


def _summary(value: Any, is_opaque: bool) -> dict[str, Any]:
    """Return an array's size, range and first values; a scalar as it is; of what is masked or sealed the size."""
    if not isinstance(value, np.ndarray):
        return {"value": value[:200] if isinstance(value, str) else value}
    summary: dict[str, Any] = {"shape": list(value.shape), "dtype": str(value.dtype), "bytes": value.nbytes}
    if value.size and not is_opaque:
        summary |= {"smallest": value.min().item(), "largest": value.max().item(), "first": value.ravel()[:3].tolist()}
    return summary


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
            raise MessageError(f"{key} must be {kind.__name__}, got {type(tree[key]).__name__}")
        if kind is str and len(tree[key]) > LONGEST_TEXT:
            raise MessageError(f"{key} must have at most {LONGEST_TEXT} letters, got {len(tree[key])}")
    return dict(tree)
