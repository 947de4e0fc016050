"""SharedFunction: FedPP's default, a curve of time or a function of history that all clients share.

After the stages of `cotempo.events.base_measure`: features, rounds of two sums for the function, a comparison on what
was held out; then a refit on everything, and the curvature for the bands. Clients answer in `client`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator
from scipy.optimize import brentq
from scipy.special import digamma

from cotempo.data import Table
from cotempo.events import base_measure
from cotempo.events.base_measure import AGAIN, STAGES
from cotempo.events.fedpp import FedPP
from cotempo.events.processes.models import USUAL_RATES, time_for_an_event
from cotempo.events.records.design import DIMENSIONS, place_inducing, whitening
from cotempo.events.records.record import Record
from cotempo.events.records.rhythms import say_rhythms
from cotempo.events.scores import FEWEST_HELD, METRIC
from cotempo.events.shared_function import client
from cotempo.events.shared_function.client import FunctionAnswer, FunctionMemory, FunctionState
from cotempo.federation import (
    Answers,
    Ask,
    Expect,
    Joining,
    Message,
    Outcome,
    Question,
    Rng,
    Roster,
    Spec,
    Staleness,
    expect_tally,
)
from cotempo.typing import Floats

Absorbed = tuple[FunctionState, dict[str, float]]
# Nats that an event of an honest site gains at most.
MOST_GAIN = 10.0
# The shape of the levels' prior where complete sequences say that all levels are one.
POOLED_SHAPE = 1e6
# The step number of Adam in a refit, whose moments are those of the rounds before.
LATE_STEP = 1000


class SharedFunction(FedPP):
    r"""When events happen, learned together: a rate with a band, by the time or by the events before.

    The curve is chosen from sums of counts in cells (`cotempo.events.curves.timeline`). The function f of
    :math:`\lambda_0(t)\, m_c\, \sigma(f(t))` is one for all; each round clients send two sums
    (`cotempo.events.shared_function.updates`). Whichever has the better held-out likelihood is kept.
    """

    phases: ClassVar[tuple[str, ...]] = (*STAGES, "features", "learn", "compare", *AGAIN, "refit", "curvature")
    compares: ClassVar[str] = f"clients that hold out at least {FEWEST_HELD} events"
    State: ClassVar[type] = FunctionState
    Memory: ClassVar[type | None] = FunctionMemory
    metric: ClassVar[str] = METRIC

    share: Literal["function"] = Field(default="function", description="a curve of time or a function of history")
    kernel: Literal["auto", "time", "history"] = Field(
        default="auto",
        description="what the intensity depends on: ``'time'``, ``'history'`` (time since the last event, decayed "
        "counts and time), or ``'auto'``, the one with the better held-out likelihood summed over clients",
    )
    refit_rounds: int = Field(
        default=5, ge=0, description="further rounds that include what was held out for comparison"
    )
    compare: bool = Field(
        default=True, description="whether each client also learns alone, to see whether joining helped it"
    )

    @model_validator(mode="after")
    def _parameters_fit(self) -> SharedFunction:
        if self.kernel == "time":
            words = (
                "the intensity is a curve of time, learned from sums (for a function pass kernel='auto' or 'history')"
            )
            base_measure.refuse_unused(self, ["rounds", "refit_rounds", "base", "base_rounds", "inducing"], words)
        return self

    @property
    def models(self) -> tuple[str, ...]:
        """The models to choose from, the simplest first."""
        return {"time": ("curve",), "auto": ("curve", "base", "function")}.get(self.kernel, ("base", "function"))

    def misled_by(self, table: Table) -> list[str]:
        """Say where counts follow the clock and no period was passed."""
        return [] if self.period else say_rhythms(table)

    @property
    def staleness(self) -> Mapping[str, Staleness]:
        """Rounds of learning."""
        return {} if self.kernel == "time" else {"learn": "replace", "refit": "replace"}

    def needs(self, state: Any, phase: str) -> bool:
        """Say whether a phase is part of this run."""
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
        """Begin with nothing known."""
        return client.first_state(self, len(roster.names))

    def begin(self, prepared: Record, rng: Rng) -> FunctionMemory:
        """Begin with nothing known."""
        return client.first_memory(prepared.events, prepared.exposure)

    def ask(self, state: FunctionState, cohort: Sequence[str], rng: Rng) -> Ask | None:
        """Ask for what the stage needs."""
        if state.stage == "done":
            return None
        ends = state.stage in ("relevel", "learn", "refit", "curvature", "compare")
        return Ask(state.stage, cohort, self._message(state), ends_round=ends)

    def _message(self, state: FunctionState) -> Message:
        """Return everything a client needs to know at this stage."""
        if state.stage in (*STAGES, *AGAIN):
            return base_measure.measure_message(state)
        known, design = base_measure.design_fields(state.design), state.design
        if state.stage == "features":
            return Message(known)
        if self.kernel == "time":
            return Message({**known, **base_measure.curve_fields(state.timeline)})
        arrays = {name: getattr(state, name) for name in ("inducing", "kernel", "mean", "root", "rate")}
        known |= {"centre": design.centre, "whiten": design.whiten, **arrays}
        curve = base_measure.curve_fields(state.timeline) if state.stage == "compare" and self.kernel == "auto" else {}
        return Message({**known, **curve})

    def answer(self, question: Question, prepared: Record, memory: FunctionMemory, rng: Rng) -> FunctionAnswer:
        """Answer one stage."""
        return client.answer(self, question, prepared, memory)

    def answer_all(
        self,
        questions: Sequence[Question],
        prepared: Sequence[Record],
        memories: Sequence[FunctionMemory],
        rngs: Sequence[Rng],
    ) -> list[FunctionAnswer]:
        """Answer as one batch where clients learn."""
        if questions[0].phase not in ("learn", "refit"):
            return super().answer_all(questions, prepared, memories, rngs)
        return [*client.learn(self, questions, prepared, memories)]

    def absorb(self, state: FunctionState, answers: Answers, public: Table | None, rng: Rng) -> Absorbed:
        """Make the next state of the answers."""
        makers = {
            "features": self._absorb_features, "learn": self._absorb_learn, "compare": self._absorb_compare,
            "refit": self._absorb_learn, "curvature": self._absorb_curvature,
        }  # fmt: skip
        if state.stage in makers:
            return makers[state.stage](state, answers)
        return base_measure.absorb_measure(self, state, answers)

    def _absorb_features(self, state: FunctionState, answers: Answers) -> Absorbed:
        effect, shape = base_measure.design_effect(answers.sum["dispersion"]), 4.0
        if state.design.base == "curve":
            # How strongly levels are drawn together on the curve is known from complete sequences.
            effect, shape = 1.0, min(float(state.timeline.own[0]), POOLED_SHAPE)
        centre, whiten = whitening(answers.sum["moments"])
        kernel, inducing = client.first_kernel(), place_inducing(self.inducing)
        nothing = np.zeros_like(kernel)
        state = replace(
            state, design=replace(state.design, centre=centre, whiten=whiten), inducing=inducing, kernel=kernel,
            first_moment=nothing, second_moment=nothing, mean=np.zeros(len(inducing)), root=np.eye(len(inducing)),
            rate=np.array([shape, shape / 2, effect]), curvature=np.zeros((len(inducing),) * 2),
        )  # fmt: skip
        return base_measure.advance(self, state), {"design effect": effect}

    def _absorb_learn(self, state: FunctionState, answers: Answers) -> Absorbed:
        r"""Posterior from two sums: :math:`\Sigma^{-1} = I + \sum_c S_c`, :math:`\mu = \Sigma \sum_c h_c`."""
        total = answers.sum
        # Late answers weigh less than 1, and stand for fewer clients.
        scale = max(state.clients / total.weight, 1.0)
        precision = np.eye(len(state.mean)) + scale * total["quadratic"]
        root = np.linalg.cholesky((precision + precision.T) / 2)
        mean = np.linalg.solve(precision, scale * total["linear"])
        shape, rate = _rate_prior(state, total["level"] / total.weight)
        kernel, first, second = _climb(state, scale * total["gradient"])
        state = replace(
            state, step=state.step + 1, mean=mean, root=root, kernel=kernel, first_moment=first, second_moment=second,
            rate=np.array([shape, rate, state.rate[2]]),
        )  # fmt: skip
        last = max(self.refit_rounds, 1) if state.stage == "refit" else self.rounds
        return (state if state.step < last else base_measure.advance(self, state)), {"fit": float(total["fit"])}

    def _absorb_compare(self, state: FunctionState, answers: Answers) -> Absorbed:
        """Keep the simplest model whose held-out likelihood, summed over clients, is not surely worse than the best.

        That model is also the one of which clients are told what joining was worth. It was chosen on the same events;
        as only one that is surely better than all simpler ones is kept, that flatters little.
        """
        models, total = self.models, answers.sum
        gains, products, clients = total["gains"], total["products"], total.weight
        best = _best(gains.sum(axis=1), products.sum(axis=0), 2 * clients)
        kept, joining = models[best], Joining(total["joining"][best], (best,)) if self.compare else Joining()
        state = replace(state, joining=joining, kept=kept)
        state = client.without_function(state) if kept == "base" else state
        found = dict(zip(models, gains.sum(axis=1) / max(total["events"], 1.0), strict=True))
        return base_measure.advance(self, state), {
            f"held-out gain of the {n}": float(value) for n, value in found.items()
        }

    def _absorb_curvature(self, state: FunctionState, answers: Answers) -> Absorbed:
        scale = max(state.clients / len(answers.names), 1.0)
        return base_measure.advance(self, replace(state, curvature=scale * answers.sum["curvature"])), {}

    def expects(self, state: FunctionState, phase: str) -> Expect:
        """Return what valid answers look like; all but the span are sums."""
        if phase in (*STAGES, *AGAIN):
            return base_measure.expect_measure(self, state, phase)
        if phase == "compare":
            words, count = "gain of each model on both halves of your held-out events", len(self.models)
            fields = {
                "gains": Spec((count, 2), description=words),
                "products": Spec((2, count, count), description="products of these gains of each two models"),
                "events": Spec((), "float", low=0, description="how many events you held out"),
                "joining": expect_tally(count),
            }
            return Expect(fields, sums=True, rows=_held_events, scatter=_scatter_of_products)
        count, rows, alike, scatter = len(state.inducing), None, None, None
        if phase == "features":
            moments = Spec((1 + DIMENSIONS + DIMENSIONS**2,), description="moments of your features")
            fields = {"dispersion": base_measure.DISPERSION, "moments": moments}
        elif phase == "curvature":
            fields = {"curvature": Spec((count, count), description="your information about the shared function")}
        else:
            rows, alike, scatter = _learned_events, _levels, _scatter_of_levels
            level = "your expected level, its logarithm, and the events and exposure behind it"
            fields = {
                "quadratic": Spec((count, count), description="precision your events give the shared function"),
                "linear": Spec((count,), description="precision times mean your events give the shared function"),
                "gradient": Spec((len(state.kernel),), description="slope of your fit in the kernel's parameters"),
                "fit": Spec((), "float", description="your fit"),
                "level": Spec((4,), description=level),
            }
        return Expect(fields, sums=True, rows=rows, alike=alike, scatter=scatter)

    def result(self, outcome: Outcome) -> Any:
        """Return each client's intensity."""
        from cotempo.events.intensities.fitted import FittedFedPP

        return FittedFedPP(outcome)


def _learned_events(message: Message) -> float:
    """Return how many events an answer is of, and one: who saw none says so."""
    return 1.0 + float(message["level"][2])


def _held_events(message: Message) -> float:
    """Return how many events an answer is of, and one."""
    return 1.0 + float(message["events"])


def _levels(message: Message) -> dict[str, Floats]:
    """Return logarithms of the level, as a mean and as events by exposure: honest sites may be small or large."""
    mean, log, events, exposure = message["level"]
    return {
        "level": time_for_an_event(events, exposure), "mean level": np.log(np.maximum([mean], 1e-30)),
        "log level": np.array([log]),
    }  # fmt: skip


def _scatter_of_levels(message: Message) -> dict[str, Floats]:
    """Return how far apart levels of honest sites are; how long one watched for its events does not matter."""
    told = {f"alike {name}": np.array([USUAL_RATES]) for name in _levels(message)}
    return {"level": np.full(4, base_measure.ANY), **told}


def _scatter_of_products(message: Message) -> dict[str, Floats]:
    """Return how far apart products of gains may be: they grow with the square of a site's held-out events."""
    return {"products": np.full(message["products"].shape, (MOST_GAIN * _held_events(message)) ** 2)}


def _climb(state: FunctionState, gradient: Floats) -> tuple[Floats, Floats, Floats]:
    """Take one step of Adam on the kernel, with weak priors around where it started."""
    gradient = gradient - (state.kernel - client.first_kernel())
    first, second = 0.8 * state.first_moment + 0.2 * gradient, 0.95 * state.second_moment + 0.05 * gradient**2
    number = state.step + 1 if state.stage == "learn" else LATE_STEP
    step = 0.1 * (first / (1 - 0.8**number)) / (np.sqrt(second / (1 - 0.95**number)) + 1e-8)
    return state.kernel + step, first, second


def _rate_prior(state: FunctionState, level: Floats) -> tuple[float, float]:
    """Return the empirical Bayes prior of m: as spread as the clients' levels, around that of all events together.

    The mean of the clients' levels would do in the end, but where they are drawn strongly to it, it hardly moves.
    """
    shape, rate = gamma_from_moments(float(level[0]), float(level[1]))
    if state.design.base == "curve":
        shape, rate = state.rate[:2].tolist()
    return (shape, shape * float(level[3] / level[2])) if min(level[2:]) > 0 else (shape, rate)


def gamma_from_moments(mean: float, mean_log: float) -> tuple[float, float]:
    """Return shape (between 0.5 and 1e4) and rate of the Gamma with these expectations of m and log m."""
    gap = np.log(mean) - mean_log

    def miss(log_shape: float) -> float:
        return float(log_shape - digamma(np.exp(log_shape)) - gap)

    low, high = np.log(0.5), np.log(1e4)
    log_shape = low if miss(low) <= 0 else high if miss(high) >= 0 else float(brentq(miss, low, high))
    return float(np.exp(log_shape)), float(np.exp(log_shape) / mean)


def _best(gains: Floats, products: Floats, clients: float) -> int:
    """Return the first model not worse than the best by more than two standard errors of their paired difference.

    `gains`, ``(models,)``, and products of those of each two models are sums over clients; the simplest model is first.
    """
    first = int(np.argmax(gains))
    worse = gains[first] - gains
    squares = products[first, first] - 2 * products[first] + products.diagonal() - worse**2 / clients
    error = np.sqrt(clients * np.maximum(squares, 0.0) / max(clients - 1, 1.0))
    return int(np.argmax(worse <= 2 * error))
