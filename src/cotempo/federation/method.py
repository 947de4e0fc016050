"""The contract of a method: frozen hyperparameters and a handful of verbs.

Read `cotempo.federation.mean` for the smallest complete method, and `cotempo.federation.rounds` for the loop that
drives it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import model_validator

from cotempo.data import Schema, Table
from cotempo.errors import Problem, SchemaError
from cotempo.federation.exchange import Answers, Ask, Expect, Question
from cotempo.federation.message import Message
from cotempo.federation.rng import Rng
from cotempo.settings import Settings

if TYPE_CHECKING:
    from cotempo.federation.fitted import Fitted, Outcome

Metrics = Mapping[str, float]
Late = Literal["weighted", "kept", "added"]
State = Any
Memory = Any


@dataclass(frozen=True)
class Roster:
    """Who takes part, and what their tables look like."""

    schemas: Mapping[str, Schema]

    @property
    def names(self) -> tuple[str, ...]:
        """The clients, in name order."""
        return tuple(sorted(self.schemas))

    @property
    def schema(self) -> Schema:
        """The schema all clients agreed on."""
        return self.schemas[self.names[0]]


@dataclass(frozen=True)
class Benefit:
    """Whether joining helped a client: its metric alone and together, measured on data neither model saw."""

    metric: str
    alone: float
    together: float
    higher_is_better: bool

    @property
    def gain(self) -> float:
        """How much better together is; negative where joining hurt."""
        return (self.together - self.alone) * (1 if self.higher_is_better else -1)

    @property
    def helped(self) -> bool:
        """Whether together is better than alone."""
        return self.gain > 0


class Method(Settings, ABC):
    """A federated algorithm.

    A subclass declares its hyperparameters as annotated fields, its `State` and `Memory` as frozen dataclasses, and
    writes `open`, `ask`, `answer`, `absorb` and `expects`. Verbs are pure: they change nothing they are given, keep
    nothing between calls, and draw random numbers only from the `rng` they receive.
    """

    kind: ClassVar[str] = "series"
    phases: ClassVar[tuple[str, ...]] = ()
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"cotempo": {}, "paper": {}}
    State: ClassVar[type]
    Memory: ClassVar[type | None] = None

    preset: Literal["cotempo", "paper"] = "cotempo"

    @model_validator(mode="before")
    @classmethod
    def _fill_preset(cls, given: Any) -> Any:
        """Values of the preset stand where the caller gave none."""
        if isinstance(given, dict):
            return {**cls.presets.get(given.get("preset", "cotempo"), {}), **given}
        return given

    # What the author of a method writes.

    @abstractmethod
    def open(self, roster: Roster, public: Table | None, rng: Rng) -> Any:
        """Make the first state; cheap."""

    @abstractmethod
    def ask(self, state: Any, cohort: Sequence[str], rng: Rng) -> Ask | None:
        """Say what the server wants next; `None` when the method is finished."""

    @abstractmethod
    def answer(self, question: Question, prepared: Any, memory: Any, rng: Rng) -> tuple[Message, Any]:
        """At a client: answer, and return the new memory, or `None` where it stays as it was."""

    @abstractmethod
    def absorb(self, state: Any, answers: Answers, public: Table | None, rng: Rng) -> tuple[Any, Metrics]:
        """Make the next state of the answers, and the numbers worth watching."""

    @abstractmethod
    def expects(self, state: Any, phase: str) -> Expect:
        """Say what a valid answer looks like in this phase, and whether only the sum is needed."""

    # What an author may write as well.

    def check(self, roster: Roster) -> None:
        """Refuse clients whose tables do not fit together; by default all schemas must be equal."""
        agree(roster, self.kind)

    def prepare(self, table: Table) -> Any:
        """At a client: make of its table what `answer` needs each time; pure, kept warm, never stored."""
        return table

    def begin(self, prepared: Any, rng: Rng) -> Any:
        """At a client: make its first memory."""
        return None

    def benefit(self, state: Any) -> Mapping[str, Benefit]:
        """Say per client whether joining helped it."""
        return {}

    @property
    def late(self) -> Mapping[str, Late]:
        """Phases whose answers may come late; by default none, and the method always waits for everyone it asked.

        ``"weighted"``: an answer to an older state helps, and counts less the older it is. ``"kept"``: everybody's
        last answer stays in the sum until the next one replaces it. ``"added"``: all are asked the same, and their
        sum is all. In each, `absorb` must work with weighted sums.
        """
        return {}

    @property
    def memory_types(self) -> tuple[type, ...]:
        """The dataclasses a memory is decoded into; none if clients keep no memory."""
        return () if self.Memory is None else (self.Memory,)

    @property
    def batches(self) -> bool:
        """Whether the method answers a whole cohort at once by `answer_all`."""
        return type(self).answer_all is not Method.answer_all

    def answer_all(
        self, questions: Sequence[Question], prepared: Sequence[Any], memories: Sequence[Any], rngs: Sequence[Rng]
    ) -> list[tuple[Message, Any]]:
        """Answer for a whole cohort at once, equal to `answer` within rounding."""
        return [
            self.answer(question, data, memory, rng)
            for question, data, memory, rng in zip(questions, prepared, memories, rngs, strict=True)
        ]

    def result(self, outcome: Outcome) -> Fitted:
        """Wrap what was learned; override to return a `Fitted` with the method's own verbs."""
        from cotempo.federation.fitted import Fitted

        return Fitted(outcome)

    # What everybody calls.

    def fit(self, clients: Mapping[str, Any], **options: Any) -> Any:
        """Learn from the clients and return a new fitted object; see `cotempo.fit` for the options."""
        from cotempo.runs.run import fit

        return fit(self, clients, **options)


def agree(roster: Roster, kind: str) -> None:
    """Raise `SchemaError` unless all clients hold the same kind of table with the same columns and unit."""
    problems = []
    first, wanted = roster.names[0], roster.schema
    for name in roster.names:
        found = roster.schemas[name]
        if found.kind != kind:
            problems.append(Problem(f"the table must hold {kind}, it holds {found.kind}", client=name))
            continue
        for column in sorted(set(wanted.columns) ^ set(found.columns)):
            has, lacks = (first, name) if column in wanted.columns else (name, first)
            problems.append(
                Problem(f"client {has} has this column, client {lacks} has not", client=name, column=column)
            )
        if set(found.columns) == set(wanted.columns) and found.columns != wanted.columns:
            problems.append(Problem(f"columns must come in the order {', '.join(wanted.columns)}", client=name))
        if found.unit != wanted.unit:
            problems.append(
                Problem(f"the unit of time must be {wanted.unit!r} as at {first}, it is {found.unit!r}", client=name)
            )
    if problems:
        raise SchemaError(problems)
