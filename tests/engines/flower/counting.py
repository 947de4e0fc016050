"""A method whose clients say on how many threads torch computes there; it is loaded no earlier than it is needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from cotempo.data import Table
from cotempo.federation import Answers, Ask, Expect, Message, Method, Metrics, Question, Rng, Roster, Spec, register


@dataclass(frozen=True)
class Counted:
    """Threads at the clients."""

    threads: tuple[int, ...] = ()


@register()
class Counting(Method):
    """Count threads."""

    kind: ClassVar[str] = "series"
    phases: ClassVar[tuple[str, ...]] = ("count",)
    State: ClassVar[type] = Counted

    def open(self, roster: Roster, public: Table | None, rng: Rng) -> Counted:
        return Counted()

    def ask(self, state: Counted, cohort: Sequence[str], rng: Rng) -> Ask | None:
        return None if state.threads else Ask("count", cohort)

    def answer(self, question: Question, prepared: Any, memory: Any, rng: Rng) -> tuple[Message, None]:
        import torch

        return Message({"threads": torch.get_num_threads()}), None

    def absorb(self, state: Counted, answers: Answers, public: Table | None, rng: Rng) -> tuple[Counted, Metrics]:
        return Counted(tuple(int(answers[name]["threads"]) for name in answers.names)), {}

    def expects(self, state: Counted, phase: str) -> Expect:
        return Expect({"threads": Spec((), "int")})
