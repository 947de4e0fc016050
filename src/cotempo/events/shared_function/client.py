"""The client's side of the shared function, stage by stage (`answer`); and the state of server and clients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import digamma

from cotempo.data.clock import Clock
from cotempo.events import base_measure
from cotempo.events.base_measure import NONE, BaseMeasure, cells_of, read_design
from cotempo.events.curves.course import LevelCourse
from cotempo.events.curves.timeline import LevelSetting, OwnRate, own_rate
from cotempo.events.processes.models import RateProfile
from cotempo.events.records.design import DIMENSIONS, FeatureRows, dispersion, make_rows, moments
from cotempo.events.records.history import WHOLE, unroll
from cotempo.events.records.record import Record, Summary
from cotempo.events.scores import FEWEST_HELD, error_of_gain, gains, seen_likelihood
from cotempo.federation import NOT_COMPARED, Answers, Joining, Message, Question, Rng
from cotempo.typing import Floats

if TYPE_CHECKING:
    from torch import Tensor

    from cotempo.events.cox.updates import CellCounts
    from cotempo.events.shared_function.method import SharedFunction
    from cotempo.events.shared_function.updates import SharedBelief

# The length scale the kernel starts at, and the most waits between held-out events that a client keeps.
FIRST_LENGTH, KEPT_WAITS = 2.0, 400


@dataclass(frozen=True)
class FunctionState(BaseMeasure):
    """What the server keeps, beside the base measure.

    `judged` says whether something is held out to compare models. `inducing` are inducing inputs, `kernel` the logs of
    amplitude and lengths, with Adam's moments of its gradient. `mean` and `root` are the posterior of the shared
    function: mean, and root of its precision. `rate` has shape and rate of the prior of m, and the design effect of
    sequences. `curvature` is the summed information about the shared function. `kept` is the model in use: the
    ``"curve"`` of time, the ``"base"`` measure alone or the ``"function"`` on it. `joining` is what it was
    worth to the clients.
    """

    clients: int
    judged: bool
    inducing: Floats
    kernel: Floats
    first_moment: Floats
    second_moment: Floats
    mean: Floats
    root: Floats
    rate: Floats
    curvature: Floats
    kept: str
    joining: Joining


@dataclass(frozen=True)
class FunctionMemory:
    """What a client keeps: `cells`, its events and exposure in cells of time, ``(2, cells)``; its `rows` and the `base`
    measure they are made on; shape and rate of its level, and its joint information; events and exposure `seen`;
    `waits` between held-out events on the clock of each model; `compared`, gains alone and together by which model
    is kept; and the `course` of its level, where the curve has a period."""

    cells: Floats
    rows: FeatureRows
    base: Floats
    shape: float
    rate: float
    information: Floats
    seen: Floats
    waits: Mapping[str, Floats]
    compared: Floats
    course: LevelCourse


def first_state(method: SharedFunction, clients: int, *, judged: bool = True) -> FunctionState:
    """Return the state before anything is known."""
    return FunctionState(
        **vars(base_measure.open_measure(method)), clients=clients, judged=judged, inducing=np.zeros((0, DIMENSIONS)),
        kernel=NONE, first_moment=NONE, second_moment=NONE, mean=NONE, root=NONE, rate=np.array([4.0, 2.0, 1.0]),
        curvature=NONE, kept="curve", joining=Joining(),
    )  # fmt: skip


def first_memory(events: float, exposure: float) -> FunctionMemory:
    """Return a memory without rows."""
    rows = FeatureRows(np.zeros((0, DIMENSIONS)), NONE, NONE, NONE.astype(bool))
    seen = np.array([events, exposure])
    return FunctionMemory(
        np.zeros((2, 0)), rows, NONE, 4.0, 2.0, np.zeros((0, 0)), seen, {}, NOT_COMPARED, LevelCourse()
    )


def without_function(state: FunctionState) -> FunctionState:
    """Return the base measure alone: the function is left at 0, where the sigmoid is a half, and levels centre on 2."""
    kernel = np.where(np.arange(len(state.kernel)) == 0, -20.0, state.kernel)
    shape, _, effect = state.rate.tolist()
    return replace(state, mean=np.zeros_like(state.mean), kernel=kernel, rate=np.array([shape, shape / 2, effect]))


def first_kernel() -> Floats:
    """Return log amplitude and lengths where the kernel starts; also the centres of their priors."""
    return np.append(0.0, np.full(DIMENSIONS, np.log(FIRST_LENGTH)))


def gather(rows: Sequence[FeatureRows], everything: bool) -> tuple[Tensor, CellCounts]:
    """Return features and counts of clients, padded to one batch; what is held out counts if `everything` is set."""
    import torch

    from cotempo.events.cox.updates import CellCounts

    size = max(len(part.events) for part in rows)
    features = np.zeros((len(rows), size, DIMENSIONS))
    events, exposure = np.zeros((2, len(rows), size))
    for i, part in enumerate(rows):
        count = len(part.events)
        weight = np.ones(count) if everything else 1.0 - part.held
        features[i, :count] = part.features
        events[i, :count], exposure[i, :count] = part.events * weight, part.exposure * weight
    return torch.from_numpy(features), CellCounts(torch.from_numpy(events), torch.from_numpy(exposure))


def to_torch(state: FunctionState, clients: int = 1) -> tuple[SharedBelief, Tensor]:
    """Return the server's beliefs as tensors, and the kernel once for each client."""
    import torch

    from cotempo.events.shared_function.updates import SharedBelief

    inducing, mean, root, kernel = (
        torch.from_numpy(np.array(part, dtype=np.float64))
        for part in (state.inducing, state.mean, state.root, state.kernel)
    )
    return SharedBelief(inducing, mean, root, *state.rate.tolist()), kernel.expand(clients, -1)


FunctionAnswer = tuple[Message, FunctionMemory | None]


def answer(method: SharedFunction, question: Question, record: Record, memory: FunctionMemory) -> FunctionAnswer:
    """At a client: answer one stage."""
    common, phase = question.common, question.phase
    if phase in (*base_measure.STAGES, *base_measure.AGAIN):
        message = base_measure.answer_measure(method, question, record)
        if phase not in ("level", "relevel"):
            return message, None
        state = read_state(method, common)
        memory = replace(memory, cells=cells_of(state.design, record, state.timeline.curves[-1]))
        return message, with_course(state, record, memory) if phase == "relevel" else memory
    if phase == "features":
        design, part = read_design(method, common), record.hold_out().part(held=False).whole()
        spread = dispersion(part, design.process(design.base), design.parameters)
        return Message({"dispersion": spread, "moments": moments(part, design)}), None
    if phase == "compare":
        return _answer_compare(method, common, record, memory)
    if phase == "curvature":
        import torch

        from cotempo.events.shared_function.updates import about_shared

        state = read_state(method, common)
        memory = inform(state, _with_rows(state, record, memory))
        # What the client knows about the shared function when its own rate is integrated out.
        left = about_shared(torch.from_numpy(np.array(memory.information))).numpy()
        return Message({"curvature": (left + left.T) / 2}), memory
    return learn(method, [question], [record], [memory])[0]


def read_state(method: SharedFunction, common: Message) -> FunctionState:
    """Return the part of the state that the server sent."""
    state = replace(first_state(method, 1), design=read_design(method, common))
    known = {name: common[name] for name in ("inducing", "kernel", "mean", "root", "rate") if name in common}
    if "curves" in common:
        curve = {name: common[name] for name in base_measure.curve_fields(state.timeline)}
        known["timeline"] = replace(state.timeline, **curve)
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


def with_course(state: FunctionState, record: Record, memory: FunctionMemory) -> FunctionMemory:
    """Return the memory with how the level of the own rate moved, where the curve repeats."""
    profile = state.design.process("curve")
    assert isinstance(profile, RateProfile)
    return (
        replace(memory, course=LevelCourse.of(record, profile, curve_rate(state, memory).rate))
        if profile.closed
        else memory
    )


def _with_rows(state: FunctionState, record: Record, memory: FunctionMemory) -> FunctionMemory:
    """Return the memory with rows on the base measure; they are made when first needed or when the base changes."""
    if len(memory.rows.events) and np.array_equal(memory.base, state.design.parameters):
        return memory
    return replace(memory, rows=make_rows(record.hold_out(), state.design), base=state.design.parameters)


def _answer_compare(
    method: SharedFunction, common: Message, record: Record, memory: FunctionMemory
) -> tuple[Message, FunctionMemory]:
    """Send the gain of each model over the own rate on both halves of what is held out; keep that of learning alone."""
    state, count = read_state(method, common), len(method.models)
    held, train = (record.hold_out().part(held=held).whole() for held in (True, False))
    if method.kernel != "time":
        memory = _with_rows(state, record, memory)
    curve = state.timeline.curves[-1] if len(state.timeline.curves) else None
    known = replace(memory, seen=np.array([train.events, train.exposure]), cells=cells_of(state.design, train, curve))
    halves = [held.hold_out(2, half).part(held=True) for half in (0, 1)]
    models = {kept: _judged(replace(state, kept=kept), known) for kept in method.models}
    each = [[likelihood(*models[kept], half) for half in halves] for kept in method.models]
    gains = np.array([[one["gain"] * max(one["events"], 1.0) for one in row] for row in each])
    if method.models[0] == "curve" and state.design.base == "curve":
        gains[1] = gains[0]  # one model, but for how its level is learned
    compared = NOT_COMPARED
    if method.compare and held.events >= FEWEST_HELD:
        alone_state, alone_memory = learn_alone(method, train)
        # What is held out may lie after the last that is learned from: no level of late, which the others have not.
        alone = partial(likelihood, alone_state, replace(alone_memory, seen=known.seen, course=LevelCourse()))
        errors = np.array([error_of_gain(held, partial(likelihood, *models[kept]), alone) for kept in method.models])
        together = gains.sum(axis=1) / max(held.events, 1.0)
        compared = np.stack([np.full(count, alone(held)["gain"]), together, errors], axis=-1)
    message = Message(
        {
            "gains": gains, "products": np.stack([np.outer(half, half) for half in gains.T]), "events": held.events,
            "joining": method.tally(compared, count),
        }
    )  # fmt: skip
    waits = {kept: held_waits(*model, held) for kept, model in models.items()}
    return message, replace(memory, waits=waits, compared=compared)


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
    model = make_intensity(replace(state, span=np.array([summary.start, summary.end])), memory, Clock())
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
    summary, course = Summary.from_array(state.design.summary), memory.course
    if state.kept == "curve":
        events, exposure = cells_of(state.design, record)
        rate = curve_rate(state, memory).rate
        told = base_measure.blurred(state.design, record, rate)
        seen, mass = float((events * np.log(told)).sum()), float((exposure * rate).sum())
        if len(course.events):
            after = record.after(course.end)
            seen += after.events * np.log(course.level)
            mass += (course.level - 1) * float((cells_of(state.design, after)[1] * rate).sum())
    else:
        design, rows = state.design, make_rows(record, state.design)
        relative = np.maximum(relative_mean(state, memory, rows.features), 1e-300)
        unrolled = unroll(record, design.decays, WHOLE)
        mass = float((rows.exposure * relative).sum())
        seen = seen_likelihood(design.log_base(unrolled), unrolled) + float((rows.events * np.log(relative)).sum())
    own, watched = memory.seen.tolist()
    rates = {"gain": (own, watched), "gain_over_pooled": (summary.events, summary.exposure)}
    return gains(seen - mass, mass, record.events, record.exposure, rates)


def curve_rate(state: FunctionState, memory: FunctionMemory) -> OwnRate:
    """Return the client's intensity in cells of time."""
    line, (events, exposure) = state.timeline, memory.cells
    return own_rate(line.curves[-1], events, exposure, LevelSetting(*line.own.tolist()), line.temper, line.effect)


def relative_mean(state: FunctionState, memory: FunctionMemory, features: Floats) -> Floats:
    """Return the posterior mean of m times the sigmoid at features, ``(rows,)``."""
    import torch

    from cotempo.events.cox.updates import mean_sigmoid
    from cotempo.events.shared_function.updates import function_at

    with torch.no_grad():
        _, _, at = function_at(torch.from_numpy(features)[None], *to_torch(state))
        return np.asarray(memory.shape / memory.rate * mean_sigmoid(at.centre, at.spread)[0].numpy())


def inform(state: FunctionState, memory: FunctionMemory) -> FunctionMemory:
    """Return the memory with the client's rate and joint information, from all its rows."""
    from cotempo.events.shared_function.updates import own_information

    information, shape, rate = own_information(*gather([memory.rows], everything=True), *to_torch(state))
    return replace(memory, shape=float(shape[0]), rate=float(rate[0]), information=information[0].numpy())
