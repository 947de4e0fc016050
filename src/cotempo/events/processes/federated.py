"""FedPointProcess: processes of few parameters, learned from sums. A richer model must beat these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from cotempo.data import Events, Table, make_events
from cotempo.data.clock import Clock
from cotempo.events import base_measure
from cotempo.events.intensities.base import IntensityGivenHistory, LogNormal
from cotempo.events.processes.models import PointProcess, make_process
from cotempo.events.records.history import WHOLE, look_back, unroll, waits
from cotempo.events.records.record import Record, Summary, read_record
from cotempo.events.scores import FEWEST_HELD, METRIC, error_of_gain, gains, process_likelihood
from cotempo.federation import (
    NOT_COMPARED,
    Answers,
    Ask,
    Expect,
    Fitted,
    Joining,
    Message,
    Method,
    Metrics,
    Outcome,
    Question,
    Rng,
    Roster,
    Spec,
    expect_tally,
    register,
)
from cotempo.federation.reducers import Reducer
from cotempo.robust.reducer import SCREEN
from cotempo.typing import Floats

OVER_TIME = ("profile", "histogram", "density", "steps")
ONE_SHOT = ("poisson", *OVER_TIME)


@dataclass(frozen=True)
class ProcessState:
    """What the server keeps: the span, the summary and the parameters, each empty until known; then what joining
    was worth, where clients compare."""

    step: int
    span: Floats
    summary: Floats
    parameters: Floats
    joining: Joining


@dataclass(frozen=True)
class ProcessMemory:
    """What a client keeps: its events, its exposure, the mass of the process on them, and its held-out gains."""

    events: float
    exposure: float
    mass: float
    compared: Floats


@register()
class FedPointProcess(Method):
    """A point process of few parameters, learned from sums over clients.

    Examples
    --------
    >>> clients, truth = make_events(clients=3, kind="hawkes")
    >>> fitted = FedPointProcess(process="hawkes1").fit(clients)
    >>> fitted["client-0"].score(clients["client-0"])["gain"] > 0
    True
    """

    reducer: ClassVar[Reducer] = SCREEN  # name a client that differs from all others
    kind: ClassVar[str] = "events"
    uses_public: ClassVar[bool] = False
    phases: ClassVar[tuple[str, ...]] = ("span", "describe", "learn", "level")
    State: ClassVar[type] = ProcessState
    Memory: ClassVar[type | None] = ProcessMemory
    metric: ClassVar[str] = METRIC

    process: Literal["poisson", "profile", "histogram", "density", "steps", "hawkes", "hawkes1", "renewal"] = Field(
        default="poisson",
        description="``'poisson'``; a rate over the period, or over the complete span: ``'profile'`` (48 equal parts), "
        "``'histogram'`` (as many as AIC asks for), ``'density'`` (a kernel estimate) or ``'steps'`` (Bayesian change "
        "points); ``'hawkes'`` (five decays), ``'hawkes1'`` (one) or ``'renewal'`` (a mixture of log-normals)",
    )
    level: Literal["own", "pooled"] = Field(
        default="own",
        description="whether each client scales the intensity to its own number of events, or all share a level",
    )
    rounds: int = Field(default=30, ge=1, description="steps of expectation-maximisation, where the process needs them")
    period: float | None = Field(default=None, gt=0, description="the period of a rate over time")
    compare: bool = Field(
        default=False,
        description="whether a fifth is held out, to see whether joining helped; the rest is learned from",
    )

    @model_validator(mode="after")
    def _parameters_fit(self) -> FedPointProcess:
        if self.process in ONE_SHOT:
            base_measure.refuse_unused(self, ["rounds"], f"process={self.process!r} is learned at once")
        if self.process not in OVER_TIME:
            base_measure.refuse_unused(self, ["period"], f"process={self.process!r} has no rate over time")
        return self

    @classmethod
    def example(cls) -> tuple[Method, dict[str, Table], None]:
        """Return a small instance for the contract."""
        clients, _ = make_events(clients=4, sequences=4, length=5.0, seed=0)
        return cls(process="hawkes1", rounds=2), dict(clients), None

    def prepare(self, table: Table) -> Record:
        """Read events and windows as arrays."""
        record = read_record(table, local=self.period is not None)
        return record.hold_out() if self.compare else record

    def begin(self, prepared: Record, rng: Rng) -> ProcessMemory:
        """Return a memory that does not know the mass yet."""
        known = prepared.part(held=False)
        return ProcessMemory(known.events, known.exposure, 0.0, NOT_COMPARED)

    def open(self, roster: Roster, public: Table | None, rng: Rng) -> ProcessState:
        """Begin with nothing known."""
        return ProcessState(0, np.zeros(0), np.zeros(0), np.zeros(0), Joining())

    @property
    def steps(self) -> int:
        """How many steps the process takes."""
        return 1 if self.process in ONE_SHOT else self.rounds

    @property
    def most_questions(self) -> dict[str, int]:
        """By phase, how many questions a site answers."""
        return {**dict.fromkeys(self.phases, 1), "learn": self.steps}

    def make(self, summary: Floats) -> PointProcess:
        """Return the process, given what is known of all clients."""
        return make_process(self.process, Summary.from_array(summary), self.period)

    def ask(self, state: ProcessState, cohort: Sequence[str], rng: Rng) -> Ask | None:
        """Ask for span, gaps, steps, and at last each client's level."""
        if not len(state.span):
            return Ask("span", cohort, ends_round=False)
        if not len(state.summary):
            return Ask("describe", cohort, Message({"span": state.span}), ends_round=False)
        if state.step > self.steps:
            return None
        known = Message({"summary": state.summary, "parameters": state.parameters})
        return Ask("learn" if state.step < self.steps else "level", cohort, known)

    def answer(
        self, question: Question, prepared: Record, memory: ProcessMemory, rng: Rng
    ) -> tuple[Message, ProcessMemory | None]:
        """Answer by sums, and nothing but sums once the span is known."""
        known = prepared.part(held=False)
        if question.phase in ("span", "describe"):
            return base_measure.answer_summary(question, prepared if question.phase == "span" else known), None
        process, parameters = self.make(question.common["summary"]), question.common["parameters"]
        unrolled = unroll(known, process.decays, WHOLE)
        if question.phase == "learn":
            return Message({"sums": process.statistics(unrolled, known, parameters)}), None
        fit, mass = process_likelihood(process, parameters, unrolled, 1.0)
        kept = replace(memory, mass=mass)
        compared = self._compare(question.common, prepared, kept) if self.compare else NOT_COMPARED
        return Message({"fit": fit, "joining": self.tally(compared)}), replace(kept, compared=compared)

    def _compare(self, common: Message, prepared: Record, memory: ProcessMemory) -> Floats:
        """Return the gain per held-out event of the process learned from the own events alone, and together."""
        known, held = prepared.part(held=False), prepared.part(held=True)
        if held.events < FEWEST_HELD:
            return NOT_COMPARED
        process = self.make(common["summary"])
        own, unrolled = process.start(), unroll(known, process.decays, WHOLE)
        for _ in range(self.steps):
            own = process.update(own, process.statistics(unrolled, known, own))
        alone = replace(memory, mass=float(process.mass(unrolled, own).sum()))
        state = ProcessState(0, np.zeros(0), common["summary"], common["parameters"], Joining())
        models = [
            ProcessIntensity(self, replace(state, parameters=parameters), kept, Clock()).score_record
            for parameters, kept in ((own, alone), (common["parameters"], memory))
        ]
        return np.array([*(model(held)["gain"] for model in models), error_of_gain(held, models[1], models[0])])

    def absorb(
        self, state: ProcessState, answers: Answers, public: Table | None, rng: Rng
    ) -> tuple[ProcessState, Metrics]:
        """Make better parameters of the total."""
        if not len(state.span):
            return replace(state, span=base_measure.absorb_span(answers)), {}
        if not len(state.summary):
            found = base_measure.absorb_summary(answers, state.span)
            summary = found.to_array()
            return replace(state, summary=summary, parameters=self.make(summary).start()), {"events": found.events}
        if state.step == self.steps:
            joining = Joining(answers.sum["joining"])
            return replace(state, step=state.step + 1, joining=joining), {"fit": float(answers.sum["fit"])}
        better = self.make(state.summary).update(state.parameters, answers.sum["sums"])
        moved = float(np.abs(better - state.parameters).max())
        return replace(state, step=state.step + 1, parameters=better), {"moved": moved}

    def expects(self, state: ProcessState, phase: str) -> Expect:
        """Say what valid answers look like; all but the span are sums."""
        if phase in ("span", "describe"):
            return base_measure.expect_summary(phase)
        if phase == "level":
            fields = {"fit": Spec((), "float", description="log-likelihood of your events"), "joining": expect_tally()}
            return Expect(fields, sums=True)
        is_renewal = self.process == "renewal"  # whose sums are numbers of gaps, then of their logarithms and squares
        size = len(state.parameters) * (1 if is_renewal else 2)
        low, numbers = (-np.inf, size // 3) if is_renewal else (0.0, size // 2)
        fields = {"sums": Spec((size,), low=low, description="sums for the parameters of the process")}

        def alike(message: Message) -> dict[str, Floats]:
            found = self.make(state.summary).alike(message["sums"])
            return {name: value for name, (value, _) in found.items()}

        def scatter(message: Message) -> dict[str, Floats]:
            process, sums = self.make(state.summary), message["sums"]
            by_chance = {f"alike {name}": varies for name, (_, varies) in process.alike(sums).items()}
            return {"sums": process.scatter(sums), **by_chance}

        # The first sums add up to the number of events; who saw none is compared as well.
        return Expect(
            fields, sums=True, weight=(0, 1), alike=alike, scatter=scatter,
            rows=lambda one: 1.0 + float(np.abs(one["sums"][:numbers]).sum()),
        )  # fmt: skip

    def result(self, outcome: Outcome) -> FittedPointProcess:
        """Return each client's process."""
        return FittedPointProcess(outcome)


class FittedPointProcess(Fitted):
    """The result of FedPointProcess; index it by a client's name."""

    def __getitem__(self, client: str) -> ProcessIntensity:
        """Return a client's process, at its own level or at the pooled one."""
        super().__getitem__(client)
        clock = self.outcome.schemas[client].clock
        return ProcessIntensity(self.method, self.state, self.outcome.memories.get(client), clock)


class ProcessIntensity(IntensityGivenHistory):
    """A client's process; its few parameters are point estimates, so that bands have no ends (NaN)."""

    def __init__(self, method: Any, state: ProcessState, memory: ProcessMemory | None, clock: Clock):
        self.method, self.state, self.memory, self.clock = method, state, memory, clock
        self._process: PointProcess = method.make(state.summary)
        self._parameters, self._summary = state.parameters, Summary.from_array(state.summary)
        summary = self._summary
        self.span = (summary.start, summary.end)
        self.seen = (summary.events, summary.exposure) if memory is None else (memory.events, memory.exposure)
        self.anytime = method.process not in OVER_TIME or method.period is not None
        self.period = method.period
        self.remembers = method.process not in ONE_SHOT
        own = memory is not None and method.level == "own"
        self.level = (memory.events + 0.5) / (memory.mass + 0.5) if own and memory is not None else 1.0

    def given(self, times: Floats, history: Floats, start: float, marks: tuple[str, ...]) -> LogNormal:
        """Return the process at the client's level."""
        times, history, start = self.local(times), np.sort(self.local(history)), float(self.local(np.array([start]))[0])
        unrolled = look_back(times, history, start, self._process.decays)
        centre = np.log(self.level) + self._process.log_rate(unrolled, self._parameters)
        return np.exp(centre), centre, np.full(len(times), np.nan)

    def count_moments(
        self, first: float, last: float, past: Floats, begin: float, marks: tuple[str, ...]
    ) -> tuple[float, float]:
        """Return mean and variance of the number of events: where the past does not matter, exactly."""
        if self.remembers:
            return super().count_moments(first, last, past, begin, marks)
        stretch = Events.from_arrays([[]], (first, last), unit=self.clock.unit, zone=self.clock.zone)
        unrolled = unroll(self.read(stretch), self._process.decays, WHOLE)
        mean = self.level * float(self._process.mass(unrolled, self._parameters).sum())
        return mean, mean

    def score_record(self, record: Record) -> dict[str, float]:
        """Return the score of a record."""
        unrolled = unroll(record, self._process.decays, WHOLE)
        found, mass = process_likelihood(self._process, self._parameters, unrolled, self.level)
        pooled = (self._summary.events, self._summary.exposure)
        return gains(found, mass, record.events, record.exposure, {"gain": self.seen, "gain_over_pooled": pooled})

    def rescale_record(self, record: Record) -> list[Floats]:
        """Return the waiting times of a record on the clock of the model."""
        unrolled = unroll(record, self._process.decays, WHOLE)
        return waits(unrolled, self.level * self._process.mass(unrolled, self._parameters))
