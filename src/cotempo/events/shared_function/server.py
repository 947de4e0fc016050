"""The coordinator's side of the shared function: what it asks at each stage, and what it makes of the answers.

After the stages of `cotempo.events.base_measure`: features, rounds of two sums for the function, a comparison on what was
held out; then once more on everything, and the curvature for the bands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import brentq
from scipy.special import digamma

from cotempo.events.base_measure import (
    AGAIN,
    STAGES,
    absorb_measure,
    advance,
    curve_fields,
    design_effect,
    design_fields,
    dispersion_spec,
    expect_measure,
    measure_message,
)
from cotempo.events.records.design import DIMENSIONS, place_inducing, whitening
from cotempo.events.records.record import Floats
from cotempo.events.shared_function.state import FunctionState, first_kernel, without_function
from cotempo.federation import Answers, Ask, Expect, Message, Spec

if TYPE_CHECKING:
    from cotempo.events.shared_function.method import SharedFunction

Absorbed = tuple[FunctionState, dict[str, float]]
# The shape of the levels' prior where whole sequences say that all levels are one.
POOLED_SHAPE = 1e6
# The step number of Adam in a refit, whose moments are those of the rounds before.
LATE_STEP = 1000


def ask(method: SharedFunction, state: FunctionState, cohort: Sequence[str]) -> Ask | None:
    """Ask for what the stage needs."""
    if state.stage == "done":
        return None
    ends = state.stage in ("relevel", "learn", "refit", "curvature", "compare")
    return Ask(state.stage, cohort, _common(method, state), ends_round=ends)


def _common(method: SharedFunction, state: FunctionState) -> Message:
    """Return everything a client needs to know at this stage."""
    if state.stage in (*STAGES, *AGAIN):
        return measure_message(state)
    known, design = design_fields(state.design), state.design
    if state.stage == "features":
        return Message(known)
    if method.kernel == "time":
        return Message({**known, **curve_fields(state.timeline)})
    arrays = {name: getattr(state, name) for name in ("inducing", "kernel", "mean", "root", "rate")}
    known |= {"centre": design.centre, "whiten": design.whiten, **arrays}
    curve = curve_fields(state.timeline) if state.stage == "compare" and method.kernel == "auto" else {}
    return Message({**known, **curve})


def absorb(method: SharedFunction, state: FunctionState, answers: Answers) -> Absorbed:
    """Return the state after a stage, and what is worth watching."""
    makers = {
        "features": _absorb_features, "learn": _absorb_learn, "compare": _absorb_compare, "refit": _absorb_learn,
        "curvature": _absorb_curvature,
    }  # fmt: skip
    return makers.get(state.stage, absorb_measure)(method, state, answers)


def _absorb_features(method: SharedFunction, state: FunctionState, answers: Answers) -> Absorbed:
    effect, shape = design_effect(answers.sum["dispersion"]), 4.0
    if state.design.base == "curve":
        # How strongly levels are drawn together on the curve is known from whole sequences.
        effect, shape = 1.0, min(float(state.timeline.own[0]), POOLED_SHAPE)
    centre, whiten = whitening(answers.sum["moments"])
    kernel, inducing = first_kernel(), place_inducing(method.inducing)
    nothing = np.zeros_like(kernel)
    state = replace(
        state, design=replace(state.design, centre=centre, whiten=whiten), inducing=inducing, kernel=kernel,
        first_moment=nothing, second_moment=nothing, mean=np.zeros(len(inducing)), root=np.eye(len(inducing)),
        rate=np.array([shape, shape / 2, effect]), curvature=np.zeros((len(inducing),) * 2),
    )  # fmt: skip
    return advance(method, state), {"design effect": effect}


def _absorb_learn(method: SharedFunction, state: FunctionState, answers: Answers) -> Absorbed:
    r"""Posterior of the function from two sums, :math:`\Sigma^{-1} = I + \sum_c S_c`, :math:`\mu = \Sigma \sum_c h_c`."""
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
    last = max(method.refit_rounds, 1) if state.stage == "refit" else method.rounds
    return (state if state.step < last else advance(method, state)), {"fit": float(total["fit"])}


def _climb(state: FunctionState, gradient: Floats) -> tuple[Floats, Floats, Floats]:
    """Take one step of Adam on the kernel, with weak priors around where it started."""
    gradient = gradient - (state.kernel - first_kernel())
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


def _absorb_compare(method: SharedFunction, state: FunctionState, answers: Answers) -> Absorbed:
    """Keep the simplest model whose held-out likelihood, summed over clients, is not surely worse than the best.

    What each client is sent is cross-fitted: on each half of what was held out, the gain of the model that was best
    on the other half, so that nothing is reported on the events it was chosen by.
    """
    models = method.models
    if method.sums_up:
        gain = float(answers.sum["gains"].sum() / max(answers.sum["events"], 1.0))
        return advance(method, replace(state, kept=models[0])), {f"held-out gain of the {models[0]}": gain}
    gains = np.stack([answers[name]["gains"] for name in answers.names])
    if models[0] == "curve" and state.design.base == "curve":
        gains[:, 1] = gains[:, 0]  # one model, but for how its level is learned
    kept = models[_best(np.concatenate([gains[..., 0], gains[..., 1]]))]
    other = [_best(gains[..., half]) for half in (1, 0)]
    events = np.array([answers[name]["events"] for name in answers.names])
    together = gains[:, other, [0, 1]].sum(axis=1) / np.maximum(events, 1.0)
    pairs = zip(answers.names, together, strict=True) if method.compare else ()
    compared = {name: np.array([answers[name]["alone"], value]) for name, value in pairs}
    state = replace(state, compared=compared, kept=kept)
    state = without_function(state) if kept == "base" else state
    found = dict(zip(models, gains.sum(axis=(0, 2)) / max(events.sum(), 1.0), strict=True))
    return advance(method, state), {f"held-out gain of the {n}": float(value) for n, value in found.items()}


def _best(gains: Floats) -> int:
    """Return the first model no worse than the best by more than two standard errors of their paired difference.

    `gains` are those of each client and model, ``(clients, models)``, the simplest model first.
    """
    worse = gains[:, [np.argmax(gains.sum(axis=0))]] - gains
    error = np.sqrt(len(gains)) * worse.std(axis=0, ddof=min(len(gains) - 1, 1))
    return int(np.argmax(worse.sum(axis=0) <= 2 * error))


def _absorb_curvature(method: SharedFunction, state: FunctionState, answers: Answers) -> Absorbed:
    scale = max(state.clients / len(answers.names), 1.0)
    return advance(method, replace(state, curvature=scale * answers.sum["curvature"])), {}


def expects(method: SharedFunction, state: FunctionState, phase: str) -> Expect:
    """Return what valid answers look like; all but the span, and a comparison of models or clients, are sums."""
    if phase in (*STAGES, *AGAIN):
        return expect_measure(method, state, phase)
    if phase == "compare":
        words = "gain of each model on both halves of your held-out events"
        fields = {
            "gains": Spec((len(method.models), 2), description=words),
            "events": Spec((), "float", low=0, description="how many events you held out"),
        }
        if method.compare:
            fields["alone"] = Spec((), "float", description="gain per held-out event of what you learned alone")
        return Expect(fields, sums=method.sums_up)
    count = len(state.inducing)
    if phase == "features":
        moments = Spec((1 + DIMENSIONS + DIMENSIONS**2,), description="moments of your features")
        fields = {"dispersion": dispersion_spec(), "moments": moments}
    elif phase == "curvature":
        fields = {"curvature": Spec((count, count), description="your information about the shared function")}
    else:
        level = "your expected level, its logarithm, and the events and exposure behind it"
        fields = {
            "quadratic": Spec((count, count), description="precision your events give the shared function"),
            "linear": Spec((count,), description="precision times mean your events give the shared function"),
            "gradient": Spec((len(state.kernel),), description="slope of your fit in the kernel's parameters"),
            "fit": Spec((), "float", description="your fit"),
            "level": Spec((4,), description=level),
        }
    return Expect(fields, sums=True)
