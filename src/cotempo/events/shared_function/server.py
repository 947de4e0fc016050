"""What the server asks, and makes of the answers, while clients learn a curve of time or a function of history.

The stages in order: the span of time, the gaps between events; counts in cells and levels of clients, for the curve;
base measures and the choice among them, features, rounds of two sums, for the function; a comparison on what was held
out; then once more on everything, and the curvature for the bands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import digamma

from cotempo.events.curves.levels import SETTINGS, STRENGTHS
from cotempo.events.curves.timeline import choose_curve, profile
from cotempo.events.records.design import place_inducing, whitening
from cotempo.events.records.record import Floats
from cotempo.events.records.summary import Summary, gap_quantiles
from cotempo.events.shared_function.state import FunctionState, first_kernel, without_function
from cotempo.federation import Answers, Ask, Message

if TYPE_CHECKING:
    from cotempo.events.fedpp import FedPP

STAGES = (
    "span", "describe", "count", "level", "base", "choose", "features", "learn", "compare", "recount", "relevel",
    "rebase", "settle", "curvature", "done",
)  # fmt: skip
CANDIDATES = ("poisson", "curve", "hawkes", "renewal")
# Base measures that are learned in many exchanges, and how many they get once the choice is made.
ITERATED, REFINED = ("hawkes", "renewal"), 5
# Exchanges in which the levels of clients and the curve find each other.
PASSES = 3
POOLED = 1e6
MARGIN = 3.0
# The weight of Poisson's dispersion against that of the sequences, in degrees of freedom.
CHANCE = 5.0


def _is_needed(method: FedPP, state: FunctionState, stage: str) -> bool:
    """Whether a stage is part of this run."""
    history, judged = method.kernel != "time", state.judged or method.kernel != "time"
    curve = "curve" in method.candidates or (judged and "curve" in method.models)
    iterated, curve_alone = any(name in ITERATED for name in method.candidates), state.kept == "curve"
    return {
        "count": curve, "level": curve, "base": iterated, "choose": history and method.candidates != ("poisson",),
        "features": history, "learn": history, "compare": judged,
        "recount": curve_alone or state.design.base == "curve", "relevel": curve_alone,
        "rebase": not curve_alone and state.design.base in ITERATED,
        "settle": not curve_alone and (method.settle > 0 or state.kept == "base"), "curvature": not curve_alone,
    }.get(stage, True)  # fmt: skip


def _go_on(method: FedPP, state: FunctionState) -> FunctionState:
    """The state at its next stage."""
    later = STAGES[STAGES.index(state.stage) + 1 :]
    return replace(state, step=0, stage=next(stage for stage in later if _is_needed(method, state, stage)))


def ask(method: FedPP, state: FunctionState, cohort: Sequence[str]) -> Ask | None:
    """Ask for what the stage needs."""
    if state.stage == "done":
        return None
    ends = state.stage in ("relevel", "learn", "settle", "curvature", "compare")
    return Ask(state.stage, cohort, _common(method, state), ends_round=ends)


def _common(method: FedPP, state: FunctionState) -> Message:
    """Everything a client needs to know at this stage."""
    stage, design, line = state.stage, state.design, state.timeline
    if stage == "span":
        return Message()
    if stage == "describe":
        return Message({"span": state.span})
    known: dict[str, Any] = {"summary": design.summary, "base": design.base, "parameters": design.parameters}
    if stage in ("count", "recount"):
        return Message({**known, "curve": line.curves[-1]})
    curves = {"curves": line.curves, "temper": line.temper, "own": line.own, "effect": line.effect}
    if stage in ("level", "relevel"):
        return Message({**known, **curves})
    if stage in ("base", "choose", "rebase"):
        return Message({**known, **{f"of {name}": value for name, value in state.candidates.items()}})
    if stage == "features":
        return Message(known)
    if method.kernel == "time":
        return Message({**known, **curves})
    arrays = {name: getattr(state, name) for name in ("inducing", "kernel", "mean", "root", "rate")}
    told = {**known, "centre": design.centre, "whiten": design.whiten, **arrays}
    return Message({**told, **curves} if stage == "compare" and method.kernel == "auto" else told)


def absorb(method: FedPP, state: FunctionState, answers: Answers) -> tuple[FunctionState, dict[str, float]]:
    """At the server: what each stage makes of the answers."""
    makers = {
        "span": _absorb_span, "describe": _absorb_describe, "count": _absorb_count, "level": _absorb_level,
        "base": _absorb_base, "choose": _absorb_choice, "features": _absorb_features, "learn": _absorb_learn,
        "compare": _absorb_compare, "recount": _absorb_count, "relevel": _absorb_level, "rebase": _absorb_base,
        "settle": _absorb_learn, "curvature": _absorb_curvature,
    }  # fmt: skip
    return makers[state.stage](method, state, answers)


def _absorb_span(method: FedPP, state: FunctionState, answers: Answers) -> tuple[FunctionState, dict[str, float]]:
    first = min(answers[name]["start"] for name in answers.names)
    last = max(answers[name]["end"] for name in answers.names)
    return _go_on(method, replace(state, span=np.array([first, last]))), {}


def _absorb_describe(method: FedPP, state: FunctionState, answers: Answers) -> tuple[FunctionState, dict[str, float]]:
    events, exposure = answers.sum["totals"].tolist()
    first, last = state.span.tolist()
    gaps = gap_quantiles(answers.sum["gaps"], exposure / (events + 1), state.span)
    summary = Summary(events, exposure, first, last, gaps)
    rate = max(events, 0.5) / exposure
    design = replace(state.design, summary=summary.to_array(), parameters=np.array([rate]))
    line = replace(state.timeline, curves=np.full((1, method.cells), rate))
    starts = {name: design.process(name).start() for name in method.candidates}
    state = replace(state, design=design, timeline=line, candidates=starts)
    return _go_on(method, state), {"events": events}


def _absorb_count(method: FedPP, state: FunctionState, answers: Answers) -> tuple[FunctionState, dict[str, float]]:
    events, exposure = answers.sum["events"], answers.sum["exposure"]
    line = replace(state.timeline, sums=np.stack([events, exposure]), effect=_effect(answers.sum["dispersion"]))
    if state.step + 1 < PASSES:
        line = replace(line, curves=profile(events.sum(axis=0), exposure.sum(axis=0))[None])
        return replace(state, timeline=line, step=state.step + 1), {}
    misfit, expected = answers.sum["spread"].tolist()
    dispersion = max(1.0, misfit / expected) if expected > 0 else 1.0
    smoother, temper, curves, told = choose_curve(events, exposure, dispersion)
    state = replace(state, timeline=replace(line, curves=curves, smoother=smoother, temper=temper))
    if "curve" in method.candidates:
        # While base measures compete, the curve knows no more of the events they are judged on than they do.
        state = replace(state, candidates={**state.candidates, "curve": curves[-1 if state.stage == "recount" else -2]})
    if state.stage == "recount" and state.design.base == "curve":
        state = replace(state, design=replace(state.design, parameters=curves[-1]))
    found = {f"held-out {name} over flat": value for name, value in told.items()}
    return _go_on(method, state), {"dispersion": dispersion, "temper": temper, **found}


def _known(sums: Floats) -> Floats:
    """What sequences tell; blocks of single ones only where no client has two."""
    return np.asarray(sums[0] if sums[0].any() else sums[1])


def _effect(sums: Floats) -> float:
    """Design effect, drawn to Poisson's: that of few sequences is well above 1 by chance."""
    misfit, expected, freedom = _known(sums).tolist()
    return max(1.0, (freedom * misfit / expected + CHANCE) / (freedom + CHANCE)) if expected else 1.0


def _absorb_level(method: FedPP, state: FunctionState, answers: Answers) -> tuple[FunctionState, dict[str, float]]:
    told = _known(answers.sum["told"]).copy()
    # A deviation must tell more than chance would: it is one of several that are tried.
    told[len(STRENGTHS) :] -= MARGIN if method.personal else np.inf
    own = SETTINGS[int(np.argmax(told))]
    state = replace(state, timeline=replace(state.timeline, own=np.array(own)))
    return _go_on(method, state), {"strength of the common level": own.strength, "variance of deviations": own.variance}


def _absorb_base(method: FedPP, state: FunctionState, answers: Answers) -> tuple[FunctionState, dict[str, float]]:
    again = state.stage == "rebase"
    better = {
        name: state.design.process(name).update(state.candidates[name], answers.sum[f"of {name}"])
        for name in _iterated(method, state)
    }
    state = replace(state, candidates={**state.candidates, **better}, step=state.step + 1)
    if again:
        state = replace(state, design=replace(state.design, parameters=better[state.design.base]))
    return (_go_on(method, state) if state.step == (REFINED if again else method.base_rounds) else state), {}


def _iterated(method: FedPP, state: FunctionState) -> tuple[str, ...]:
    """Base measures that are being learned."""
    if state.stage == "rebase":
        return (state.design.base,)
    return tuple(name for name in method.candidates if name in ITERATED)


def _absorb_choice(method: FedPP, state: FunctionState, answers: Answers) -> tuple[FunctionState, dict[str, float]]:
    told = {name: float(answers.sum[f"of {name}"][0]) for name in method.candidates}
    best = max(told, key=lambda name: told[name])
    # The curve has since learned from all that is not held out.
    parameters = state.timeline.curves[-1] if best == "curve" else state.candidates[best]
    state = replace(state, design=replace(state.design, base=best, parameters=parameters))
    return _go_on(method, state), {f"held-out {name}": value for name, value in told.items()}


def _absorb_features(method: FedPP, state: FunctionState, answers: Answers) -> tuple[FunctionState, dict[str, float]]:
    effect, shape = _effect(answers.sum["dispersion"]), 4.0
    if state.design.base == "curve":
        # How strongly levels are drawn together on the curve is known from whole sequences.
        effect, shape = 1.0, min(float(state.timeline.own[0]), POOLED)
    centre, whiten = whitening(answers.sum["moments"])
    kernel, inducing = first_kernel(), place_inducing(method.inducing)
    nothing = np.zeros_like(kernel)
    state = replace(
        state, design=replace(state.design, centre=centre, whiten=whiten), inducing=inducing, kernel=kernel,
        drift=nothing, swing=nothing, mean=np.zeros(len(inducing)), root=np.eye(len(inducing)),
        rate=np.array([shape, shape / 2, effect]), curvature=np.zeros((len(inducing),) * 2),
    )  # fmt: skip
    return _go_on(method, state), {"design effect": effect}


def _absorb_learn(method: FedPP, state: FunctionState, answers: Answers) -> tuple[FunctionState, dict[str, float]]:
    total = answers.sum
    # Late answers weigh less than 1, and stand for fewer clients.
    scale = max(state.clients / total.weight, 1.0)
    precision = np.eye(len(state.mean)) + scale * total["quadratic"]
    root = np.linalg.cholesky((precision + precision.T) / 2)
    mean = np.linalg.solve(precision, scale * total["linear"])
    shape, rate = _rate_prior(state, total["level"] / total.weight)
    kernel, drift, swing = _climb(state, scale * total["gradient"])
    state = replace(
        state, step=state.step + 1, mean=mean, root=root, kernel=kernel, drift=drift, swing=swing,
        rate=np.array([shape, rate, state.rate[2]]),
    )  # fmt: skip
    last = max(method.settle, 1) if state.stage == "settle" else method.rounds
    return (state if state.step < last else _go_on(method, state)), {"fit": float(total["fit"])}


def _climb(state: FunctionState, gradient: Floats) -> tuple[Floats, Floats, Floats]:
    """One step of Adam on the kernel, with weak priors around where it started."""
    gradient = gradient - (state.kernel - first_kernel())
    drift, swing = 0.8 * state.drift + 0.2 * gradient, 0.95 * state.swing + 0.05 * gradient**2
    number = state.step + 1 if state.stage == "learn" else 1000
    step = 0.1 * (drift / (1 - 0.8**number)) / (np.sqrt(swing / (1 - 0.95**number)) + 1e-8)
    return state.kernel + step, drift, swing


def _rate_prior(state: FunctionState, level: Floats) -> tuple[float, float]:
    """Empirical Bayes: as spread as the clients' levels, around the level of all events together.

    The mean of the clients' levels would do in the end, but where they are drawn strongly to it, it hardly moves.
    """
    shape, rate = gamma_from_moments(float(level[0]), float(level[1]))
    if state.design.base == "curve":
        shape, rate = state.rate[:2].tolist()
    return (shape, shape * float(level[3] / level[2])) if min(level[2:]) > 0 else (shape, rate)


def gamma_from_moments(mean: float, mean_log: float) -> tuple[float, float]:
    """Shape and rate of the Gamma with these expectations of m and log m; the shape stays between 0.5 and 1e4."""
    gap = np.log(mean) - mean_log

    def miss(log_shape: float) -> float:
        return float(log_shape - digamma(np.exp(log_shape)) - gap)

    low, high = np.log(0.5), np.log(1e4)
    log_shape = low if miss(low) <= 0 else high if miss(high) >= 0 else float(brentq(miss, low, high))
    return float(np.exp(log_shape)), float(np.exp(log_shape) / mean)


def _absorb_compare(method: FedPP, state: FunctionState, answers: Answers) -> tuple[FunctionState, dict[str, float]]:
    """Keep the simplest model whose held-out likelihood, summed over clients, is not surely worse than the best.

    What each client is told is cross-fitted: on each half of what was held out, the gain of the model that was best
    on the other half, so that nothing is reported on the events it was chosen by.
    """
    if method.sums_up:
        told = float(answers.sum["gains"].sum() / max(answers.sum["events"], 1.0))
        return _go_on(method, replace(state, kept=method.models[0])), {f"held-out gain of the {method.models[0]}": told}
    gains = np.stack([answers[name]["gains"] for name in answers.names])
    if method.models[0] == "curve" and state.design.base == "curve":
        gains[:, 1] = gains[:, 0]  # one model, but for how its level is learned
    kept = method.models[_best(np.concatenate([gains[..., 0], gains[..., 1]]))]
    other = [_best(gains[..., half]) for half in (1, 0)]
    events = np.array([answers[name]["events"] for name in answers.names])
    together = gains[:, other, [0, 1]].sum(axis=1) / np.maximum(events, 1.0)
    compared = {
        name: np.array([answers[name]["alone"], value])
        for name, value in zip(answers.names, together, strict=True) if method.compares
    }  # fmt: skip
    state = replace(state, compared=compared, kept=kept)
    state = without_function(state) if kept == "base" else state
    found = dict(zip(method.models, gains.sum(axis=(0, 2)) / max(events.sum(), 1.0), strict=True))
    return _go_on(method, state), {f"held-out gain of the {n}": float(value) for n, value in found.items()}


def _best(gains: Floats) -> int:
    """The first model no worse than the best by more than two standard errors of their paired difference.

    `gains` are those of each client and model, ``(clients, models)``, the simplest model first.
    """
    worse = gains[:, [np.argmax(gains.sum(axis=0))]] - gains
    error = np.sqrt(len(gains)) * worse.std(axis=0, ddof=min(len(gains) - 1, 1))
    return int(np.argmax(worse.sum(axis=0) <= 2 * error))


def _absorb_curvature(method: FedPP, state: FunctionState, answers: Answers) -> tuple[FunctionState, dict[str, float]]:
    scale = max(state.clients / len(answers.names), 1.0)
    return _go_on(method, replace(state, curvature=scale * answers.sum["curvature"])), {}
