"""What is run at every size: a vector that is averaged, FedPP, and a server whose clients cost nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

import cotempo as ct
from cotempo.data import Schema, Series, Table
from cotempo.federation import (
    Answers,
    Ask,
    Expect,
    Memory,
    Message,
    Method,
    Metrics,
    Question,
    Reply,
    Rng,
    Roster,
    Spec,
    register,
)
from cotempo.federation.engine import Engine
from cotempo.federation.wire import parse_reply, question_to_bytes, reply_to_bytes


@dataclass(frozen=True)
class VectorState:
    """The mean of all vectors."""

    mean: NDArray[np.float32]
    round: int = 0


@register()
class Vector(Method):
    """Every client moves half-way from the pooled vector to its own number, and sends where it is."""

    phases: ClassVar[tuple[str, ...]] = ("move",)
    State: ClassVar[type] = VectorState
    rounds: int = Field(4, ge=1)
    width: int = Field(10, ge=1)

    def prepare(self, table: Table) -> float:
        assert isinstance(table, Series)
        return float(table.values.mean())

    def open(self, roster: Roster, public: Table | None, rng: Rng) -> VectorState:
        return VectorState(np.zeros(self.width, np.float32))

    def ask(self, state: VectorState, cohort: Sequence[str], rng: Rng) -> Ask | None:
        return Ask("move", cohort, Message({"mean": state.mean})) if state.round < self.rounds else None

    def answer(self, question: Question, prepared: float, memory: None, rng: Rng) -> tuple[Message, None]:
        return Message({"mean": (question.common["mean"] + np.float32(prepared)) / 2}), None

    def absorb(
        self, state: VectorState, answers: Answers, public: Table | None, rng: Rng
    ) -> tuple[VectorState, Metrics]:
        return replace(state, mean=answers.mean("mean").astype(np.float32), round=state.round + 1), {}

    def expects(self, state: VectorState, phase: str) -> Expect:
        return Expect({"mean": Spec((self.width,), "float32")}, sums=True)


class Echo(Engine):
    """An engine whose clients cost nothing: what is left is the server, with the bytes it writes and reads."""

    def __init__(self, clients: int, message: Message):
        self.clients = tuple(f"c{number:07d}" for number in range(clients))
        self.message = message

    def names(self) -> tuple[str, ...]:
        return self.clients

    def schemas(self, names: Sequence[str]) -> Mapping[str, Schema]:
        return dict.fromkeys(names, Schema("series", ("x",), ""))

    def exchange(self, questions: Sequence[Question]) -> Iterator[Reply]:
        for question in questions:
            question_to_bytes(question)
            yield parse_reply(question, reply_to_bytes(Reply(question.client, question.step, 0, self.message)))

    def memories(self, ledger: Mapping[str, int]) -> Mapping[str, Memory]:
        return {}

    def restore(self, memories: Mapping[str, Memory], ledger: Mapping[str, int]) -> None:
        pass

    def close(self) -> None:
        pass


def make_load(name: str, clients: int, rounds: int) -> tuple[Method, dict[str, Any]]:
    """A method and its clients."""
    if name == "fedpp":
        tables, _ = ct.make_events(clients=clients, sequences=2, seed=0)
        method = ct.FedPP(kernel="history", base="poisson", rounds=rounds, inducing=20, compare=False, refit_rounds=0)
        return method, dict(tables)
    rng = np.random.default_rng(0)
    series = {f"c{number:07d}": Series.from_arrays(rng.normal(size=(2, 1))) for number in range(clients)}
    return Vector(rounds=rounds, width=WIDTHS[name]), series


WIDTHS = {"vector-10": 10, "vector-100k": 100_000}
LOADS = (*WIDTHS, "fedpp")
