"""Small methods and engines for the tests of the core."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from cotempo.data import Schema, Series, Table
from cotempo.federation import (
    Answers,
    Ask,
    Expect,
    Failure,
    Memory,
    Message,
    Method,
    Metrics,
    Question,
    Reply,
    Rng,
    Roster,
    Spec,
)
from cotempo.federation.engine import Engine
from cotempo.federation.rounds import Checkpoint, RunRecorder, Step

SECRET = "the patient in bed 7"


@dataclass(frozen=True)
class WalkState:
    """What the server adds up."""

    total: NDArray[np.float64]
    round: int = 0


@dataclass(frozen=True)
class WalkMemory:
    """Where a client stands."""

    place: NDArray[np.float64]


class Walk(Method):
    """Clients walk towards their mean and tell how far they moved: server and clients must agree on what counted.

    In every round the server works once alone, when `alone` says so. `trouble` befalls `victim` at step `at`, and
    `more` troubles, by client and step: `{"b 2": "die"}`.
    """

    phases: ClassVar[tuple[str, ...]] = ("walk", "alone")
    State: ClassVar[type] = WalkState
    Memory: ClassVar[type | None] = WalkMemory
    rounds: int = 4
    alone: bool = False
    sums: bool = False
    victim: str = ""
    at: int = 0
    trouble: str = ""
    more: Mapping[str, str] = Field(default_factory=dict)

    def prepare(self, table: Table) -> NDArray[np.float64]:
        """The mean of the rows."""
        assert isinstance(table, Series)
        mean: NDArray[np.float64] = table.values.mean(axis=0)
        return mean

    def begin(self, prepared: Any, rng: Rng) -> WalkMemory:
        """Everybody starts at the origin."""
        return WalkMemory(np.zeros_like(prepared))

    def open(self, roster: Roster, public: Table | None, rng: Rng) -> WalkState:
        """Nobody has moved."""
        return WalkState(np.zeros(len(roster.schema.columns)))

    def ask(self, state: WalkState, cohort: Sequence[str], rng: Rng) -> Ask | None:
        """Ask the cohort to move; between rounds the server may work alone."""
        if state.round >= self.rounds:
            return None
        if self.alone and state.round % 2:
            return Ask("alone", ())
        return Ask("walk", cohort, Message({"total": state.total}))

    def answer(self, question: Question, prepared: Any, memory: WalkMemory, rng: Rng) -> tuple[Message, WalkMemory]:
        """Move, with some noise."""
        if (question.client, question.step) == (self.victim, self.at):
            TROUBLES[self.trouble]()
        if also := self.more.get(f"{question.client} {question.step}"):
            TROUBLES[also]()
        noise = 0.01 * rng("noise").normal(size=prepared.shape)
        place = memory.place + 0.3 * (prepared + 0.1 * question.common["total"] - memory.place) + noise
        return Message({"move": place - memory.place}), WalkMemory(place)

    def absorb(self, state: WalkState, answers: Answers, public: Table | None, rng: Rng) -> tuple[WalkState, Metrics]:
        """Add the moves up."""
        if self.alone and state.round % 2:
            total = 0.5 * state.total
        elif self.sums:
            total = state.total + answers.sum["move"]
        else:
            total = state.total + sum((answers[name]["move"] for name in answers.names), np.zeros_like(state.total))
        return replace(state, total=total, round=state.round + 1), {"size": float(np.abs(total).max())}

    def expects(self, state: WalkState, phase: str) -> Expect:
        """A move for every variable."""
        return Expect({"move": Spec(state.total.shape)} if phase == "walk" else {}, sums=self.sums)


def _raise() -> None:
    raise ValueError(SECRET)


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _block() -> None:
    reader, _writer = os.pipe()
    os.read(reader, 1)  # nobody ever writes


TROUBLES: Mapping[str, Callable[[], None]] = {"raise": _raise, "die": _die, "block": _block}


def make_clients(count: int = 3, variables: int = 2) -> dict[str, Series]:
    """Clients a, b, c, ... with a few rows each."""
    stream = np.random.default_rng(7)
    return {
        chr(ord("a") + index): Series.from_arrays(stream.normal(index, 1.0, size=(6, variables)))
        for index in range(count)
    }


class Wrapped(Engine):
    """An engine around another one, whose exchange is `change(questions, replies)`."""

    def __init__(self, engine: Any, change: Callable[[Sequence[Question], Iterable[Reply]], Iterable[Reply]]):
        self.engine = engine
        self.change = change
        self.asked: list[Question] = []

    def names(self) -> tuple[str, ...]:
        names: tuple[str, ...] = self.engine.names()
        return names

    def schemas(self, names: Sequence[str]) -> Mapping[str, Schema]:
        schemas: Mapping[str, Schema] = self.engine.schemas(names)
        return schemas

    def exchange(self, questions: Sequence[Question]) -> Iterator[Reply]:
        self.asked += questions
        yield from self.change(questions, self.engine.exchange(questions))

    def memories(self, ledger: Mapping[str, int]) -> Mapping[str, Memory]:
        memories: Mapping[str, Memory] = self.engine.memories(ledger)
        return memories

    def restore(self, memories: Mapping[str, Memory], ledger: Mapping[str, int]) -> None:
        self.engine.restore(memories, ledger)

    def close(self) -> None:
        self.engine.close()


class Notes(RunRecorder):
    """A keeper in memory."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.checkpoints: list[Checkpoint] = []
        self.messages: list[tuple[Question, Message]] = []
        self.troubles: list[Failure] = []
        self.causes: list[BaseException | None] = []

    def log(self, progress: Step) -> None:
        self.steps.append(progress)

    def checkpoint(self, checkpoint: Checkpoint) -> None:
        self.checkpoints.append(checkpoint)

    def log_message(self, question: Question, message: Message, expect: Expect) -> None:
        self.messages.append((question, message))

    def log_failure(self, failure: Failure, cause: BaseException | None = None) -> None:
        self.troubles.append(failure)
        self.causes.append(cause)
