"""The client's side of the shared function: what it answers at each stage; see `method`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import digamma

from cotempo.events.base_measure import AGAIN, NONE, STAGES, answer_measure, cells_of, curve_fields, read_design
from cotempo.events.curves.levels import LevelSetting, OwnRate, own_rate
from cotempo.events.records.design import FeatureRows, dispersion, make_rows, moments
from cotempo.events.records.history import WHOLE, unroll
from cotempo.events.records.record import Record, Summary
from cotempo.events.scores import gains, seen_likelihood
from cotempo.events.shared_function.state import (
    FunctionMemory,
    FunctionState,
    first_memory,
    first_state,
    gather,
    to_torch,
    without_function,
)
from cotempo.federation import Answers, Message, Question, Rng
from cotempo.typing import Floats

if TYPE_CHECKING:
    from cotempo.events.shared_function.method import SharedFunction

# The most waits between held-out events that a client keeps.
KEPT_WAITS = 400


def answer(
    method: SharedFunction, question: Question, record: Record, memory: FunctionMemory
) -> tuple[Message, FunctionMemory | None]:
    """At a client: answer one stage."""
    common, phase = question.common, question.phase
    if phase in (*STAGES, *AGAIN):
        message = answer_measure(method, question, record)
        levels = phase in ("level", "relevel")
        return message, replace(memory, cells=cells_of(read_design(method, common), record)) if levels else None
    if phase == "features":
        design, part = read_design(method, common), record.hold_out().part(held=False).whole()
        spread = dispersion(part, design.process(design.base), design.parameters)
        return Message({"dispersion": spread, "moments": moments(part, design)}), None
    if phase == "compare":
        return _answer_compare(method, common, record, memory)
    if phase == "curvature":
        return _answer_curvature(method, common, record, memory)
    return learn(method, [question], [record], [memory])[0]


def read_state(method: SharedFunction, common: Message) -> FunctionState:
    """Return the part of the state that the server sent."""
    state = replace(first_state(method, 1), design=read_design(method, common))
    known = {name: common[name] for name in ("inducing", "kernel", "mean", "root", "rate") if name in common}
    if "curves" in common:
        known["timeline"] = replace(state.timeline, **{name: common[name] for name in curve_fields(state.timeline)})
    return replace(state, **known)


def learn(
    method: SharedFunction, questions: Sequence[Question], records: Sequence[Record], memories: Sequence[FunctionMemory]
) -> list[tuple[Message, FunctionMemory]]:
    """Learn the own rates of a cohort, and send two sums, the gradient of the kernel and four numbers each."""
    from cotempo.events.shared_function.updates import respond

    state = read_state(method, questions[0].common)
    everything = questions[0].phase == "refit"
    memories = [_with_rows(state, r, m) for r, m in zip(records, memories, strict=True)]
    common, kernel = to_torch(state, len(memories))
    found = respond(*gather([memory.rows for memory in memories], everything), common, kernel)
    out = []
    for i, memory in enumerate(memories):
        shape, rate = float(found.shape[i]), float(found.rate[i])
        level = [shape / rate, float(digamma(shape)) - np.log(rate), shape - common.shape, rate - common.rate]
        message = Message(
            {
                "quadratic": found.quadratic[i].numpy(), "linear": found.linear[i].numpy(),
                "gradient": found.gradient[i].numpy(), "fit": float(found.fit[i]), "level": np.array(level),
            }
        )  # fmt: skip
        out.append((message, replace(memory, shape=shape, rate=rate)))
    return out


def _with_rows(state: FunctionState, record: Record, memory: FunctionMemory) -> FunctionMemory:
    """Return the memory with rows on the base measure; they are made when first needed or when the base changes."""
    if len(memory.rows.events) and np.array_equal(memory.base, state.design.parameters):
        return memory
    return replace(memory, rows=make_rows(record.hold_out(), state.design), base=state.design.parameters)


def _answer_compare(
    method: SharedFunction, common: Message, record: Record, memory: FunctionMemory
) -> tuple[Message, FunctionMemory]:
    """Send the gain of each model over the own rate on both halves of what is held out, and that of learning alone."""
    state = read_state(method, common)
    held, train = (record.hold_out().part(held=held).whole() for held in (True, False))
    if method.kernel != "time":
        memory = _with_rows(state, record, memory)
    known = replace(memory, seen=np.array([train.events, train.exposure]), cells=cells_of(state.design, train))
    halves = [held.hold_out(2, half).part(held=True) for half in (0, 1)]
    models = {kept: _judged(replace(state, kept=kept), known) for kept in method.models}
    each = [[likelihood(*models[kept], half) for half in halves] for kept in method.models]
    fields: dict[str, Floats | float] = {
        "gains": np.array([[one["gain"] * max(one["events"], 1.0) for one in row] for row in each]),
        "events": held.events,
    }
    if method.compare:
        alone_state, alone_memory = learn_alone(method, train)
        fields["alone"] = likelihood(alone_state, replace(alone_memory, seen=known.seen), held)["gain"]
    waits = {kept: held_waits(*model, held) for kept, model in models.items()}
    return Message(fields), replace(memory, waits=waits)


def _judged(state: FunctionState, memory: FunctionMemory) -> tuple[FunctionState, FunctionMemory]:
    """Return the model to be judged; the level of the base measure alone is learned here."""
    if state.kept != "base":
        return state, memory
    state, known = without_function(state), ~memory.rows.held
    shape, rate, effect = state.rate.tolist()
    events, exposure = memory.rows.events[known].sum(), memory.rows.exposure[known].sum()
    return state, replace(memory, shape=shape + events / effect, rate=rate + exposure / 2 / effect)


def held_waits(state: FunctionState, memory: FunctionMemory, held: Record) -> Floats:
    """Return sorted waits between held-out events on the model's clock, or some hundred quantiles of them."""
    from cotempo.events.intensities.fitted import make_intensity

    summary = Summary.from_array(state.design.summary)
    model = make_intensity(replace(state, span=np.array([summary.start, summary.end])), memory)
    waits = np.concatenate([NONE, *model.rescale_record(held)])
    if len(waits) <= KEPT_WAITS:
        return np.sort(waits)
    return np.asarray(np.quantile(waits, (np.arange(KEPT_WAITS) + 0.5) / KEPT_WAITS))


def learn_alone(method: SharedFunction, record: Record) -> tuple[FunctionState, FunctionMemory]:
    """Run the same method with one client."""
    method = method.model_copy(update={"compare": False})
    state, memory, step = first_state(method, 1, judged=False), first_memory(record.events, record.exposure), 0
    rng = Rng(0)  # nothing is drawn
    while (asked := method.ask(state, ["self"], rng)) is not None:
        step += 1
        question = Question("alone", step, step, asked.phase, "self", 0, 0, asked.common, Message())
        message, changed = answer(method, question, record, memory)
        memory = changed or memory
        state, _ = method.absorb(state, Answers(("self",), total=message, each={"self": message}), None, rng)
    return state, memory


def likelihood(state: FunctionState, memory: FunctionMemory, record: Record) -> dict[str, float]:
    """Return gains per event over the client's own and over the pooled homogeneous rate, and the ratio of counts."""
    summary = Summary.from_array(state.design.summary)
    found, mass = (_curve_likelihood if state.kept == "curve" else _function_likelihood)(state, memory, record)
    own, watched = memory.seen.tolist()
    rates = {"gain": (own, watched), "gain_over_pooled": (summary.events, summary.exposure)}
    return gains(found, mass, record.events, record.exposure, rates)


def curve_rate(state: FunctionState, memory: FunctionMemory) -> OwnRate:
    """Return the client's intensity in cells of time."""
    line, (events, exposure) = state.timeline, memory.cells
    return own_rate(line.curves[-1], events, exposure, LevelSetting(*line.own.tolist()), line.temper, line.effect)


def _curve_likelihood(state: FunctionState, memory: FunctionMemory, record: Record) -> tuple[float, float]:
    events, exposure = cells_of(state.design, record)
    rate = curve_rate(state, memory).rate
    mass = float((exposure * rate).sum())
    return float((events * np.log(rate)).sum()) - mass, mass


def _function_likelihood(state: FunctionState, memory: FunctionMemory, record: Record) -> tuple[float, float]:
    design, rows = state.design, make_rows(record, state.design)
    relative = np.maximum(relative_mean(state, memory, rows), 1e-300)
    unrolled = unroll(record, design.decays, WHOLE)
    base, mass = seen_likelihood(design.log_base(unrolled), unrolled), float((rows.exposure * relative).sum())
    return base + float((rows.events * np.log(relative)).sum()) - mass, mass


def relative_mean(state: FunctionState, memory: FunctionMemory, rows: FeatureRows) -> Floats:
    """Return the posterior mean of m times the sigmoid at rows, ``(rows,)``."""
    import torch

    from cotempo.events.cox.updates import mean_sigmoid
    from cotempo.events.shared_function.updates import function_at

    with torch.no_grad():
        _, _, at = function_at(gather([rows], everything=True)[0], *to_torch(state))
        return np.asarray(memory.shape / memory.rate * mean_sigmoid(at.centre, at.spread)[0].numpy())


def _answer_curvature(
    method: SharedFunction, common: Message, record: Record, memory: FunctionMemory
) -> tuple[Message, FunctionMemory]:
    """Return what the client knows about the shared function when its own rate is integrated out."""
    import torch

    from cotempo.events.shared_function.updates import about_shared

    state = read_state(method, common)
    memory = inform(state, _with_rows(state, record, memory))
    left = about_shared(torch.from_numpy(np.array(memory.information))).numpy()
    return Message({"curvature": (left + left.T) / 2}), memory


def inform(state: FunctionState, memory: FunctionMemory) -> FunctionMemory:
    """Return the memory with the client's rate and joint information, from all its rows."""
    from cotempo.events.shared_function.updates import own_information

    information, shape, rate = own_information(*gather([memory.rows], everything=True), *to_torch(state))
    return replace(memory, shape=float(shape[0]), rate=float(rate[0]), information=information[0].numpy())
