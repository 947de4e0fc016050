"""FedSimple: the simple processes as a federated method. A richer model must beat these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field, model_validator

from cotempo.data import Events, Table, make_events
from cotempo.errors import DataError, Problem
from cotempo.events.gain import gains, process_likelihood
from cotempo.events.processes import make_process
from cotempo.events.processes.base import Process
from cotempo.events.records.history import WHOLE, look_back, unroll, waits
from cotempo.events.records.record import Floats, Record, as_events
from cotempo.events.records.summary import OCTAVES, Summary, gap_histogram, gap_quantiles, rounded_span
from cotempo.events.unused import refuse_unused
from cotempo.federation import (
    Answers,
    Ask,
    Benefit,
    Expect,
    Fitted,
    Message,
    Method,
    Metrics,
    Outcome,
    Question,
    Rng,
    Roster,
    Spec,
    register,
)

OVER_TIME = ("profile", "histogram", "density", "steps")
ONE_SHOT = ("poisson", *OVER_TIME)


@dataclass(frozen=True)
class SimpleState:
    """What the server keeps: the span, the summary and the parameters, each empty until known; then each client's
    held-out gain alone and together, where they compare."""

    step: int
    span: Floats
    summary: Floats
    parameters: Floats
    compared: Mapping[str, Floats]


@dataclass(frozen=True)
class SimpleMemory:
    """What a client keeps: its events, its exposure, and the mass of the process on them."""

    events: float
    exposure: float
    mass: float


@register()
class FedSimple(Method):
    """A simple point process, learned from sums over clients.

    Parameters
    ----------
    process
        ``"poisson"``; a rate over the period, or over the whole span: ``"profile"`` (48 equal parts), ``"histogram"``
        (as many as AIC asks for), ``"density"`` (a kernel estimate) or ``"steps"`` (Bayesian change points);
        ``"hawkes"`` (five decays), ``"hawkes1"`` (one) or ``"renewal"`` (a mixture of log-normals).
    level
        Whether each client scales the intensity to its own number of events, or all share one level.
    rounds
        Steps of expectation-maximisation, where the process needs them.
    period
        The period of a profile.
    compare
        Whether a fifth is held out, to see whether joining helped a client; the process is learned from the rest.

    Examples
    --------
    >>> clients, truth = make_events(clients=3, kind="hawkes")
    >>> fitted = FedSimple(process="hawkes1").fit(clients)
    >>> fitted["client-0"].score(clients["client-0"])["gain"] > 0
    True
    """

    kind: ClassVar[str] = "events"
    phases: ClassVar[tuple[str, ...]] = ("span", "describe", "learn", "level")
    State: ClassVar[type] = SimpleState
    Memory: ClassVar[type | None] = SimpleMemory

    process: Literal["poisson", "profile", "histogram", "density", "steps", "hawkes", "hawkes1", "renewal"] = "poisson"
    level: Literal["own", "pooled"] = "own"
    rounds: int = Field(30, ge=1)
    period: float | None = Field(None, gt=0)
    compare: bool = False

    @model_validator(mode="after")
    def _parameters_fit(self) -> FedSimple:
        if self.process in ONE_SHOT:
            refuse_unused(self, ["rounds"], f"the process is learned at once, as process={self.process!r} is")
        if self.process not in OVER_TIME:
            refuse_unused(self, ["period"], f"the rate has no time of day, as with process={self.process!r}")
        return self

    @classmethod
    def example(cls) -> tuple[Method, dict[str, Table], None]:
        """A small instance for the contract."""
        clients, _ = make_events(clients=4, sequences=4, length=5.0, seed=0)
        return cls(process="hawkes1", rounds=2), dict(clients), None

    def prepare(self, table: Table) -> Record:
        """Events and windows as arrays."""
        assert isinstance(table, Events)  # `check` saw the schema
        if not len(table.names):
            raise DataError([Problem("there must be at least one watched sequence, there is none; pass its window")])
        record = Record.of(table)
        return record.hold_out() if self.compare else record

    def begin(self, prepared: Record, rng: Rng) -> SimpleMemory:
        """The mass is not known yet."""
        known = prepared.part(held=False)
        return SimpleMemory(known.events, known.exposure, 0.0)

    def open(self, roster: Roster, public: Table | None, rng: Rng) -> SimpleState:
        """Nothing is known yet."""
        return SimpleState(0, np.zeros(0), np.zeros(0), np.zeros(0), {})

    @property
    def steps(self) -> int:
        """How many steps the process takes."""
        return 1 if self.process in ONE_SHOT else self.rounds

    def make(self, summary: Floats) -> Process:
        """The process, given what is known of all clients."""
        return make_process(self.process, Summary.from_array(summary), self.period)

    def ask(self, state: SimpleState, cohort: Sequence[str], rng: Rng) -> Ask | None:
        """Span, gaps, steps, and at last each client's level."""
        if not len(state.span):
            return Ask("span", cohort, ends_round=False)
        if not len(state.summary):
            return Ask("describe", cohort, Message({"span": state.span}), ends_round=False)
        if state.step > self.steps:
            return None
        known = Message({"summary": state.summary, "parameters": state.parameters})
        return Ask("learn" if state.step < self.steps else "level", cohort, known)

    def answer(
        self, question: Question, prepared: Record, memory: SimpleMemory, rng: Rng
    ) -> tuple[Message, SimpleMemory | None]:
        """Sums, and nothing but sums once the span is known."""
        if question.phase == "span":
            first, last = rounded_span(prepared)
            return Message({"start": first, "end": last}), None
        known = prepared.part(held=False)
        if question.phase == "describe":
            totals = np.array([known.events, known.exposure])
            return Message({"totals": totals, "gaps": gap_histogram(known, question.common["span"])}), None
        process, parameters = self.make(question.common["summary"]), question.common["parameters"]
        unrolled = unroll(known, process.decays, WHOLE)
        if question.phase == "learn":
            return Message({"sums": process.statistics(unrolled, known, parameters)}), None
        fit, mass = process_likelihood(process, parameters, unrolled, 1.0)
        kept = replace(memory, mass=mass)
        return Message({"fit": fit, **self._compare(question.common, prepared, kept)}), kept

    def _compare(self, common: Message, prepared: Record, memory: SimpleMemory) -> dict[str, float]:
        """Gain per held-out event together, and of the same process learned from the own events alone."""
        if not self.compare:
            return {}
        known, held = prepared.part(held=False), prepared.part(held=True)
        process = self.make(common["summary"])
        own, unrolled = process.start(), unroll(known, process.decays, WHOLE)
        for _ in range(self.steps):
            own = process.update(own, process.statistics(unrolled, known, own))
        lonely = replace(memory, mass=float(process.mass(unrolled, own).sum()))
        state = SimpleState(0, np.zeros(0), common["summary"], common["parameters"], {})
        return {
            name: SimpleIntensity(self, replace(state, parameters=parameters), kept).tell(held)["gain"]
            for name, parameters, kept in (("alone", own, lonely), ("together", common["parameters"], memory))
        }

    def absorb(
        self, state: SimpleState, answers: Answers, public: Table | None, rng: Rng
    ) -> tuple[SimpleState, Metrics]:
        """Better parameters from the total."""
        if not len(state.span):
            first = min(answers[name]["start"] for name in answers.names)
            last = max(answers[name]["end"] for name in answers.names)
            return replace(state, span=np.array([first, last])), {}
        if not len(state.summary):
            events, exposure = answers.sum["totals"].tolist()
            gaps = gap_quantiles(answers.sum["gaps"], exposure / (events + 1), state.span)
            first, last = state.span.tolist()
            summary = Summary(events, exposure, first, last, gaps).to_array()
            return replace(state, summary=summary, parameters=self.make(summary).start()), {"events": events}
        if state.step == self.steps:
            if not self.compare:
                return replace(state, step=state.step + 1), {"fit": float(answers.sum["fit"])}
            fields = ("alone", "together")
            compared = {name: np.array([answers[name][field] for field in fields]) for name in answers.names}
            return replace(state, step=state.step + 1, compared=compared), {}
        better = self.make(state.summary).update(state.parameters, answers.sum["sums"])
        moved = float(np.abs(better - state.parameters).max())
        return replace(state, step=state.step + 1, parameters=better), {"moved": moved}

    def expects(self, state: SimpleState, phase: str) -> Expect:
        """All but the span are sums."""
        if phase == "span":
            about = "first start and last end of your windows, rounded outwards"
            return Expect({"start": Spec((), "float", description=about), "end": Spec((), "float", description=about)})
        if phase == "describe":
            totals = Spec((2,), low=0, description="your number of events and your exposure")
            gaps = Spec((len(OCTAVES) - 1,), low=0, description="how many gaps between your events are of each length")
            return Expect({"totals": totals, "gaps": gaps}, sums=True)
        if phase == "level":
            fields = {"fit": Spec((), "float", description="log-likelihood of your events")}
            about = "gain per event held out, by yourself and together"
            names = ("alone", "together") if self.compare else ()
            return Expect({**fields, **{n: Spec((), "float", description=about) for n in names}}, sums=not self.compare)
        size = len(state.parameters) * (1 if self.process == "renewal" else 2)
        return Expect({"sums": Spec((size,), description="sums for the parameters of the process")}, sums=True)

    def benefit(self, state: SimpleState) -> Mapping[str, Benefit]:
        """Gain per event on what was held out, alone and together."""
        return {
            name: Benefit("held-out gain in nats per event", float(alone), float(together), higher_is_better=True)
            for name, (alone, together) in state.compared.items()
        }

    def result(self, outcome: Outcome) -> FittedSimple:
        """Each client's process."""
        return FittedSimple(outcome)


class FittedSimple(Fitted):
    """The result of FedSimple; index it by a client's name."""

    def __getitem__(self, client: str) -> SimpleIntensity:
        """A client's process, at its own level or at the pooled one."""
        super().__getitem__(client)
        return SimpleIntensity(self.method, self.state, self.outcome.memories.get(client))


class SimpleIntensity:
    """A client's simple process."""

    def __init__(self, method: Any, state: SimpleState, memory: SimpleMemory | None):
        self._process: Process = method.make(state.summary)
        self._parameters, self._summary = state.parameters, Summary.from_array(state.summary)
        self._memory = memory
        own = memory is not None and method.level == "own"
        self.level = (memory.events + 0.5) / (memory.mass + 0.5) if own and memory is not None else 1.0

    def intensity(self, times: ArrayLike, history: ArrayLike = (), start: float | None = None) -> Floats:
        """The intensity at `times`, given the sorted events of the sequence."""
        at, past = np.asarray(times, dtype=np.float64), np.asarray(history, dtype=np.float64)
        origin = self._summary.start if start is None else start
        unrolled = look_back(at.ravel(), past, origin, self._process.decays)
        return np.asarray(self.level * np.exp(self._process.log_rate(unrolled, self._parameters))).reshape(at.shape)

    def score(self, events: Events | ArrayLike, window: tuple[float, float] | None = None) -> Mapping[str, float]:
        """Gains in nats per event over the client's own and the pooled homogeneous rate, and the ratio of counts."""
        return self.tell(Record.of(as_events(events, window)))

    def tell(self, record: Record) -> dict[str, float]:
        """The score of a record."""
        unrolled = unroll(record, self._process.decays, WHOLE)
        told, mass = process_likelihood(self._process, self._parameters, unrolled, self.level)
        pooled = (self._summary.events, self._summary.exposure)
        own = pooled if self._memory is None else (self._memory.events, self._memory.exposure)
        return gains(told, mass, record.events, record.exposure, {"gain": own, "gain_over_pooled": pooled})

    def rescale(self, events: Events | ArrayLike, window: tuple[float, float] | None = None) -> list[Floats]:
        """Waiting times on the clock of the model, per sequence: unit exponentials where the model is right."""
        unrolled = unroll(Record.of(as_events(events, window)), self._process.decays, WHOLE)
        return waits(unrolled, self.level * self._process.mass(unrolled, self._parameters))
