"""What a client answers while a curve or a function is learned, stage by stage; see `function_server`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import digamma

from cotempo.events.curves.levels import SETTINGS, Kept, Own, cross_validate, find_level, own_rate
from cotempo.events.gain import gains, process_likelihood, seen_likelihood
from cotempo.events.records.design import Design, dispersion, make_rows, moments
from cotempo.events.records.history import WHOLE, unroll
from cotempo.events.records.record import Floats, Record
from cotempo.events.records.summary import Summary, gap_histogram, rounded_span
from cotempo.events.shared_function.server import ITERATED
from cotempo.events.shared_function.state import (
    NONE,
    FunctionMemory,
    FunctionState,
    first_memory,
    first_state,
    gather,
    to_torch,
    without_function,
)
from cotempo.federation import Answers, Message, Question

if TYPE_CHECKING:
    from cotempo.events.fedpp import FedPP

WAITS = 400
COARSE = 20
# The strength of levels while the curve is not known yet.
FIRST_STRENGTH = 2.0


def answer(
    method: FedPP, question: Question, record: Record, memory: FunctionMemory
) -> tuple[Message, FunctionMemory | None]:
    """At a client: one answer per stage."""
    common, phase = question.common, question.phase
    if phase == "span":
        first, last = rounded_span(record)
        return Message({"start": first, "end": last}), None
    part = record.hold_out().part(held=False).whole()
    if phase == "describe":
        totals = np.array([part.events, part.exposure])
        return Message({"totals": totals, "gaps": gap_histogram(part, common["span"])}), None
    design = heard_design(method, common)
    if phase in ("count", "recount"):
        return _answer_count(design, common["curve"], part if phase == "count" else record), None
    if phase in ("level", "relevel"):
        told = _cross_validate(design, common, part if phase == "level" else record)
        return Message({"told": told}), replace(memory, cells=cells_of(design, record))
    if phase in ("base", "rebase"):
        return _answer_base(
            method, phase, common, part.hold_out().part(held=False) if phase == "base" else record
        ), None
    if phase == "choose":
        return _answer_choice(method, design, common, part.hold_out()), None
    if phase == "features":
        spread = dispersion(part, design.process(design.base), design.parameters)
        return Message({"dispersion": spread, "moments": moments(part, design)}), None
    if phase == "compare":
        return _answer_compare(method, common, record, memory)
    if phase == "curvature":
        return _answer_curvature(method, common, record, memory)
    return learn(method, [question], [record], [memory])[0]


def cells_of(design: Design, record: Record) -> Floats:
    """Events and exposure in cells of time, ``(2, cells)``."""
    process = design.process("curve")
    return process.statistics(unroll(record, process.decays, WHOLE), record, NONE).reshape(2, -1)


def _folds(design: Design, record: Record) -> tuple[Floats, Floats]:
    """Events and exposure of each fold and cell, ``(folds, cells)`` each."""
    events, exposure = np.stack([cells_of(design, part) for part in record.deal()], axis=1)
    return events, exposure


def _answer_count(design: Design, curve: Floats, record: Record) -> Message:
    """Counts, exposure weighted by the own level, and how far both stretches and sequences are from Poisson's."""
    events, exposure = _folds(design, record)
    level = find_level(curve, events.sum(axis=0), exposure.sum(axis=0), FIRST_STRENGTH)
    place = np.arange(len(curve)) * COARSE // len(curve)
    seen, expected = (
        np.bincount(place, part, COARSE) for part in (events.sum(axis=0), level * curve * exposure.sum(axis=0))
    )
    return Message(
        {
            "events": events, "exposure": level * exposure,
            "spread": np.array([((seen - expected) ** 2).sum(), expected.sum()]),
            "dispersion": dispersion(record, design.process("curve"), curve),
        }
    )  # fmt: skip


def _cross_validate(design: Design, common: Message, record: Record) -> Floats:
    """Held-out log-likelihoods by setting, ``(2, settings)``: of sequences, or in the second row of a single one's
    blocks, which tell nothing about how sequences vary."""
    told = np.zeros((2, len(SETTINGS)))
    single = len(np.unique(record.window_sequence)) < 2
    told[int(single)] = cross_validate(common["curves"][:-1], *_folds(design, record), common["temper"])
    return told


def _answer_base(method: FedPP, phase: str, common: Message, train: Record) -> Message:
    """Sums for each base measure that is being learned."""
    design = heard_design(method, common)
    names = [common["base"]] if phase == "rebase" else [name for name in method.candidates if name in ITERATED]
    seen = unroll(train, design.decays, WHOLE)
    return Message({f"of {name}": design.process(name).statistics(seen, train, common[f"of {name}"]) for name in names})


def _answer_choice(method: FedPP, design: Design, common: Message, record: Record) -> Message:
    """Held-out log-likelihood of each base measure, at the client's own level."""
    train, held = record.part(held=False), record.part(held=True)
    seen, unseen = unroll(train, design.decays, WHOLE), unroll(held, design.decays, WHOLE)
    fields = {}
    for name in method.candidates:
        process, parameters = design.process(name), common[f"of {name}"]
        level = (train.events + 2) / (process.mass(seen, parameters).sum() + 2)
        fields[f"of {name}"] = np.array([process_likelihood(process, parameters, unseen, float(level))[0]])
    return Message(fields)


def _heard(method: FedPP, common: Message) -> FunctionState:
    """The part of the state that the server told."""
    state = first_state(method, 1)
    told = {name: common[name] for name in ("inducing", "kernel", "mean", "root", "rate") if name in common}
    if "curves" in common:
        line = replace(
            state.timeline, curves=common["curves"], temper=common["temper"], own=common["own"], effect=common["effect"]
        )
        state = replace(state, timeline=line)
    return replace(state, design=heard_design(method, common), **told)


def heard_design(method: FedPP, common: Message) -> Design:
    """How the server said that records are read."""
    names = [name for name in ("summary", "base", "parameters", "centre", "whiten") if name in common]
    return replace(first_state(method, 1).design, **{name: common[name] for name in names})


def learn(
    method: FedPP, questions: Sequence[Question], records: Sequence[Record], memories: Sequence[FunctionMemory]
) -> list[tuple[Message, FunctionMemory]]:
    """At clients, as one batch: learn the own rate, and send two sums, the gradient of the kernel and four numbers."""
    import torch

    from cotempo.events.shared_function import updates as shared

    state = _heard(method, questions[0].common)
    everything = questions[0].phase == "settle"
    memories = [_with_rows(state, r, m) for r, m in zip(records, memories, strict=True)]
    common, kernel = to_torch(state, len(memories))
    response, own = shared.respond(gather([memory.rows for memory in memories], everything), common, kernel)
    gradients = torch.cat([g.reshape(len(memories), -1) for g in response.gradient], dim=-1)
    out = []
    for i, memory in enumerate(memories):
        shape, rate = float(own.shape[i]), float(own.rate[i])
        level = [shape / rate, float(digamma(shape)) - np.log(rate), shape - common.shape, rate - common.rate]
        message = Message(
            {
                "quadratic": response.quadratic[i].numpy(), "linear": response.linear[i].numpy(),
                "gradient": gradients[i].numpy(), "fit": float(response.fit[i]), "level": np.array(level),
            }
        )  # fmt: skip
        out.append((message, replace(memory, shape=shape, rate=rate)))
    return out


def _with_rows(state: FunctionState, record: Record, memory: FunctionMemory) -> FunctionMemory:
    """Rows on the base measure told; they are made when first needed, and again when the base measure is."""
    if len(memory.rows.events) and np.array_equal(memory.base, state.design.parameters):
        return memory
    return replace(memory, rows=make_rows(record.hold_out(), state.design), base=state.design.parameters)


def _answer_compare(
    method: FedPP, common: Message, record: Record, memory: FunctionMemory
) -> tuple[Message, FunctionMemory]:
    """Gains over the own rate of each model, on both halves of what is held out, and of what was learned alone."""
    state = _heard(method, common)
    held, train = (record.hold_out().part(held=held).whole() for held in (True, False))
    if method.kernel != "time":
        memory = _with_rows(state, record, memory)
    known = replace(memory, seen=np.array([train.events, train.exposure]), cells=cells_of(state.design, train))
    halves = [held.hold_out(2, half).part(held=True) for half in (0, 1)]
    models = {kept: _judged(replace(state, kept=kept), known) for kept in method.models}
    each = [[likelihood(*models[kept], half) for half in halves] for kept in method.models]
    told: dict[str, Floats | float] = {
        "gains": np.array([[one["gain"] * max(one["events"], 1.0) for one in row] for row in each]),
        "events": held.events,
    }
    if method.compares:
        lonely, own = alone(method, train)
        told["alone"] = likelihood(lonely, replace(own, seen=known.seen), held)["gain"]
    waits = {kept: held_waits(*model, held) for kept, model in models.items()}
    return Message(told), replace(memory, waits=waits)


def _judged(state: FunctionState, memory: FunctionMemory) -> tuple[FunctionState, FunctionMemory]:
    """The model to be judged; the level of the base measure alone is learned here."""
    if state.kept != "base":
        return state, memory
    state, known = without_function(state), ~memory.rows.held
    shape, rate, effect = state.rate.tolist()
    events, exposure = memory.rows.events[known].sum(), memory.rows.exposure[known].sum()
    return state, replace(memory, shape=shape + events / effect, rate=rate + exposure / 2 / effect)


def held_waits(state: FunctionState, memory: FunctionMemory, held: Record) -> Floats:
    """Sorted waits between held-out events on the model's clock, or some hundred quantiles of them."""
    from cotempo.events.intensities.fitted import make_intensity

    summary = Summary.from_array(state.design.summary)
    model = make_intensity(replace(state, span=np.array([summary.start, summary.end])), memory)
    waits = np.concatenate([NONE, *model.rescale_record(held)])
    return np.asarray(np.quantile(waits, (np.arange(WAITS) + 0.5) / WAITS) if len(waits) > WAITS else np.sort(waits))


def alone(method: FedPP, record: Record) -> tuple[FunctionState, FunctionMemory]:
    """The same method with one client."""
    from cotempo.events.shared_function.server import absorb, ask

    method = method.model_copy(update={"compare": False})
    state, memory, step = first_state(method, 1, judged=False), first_memory(record), 0
    while (asked := ask(method, state, ["self"])) is not None:
        step += 1
        question = Question("alone", step, step, asked.phase, "self", 0, 0, asked.common, Message())
        message, changed = answer(method, question, record, memory)
        memory = changed or memory
        state, _ = absorb(method, state, Answers(("self",), total=message, each={"self": message}))
    return state, memory


def likelihood(state: FunctionState, memory: FunctionMemory, record: Record) -> dict[str, float]:
    """Gains per event over the client's own and over the pooled homogeneous rate, and the ratio of counts."""
    summary = Summary.from_array(state.design.summary)
    told, mass = (_curve_likelihood if state.kept == "curve" else _function_likelihood)(state, memory, record)
    own, watched = memory.seen.tolist()
    rates = {"gain": (own, watched), "gain_over_pooled": (summary.events, summary.exposure)}
    return gains(told, mass, record.events, record.exposure, rates)


def curve_rate(state: FunctionState, memory: FunctionMemory) -> Kept:
    """The client's intensity in cells of time."""
    line, (events, exposure) = state.timeline, memory.cells
    return own_rate(line.curves[-1], events, exposure, Own(*line.own.tolist()), line.temper, line.effect)


def _curve_likelihood(state: FunctionState, memory: FunctionMemory, record: Record) -> tuple[float, float]:
    events, exposure = cells_of(state.design, record)
    rate = curve_rate(state, memory).rate
    mass = float((exposure * rate).sum())
    return float((events * np.log(rate)).sum()) - mass, mass


def _function_likelihood(state: FunctionState, memory: FunctionMemory, record: Record) -> tuple[float, float]:
    from cotempo.events.cox import updates as cox
    from cotempo.events.shared_function import updates as shared

    design, rows = state.design, make_rows(record, state.design)
    at = shared.function_at(gather([rows], everything=True), *to_torch(state))
    relative = memory.shape / memory.rate * cox.mean_sigmoid(at.centre, at.spread)[0].numpy()
    relative = np.maximum(relative, 1e-300)
    unrolled = unroll(record, design.decays, WHOLE)
    base, mass = seen_likelihood(design.log_base(unrolled), unrolled), float((rows.exposure * relative).sum())
    return base + float((rows.events * np.log(relative)).sum()) - mass, mass


def _answer_curvature(
    method: FedPP, common: Message, record: Record, memory: FunctionMemory
) -> tuple[Message, FunctionMemory]:
    """What the client knows about the shared function when its own rate is integrated out."""
    import torch

    from cotempo.events.shared_function import updates as shared

    state = _heard(method, common)
    memory = inform(state, _with_rows(state, record, memory))
    left = shared.about_shared(torch.from_numpy(np.array(memory.information))).numpy()
    return Message({"curvature": (left + left.T) / 2}), memory


def inform(state: FunctionState, memory: FunctionMemory) -> FunctionMemory:
    """The client's rate and joint information, from all its rows."""
    from cotempo.events.shared_function import updates as shared

    information, own = shared.own_information(gather([memory.rows], everything=True), *to_torch(state))
    return replace(memory, shape=float(own.shape[0]), rate=float(own.rate[0]), information=information[0].numpy())
