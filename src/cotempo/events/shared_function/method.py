"""SharedFunction: FedPP's default, a curve of time or a function of history that all clients share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from cotempo.data import Table
from cotempo.events.base_measure import AGAIN, STAGES
from cotempo.events.fedpp import FedPP
from cotempo.events.records.record import Record
from cotempo.events.shared_function import client, server
from cotempo.events.shared_function.state import FunctionMemory, FunctionState, first_memory, first_state
from cotempo.events.unused import refuse_unused
from cotempo.federation import (
    Answers,
    Ask,
    Benefit,
    Expect,
    Late,
    Message,
    Metrics,
    Outcome,
    Question,
    Rng,
    Roster,
)


class SharedFunction(FedPP):
    r"""Clients share a curve of time, or a function of history on a base measure, learned from sums.

    The curve is chosen from sums of counts in cells (`cotempo.events.curves.timeline`). The function f of
    :math:`\lambda_0(t)\, m_c\, \sigma(f(t))` is one for all; each round clients send two sums
    (`cotempo.events.shared_function.updates`). Whichever has the better held-out likelihood is kept.
    """

    phases: ClassVar[tuple[str, ...]] = (*STAGES, "features", "learn", "compare", *AGAIN, "refit", "curvature")
    State: ClassVar[type] = FunctionState
    Memory: ClassVar[type | None] = FunctionMemory

    share: Literal["function"] = Field("function", description="a curve of time or a function of history")
    kernel: Literal["auto", "time", "history"] = Field(
        "auto",
        description="what the intensity depends on: ``'time'``, ``'history'`` (time since the last event, decayed "
        "counts and time), or ``'auto'``, the one with the better held-out likelihood summed over clients",
    )
    refit_rounds: int = Field(5, ge=0, description="further rounds that include what was held out for comparison")
    personal: bool = Field(
        True, description="whether clients may deviate from the curve of time, where that is better on held-out events"
    )
    compare: bool = Field(True, description="whether each client also learns alone, to see whether joining helped it")

    @model_validator(mode="after")
    def _parameters_fit(self) -> SharedFunction:
        if self.kernel == "time":
            words = (
                "the intensity is a curve of time, learned from sums (for a function pass kernel='auto' or 'history')"
            )
            refuse_unused(self, ["rounds", "refit_rounds", "base", "base_rounds", "inducing"], words)
        if self.kernel == "history":
            words = "the intensity is a function of history, which has no deviations (pass kernel='auto' or 'time')"
            refuse_unused(self, ["personal"], words)
        return self

    @property
    def models(self) -> tuple[str, ...]:
        """The models to choose from, the simplest first."""
        return {"time": ("curve",), "auto": ("curve", "base", "function")}.get(self.kernel, ("base", "function"))

    @property
    def deviates(self) -> bool:
        """Whether clients may deviate from the curve of time."""
        return self.personal

    @property
    def sums_up(self) -> bool:
        """Whether held-out gains are needed as a sum alone: nothing is chosen by them, and no client is sent its own."""
        return len(self.models) == 1 and not self.compare

    @property
    def late(self) -> Mapping[str, Late]:
        """Rounds of learning."""
        return {} if self.kernel == "time" else {"learn": "kept", "refit": "kept"}

    def needs(self, state: Any, phase: str) -> bool:
        """Whether a phase is part of this run."""
        history = self.kernel != "time"
        judged, curve_alone = state.judged or history, state.kept == "curve"
        curve = "curve" in self.candidates or (judged and "curve" in self.models)
        needed = {
            "count": curve, "level": curve, "features": history, "learn": history, "compare": judged,
            "recount": curve_alone or state.design.base == "curve", "relevel": curve_alone,
            "rebase": not curve_alone and state.design.base in ("hawkes", "renewal"),
            "refit": not curve_alone and (self.refit_rounds > 0 or state.kept == "base"),
            "curvature": not curve_alone,
        }  # fmt: skip
        return needed[phase] if phase in needed else super().needs(state, phase)

    def open(self, roster: Roster, public: Table | None, rng: Rng) -> FunctionState:
        """Nothing is known yet."""
        return first_state(self, len(roster.names))

    def begin(self, prepared: Record, rng: Rng) -> FunctionMemory:
        """Nothing is known yet."""
        return first_memory(prepared)

    def ask(self, state: FunctionState, cohort: Sequence[str], rng: Rng) -> Ask | None:
        """Ask for what the stage needs."""
        return server.ask(self, state, cohort)

    def answer(
        self, question: Question, prepared: Record, memory: FunctionMemory, rng: Rng
    ) -> tuple[Message, FunctionMemory | None]:
        """Answer the stage."""
        return client.answer(self, question, prepared, memory)

    def answer_all(
        self,
        questions: Sequence[Question],
        prepared: Sequence[Record],
        memories: Sequence[FunctionMemory],
        rngs: Sequence[Rng],
    ) -> list[tuple[Message, FunctionMemory | None]]:
        """Answer as one batch where clients learn."""
        if questions[0].phase not in ("learn", "refit"):
            return super().answer_all(questions, prepared, memories, rngs)
        return [*client.learn(self, questions, prepared, memories)]

    def absorb(
        self, state: FunctionState, answers: Answers, public: Table | None, rng: Rng
    ) -> tuple[FunctionState, Metrics]:
        """Make the next state of the answers."""
        return server.absorb(self, state, answers)

    def expects(self, state: FunctionState, phase: str) -> Expect:
        """Sums wherever sums are enough."""
        return server.expects(self, state, phase)

    def benefit(self, state: FunctionState) -> Mapping[str, Benefit]:
        """Gain per event on what was held out, alone and together."""
        return {
            name: Benefit("held-out gain in nats per event", float(alone), float(together), higher_is_better=True)
            for name, (alone, together) in state.compared.items()
        }

    def result(self, outcome: Outcome) -> Any:
        """Each client's intensity."""
        from cotempo.events.intensities.fitted import FittedSharedFunction

        return FittedSharedFunction(outcome)
