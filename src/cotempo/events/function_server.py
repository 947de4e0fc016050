"""What the server asks, and makes of the answers, while a shared function is learned.

The stages in order: the span of time, the gaps between events, base measures and the choice among them, features,
rounds of two sums, a comparison on what was held out, rounds on everything, and the curvature for the bands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import digamma

from cotempo.events.function_state import FunctionState, first_kernel
from cotempo.events.processes import make_process
from cotempo.events.record import Floats
from cotempo.events.rows import DIMENSIONS, even_time, place_inducing, whitening
from cotempo.events.summary import Summary, gap_quantiles
from cotempo.federation.exchange import Answers, Ask
from cotempo.federation.message import Message

if TYPE_CHECKING:
    from cotempo.events.fedpp import FedPP

STAGES = ("span", "describe", "base", "choose", "features", "learn", "compare", "settle", "curvature", "done")
CANDIDATES = ("poisson", "profile", "hawkes", "renewal")
POOLED = 1e6


def ask(method: FedPP, state: FunctionState, cohort: Sequence[str]) -> Ask | None:
    """Ask for what the stage needs."""
    if state.stage == "done":
        return None
    ends = state.stage in ("learn", "settle", "curvature", "compare")
    return Ask(state.stage, cohort, _common(state), ends_round=ends)


def _common(state: FunctionState) -> Message:
    """Everything a client needs to know at this stage."""
    if state.stage == "span":
        return Message()
    if state.stage == "describe":
        return Message({"span": state.span})
    design = state.design
    known: dict[str, Any] = {"summary": design.summary, "base": design.base, "parameters": design.parameters}
    if state.stage in ("base", "choose"):
        return Message({**known, **{f"of {name}": value for name, value in state.candidates.items()}})
    if state.stage == "features":
        return Message(known)
    names = ("inducing", "own_inducing", "kernel", "mean", "root", "rate")
    arrays = {name: getattr(state, name) for name in names}
    return Message({**known, "centre": design.centre, "whiten": design.whiten, **arrays})


def absorb(method: FedPP, state: FunctionState, answers: Answers) -> tuple[FunctionState, dict[str, float]]:
    """At the server: what each stage makes of the answers."""
    makers = {
        "span": _absorb_span, "describe": _absorb_describe, "base": _absorb_base, "choose": _absorb_choice,
        "features": _absorb_features, "learn": _absorb_learn, "compare": _absorb_compare, "settle": _absorb_learn,
        "curvature": _absorb_curvature,
    }  # fmt: skip
    return makers[state.stage](method, state, answers)


def _absorb_span(method: FedPP, state: FunctionState, answers: Answers) -> tuple[FunctionState, dict[str, float]]:
    first = min(answers[name]["start"] for name in answers.names)
    last = max(answers[name]["end"] for name in answers.names)
    return replace(state, stage="describe", span=np.array([first, last])), {}


def _absorb_describe(method: FedPP, state: FunctionState, answers: Answers) -> tuple[FunctionState, dict[str, float]]:
    events, exposure = answers.sum["totals"].tolist()
    first, last = state.span.tolist()
    summary = Summary(events, exposure, first, last, gap_quantiles(answers.sum["gaps"], exposure / (events + 1)))
    rate = np.array([max(events, 0.5) / exposure])
    design = replace(state.design, summary=summary.to_array(), parameters=rate)
    starts = {name: make_process(name, summary, method.period).start() for name in method.candidates}
    stage = "features" if tuple(starts) == ("poisson",) else "base"
    return replace(state, stage=stage, design=design, candidates=starts), {"events": events}


def _absorb_base(method: FedPP, state: FunctionState, answers: Answers) -> tuple[FunctionState, dict[str, float]]:
    summary = Summary.from_array(state.design.summary)
    better = {
        name: make_process(name, summary, method.period).update(state.candidates[name], answers.sum[f"of {name}"])
        for name in method.candidates
    }
    last = state.step + 1 == method.base_rounds
    return replace(state, candidates=better, step=0 if last else state.step + 1, stage="choose" if last else "base"), {}


def _absorb_choice(method: FedPP, state: FunctionState, answers: Answers) -> tuple[FunctionState, dict[str, float]]:
    told = {name: float(answers.sum[f"of {name}"][0]) for name in method.candidates}
    best = max(told, key=lambda name: told[name])
    design = replace(state.design, base=best, parameters=state.candidates[best])
    return replace(state, stage="features", design=design), {f"held-out {name}": value for name, value in told.items()}


def _absorb_features(method: FedPP, state: FunctionState, answers: Answers) -> tuple[FunctionState, dict[str, float]]:
    misfit, expected = answers.sum["dispersion"].tolist()
    # One sequence a client tells nothing about how sequences vary: then all share one rate.
    effect = max(1.0, misfit / expected) if expected else POOLED
    if method.kernel == "time":
        design, dimensions = replace(state.design, centre=even_time(answers.sum["moments"])), 1
    else:
        centre, whiten = whitening(answers.sum["moments"])
        design, dimensions = replace(state.design, centre=centre, whiten=whiten), DIMENSIONS
    kernel = first_kernel(method.kernel, dimensions)
    inducing = place_inducing(method.kernel, method.inducing, dimensions)
    personal = method.personal if method.personal is not None else method.kernel == "time"
    nothing = np.zeros_like(kernel)
    return replace(
        state, stage="learn", design=design, inducing=inducing, own_inducing=inducing if personal else inducing[:0],
        kernel=kernel, drift=nothing, swing=nothing, mean=np.zeros(len(inducing)), root=np.eye(len(inducing)),
        rate=np.array([4.0, 2.0, 1.0, effect]), curvature=np.zeros((len(inducing),) * 2),
    ), {"design effect": effect}  # fmt: skip


def _absorb_learn(method: FedPP, state: FunctionState, answers: Answers) -> tuple[FunctionState, dict[str, float]]:
    total = answers.sum
    # Late answers weigh less than 1, and stand for fewer clients.
    scale = max(state.clients / total.weight, 1.0)
    precision = np.eye(len(state.mean)) + scale * total["quadratic"]
    root = np.linalg.cholesky((precision + precision.T) / 2)
    mean = np.linalg.solve(precision, scale * total["linear"])
    misfit, expected = total["spread"].tolist()
    tempered = method.temper and method.kernel == "time" and expected > 0
    dispersion = max(1.0, misfit / expected) if tempered else 1.0
    shape, rate = _rate_prior(total["level"] / total.weight)
    kernel, drift, swing = _climb(state, scale * total["gradient"])
    settle = state.stage == "settle"
    step, last = state.step + 1, method.settle if settle else method.rounds
    stage = state.stage if step < last else "curvature" if settle else "compare"
    state = replace(
        state, stage=stage, step=step if step < last else 0, mean=mean, root=root, kernel=kernel, drift=drift,
        swing=swing, rate=np.array([shape, rate, dispersion, state.rate[3]]),
    )  # fmt: skip
    return state, {"fit": float(total["fit"]), "dispersion": dispersion}


def _climb(state: FunctionState, gradient: Floats) -> tuple[Floats, Floats, Floats]:
    """One step of Adam on the kernels, with weak priors around where they started."""
    gradient = gradient - (state.kernel - first_kernel(state.design.kernel, state.inducing.shape[1]))
    drift, swing = 0.8 * state.drift + 0.2 * gradient, 0.95 * state.swing + 0.05 * gradient**2
    number = state.step + 1 if state.stage == "learn" else 1000
    step = 0.1 * (drift / (1 - 0.8**number)) / (np.sqrt(swing / (1 - 0.95**number)) + 1e-8)
    return state.kernel + step, drift, swing


def _rate_prior(level: Floats) -> tuple[float, float]:
    """Empirical Bayes: as spread as the clients' levels, around the level of all events together.

    The mean of the clients' levels would do in the end, but where they are drawn strongly to it, it hardly moves.
    """
    shape, rate = gamma_from_moments(float(level[0]), float(level[1]))
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
    weight = np.array([answers[name]["events"] for name in answers.names])
    together, base = (
        float((weight * [answers[name][field] for name in answers.names]).sum() / max(weight.sum(), 1.0))
        for field in ("together", "base")
    )
    # Where few sequences are held out in part, a function of time alone is judged on times it never saw.
    dropped = base > together and method.kernel != "time"
    kept = "base" if dropped else "together"
    compared = {
        name: np.array([answers[name]["alone"], answers[name][kept]]) for name in answers.names if method.compare
    }
    state = replace(state, compared=compared, stage="settle" if method.settle or dropped else "curvature")
    if dropped:
        # The function did not pay on what was held out: it is left at 0, and levels settle on the base measure alone.
        kernel = np.where(np.arange(len(state.kernel)) == 0, -20.0, state.kernel)
        state = replace(state, mean=np.zeros_like(state.mean), kernel=kernel)
    return state, {"held-out gain": together, "held-out gain of the base": base}


def _absorb_curvature(method: FedPP, state: FunctionState, answers: Answers) -> tuple[FunctionState, dict[str, float]]:
    scale = max(state.clients / len(answers.names), 1.0)
    return replace(state, stage="done", curvature=scale * answers.sum["curvature"]), {}
