"""Methods with one bug each, which the contract must catch.

`Sound` is right: each client drifts towards the pooled vector, remembers where it is, and sends it. Every other method
is `Sound` with one planted bug.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from cotempo.data import Series, Table
from cotempo.federation import Answers, Ask, Expect, Message, Method, Metrics, Question, Rng, Roster, Spec


@dataclass(frozen=True)
class State:
    total: np.ndarray
    round: int = 0


@dataclass(frozen=True)
class Memory:
    place: np.ndarray


class Sound(Method):
    """Send how far the own place moved; the server adds the moves up, so both must agree on what counted."""

    phases: ClassVar[tuple[str, ...]] = ("move",)
    State: ClassVar[type] = State
    Memory: ClassVar[type | None] = Memory
    rounds: int = 4

    def prepare(self, table: Table) -> dict[str, Any]:
        assert isinstance(table, Series)
        return {"rows": table.values, "mean": table.values.mean(axis=0)}

    def begin(self, prepared: dict[str, Any], rng: Rng) -> Memory:
        return Memory(np.zeros_like(prepared["mean"]))

    def open(self, roster: Roster, public: Table | None, rng: Rng) -> State:
        return State(np.zeros(len(roster.schema.columns)))

    def ask(self, state: State, cohort: Sequence[str], rng: Rng) -> Ask | None:
        return Ask("move", cohort, Message({"total": state.total})) if state.round < self.rounds else None

    def answer(self, question: Question, prepared: Any, memory: Memory, rng: Rng) -> tuple[Message, Memory]:
        noise = rng("noise").normal(size=memory.place.shape)
        pull = 0.1 * question.common["total"]
        place = memory.place + 0.3 * (prepared["mean"] + pull - memory.place) + 0.01 * noise
        return Message({"move": place - memory.place}), Memory(place)

    def absorb(self, state: State, answers: Answers, public: Table | None, rng: Rng) -> tuple[State, Metrics]:
        total = state.total + sum((answers[name]["move"] for name in answers.names), np.zeros_like(state.total))
        return replace(state, total=total, round=state.round + 1), {"size": float(np.abs(total).max())}

    def expects(self, state: State, phase: str) -> Expect:
        return Expect({"move": Spec(state.total.shape)})


class LeaksARow(Sound):
    """Sends the middle row of its data, a little disguised as a move."""

    def answer(self, question: Question, prepared: Any, memory: Memory, rng: Rng) -> tuple[Message, Memory]:
        message, memory = super().answer(question, prepared, memory, rng)
        rows = prepared["rows"]
        return (Message({"move": rows[len(rows) // 2]}), memory) if question.step == 2 else (message, memory)


class LeaksTheLargest(Sound):
    """Sends the largest value of each column."""

    def answer(self, question: Question, prepared: Any, memory: Memory, rng: Rng) -> tuple[Message, Memory]:
        return Message({"move": prepared["rows"].max(axis=0)}), super().answer(question, prepared, memory, rng)[1]


class LeaksTheLastRow(Sound):
    """Sends the last row."""

    def answer(self, question: Question, prepared: Any, memory: Memory, rng: Rng) -> tuple[Message, Memory]:
        return Message({"move": prepared["rows"][-1].copy()}), super().answer(question, prepared, memory, rng)[1]


class HasATypo(Sound):
    """Fails at every client."""

    def answer(self, question: Question, prepared: Any, memory: Memory, rng: Rng) -> tuple[Message, Memory]:
        return Message({"move": prepared["rowz"][0]}), memory


class LeaksThroughAMetric(LeaksARow):
    """Sends a row scaled by three, and shows it unscaled as a metric."""

    def answer(self, question: Question, prepared: Any, memory: Memory, rng: Rng) -> tuple[Message, Memory]:
        _, memory = Sound.answer(self, question, prepared, memory, rng)
        rows = prepared["rows"]
        return Message({"move": 4.0 * rows[len(rows) // 2]}), memory

    def absorb(self, state: State, answers: Answers, public: Table | None, rng: Rng) -> tuple[State, Metrics]:
        state, _ = super().absorb(state, answers, public, rng)
        first = answers[answers.names[0]]["move"] if answers.names else np.zeros(1)
        return state, {"first": float(first[0]) / 4.0}


class DependsOnOrder(Sound):
    """Lets the answer that comes last count double, whoever sent it."""

    calls: ClassVar[list[str]] = []

    def prepare(self, table: Table) -> dict[str, Any]:
        return {**super().prepare(table), "seen": self.calls}

    def answer(self, question: Question, prepared: Any, memory: Memory, rng: Rng) -> tuple[Message, Memory]:
        message, memory = super().answer(question, prepared, memory, rng)
        DependsOnOrder.calls.append(question.client)
        return message, memory

    def absorb(self, state: State, answers: Answers, public: Table | None, rng: Rng) -> tuple[State, Metrics]:
        state, metrics = super().absorb(state, answers, public, rng)
        if self.calls and answers.names and self.calls[-1] in answers.names:
            state = replace(state, total=state.total + answers[self.calls[-1]]["move"] * (len(self.calls) % 7))
        return state, metrics


class UsesAGlobalGenerator(Sound):
    """Draws from numpy's global generator."""

    def answer(self, question: Question, prepared: Any, memory: Memory, rng: Rng) -> tuple[Message, Memory]:
        message, memory = super().answer(question, prepared, memory, rng)
        noise = np.random.normal(size=memory.place.shape)  # noqa: NPY002 - the planted bug
        return Message({"move": message["move"] + 0.01 * noise}), memory


class ForgetsMemoryOnResume(Sound):
    """Keeps its place in the process instead of in its memory."""

    Memory: ClassVar[type | None] = None
    places: ClassVar[dict[tuple[int, str], np.ndarray]] = {}

    def begin(self, prepared: dict[str, Any], rng: Rng) -> None:
        return None

    def answer(self, question: Question, prepared: Any, memory: None, rng: Rng) -> tuple[Message, None]:  # type: ignore[override]
        key = (id(prepared), question.client)
        place = self.places.get(key, np.zeros_like(prepared["mean"]))
        moved = place + 0.3 * (prepared["mean"] - place)
        self.places[key] = moved
        return Message({"move": moved - place}), None


class WritesOnItsQuestion(Sound):
    """Unlocks the question's array and writes on it."""

    def answer(self, question: Question, prepared: Any, memory: Memory, rng: Rng) -> tuple[Message, Memory]:
        total = question.common["total"]
        total.flags.writeable = True
        total *= 0.9
        total.flags.writeable = False
        return super().answer(question, prepared, memory, rng)


class DriftsWhenAnAnswerIsLost(Sound):
    """Keeps its newest place in a cache beside its memory: after a lost answer the server knows nothing of it."""

    def prepare(self, table: Table) -> dict[str, Any]:
        return {**super().prepare(table), "cache": {}}

    def answer(self, question: Question, prepared: Any, memory: Memory, rng: Rng) -> tuple[Message, Memory]:
        newest = prepared["cache"].get("memory", memory)
        message, moved = super().answer(question, prepared, newest, rng)
        prepared["cache"]["memory"] = moved
        return message, moved


class BreaksItsBatch(Sound):
    """Fails whenever it is asked for a whole cohort; the loop it falls back to hides it."""

    def answer_all(self, questions: Any, prepared: Any, memories: Any, rngs: Any) -> Any:
        raise ValueError("no cohort, please")


class AcceptsAnyWeight(Sound):
    """Lets a sender count as much as it likes, also less than nothing."""

    def expects(self, state: State, phase: str) -> Expect:
        return replace(super().expects(state, phase), weight=(-math.inf, math.inf))


class DependsOnItsProcess(Sound):
    """Takes a number from the process it runs in."""

    def answer(self, question: Question, prepared: Any, memory: Memory, rng: Rng) -> tuple[Message, Memory]:
        message, memory = super().answer(question, prepared, memory, rng)
        return Message({"move": message["move"] + 1e-6 * os.getpid()}), memory


class RemembersAList(Sound):
    """Keeps a list, which has no place on disk."""

    def answer(self, question: Question, prepared: Any, memory: Memory, rng: Rng) -> tuple[Message, Memory]:
        message, moved = super().answer(question, prepared, Memory(np.array(memory.place)), rng)
        return message, Memory(moved.place.tolist())


class AsksFewerWhenOneIsMissing(Sound):
    """Asks only the first client unless all four are there."""

    def ask(self, state: State, cohort: Sequence[str], rng: Rng) -> Ask | None:
        ask = super().ask(state, cohort, rng)
        return ask if ask is None or len(cohort) == 4 else replace(ask, to=cohort[:1])


class NeverAsks(Sound):
    """Learns nothing from anybody, so that nobody is missed."""

    def ask(self, state: State, cohort: Sequence[str], rng: Rng) -> Ask | None:
        ask = super().ask(state, cohort, rng)
        return ask and replace(ask, to=())


class Sums(Sound):
    """Sound, with nothing but a sum: a reply that counted twice would show."""

    def absorb(self, state: State, answers: Answers, public: Table | None, rng: Rng) -> tuple[State, Metrics]:
        return replace(state, total=state.total + answers.sum["move"], round=state.round + 1), {}

    def expects(self, state: State, phase: str) -> Expect:
        return replace(super().expects(state, phase), sums=True)
