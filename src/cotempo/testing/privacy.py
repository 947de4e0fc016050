"""Checks on what crosses: nothing raw of a client, and no message that is not what was expected."""

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np

from cotempo.federation.exchange import Question, Reply
from cotempo.federation.message import Message
from cotempo.runs.folder import RunFolder
from cotempo.storage.tree import digest
from cotempo.testing.contract import Case, check
from cotempo.testing.engines import Faulty, direct
from cotempo.typing import Floats


@check
def nothing_raw_crosses(case: Case) -> None:
    """No value, time or text of a client is in a message or a log.

    Series have rows of many-digit numbers planted within range; short numbers are no secrets, counts may be like them.
    A value that was rounded, scaled or put into single precision is not found.
    """
    planted = {name: case.clients[name].with_markers(number) for number, name in enumerate(sorted(case.clients))}
    marked = {name: table for name, (table, _) in planted.items()}
    secrets = {secret for _, own in planted.values() for secret in own}
    numbers = np.sort(np.array([secret for secret in secrets if not isinstance(secret, str)], dtype=np.float64))
    texts = [secret for secret in secrets if isinstance(secret, str)]
    seen: list[Message] = []

    def listen(question: Question, reply: Reply) -> Reply:
        if reply.message is not None:
            seen.append(reply.message)
        return reply

    with closing(RunFolder.create(case.folder / "run", {"name": "contract"}, {})) as run:
        case.steps(Faulty(direct(case.method, marked), tamper=listen), recorder=run)
    for message in seen:
        for name, value in message.items():
            assert not _holds(value, numbers, texts), f"field {name!r} of a message holds a raw value of a client"
    logs = "".join(path.read_text() for path in run.path.glob("*.*") if path.suffix in (".jsonl", ".log"))
    for secret in secrets:
        assert str(secret) not in logs, "a log holds a raw value of a client"


def _holds(value: Any, numbers: Floats, texts: Sequence[str]) -> bool:
    """Return whether a field holds one of sorted numbers, but for rounding, or one of the texts."""
    if isinstance(value, str):
        return any(text in value for text in texts)
    found = np.asarray(value)
    if found.dtype != np.float64 or not len(numbers):
        return False
    place = np.searchsorted(numbers, found)
    beside = (numbers[(place - 1).clip(0)], numbers[place.clip(max=len(numbers) - 1)])
    return any(np.isclose(found, near, rtol=1e-12, atol=0).any() for near in beside)


@check
def bad_messages_are_left_out(case: Case) -> None:
    """A message that is not what was expected costs its sender that step, names the field, and nothing else."""
    victim = min(case.clients)
    first, *_ = case.exchanges()

    def at_first(question: Question) -> bool:
        return question.client == victim and question.step == first

    silent = Faulty(case.engine(), deliver=lambda question: not at_first(question))
    unasked = case.steps(silent, most=first + 2)
    for name, spoil in CORRUPTIONS.items():

        def tamper(question: Question, reply: Reply, spoil: Any = spoil) -> Reply:
            if at_first(question) and reply.message is not None:
                return replace(reply, message=spoil(reply.message))
            return reply

        steps = case.steps(Faulty(case.engine(), tamper=tamper), most=first + 2)
        failures = steps[first - 1].answers.failures
        assert len(failures) == 1, f"{name}: {len(failures)} clients were left out, it must be one"
        (failure,) = failures
        assert failure.client == victim, f"{name}: the failure names the wrong client"
        assert failure.kind == "MessageError", f"{name}: was not refused as a message"
        assert digest(steps[-1].state) == digest(unasked[-1].state), f"{name}: the refused message left a trace"


def _spoil_first(change: Callable[[Any], Any]) -> Callable[[Message], Message]:
    def spoil(message: Message) -> Message:
        # A field with something in it, where there is one: nothing is wrong with an empty one times NaN.
        name = next((name for name, value in message.items() if np.size(value)), next(iter(message)))
        value = message[name] if np.size(message[name]) else np.zeros(1)
        return Message({**message, name: change(value)}, weight=message.weight)

    return spoil


CORRUPTIONS: dict[str, Callable[[Message], Message]] = {
    "NaN": _spoil_first(lambda value: value * np.nan),
    "infinite": _spoil_first(lambda value: np.full(np.shape(value), np.inf) if np.ndim(value) else np.inf),
    "wrong shape": _spoil_first(lambda value: np.zeros((*np.shape(value), 2))),
    "wrong dtype": _spoil_first(lambda value: np.zeros(np.shape(value), np.int8)),
    "missing field": lambda message: Message(dict(list(message.items())[1:]), weight=message.weight),
    "extra field": lambda message: Message({**message, "extra": 1.0}, weight=message.weight),
    "negative weight": lambda message: Message(message, weight=-1.0),
    "NaN weight": lambda message: Message(message, weight=float("nan")),
    "gigantic weight": lambda message: Message(message, weight=1e300),
}
