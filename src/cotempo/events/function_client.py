"""What a client answers while a shared function is learned, stage by stage; the server's part is `function_server`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import digamma

from cotempo.events.function_state import (
    NONE,
    FunctionMemory,
    FunctionState,
    first_memory,
    first_state,
    gather,
    to_torch,
)
from cotempo.events.history import unroll
from cotempo.events.processes import make_process
from cotempo.events.record import Floats, Record
from cotempo.events.rows import Design, make_rows, moments, sequence_dispersion
from cotempo.events.summary import Summary, gap_histogram, rounded_span
from cotempo.federation.exchange import Answers, Question
from cotempo.federation.message import Message

if TYPE_CHECKING:
    from cotempo.events.fedpp import FedPP

WAITS = 400


def answer(
    method: FedPP, question: Question, record: Record, memory: FunctionMemory
) -> tuple[Message, FunctionMemory | None]:
    """At a client: one answer per stage."""
    common = question.common
    if question.phase == "span":
        first, last = rounded_span(record)
        return Message({"start": first, "end": last}), None
    part = record.part(held=False)
    if question.phase == "describe":
        return Message({"totals": np.array([part.events, part.exposure]), "gaps": gap_histogram(record)}), None
    if question.phase in ("base", "choose"):
        return _answer_base(method, question.phase, common, record), None
    if question.phase == "features":
        design = heard_design(method, common)
        unrolled = unroll(part, design.decays)
        dispersion = sequence_dispersion(part, unrolled, design.base_mass(unrolled))
        return Message({"dispersion": dispersion, "moments": moments(record, design)}), None
    if question.phase == "compare":
        return _answer_compare(method, common, record, memory)
    if question.phase == "curvature":
        return _answer_curvature(method, common, record, memory)
    return learn(method, [question], [record], [memory])[0]


def _answer_base(method: FedPP, phase: str, common: Message, record: Record) -> Message:
    """Sums for each candidate base measure, or its held-out log-likelihood at the client's own level."""
    summary = Summary.from_array(common["summary"])
    train, held = record.part(held=False), record.part(held=True)
    decays = make_process("hawkes", summary).decays
    cuts = np.array([0.0, 1.0])
    seen, unseen = unroll(train, decays, cuts), unroll(held, decays, cuts) if phase == "choose" else None
    fields = {}
    for name in method.candidates:
        process, parameters = make_process(name, summary, method.period), common[f"of {name}"]
        if unseen is None:
            fields[f"of {name}"] = process.statistics(seen, train, parameters)
            continue
        level = (train.events + 2) / (process.mass(seen, parameters).sum() + 2)
        counted = unseen.count > 0
        told = (unseen.count * (process.log_rate(unseen, parameters) + np.log(level)))[counted].sum()
        fields[f"of {name}"] = np.array([told - level * process.mass(unseen, parameters).sum()])
    return Message(fields)


def _heard(method: FedPP, common: Message) -> FunctionState:
    """The part of the state that the server told."""
    state = first_state(method, 1)
    told = {name: common[name] for name in ("inducing", "own_inducing", "kernel", "mean", "root", "rate")}
    return replace(state, design=heard_design(method, common), **told)


def heard_design(method: FedPP, common: Message) -> Design:
    """How the server said that records are read."""
    centre, whiten = (common.get(name, NONE) for name in ("centre", "whiten"))
    design = first_state(method, 1).design
    return replace(
        design, summary=common["summary"], base=common["base"], parameters=common["parameters"], centre=centre,
        whiten=whiten,
    )  # fmt: skip


def learn(
    method: FedPP, questions: Sequence[Question], records: Sequence[Record], memories: Sequence[FunctionMemory]
) -> list[tuple[Message, FunctionMemory]]:
    """At clients, as one batch: sweep, and send two sums, the gradient of the kernels and four numbers."""
    import torch

    from cotempo.events import shared

    state = _heard(method, questions[0].common)
    everything = questions[0].phase == "settle"
    memories = [_with_rows(method, state, r, m) for r, m in zip(records, memories, strict=True)]
    data = gather([memory.rows for memory in memories], everything)
    common, kernels, own = to_torch(state, memories)
    response, own = shared.respond(data, common, kernels, own)
    gradients = torch.cat([g.reshape(len(memories), -1) for g in response.gradient], dim=-1)
    out = []
    for i, memory in enumerate(memories):
        shape, rate = float(own.shape[i]), float(own.rate[i])
        spread = np.array([float(response.surplus[i]), float(response.expected[i])])
        message = Message(
            {
                "quadratic": response.quadratic[i].numpy(), "linear": response.linear[i].numpy(),
                "gradient": gradients[i].numpy(), "spread": spread, "fit": float(response.fit[i]),
                "level": np.array(
                    [shape / rate, float(digamma(shape)) - np.log(rate), shape - common.shape, rate - common.rate]
                ),
            }
        )  # fmt: skip
        out.append(
            (message, replace(memory, mean=own.mean[i].numpy(), root=own.root[i].numpy(), shape=shape, rate=rate))
        )
    return out


def _with_rows(method: FedPP, state: FunctionState, record: Record, memory: FunctionMemory) -> FunctionMemory:
    """Rows are made when first needed; a client that joins late makes them then."""
    if len(memory.rows.events):
        return memory
    size = len(state.own_inducing)
    rows = make_rows(record, state.design, method.cells)
    return replace(memory, rows=rows, mean=np.zeros(size), root=np.eye(size))


def _answer_compare(
    method: FedPP, common: Message, record: Record, memory: FunctionMemory
) -> tuple[Message, FunctionMemory]:
    """Held-out log-likelihood per event over the own rate: together, on the base alone, and, if asked, by oneself."""
    state = _heard(method, common)
    held, train = record.part(held=True).whole(), record.part(held=False).whole()
    whole = _with_rows(method, state, record, memory)
    memory = replace(whole, seen=np.array([train.events, train.exposure]))
    together = likelihood(method, state, memory, held)
    flat = likelihood(method, state, memory, held, function=False)
    told = {"together": together["gain"], "base": flat["gain"], "events": together["events"]}
    if method.compare:
        state, lonely = alone(method.model_copy(update={"compare": False, "settle": 0}), train.hold_out())
        told["alone"] = likelihood(method, state, replace(lonely, seen=memory.seen), held)["gain"]
    return Message(told), replace(whole, waits=held_waits(method, state, memory, held))


def held_waits(method: FedPP, state: FunctionState, memory: FunctionMemory, held: Record) -> Floats:
    """Sorted waits between events on the model's clock, or some hundred quantiles of them."""
    from cotempo.events import intensities, shared

    size = len(state.inducing)
    information = shared.own_information(gather([memory.rows], everything=False), *to_torch(state, [memory]))
    known = replace(memory, information=information[0].numpy())
    cls = intensities.SharedCurve if method.kernel == "time" else intensities.HistoryIntensity
    summary = Summary.from_array(state.design.summary)
    span = np.array([summary.start, summary.end])
    model = cls(method, replace(state, span=span, curvature=np.zeros((size, size))), known)
    waits = np.concatenate([NONE, *model.rescale_record(held)])
    return np.asarray(np.quantile(waits, (np.arange(WAITS) + 0.5) / WAITS) if len(waits) > WAITS else np.sort(waits))


def alone(method: FedPP, record: Record) -> tuple[FunctionState, FunctionMemory]:
    """The same method with one client."""
    from cotempo.events.function_server import absorb, ask

    state, memory, step = first_state(method, 1), first_memory(record), 0
    while (asked := ask(method, state, ["self"])) is not None:
        step += 1
        question = Question("alone", step, step, asked.phase, "self", 0, 0, asked.common, Message())
        message, changed = answer(method, question, record, memory)
        memory = changed or memory
        each = {"self": message}
        answers = Answers(("self",), total=message, each=each)
        state, _ = absorb(method, state, answers)
    return state, memory


def likelihood(
    method: FedPP, state: FunctionState, memory: FunctionMemory, record: Record, *, function: bool = True
) -> dict[str, float]:
    """Gains per event over the client's own and over the pooled homogeneous rate, and the ratio of counts."""
    from cotempo.events import cox, shared

    design = state.design
    rows = make_rows(record, design, method.cells)
    data = gather([rows], everything=False)
    common, kernels, own = to_torch(state, [memory])
    _, centre, spread = shared.function_at(data, common, kernels, own)
    share = cox.mean_sigmoid(centre, spread)[0].numpy() if function else np.full(len(rows.events), 0.5)
    level = memory.shape / memory.rate if function else _flat_level(memory)
    rate = np.maximum(level * share, 1e-300)
    kept = ~rows.held
    mass = float((rows.exposure * rate)[kept].sum())
    unrolled = unroll(record, design.decays, np.array([0.0, 1.0]))
    counted = unrolled.count > 0
    base = float((unrolled.count * design.log_base(unrolled))[counted].sum())
    told = base + float((rows.events * np.log(rate))[kept].sum()) - mass
    summary, events = Summary.from_array(design.summary), record.events
    gains = {
        name: (told - events * np.log(max(seen, 0.5) / watched) + max(seen, 0.5) / watched * record.exposure)
        / max(events, 1.0)
        for name, seen, watched in (
            ("gain", memory.seen[0], memory.seen[1]),
            ("gain_over_pooled", summary.events, summary.exposure),
        )
    }
    return {**{k: float(v) for k, v in gains.items()}, "count_ratio": mass / max(events, 1.0), "events": events}


def _flat_level(memory: FunctionMemory) -> float:
    """The client's level of the base measure where the shared function is left out; the sigmoid of 0 is a half."""
    kept = ~memory.rows.held
    return float(2 * (memory.rows.events[kept].sum() + 2) / (memory.rows.exposure[kept].sum() + 2))


def _answer_curvature(
    method: FedPP, common: Message, record: Record, memory: FunctionMemory
) -> tuple[Message, FunctionMemory]:
    """What the client knows about the shared function when its own parts are integrated out."""
    from cotempo.events import shared

    state = _heard(method, common)
    memory = _with_rows(method, state, record, memory)
    beliefs = to_torch(state, [memory])
    information = shared.own_information(gather([memory.rows], everything=True), *beliefs)
    left = shared.about_shared(information, len(state.inducing))[0].numpy()
    return Message({"curvature": (left + left.T) / 2}), replace(memory, information=information[0].numpy())
