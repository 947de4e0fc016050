"""Every bad message: a typed error that names client, field and rule; the sender is left out, the round goes on."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest
import safetensors.numpy
from numpy.typing import NDArray
from toys import Notes, Wrapped, make_clients

from cotempo.data import Table
from cotempo.errors import MessageError
from cotempo.federation import (
    Answers,
    Ask,
    Expect,
    Message,
    Method,
    Metrics,
    Question,
    Reply,
    Rng,
    Roster,
    Spec,
)
from cotempo.federation.rounds import Step
from cotempo.federation.wire import parse_reply, reply_to_bytes
from cotempo.storage.tree import digest, encode
from cotempo.testing import drive
from cotempo.testing.engines import direct

CLIENTS = make_clients(3)
VICTIM = "b"
CAP = 100_000


@dataclass(frozen=True)
class Pooled:
    gram: NDArray[np.float64]
    variance: NDArray[np.float64]
    count: float = 0.0
    round: int = 0


class Survey(Method):
    """Adds up Gram matrices, variances and counts, twice."""

    phases: ClassVar[tuple[str, ...]] = ("survey",)
    State: ClassVar[type] = Pooled

    def open(self, roster: Roster, public: Table | None, rng: Rng) -> Pooled:
        return Pooled(np.zeros((2, 2)), np.zeros(2))

    def ask(self, state: Pooled, cohort: Sequence[str], rng: Rng) -> Ask | None:
        return Ask("survey", cohort) if state.round < 2 else None

    def answer(self, question: Question, prepared: Any, memory: None, rng: Rng) -> tuple[Message, None]:
        rows = prepared.values
        return Message(
            {"gram": rows.T @ rows, "variance": rows.var(axis=0), "count": len(rows)}, weight=len(rows)
        ), None

    def absorb(self, state: Pooled, answers: Answers, public: Table | None, rng: Rng) -> tuple[Pooled, Metrics]:
        count = state.count + answers.mean("count")
        return Pooled(
            state.gram + answers.mean("gram"), state.variance + answers.mean("variance"), count, state.round + 1
        ), {}

    def expects(self, state: Pooled, phase: str) -> Expect:
        fields = {
            "gram": Spec((2, 2), rules=(symmetric, positive_semidefinite)),
            "variance": Spec((2,), low=float(np.finfo(float).tiny)),
            "count": Spec((), "int", low=0, high=1e12),
        }
        return Expect(fields, sums=True)


def symmetric(value: np.ndarray) -> str | None:
    return None if np.allclose(value, value.T) else "must be symmetric"


def positive_semidefinite(value: np.ndarray) -> str | None:
    return None if np.linalg.eigvalsh(value).min() >= -1e-9 else "must be positive semidefinite"


Spoil = Callable[[Reply], bytes | list[Reply]]


def field(name: str, change: Callable[[Any], Any]) -> Spoil:
    """Change one field."""

    def spoil(reply: Reply) -> list[Reply]:
        assert reply.message is not None
        message = Message({**reply.message, name: change(reply.message[name])}, weight=reply.message.weight)
        return [replace(reply, message=message)]

    return spoil


def weight(value: float) -> Spoil:
    return lambda reply: [replace(reply, message=Message(reply.message, weight=value))]


def fields(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Spoil:
    return lambda reply: [replace(reply, message=Message(change(dict(reply.message or {})), weight=6))]


def bytes_of(change: Callable[[bytes], bytes]) -> Spoil:
    """Change the reply's bytes."""
    return lambda reply: change(reply_to_bytes(reply))


def header(change: Callable[[dict[str, Any]], None]) -> Spoil:
    """Change the header of the reply's bytes."""

    def spoil(reply: Reply) -> bytes:
        data = reply_to_bytes(reply)
        length = int.from_bytes(data[:8], "little")
        content = json.loads(data[8 : 8 + length])
        change(content)
        text = json.dumps(content).encode()
        return len(text).to_bytes(8, "little") + text + data[8 + length :]

    return spoil


def tree(value: Any) -> Spoil:
    """A well-formed tree that is no reply."""
    return lambda reply: encode(value)


REPLY = {"client": VICTIM, "step": 1, "version": 0, "message": None, "failure": None}


def with_skeleton(skeleton: str) -> bytes:
    return safetensors.numpy.save({"0": np.zeros(2)}, metadata={"cotempo": skeleton})


def claims_object_array(content: dict[str, Any]) -> None:
    content["0"]["dtype"] = "O"


def claims_shape(*shape: int) -> Callable[[dict[str, Any]], None]:
    return lambda content: content["0"].update(shape=list(shape))


LEFT_OUT = ("a", "c")
EVERYBODY = ("a", "b", "c")

# Messages that are refused: what is done to b's reply, and words of the error.
REFUSED: dict[str, tuple[Spoil, str]] = {
    "NaN": (field("gram", lambda x: x * np.nan), "'gram' must be finite"),
    "one NaN": (field("variance", lambda x: x * [1, np.nan]), "'variance' must be finite, 1 of its 2"),
    "Inf": (field("gram", lambda x: x * np.inf), "'gram' must be finite"),
    "Inf of both signs": (field("variance", lambda x: np.array([np.inf, -np.inf])), "'variance' must be finite"),
    "overflows the sum": (field("gram", lambda x: np.eye(2) * 1e307), "'gram' times its weight"),
    "wrong shape": (field("gram", lambda x: np.eye(3)), "'gram' must have shape (2, 2), it has (3, 3)"),
    "broadcastable row": (field("gram", lambda x: x[:1]), "'gram' must have shape (2, 2), it has (1, 2)"),
    "broadcastable 0-d": (field("gram", lambda x: np.array(1.0)), "'gram' must have shape (2, 2), it has ()"),
    "scalar for an array": (field("gram", lambda x: 1.0), "'gram' must be an array"),
    "array for a scalar": (field("count", lambda x: np.array(6)), "'count' must be one int"),
    "empty array": (field("gram", lambda x: np.zeros((0, 2))), "'gram' must have shape"),
    "wrong dtype": (field("gram", lambda x: x.astype(np.float32)), "'gram' must have dtype float64"),
    "integer dtype": (field("variance", lambda x: np.ones(2, np.int64)), "'variance' must have dtype float64"),
    "text for a number": (field("count", lambda x: "6"), "'count' must be int, it is str"),
    "boolean for a number": (field("count", lambda x: True), "'count' must be int, it is bool"),
    "None for a number": (field("count", lambda x: None), "'count' must be int"),
    "float for a count": (field("count", lambda x: 6.5), "'count' must be int, it is float"),
    "missing key": (fields(lambda f: {k: f[k] for k in f if k != "count"}), "'count' is missing"),
    "extra key": (fields(lambda f: {**f, "more": 1.0}), "'more' is not expected"),
    "no keys": (fields(lambda f: {}), "is missing"),
    "negative count": (field("count", lambda x: -1), "'count' must lie in [0, 1e+12], it is -1"),
    "NaN count": (field("count", lambda x: float("nan")), "'count'"),
    "count 10^12": (field("count", lambda x: 10**12 + 1), "'count' must lie in"),
    "count 10^400": (field("count", lambda x: 10**400), "'count' must fit into 64 bits"),
    "negative weight": (weight(-1.0), "weight must lie in [0, 1e+12], it is -1"),
    "NaN weight": (weight(float("nan")), "weight must lie in"),
    "infinite weight": (weight(float("inf")), "weight must lie in"),
    "weight 10^12": (weight(1.1e12), "weight must lie in"),
    "asymmetric Gram": (field("gram", lambda x: x + np.array([[0, 1e-3], [0, 0]])), "'gram' must be symmetric"),
    "non-PSD Gram": (field("gram", lambda x: -np.eye(2)), "'gram' must be positive semidefinite"),
    "variance zero": (field("variance", lambda x: np.array([1.0, 0.0])), "'variance' must lie in"),
    "variance negative": (field("variance", lambda x: -x), "'variance' must lie in"),
    "object array": (header(claims_object_array), "not a valid cotempo tree"),
    "pickle bytes": (lambda reply: pickle.dumps({"gram": np.eye(2)}), "not a valid cotempo tree"),
    "truncated array": (bytes_of(lambda data: data[:-9]), "not a valid cotempo tree"),
    "header claims 10^12 elements": (header(claims_shape(10**12)), "not a valid cotempo tree"),
    "negative dimension": (header(claims_shape(-2, -2)), "not a valid cotempo tree"),
    "empty body": (bytes_of(lambda data: b""), "header is cut off"),
    "header only": (bytes_of(lambda data: data[:8]), "header is cut off"),
    "over the byte cap": (field("gram", lambda x: np.ones((200, 200))), f"at most {CAP} bytes"),
    "wrong schema version": (lambda reply: with_skeleton("[2,null]"), "format must be 1, found 2"),
    "deep nesting": (
        lambda reply: with_skeleton("[1," + "[" * 40_000 + "]" * 40_000 + "]"),
        "not a valid cotempo tree",
    ),
    "nested fields": (tree({**REPLY, "message": {"fields": {"gram": {"x": 1}}, "weight": 1.0}}), "'gram' must be an"),
    "a tree that is no reply": (tree({"hello": "world"}), "must be there"),
    "another one's name": (lambda reply: reply_to_bytes(replace(reply, client="a")), "its own name"),
}
# Replies that nobody asked for: what is done, the client and kind that are noted, words of the note, and who counts.
UNASKED: dict[str, tuple[Spoil, str, str, str, tuple[str, ...]]] = {
    "stale step": (lambda reply: [replace(reply, step=0)], "b", "Lost", "no answer came", LEFT_OUT),
    "no answer": (lambda reply: [], "b", "Lost", "no answer came", LEFT_OUT),
    "step of the future": (lambda reply: [replace(reply, step=2)], "b", "Unasked", "another step", LEFT_OUT),
    "unknown client": (
        lambda reply: [replace(reply, client="mallory"), reply],
        "mallory",
        "Unasked",
        "stranger",
        EVERYBODY,
    ),
    "duplicate": (
        lambda reply: [reply, *field("gram", lambda x: 100 * x)(reply)],
        "b",
        "Unasked",
        "duplicate",
        EVERYBODY,
    ),
}
CASES = {name: (spoil, VICTIM, "MessageError", words, LEFT_OUT) for name, (spoil, words) in REFUSED.items()} | UNASKED


def run(spoil: Spoil, step: int = 1) -> tuple[list[Step], Notes]:
    """Run with b's reply spoiled in one step; what comes as bytes is read as an engine reads it."""

    def change(questions: Sequence[Question], replies: Iterable[Reply]) -> Iterable[Reply]:
        by_client = {question.client: question for question in questions}
        for reply in replies:
            if reply.client != VICTIM or reply.step != step:
                yield reply
                continue
            spoiled = spoil(reply)
            if isinstance(spoiled, bytes):
                yield parse_reply(by_client[VICTIM], spoiled, limit=CAP)
            elif len(spoiled) == 1 and spoiled[0].message is not None and spoiled[0].client == VICTIM:
                data = reply_to_bytes(spoiled[0])
                yield parse_reply(by_client[VICTIM], data, limit=CAP)
            else:
                yield from spoiled

    notes = Notes()
    engine = Wrapped(direct(Survey(), CLIENTS), change)
    return list(drive(Survey(), engine, recorder=notes)), notes


@pytest.mark.parametrize("case", CASES)
def test_a_bad_message_costs_its_sender_that_step_and_nothing_else(case: str) -> None:
    spoil, client, kind, words, counted = CASES[case]
    steps, notes = run(spoil)
    assert steps[0].answers.names == counted
    assert any((t.client, t.kind, words in t.detail) == (client, kind, True) for t in notes.troubles), notes.troubles
    assert {failure.client for failure in steps[0].answers.failures} == set(EVERYBODY) - set(counted)
    lost, _ = run(lambda reply: [] if counted == LEFT_OUT else [reply])
    assert digest(steps[0].state) == digest(lost[0].state)
    # In the next round everybody counts again.
    assert steps[1].answers.names == EVERYBODY
    assert digest(steps[1].state) == digest(lost[1].state)


def test_a_good_message_is_not_touched() -> None:
    steps, notes = run(lambda reply: [reply])
    assert [step.answers.names for step in steps] == [EVERYBODY, EVERYBODY]
    assert notes.troubles == []
    rows = np.vstack([CLIENTS[name].values for name in "abc"])
    means = [CLIENTS[name].values.T @ CLIENTS[name].values for name in "abc"]
    np.testing.assert_allclose(steps[0].state.gram, np.mean(means, axis=0), rtol=1e-12)
    assert steps[0].state.count == len(rows) / 3


def test_weights_that_add_up_to_nothing_stop_the_run_with_its_state_untouched() -> None:
    notes = Notes()

    def change(questions: Sequence[Question], replies: Iterable[Reply]) -> Iterable[Reply]:
        for reply in replies:
            yield replace(reply, message=Message(reply.message, weight=0)) if reply.step == 2 else reply

    with pytest.raises(MessageError, match="weights must add up to more than zero"):
        list(drive(Survey(), Wrapped(direct(Survey(), CLIENTS), change), recorder=notes))
    assert notes.checkpoints[-1].step == 1
    assert np.isfinite(notes.checkpoints[-1].state.gram).all()
