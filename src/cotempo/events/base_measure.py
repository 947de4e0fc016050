"""BaseMeasure: stages that a method of events can put before its own.

Stage by stage, clients send the span of their windows (``span``); totals and a histogram of gaps (``describe``); for
the curve of time, counts in cells (``count``) and the held-out likelihood of levels (``level``); for Hawkes and renewal
processes, the sums of expectation-maximisation (``base``); and the held-out likelihood of each candidate (``choose``).
All but the span are sums. ``recount``, ``relevel`` and ``rebase`` learn the same from everything, nothing held out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from cotempo.errors import MessageError, ParameterError
from cotempo.events.curves.timeline import (
    SETTINGS,
    STRENGTHS,
    Timeline,
    choose_curve,
    cross_validate,
    find_level,
    profile,
)
from cotempo.events.processes.models import USUAL_RATES, RateProfile, time_for_an_event
from cotempo.events.records.design import FeatureDesign, dispersion
from cotempo.events.records.history import WHOLE, unroll
from cotempo.events.records.record import FOLDS, OCTAVES, Record, Summary, gap_histogram, gap_quantiles, rounded_span
from cotempo.events.scores import process_likelihood
from cotempo.federation import Answers, Expect, Message, Method, Question, Spec
from cotempo.typing import Floats, Indices

if TYPE_CHECKING:
    from cotempo.events.fedpp import FedPP

NONE = np.zeros(0)
STAGES = ("span", "describe", "count", "level", "base", "choose")
AGAIN = ("recount", "relevel", "rebase")
CANDIDATES = ("poisson", "curve", "hawkes", "renewal")
# Base measures that are learned in many exchanges, and how many they get once the choice is made.
ITERATED, REFINED = ("hawkes", "renewal"), 5
# Exchanges in which the levels of clients and the curve find each other, and the strength of levels meanwhile.
PASSES, FIRST_STRENGTH = 3, 2.0
# Stretches over which the misfit of the curve is measured.
STRETCHES = 20
# Nats by which deviations from the curve must be better than none: they are among several that are tried.
MARGIN = 3.0
# The weight of Poisson's dispersion against that of the sequences, in degrees of freedom.
POISSON_FREEDOM = 5.0
# Screening: how much longer tails of squared misfits are than a normal's.
TAIL = 2.0
# Levels are drawn to that of all by a few events: the variance that this adds to the course of events.
LEVELLED = 0.05
# The weight of counts in which nothing tells how the curve goes: times are cut down to periods or, as long as no curve
# is known, to steps of several cells.
FAINT = 0.01
# More than anything differs: which fold of a client holds a sequence is chance.
ANY = 1e100
DISPERSION = Spec((2, 3), low=0, description="how much counts of your sequences, or blocks of a single one, vary")


@dataclass(frozen=True)
class BaseMeasure:
    """What the server knows before a method's own stages.

    `step` counts the exchanges of the `stage` that are over. `span` is the first start and last end of the clients'
    windows. `design` says how records are read; its `base` and `parameters` are the base measure. `timeline` is the
    curve of time, and `candidates` has the parameters of the base measures to choose from.
    """

    stage: str
    step: int
    span: Floats
    design: FeatureDesign
    timeline: Timeline
    candidates: Mapping[str, Floats]


S = TypeVar("S", bound=BaseMeasure)


def first_design(method: FedPP) -> FeatureDesign:
    """Return the design before anything is known."""
    return FeatureDesign(NONE, method.period or 0.0, method.cells, "poisson", NONE, NONE, NONE)


def open_measure(method: FedPP) -> BaseMeasure:
    """Return the measure before anyone was asked; an agreed window makes the first stage unnecessary."""
    span = np.array(method.window) if method.window else np.array([np.inf, -np.inf])
    line = Timeline(np.zeros((2, 0, 0)), np.zeros((0, 0)), "flat", 1.0, np.array([2.0, 1.0, 0.0]), 1.0)
    return BaseMeasure("describe" if method.window else "span", 0, span, first_design(method), line, {})


def advance(method: FedPP, state: S) -> S:
    """Return the state at the next stage that this run needs."""
    later = method.phases[method.phases.index(state.stage) + 1 :]
    return replace(state, step=0, stage=next((stage for stage in later if method.needs(state, stage)), "done"))


def refuse_unused(method: Method, names: Sequence[str], where: str) -> None:
    """Refuse parameters that differ from their default; a default passes, so that a saved method can be read again."""
    for name in names:
        value, default = getattr(method, name), type(method).model_fields[name].default
        if value != default:
            wanted = "left out" if default is None else repr(default)
            raise ParameterError(f"{name} must be {wanted} where {where}, got {value!r}")


# What is sent to clients, and how they read it.


def design_fields(design: FeatureDesign) -> dict[str, Any]:
    """Return the fields of a message from which `read_design` makes the base measure."""
    return {"summary": design.summary, "base": design.base, "parameters": design.parameters}


def curve_fields(line: Timeline) -> dict[str, Any]:
    """Return the fields of a message that hold the curve of time."""
    return {"curves": line.curves, "temper": line.temper, "own": line.own, "effect": line.effect}


def read_design(method: FedPP, common: Message) -> FeatureDesign:
    """At a client: return the design that the server sent."""
    names = [name for name in ("summary", "base", "parameters", "centre", "whiten") if name in common]
    return replace(first_design(method), **{name: common[name] for name in names})


def measure_message(state: BaseMeasure) -> Message:
    """Return what clients need to know at one of these stages."""
    if state.stage in ("span", "describe"):
        return Message({"span": state.span} if state.stage == "describe" else {})
    known = design_fields(state.design)
    if state.stage in ("count", "recount"):
        return Message({**known, "curve": state.timeline.curves[-1]})
    if state.stage in ("level", "relevel"):
        return Message({**known, **curve_fields(state.timeline)})
    return Message({**known, **{f"of {name}": value for name, value in state.candidates.items()}})


# What clients answer.


def answer_summary(question: Question, record: Record) -> Message:
    """At a client: send the ends of the windows, rounded outwards (``span``), or totals and gaps (``describe``)."""
    if question.phase == "span":
        first, last = rounded_span(record)
        return Message({"start": first, "end": last})
    gaps = gap_histogram(record, question.common["span"])
    return Message({"totals": np.array([record.events, record.exposure]), "gaps": gaps})


def answer_measure(method: FedPP, question: Question, record: Record) -> Message:
    """At a client: answer one of these stages; what is held out counts only where everything is learned again."""
    common, phase = question.common, question.phase
    part = record if phase in ("span", *AGAIN) else record.hold_out().part(held=False).whole()
    if phase in ("span", "describe"):
        return answer_summary(question, part)
    design = read_design(method, common)
    require_wide(design, record)
    if phase in ("count", "recount"):
        return _answer_count(design, common["curve"], part)
    if phase in ("level", "relevel"):
        # Held-out log-likelihoods by setting: of sequences, or in the second row of a single one's blocks, which say
        # nothing about how sequences vary.
        found = np.zeros((2, len(SETTINGS)))
        found[int(part.single)] = cross_validate(
            common["curves"][:-1], *_folds(design, part, common["curves"][-1]), common["temper"]
        )
        return Message({"log_likelihood": found})
    if phase == "choose":
        return _answer_choice(method, design, common, part.hold_out())
    train = part if phase == "rebase" else part.hold_out().part(held=False)
    unrolled = unroll(train, design.decays, WHOLE)
    return Message(
        {
            f"of {name}": design.process(name).statistics(unrolled, train, common[f"of {name}"])
            for name in _iterated(method, phase, common["base"])
        }
    )


def require_wide(design: FeatureDesign, record: Record) -> None:
    """Refuse a span far shorter than the own windows: cells of a span of the asker's choice would tell exact times."""
    summary = Summary.from_array(design.summary)
    if summary.end - summary.start < (record.end.max() - record.start.min()) / 2:
        raise MessageError("the span of a question must be at least half as long as the client's own windows together")


def cells_of(design: FeatureDesign, record: Record, curve: Floats | None = None) -> Floats:
    """Return events and exposure in cells of time, ``(2, cells)``.

    With a `curve`, events whose times were cut down to steps of several cells follow it within each step: nothing is
    known of where in it they were, so a site that records only dates changes nobody's day, and has that of the others.
    """
    process = design.process("curve")
    events, exposure = process.statistics(unroll(record, process.decays, WHOLE), record, NONE).reshape(2, -1)
    if curve is not None:
        expected, steps = curve * exposure, steps_of(design, record)
        share = np.bincount(steps, expected)[steps]
        events = np.where(share > 0, np.bincount(steps, events)[steps] * expected / np.maximum(share, 1e-300), events)
    return np.stack([events, exposure])


def steps_of(design: FeatureDesign, record: Record) -> Indices:
    """Return in which of the steps that the record's times were cut down to each cell lies; each in its own if none."""
    process = design.process("curve")
    assert isinstance(process, RateProfile)
    return process.steps(record.step)


def blurred(design: FeatureDesign, record: Record, rate: Floats) -> Floats:
    """Return the rate of each cell as a record tells it: its mean over steps that times were cut down to."""
    steps = steps_of(design, record)
    return np.asarray((np.bincount(steps, rate) / np.bincount(steps))[steps])


def _folds(design: FeatureDesign, record: Record, curve: Floats) -> tuple[Floats, Floats]:
    """Return events and exposure of each fold and cell, ``(folds, cells)`` each."""
    events, exposure = np.stack([cells_of(design, part, curve) for part in record.deal()], axis=1)
    return events, exposure


def _answer_count(design: FeatureDesign, curve: Floats, record: Record) -> Message:
    """Send counts, exposure weighted by the own level, and how far stretches and sequences are from Poisson's."""
    events, exposure = _folds(design, record, curve)
    seen, watched = events.sum(axis=0), exposure.sum(axis=0)
    level = find_level(curve, seen, watched, FIRST_STRENGTH)
    steps = np.bincount(steps_of(design, record))
    # Of hours that are not known, one who knows them tells; if nobody does, days can still be told.
    weight = FAINT if len(steps) == 1 or (steps.max() > 1 and not np.ptp(curve)) else 1.0
    stretch = np.arange(len(curve)) * STRETCHES // len(curve)
    observed, expected = (np.bincount(stretch, part, STRETCHES) for part in (seen, level * curve * watched))
    return Message(
        {
            "events": events, "exposure": level * exposure,
            "spread": np.array([((observed - expected) ** 2).sum(), expected.sum()]),
            "dispersion": dispersion(record, design.process("curve"), curve),
        },
        weight=weight,
    )  # fmt: skip


def _answer_choice(method: FedPP, design: FeatureDesign, common: Message, record: Record) -> Message:
    """Send the held-out log-likelihood of each base measure, at the client's own level."""
    train, held = record.part(held=False), record.part(held=True)
    seen, unseen = unroll(train, design.decays, WHOLE), unroll(held, design.decays, WHOLE)
    found = []
    for name in method.candidates:
        process, parameters = design.process(name), common[f"of {name}"]
        parameters = blurred(design, record, parameters) if name == "curve" else parameters
        level = (train.events + 2) / (process.mass(seen, parameters).sum() + 2)
        found.append(process_likelihood(process, parameters, unseen, float(level))[0])
    return Message({"log_likelihood": np.array(found)})


def _iterated(method: FedPP, stage: str, base: str) -> tuple[str, ...]:
    """Return the base measures that are being learned by expectation-maximisation."""
    return (base,) if stage == "rebase" else tuple(name for name in method.candidates if name in ITERATED)


# What the server makes of the answers.


def absorb_span(answers: Answers) -> Floats:
    """Return the span that holds all clients' windows."""
    first = min(answers[name]["start"] for name in answers.names)
    return np.array([first, max(answers[name]["end"] for name in answers.names)])


def absorb_summary(answers: Answers, span: Floats) -> Summary:
    """Return the totals of all clients, and quantiles of their gaps."""
    events, exposure = answers.sum["totals"].tolist()
    gaps = gap_quantiles(answers.sum["gaps"], exposure / (events + 1), span)
    return Summary(events, exposure, float(span[0]), float(span[1]), gaps)


def absorb_measure(method: FedPP, state: S, answers: Answers) -> tuple[S, dict[str, float]]:
    """At the server: return the state after one of these stages, and what is worth watching."""
    if state.stage == "span":
        return advance(method, replace(state, span=absorb_span(answers))), {}
    makers = {
        "describe": _absorb_describe, "count": _absorb_count, "level": _absorb_level, "base": _absorb_base,
        "choose": _absorb_choice, "recount": _absorb_count, "relevel": _absorb_level, "rebase": _absorb_base,
    }  # fmt: skip
    return makers[state.stage](method, state, answers)


def _absorb_describe(method: FedPP, state: S, answers: Answers) -> tuple[S, dict[str, float]]:
    summary = absorb_summary(answers, state.span)
    design = replace(state.design, summary=summary.to_array(), parameters=np.array([summary.rate]))
    line = replace(state.timeline, curves=np.full((1, method.cells), summary.rate))
    starts = {name: design.process(name).start() for name in method.candidates}
    state = replace(state, design=design, timeline=line, candidates=starts)
    return advance(method, state), {"events": summary.events}


def _absorb_count(method: FedPP, state: S, answers: Answers) -> tuple[S, dict[str, float]]:
    events, exposure = answers.sum["events"], answers.sum["exposure"]
    effect = design_effect(answers.sum["dispersion"])
    line = replace(state.timeline, sums=np.stack([events, exposure]), effect=effect)
    if state.step + 1 < PASSES:
        line = replace(line, curves=profile(events.sum(axis=0), exposure.sum(axis=0))[None])
        return replace(state, timeline=line, step=state.step + 1), {}
    misfit, expected = answers.sum["spread"].tolist()
    spread = max(1.0, misfit / expected) if expected > 0 else 1.0
    smoother, temper, curves, scores = choose_curve(events, exposure, spread, state.design.repeats)
    state = replace(state, timeline=replace(line, curves=curves, smoother=smoother, temper=temper))
    again = state.stage == "recount"
    if "curve" in method.candidates:
        # While base measures compete, the curve knows no more of the events they are judged on than they do.
        state = replace(state, candidates={**state.candidates, "curve": curves[-1 if again else -2]})
    if again and state.design.base == "curve":
        state = replace(state, design=replace(state.design, parameters=curves[-1]))
    found = {f"held-out {name} over flat": value for name, value in scores.items()}
    return advance(method, state), {"dispersion": spread, "temper": temper, **found}


def _known(sums: Floats) -> Floats:
    """Return what sequences say; what blocks of single ones say only where no client has two."""
    return np.asarray(sums[0] if sums[0].any() else sums[1])


def design_effect(sums: Floats) -> float:
    """Return the design effect, shrunk to Poisson's: that of few sequences is well above 1 by chance."""
    misfit, expected, freedom = _known(sums).tolist()
    return max(1.0, (freedom * misfit / expected + POISSON_FREEDOM) / (freedom + POISSON_FREEDOM)) if expected else 1.0


def _absorb_level(method: FedPP, state: S, answers: Answers) -> tuple[S, dict[str, float]]:
    scores = _known(answers.sum["log_likelihood"]).copy()
    scores[len(STRENGTHS) :] -= MARGIN
    own = SETTINGS[int(np.argmax(scores))]
    state = replace(state, timeline=replace(state.timeline, own=np.array(own)))
    metrics = {"strength of the common level": own.strength, "variance of deviations": own.variance}
    return advance(method, state), metrics


def _absorb_base(method: FedPP, state: S, answers: Answers) -> tuple[S, dict[str, float]]:
    again = state.stage == "rebase"
    better = {
        name: state.design.process(name).update(state.candidates[name], answers.sum[f"of {name}"])
        for name in _iterated(method, state.stage, state.design.base)
    }
    state = replace(state, candidates={**state.candidates, **better}, step=state.step + 1)
    if again:
        state = replace(state, design=replace(state.design, parameters=better[state.design.base]))
    return (advance(method, state) if state.step == (REFINED if again else method.base_rounds) else state), {}


def _absorb_choice(method: FedPP, state: S, answers: Answers) -> tuple[S, dict[str, float]]:
    scores = dict(zip(method.candidates, answers.sum["log_likelihood"].tolist(), strict=True))
    best = max(scores, key=lambda name: scores[name])
    # The curve has since learned from all that is not held out.
    parameters = state.timeline.curves[-1] if best == "curve" else state.candidates[best]
    state = replace(state, design=replace(state.design, base=best, parameters=parameters))
    return advance(method, state), {f"held-out {name}": value for name, value in scores.items()}


# What valid answers look like.


def expect_summary(phase: str) -> Expect:
    """Expect two times of each client (``span``), or totals and a histogram, as sums (``describe``)."""
    if phase == "span":
        words = "first start and last end of your windows, rounded outwards"
        return Expect({name: Spec((), "float", description=words) for name in ("start", "end")})
    gaps = "how many gaps between your events are of each length"
    fields = {
        "totals": Spec((2,), low=0, description="your number of events and your exposure"),
        "gaps": Spec((len(OCTAVES) - 1,), low=0, description=gaps),
    }
    return Expect(fields, sums=True, weight=(0, 1), rows=_events_of_totals, alike=_gap, scatter=_scatter_of_gaps)


def expect_measure(method: FedPP, state: BaseMeasure, phase: str) -> Expect:
    """Return what valid answers look like at one of these stages; all but the span are sums."""
    if phase in ("span", "describe"):
        return expect_summary(phase)
    if phase in ("count", "recount"):
        size = (FOLDS, method.cells)
        fields = {
            "events": Spec(size, low=0, description="how many events you have in each cell of time"),
            "exposure": Spec(size, low=0, description="how long you watched each cell of time, times your level"),
            "spread": Spec((2,), low=0, description="squared misfit and expected events over coarse stretches"),
            "dispersion": DISPERSION,
        }
        # What was sent; nothing is known before it, when a contract says what will be asked.
        curve = state.timeline.curves[-1] if len(state.timeline.curves) else np.ones(method.cells)
        course, scatter = partial(_course, curve=curve), partial(_scatter_of_counts, curve=curve)
        if phase == "count" and not state.step:
            # Before any curve is known, sites that record only dates are evenly busy; these counts are sent again.
            return Expect(fields, True, (0, 1), rows=_events_of_cells, scatter=scatter)
        # Who saw no event is compared as well.
        return Expect(fields, True, (0, 1), rows=_events_of_cells, alike=course, scatter=scatter)
    if phase in ("level", "relevel"):
        words = "held-out log-likelihood of your events by strength of the common level and size of deviations"
        fields = {"log_likelihood": Spec((2, len(SETTINGS)), votes=True, description=words)}
    elif phase == "choose":
        words = "held-out log-likelihood of base measures"
        fields = {"log_likelihood": Spec((len(method.candidates),), votes=True, description=words)}
    else:
        names = _iterated(method, phase, state.design.base)
        sizes = {name: len(state.candidates[name]) * (1 if name == "renewal" else 2) for name in names}
        fields = {f"of {name}": Spec((size,), description="sums for the base measures") for name, size in sizes.items()}
    return Expect(fields, sums=True, weight=(0, 1))


def _events_of_totals(message: Message) -> float:
    return 1.0 + float(message["totals"][0])


def _events_of_cells(message: Message) -> float:
    return 1.0 + float(message["events"].sum())


def _expected(message: Message, curve: Floats) -> Floats:
    """Return how many events the curve expects in each cell, at the client's own level and where it watched."""
    return np.asarray(curve * message["exposure"].sum(axis=0))


def _course(message: Message, curve: Floats) -> dict[str, Floats]:
    """Return by how many events a client had been ahead of the curve by each time, as a share of all.

    When a client watched does not matter: zones differ, and a site may be closed for a week. Noise in single cells
    averages out. Folds are added up: few sequences are spread over them by chance.
    """
    ahead = np.cumsum(message["events"].sum(axis=0) - _expected(message, curve))
    return {"events": ahead / _events_of_cells(message)}


def _gap(message: Message) -> dict[str, Floats]:
    """Return the mean gap between a client's events."""
    return {"totals": time_for_an_event(*message["totals"])}


def _scatter_of_counts(message: Message, curve: Floats) -> dict[str, Floats]:
    """Return how much counts of a Poisson process vary, the course of so many events, and squared misfits.

    In cells that a client watched more or less than others, its counts may differ by what is expected there.
    """
    events, expected = message["events"], _expected(message, curve)
    evenly = curve * (expected.sum() / max(float(curve.sum()), 1e-300))
    _, dispersed, freedom = message["dispersion"].T
    total = max(float(events.sum()), 0.0)
    seen = np.cumsum(events.sum(axis=0)) / max(total, 1.0)
    varies = TAIL * np.abs(dispersed) * np.sqrt(2.0 / np.maximum(freedom, 1.0))
    return {
        "events": np.sqrt(np.maximum(events, 0.0) + 1.0) + np.abs(evenly - expected),
        "exposure": np.full(events.shape, ANY),
        "alike events": np.sqrt(np.clip(seen * (1.0 - seen), 0.0, 1.0) + LEVELLED) / np.sqrt(1.0 + total),
        # Honest clients may have one sequence, or any number.
        "dispersion": np.column_stack([varies, np.full(2, 1.0 + total), np.abs(freedom)]),
        "spread": np.array([TAIL * abs(float(message["spread"][1])) * np.sqrt(2.0 / STRETCHES), 0.0]),
    }


def _scatter_of_gaps(message: Message) -> dict[str, Floats]:
    """Return how much counts of gaps vary; honest sites may be much smaller or larger than the others."""
    return {"gaps": np.sqrt(np.maximum(message["gaps"], 0.0) + 1.0), "alike totals": np.array([USUAL_RATES])}
