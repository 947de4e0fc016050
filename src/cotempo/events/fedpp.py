"""FedPP: federated neural Cox processes. Two ways of learning together, one method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from cotempo.data import Events, Table, make_events
from cotempo.devices import Device
from cotempo.errors import DataError, ParameterError, Problem
from cotempo.events import published
from cotempo.events.curves.timeline import CELLS, LEAST_CELLS
from cotempo.events.intensities.fitted_fedpp import FittedFedPP
from cotempo.events.published import KernelMemory, KernelState
from cotempo.events.records.encoder_inputs import HISTORY
from cotempo.events.records.record import Record
from cotempo.events.shared_function import client as function_client
from cotempo.events.shared_function import messages as function_messages
from cotempo.events.shared_function import server as function_server
from cotempo.events.shared_function.server import CANDIDATES, STAGES
from cotempo.events.shared_function.state import FunctionMemory, FunctionState, first_memory, first_state
from cotempo.events.unused import refuse_unused
from cotempo.federation import (
    Answers,
    Ask,
    Benefit,
    Expect,
    Late,
    Message,
    Method,
    Metrics,
    Outcome,
    Question,
    Rng,
    Roster,
    register,
)

KERNELS = {
    "function": ("auto", "time", "history"),
    "kernel": ("time", "deep", "history", "lstm", "attention"),
}
BASES, FIXED = ("auto", *CANDIDATES), ("poisson", "hawkes", "renewal")
# What means nothing, by what is shared, what the intensity depends on and its base; and where that is, in words.
UNUSED = (
    (
        ("function",), KERNELS["function"], BASES,
        ("aggregation", "epochs", "learning_rate", "batch", "prior_deviation", "device"),
        "clients share a function (for a prior over kernels pass share='kernel' or preset='paper')",
    ),
    (
        ("function",), ("time",), BASES, ("rounds", "settle", "base", "base_rounds", "inducing"),
        "the intensity is a curve of time, which is learned from sums (for a function pass kernel='auto' or 'history')",
    ),
    (
        ("function",), ("history",), BASES, ("personal",),
        "the intensity is a function of history, which has no deviations (pass kernel='auto' or 'time')",
    ),
    (
        ("kernel",), KERNELS["kernel"], BASES, ("settle", "compare", "personal"),
        "clients share a prior over kernels (to compare, pass share='function', or fit one client by itself)",
    ),
    (
        ("kernel",), ("time", "deep"), BASES, ("base", "base_rounds", "period"),
        "the intensity depends on time alone (kernel='history', 'lstm' or 'attention' have a base measure)",
    ),
    (
        tuple(KERNELS), ("auto", *HISTORY), ("poisson", "curve"), ("base_rounds",),
        "the base measure is learned at once (base='hawkes' or 'renewal' takes rounds)",
    ),
    (tuple(KERNELS), HISTORY, FIXED, ("cells",), "no curve of time is learned (pass base='auto' or 'curve')"),
)  # fmt: skip


@dataclass(frozen=True)
class FedPPState:
    """What the server keeps: the state of one of the two ways; that of kernels begins when the other has found the
    span of time and, where histories matter, the base measure."""

    function: FunctionState | None = None
    kernel: KernelState | None = None
    marks: tuple[str, ...] = ()


@dataclass(frozen=True)
class FedPPMemory:
    """What a client keeps, likewise."""

    function: FunctionMemory | None = None
    kernel: KernelMemory | None = None


@register("fed-pp")
class FedPP(Method):
    r"""Cox processes, learned together.

    By default clients share a *curve of time*, chosen and learned from sums of counts, or a *function of history* on a
    base measure chosen together, :math:`\lambda_0(t)\, m_c\, \sigma(f(t))` with one :math:`f` for all, whichever tells
    held-out events best; see `cotempo.events.curves.timeline` and `cotempo.events.shared_function.updates`. With ``preset="paper"`` they share
    a prior over *kernel* weights, as published; see `cotempo.events.published`. A parameter that means nothing where it
    is given is refused.

    Parameters
    ----------
    share
        ``"function"`` or ``"kernel"``.
    kernel
        What the intensity depends on: ``"time"``, ``"history"`` (time since the last event, decayed counts and time),
        or ``"auto"``, the one with the better held-out likelihood summed over clients. For shared kernels ``"time"``,
        ``"history"``, ``"deep"`` (a small Bayesian network of time), ``"lstm"`` or ``"attention"`` (two layers of
        width 32 over the events before).
    marks
        Whether each type of events has an intensity of its own, and encoders see types; for shared kernels of history.
    rounds, settle
        Rounds of learning a function of history or kernels; with a shared function, further rounds that include what
        was held out for comparison.
    base, base_rounds
        Base measure of functions of history: ``"auto"`` for the one with the best held-out likelihood, or its name,
        ``"curve"`` being the curve of time; and how many exchanges Hawkes and renewal processes are learned in.
    inducing, cells
        Inducing points of a function, and cells of time in which events are counted.
    period
        The period of time where there is one, such as a day.
    window
        Start and end of time at all clients; without it clients send theirs, rounded outwards.
    personal
        Whether clients may deviate from the shared curve of time, where that tells held-out events better.
    compare
        Whether each client also learns alone, to see whether joining helped it; by default where a function is shared.
    aggregation, epochs, learning_rate, batch, prior_deviation, device
        For shared kernels: the divergence (``"kl"`` by default), local epochs, Adam's step, sequences per epoch (all
        by default), the first prior's standard deviation, and where clients train: ``"cpu"``, or ``"cuda"`` for a GPU.

    Examples
    --------
    >>> clients, truth = make_events(clients=3, sequences=10)
    >>> fitted = FedPP(kernel="time", compare=False).fit(clients)
    >>> mean, lower, upper = fitted["client-0"].intensity([1.0, 2.0])
    >>> bool((lower < mean).all() and (mean < upper).all())
    True
    """

    kind: ClassVar[str] = "events"
    phases: ClassVar[tuple[str, ...]] = (*STAGES[:-1], "train")
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "cotempo": {},
        "paper": {"share": "kernel", "kernel": "deep", "rounds": 40, "cells": 400},
    }
    State: ClassVar[type] = FedPPState
    Memory: ClassVar[type | None] = FedPPMemory

    share: Literal["function", "kernel"] = "function"
    kernel: Literal["auto", "time", "history", "deep", "lstm", "attention"] = "auto"
    marks: bool = False
    rounds: int = Field(30, ge=1)
    settle: int = Field(5, ge=0)
    base: Literal["auto", "poisson", "curve", "hawkes", "renewal"] = "auto"
    base_rounds: int = Field(25, ge=1)
    inducing: int = Field(50, ge=2)
    cells: int = Field(CELLS, ge=20)
    period: float | None = Field(None, gt=0)
    window: tuple[float, float] | None = None
    personal: bool = True
    compare: bool | None = None
    aggregation: Literal["kl", "wasserstein", "fedavg", "mmd"] | None = None
    epochs: int = Field(5, ge=1)
    learning_rate: float = Field(0.05, gt=0)
    batch: int | None = Field(None, ge=1)
    prior_deviation: float = Field(0.1, gt=0)
    device: Device = "cpu"

    @model_validator(mode="after")
    def _parameters_fit(self) -> FedPP:
        if self.kernel not in KERNELS[self.share]:
            allowed = " or ".join(KERNELS[self.share])
            raise ParameterError(f"kernel must be {allowed} where clients share a {self.share}, got {self.kernel!r}")
        if self.marks and (self.share == "function" or self.kernel not in HISTORY):
            raise ParameterError(
                f"marks need share='kernel' and kernel={' or '.join(HISTORY)}, got share={self.share!r} and "
                f"kernel={self.kernel!r}; without a history, learn each type of events by itself"
            )
        for shares, kernels, bases, names, words in UNUSED:
            if self.share in shares and self.kernel in kernels and self.base in bases:
                refuse_unused(self, names, words)
        curve = self.share == "function" or "curve" in self.candidates
        if curve and (self.cells < LEAST_CELLS or (self.cells > CELLS and self.cells % CELLS)):
            raise ParameterError(
                f"cells must lie between {LEAST_CELLS} and {CELLS} or be a multiple of {CELLS}, got {self.cells}"
            )
        if self.window is not None and not self.window[0] < self.window[1]:
            raise ParameterError(f"window must end after its start, got {self.window}")
        return self

    @property
    def preliminary(self) -> tuple[str, ...]:
        """Stages before kernels are learned."""
        return STAGES[: STAGES.index("choose") + 1] if self.kernel in HISTORY else STAGES[:1]

    @property
    def candidates(self) -> tuple[str, ...]:
        """The base measures to choose from."""
        if self.kernel not in ("auto", *HISTORY):
            return ()
        return CANDIDATES if self.base == "auto" else (self.base,)

    @property
    def models(self) -> tuple[str, ...]:
        """The models to choose from, the simplest first."""
        return {"time": ("curve",), "auto": ("curve", "base", "function")}.get(self.kernel, ("base", "function"))

    @property
    def compares(self) -> bool:
        """Whether each client also learns alone."""
        return self.share == "function" and self.compare is not False

    @property
    def sums_up(self) -> bool:
        """Whether held-out gains are needed as a sum alone: nothing is chosen by them, and no client told its own."""
        return len(self.models) == 1 and not self.compares

    @property
    def divergence(self) -> str:
        """The divergence that kernels are aggregated by."""
        return self.aggregation or "kl"

    @property
    def late(self) -> Mapping[str, Late]:
        """Rounds of learning, unless every posterior is needed by itself."""
        if self.share == "kernel":
            return {} if self.divergence == "mmd" else {"train": "weighted"}
        return {} if self.kernel == "time" else {"learn": "kept", "settle": "kept"}

    @classmethod
    def example(cls) -> tuple[Method, dict[str, Table], None]:
        """A small instance for the contract."""
        clients, _ = make_events(clients=3, sequences=4, length=10.0, seed=0)
        return cls(rounds=2, base_rounds=2, inducing=6, cells=48, settle=1, compare=False), dict(clients), None

    def prepare(self, table: Table) -> Record:
        """Events and windows as arrays."""
        assert isinstance(table, Events)  # `check` saw the schema
        if not len(table.names):
            raise DataError([Problem("there must be at least one watched sequence, there is none; pass its window")])
        if self.marks and not table.marks:
            raise DataError([Problem("events must have marks where marks=True, these have none; leave marks out")])
        record = Record.of(table, marks=self.marks)
        if self.window is not None and not (self.window[0] <= record.start.min() <= record.end.max() <= self.window[1]):
            raise DataError([Problem(f"all windows must lie in {self.window}, the window all clients agreed on")])
        return record

    def open(self, roster: Roster, public: Table | None, rng: Rng) -> FedPPState:
        """Nothing is known yet."""
        state = FedPPState(function=first_state(self, len(roster.names)), marks=tuple(roster.schema.columns))
        return self._hand_over(state, rng)

    def _hand_over(self, state: FedPPState, rng: Rng) -> FedPPState:
        """Begin with kernels when all they need is known."""
        if self.share == "function" or state.function is None or state.function.stage in self.preliminary:
            return state
        types = len(state.marks) if self.marks else 0
        return replace(state, function=None, kernel=published.first_state(self, state.function, types, rng))

    def begin(self, prepared: Record, rng: Rng) -> FedPPMemory:
        """Nothing is known yet."""
        if self.share == "kernel":
            return FedPPMemory(kernel=published.first_memory(prepared))
        return FedPPMemory(function=first_memory(prepared))

    def ask(self, state: FedPPState, cohort: Sequence[str], rng: Rng) -> Ask | None:
        """Ask as the chosen way does."""
        if state.kernel is not None:
            return published.ask(self, state.kernel, cohort)
        assert state.function is not None  # `open` made one of the two
        return function_server.ask(self, state.function, cohort)

    def answer(
        self, question: Question, prepared: Record, memory: FedPPMemory, rng: Rng
    ) -> tuple[Message, FedPPMemory | None]:
        """Answer as the chosen way does."""
        if question.phase == "train":
            return self.answer_all([question], [prepared], [memory], [rng])[0]
        kept = memory.function or first_memory(prepared)
        message, changed = function_client.answer(self, question, prepared, kept)
        # Before kernels are learned, a client keeps nothing of a curve that is a base measure.
        return message, None if changed is None or self.share == "kernel" else FedPPMemory(function=changed)

    def answer_all(
        self,
        questions: Sequence[Question],
        prepared: Sequence[Record],
        memories: Sequence[FedPPMemory],
        rngs: Sequence[Rng],
    ) -> list[tuple[Message, FedPPMemory | None]]:
        """The whole cohort as one batch where clients train."""
        phase = questions[0].phase
        if phase == "train":
            own = [memory.kernel for memory in memories if memory.kernel is not None]
            trained = published.answer(self, questions, prepared, own, rngs)
            return [(message, FedPPMemory(kernel=kept)) for message, kept in trained]
        if phase not in ("learn", "settle"):
            return super().answer_all(questions, prepared, memories, rngs)
        learners = [memory.function for memory in memories if memory.function is not None]
        learned = function_client.learn(self, questions, prepared, learners)
        return [(message, FedPPMemory(function=kept)) for message, kept in learned]

    def absorb(self, state: FedPPState, answers: Answers, public: Table | None, rng: Rng) -> tuple[FedPPState, Metrics]:
        """Absorb as the chosen way does."""
        if state.kernel is not None:
            kernel, metrics = published.absorb(self, state.kernel, answers)
            return replace(state, kernel=kernel), metrics
        assert state.function is not None  # `open` made one of the two
        learned, metrics = function_server.absorb(self, state.function, answers)
        return self._hand_over(replace(state, function=learned), rng), metrics

    def expects(self, state: FedPPState, phase: str) -> Expect:
        """Sums wherever sums are enough."""
        if state.kernel is not None:
            return published.expects(self, state.kernel, phase)
        assert state.function is not None  # `open` made one of the two
        return function_messages.expects(self, state.function, phase)

    def benefit(self, state: FedPPState) -> Mapping[str, Benefit]:
        """Gain per event on what was held out, alone and together."""
        compared = state.function.compared if state.function is not None else {}
        return {
            name: Benefit("held-out gain in nats per event", float(alone), float(together), higher_is_better=True)
            for name, (alone, together) in compared.items()
        }

    def result(self, outcome: Outcome) -> FittedFedPP:
        """Each client's intensity."""
        return FittedFedPP(outcome)
