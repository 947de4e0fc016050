"""Clients around one server, without an engine: who drops out when is the test's choice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from cotempo.errors import MessageError
from cotempo.federation import EMPTY, Answers, Expect, Message, Question, Reply, Rng, Spec, validate
from cotempo.privacy.secure_sum.client import SumClient
from cotempo.privacy.secure_sum.fixed_point import Layout
from cotempo.privacy.secure_sum.identity import local_identities
from cotempo.privacy.secure_sum.reducer import SecureSum
from cotempo.privacy.secure_sum.shield import ECHO, KEYS, MASKED, SHARES, UNMASK, SecureSumShield

RUN = "0123456789abcdef" * 2
ANSWER = "answer"
STAGES = (KEYS, SHARES, ANSWER, MASKED, ECHO, UNMASK)

Drops = Callable[[Question], bool]
Tamper = Callable[[Question, Message], Message]


def nobody(question: Question) -> bool:
    return False


def names_of(count: int) -> list[str]:
    return [f"c{number:04d}" for number in range(count)]


class Parties:
    """Clients with an addend each, a server, and a wire that can be listened to, cut and tampered with."""

    def __init__(self, messages: Mapping[str, Message], *, shield: SecureSumShield | None = None):
        self.messages = dict(messages)
        self.names = sorted(messages)
        self.shield = shield or SecureSumShield.local(self.names)
        self.reducer = SecureSum()
        self.drops: Drops = nobody
        self.tamper: Tamper = lambda question, message: message
        self.needs_echo = False  # whether clients sign nothing when they mask, so that all stages are gone through
        self.seen: list[tuple[Question, Message]] = []

    def client(self, name: str) -> SumClient:
        return self.shield.client(name, RUN)

    def exchange(self, questions: Sequence[Question], expect: Expect) -> Iterator[Reply]:
        for question in questions:
            if self.drops(question):
                yield question.fail("Lost")
                continue
            try:
                if question.phase in self.shield.phases:
                    message = self.shield.answer(question)
                else:
                    message = self.shield.protect(self.messages[question.client], question, Rng(0))
                    if question.then is not None:
                        message = self.shield.answer(question.then)
            except Exception as error:
                yield question.fail(type(error).__name__, cause=error)
                continue
            question = question.then or question
            if question.phase == MASKED and self.needs_echo:
                message = Message({**message, "signature": np.zeros(64, np.uint8)})
            message = self.tamper(question, message)
            try:
                validate(message, expect)
            except MessageError as error:
                yield question.fail("MessageError", str(error))
                continue
            self.seen.append((question, message))
            yield question.reply(message, question.step)

    def know_scales(self, expect: Expect) -> None:
        """Let scales for whole numbers be known, so that a step is one sum."""
        layout = Layout.of("range", len(self.names), expect)
        scales = {field.name: (4, 2) for field in layout.fields}
        self.reducer.scales.store(0, ANSWER, layout, scales)

    def sum(self, expect: Expect, step: int = 1, drops: Drops = nobody) -> Answers:
        self.drops = drops
        questions = [Question(RUN, step, step, ANSWER, name, 0, 0, EMPTY, EMPTY) for name in self.names]
        return self.reducer.gather(self.exchange, questions, expect)


def is_at(question: Question, stage: str) -> bool:
    return stage in (question.phase, question.then and question.then.phase)


def drop_at(stage: str, names: Sequence[str]) -> Drops:
    return lambda question: is_at(question, stage) and question.client in names


def whole_numbers(count: int, size: int = 3, seed: int = 0, most: int = 2**40) -> dict[str, Message]:
    stream = np.random.default_rng(seed)
    return {
        name: Message({"x": stream.integers(-most, most, size).astype(float)}, weight=float(stream.integers(1, 100)))
        for name in names_of(count)
    }


def expect_whole(size: int = 3) -> Expect:
    return Expect({"x": Spec((size,))}, sums=True)


def exact_sum(messages: Mapping[str, Message], names: Sequence[str]) -> tuple[list[int], int]:
    """The weighted sum in whole numbers of any size."""
    weights = {name: int(messages[name].weight) for name in names}
    size = len(next(iter(messages.values()))["x"])
    total = [sum(int(messages[name]["x"][index]) * weights[name] for name in names) for index in range(size)]
    return total, sum(weights.values())


def make_clients(count: int, **options: object) -> dict[str, SumClient]:
    """Single clients that know each other."""
    identities, peers = local_identities(names_of(count))
    return {name: SumClient(identity, peers, RUN) for name, identity in identities.items()}
