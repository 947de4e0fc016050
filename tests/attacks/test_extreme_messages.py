"""Messages that are valid and as extreme as the validator lets through: they end no run, and hardly change it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import cotempo as ct
from cotempo import social
from cotempo.engines.inprocess import InProcess
from cotempo.federation import Expect, Message, Question, Reply
from cotempo.robust.reducer import SCREEN
from cotempo.testing import Faulty, drive

LIAR = "client-3"


@dataclass(frozen=True)
class Case:
    """A method on small tables of eight clients, and how far one of its results is from another, 0 to 1."""

    method: Any
    tables: Mapping[str, Any]
    differ: Callable[[Any, Any], float]
    public: Any = None


def edges(one: Any, other: Any) -> float:
    """The share of pairs of variables that are joined in one of two networks only."""
    name = "shared" if hasattr(one, "shared") else "within"
    return float(np.mean((getattr(one, name) != 0) != (getattr(other, name) != 0)))


def relative(read: Callable[[Any], Any]) -> Callable[[Any, Any], float]:
    """How far two arrays are from each other, of the size of one."""

    def differ(one: Any, other: Any) -> float:
        one, other = (np.asarray(read(state), np.float64) for state in (one, other))
        return float(np.abs(one - other).sum() / np.abs(other).sum()) if one.shape == other.shape else 1.0

    return differ


def turned(one: Any, other: Any) -> float:
    """How far two models are from each other, of how far training moved one."""
    return float(np.linalg.norm(one.weights - other.weights) / np.linalg.norm(other.weights - other.first))


@cache
def case(name: str) -> Case:
    networks = ct.make_networks(variables=6, clients=8, samples=2400, seed=2)[0]
    events = ct.make_events(clients=8, sequences=6, seed=0)[0]
    series = ct.make_series(clients=9, length=150, features=3, seed=0)[0]
    public = series.pop("client-8")
    posts = ct.make_posts(clients=8, posts=40, events=8, seed=0)[0]
    small = {
        "buckets": 64,
        "dimension": 8,
        "hidden": 8,
        "heads": 2,
        "outputs": 8,
        "compare": False,
        "rounds": 2,
        "encoder": "hashed",
    }
    tiny = ct.FedTDD.example()[0].set_params(common=("x0", "x1", "x2"), gate=False)
    found = {
        "OneRound": lambda: Case(ct.OneRound(compare=False, restarts=0), networks, edges),
        "FDBNL": lambda: Case(ct.FDBNL(compare=False, rounds=25, scaled=False), networks, edges),
        "PFDBNL": lambda: Case(ct.PFDBNL(compare=False, rounds=15), networks, edges),
        "EdgeRanking": lambda: Case(
            ct.EdgeRanking(), networks, relative(lambda state: np.nan_to_num(state.scores) > 2)
        ),
        "FedMean": lambda: Case(ct.FedMean(), networks, relative(lambda state: 1 + state.mean)),
        "FedPP": lambda: Case(
            ct.FedPP(kernel="time", compare=False, window=(0.0, 10.0), cells=48),
            events,
            relative(lambda state: state.timeline.curves[-1] / state.timeline.curves[-1].mean()),
        ),
        "FedPointProcess": lambda: Case(
            ct.FedPointProcess(process="hawkes", compare=False, rounds=8),
            events,
            relative(lambda state: state.parameters),
        ),
        "FedMoments": lambda: Case(
            ct.FedMoments(), series, relative(lambda state: state.products[1] / state.counts[1].max())
        ),
        "EventDetector": lambda: Case(
            ct.EventDetector(dimension=8, buckets=64, compare=False),
            posts,
            relative(lambda state: state.sums["frequency"] / state.sums["documents"]),
        ),
        "FedAvg": lambda: Case(social.FedAvg(**small), posts, turned),
        "DAMe": lambda: Case(social.DAMe(probes=2, **small), posts, turned),
        "FedTDD": lambda: Case(tiny, series, relative(lambda state: 1 + state.bank.std(axis=(0, 1))), public),
    }
    return found[name]()


def extreme(stream: np.random.Generator, message: Message, expect: Expect) -> Message:
    """Return a message inside of what is expected, with some fields moved to extremes."""

    def moved(name: str, value: Any) -> Any:
        spec = expect.fields[name]
        is_array = isinstance(value, np.ndarray) and value.dtype.kind == "f"
        if stream.random() < 0.4 or not (is_array or type(value) is float):
            return value
        size = 10.0 ** stream.integers(-12, 13)
        choices = [
            lambda: np.asarray(value) * size,
            lambda: np.full(np.shape(value), size),
            lambda: stream.standard_normal(np.shape(value)) * size,
            lambda: np.zeros(np.shape(value)),
            lambda: -np.asarray(value),
        ]
        found = np.clip(choices[stream.integers(len(choices))](), spec.low, spec.high)
        return found.astype(value.dtype) if is_array else float(found)

    weight = min(max(message.weight * 10.0 ** stream.integers(-3, 13), expect.weight[0]), expect.weight[1])
    fields = {name: moved(name, value) if name in expect.fields else value for name, value in message.items()}
    return Message(fields, weight=weight if stream.random() < 0.3 else message.weight)


def run(case: Case, tables: Mapping[str, Any], seed: int | None = None) -> list[Any]:
    """Run to the end; with a seed the liar's answers are extreme, from a step drawn at random."""
    stream, expected = np.random.default_rng(seed), dict[str, Expect]()
    method = case.method

    class Watched(type(method)):  # type: ignore[misc]
        def expects(self, state: Any, phase: str) -> Expect:
            expected[phase] = super().expects(state, phase)
            return expected[phase]

    def tamper(question: Question, reply: Reply) -> Reply:
        if seed is None or question.client != LIAR or reply.message is None or stream.random() < 0.3:
            return reply
        with np.errstate(all="ignore"):
            lied = extreme(np.random.default_rng([seed, question.step]), reply.message, expected[question.phase])
        return replace(reply, message=lied)

    watched = Watched(**{name: getattr(method, name) for name in method.model_fields_set})
    with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
        engine = Faulty(InProcess(watched, tables, seed=0), tamper=tamper)
        reducer = SCREEN if type(method) in (ct.FedMean, ct.EdgeRanking) else method.reducer
        return list(drive(watched, engine, public=case.public, reducer=reducer))


@cache
def honest(name: str) -> tuple[Any, Any]:
    """Return the states after runs with and without the client that will lie."""
    found = case(name)
    rest = {client: table for client, table in found.tables.items() if client != LIAR}
    return run(found, found.tables)[-1].state, run(found, rest)[-1].state


def changed(name: str, seed: int) -> float:
    """Return how far a lie moves a result from the nearer honest one, beyond what leaving out the client does."""
    steps = run(case(name), case(name).tables, seed)
    blamed = {failure.client for step in steps for failure in step.answers.failures}
    assert blamed <= {LIAR}, f"seed {seed} blames {blamed}"
    differ = case(name).differ
    return min(differ(steps[-1].state, state) for state in honest(name)) - differ(*honest(name))


@pytest.mark.parametrize("name", ["OneRound", "FedMean", "EventDetector"])
def test_extreme_but_valid_messages_do_not_end_a_run(name: str) -> None:
    assert max(changed(name, seed) for seed in range(3)) <= 0.05


def test_sums_of_a_point_process_are_compared_event_by_event() -> None:
    assert max(changed("FedPointProcess", seed) for seed in (0, 13, 26, 29, 134, 174)) <= 0.05


@pytest.mark.parametrize(("name", "seed"), [("EdgeRanking", 1), ("EdgeRanking", 50), ("FDBNL", 124), ("FedMoments", 4)])
def test_sums_of_no_rows_and_moments_of_another_scale_change_nothing(name: str, seed: int) -> None:
    assert changed(name, seed) <= 0.05


METHODS = [
    "OneRound", "FDBNL", "PFDBNL", "EdgeRanking", "FedMean", "FedPP", "FedPointProcess", "FedMoments", "EventDetector",
    "FedAvg", "DAMe", "FedTDD",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_none_of_200_extreme_messages_ends_a_run_or_changes_it_much(name: str) -> None:
    moved = [seed for seed in range(200) if changed(name, seed) > 0.05]
    assert not moved, f"{len(moved)} of 200 changed it, those of the seeds {moved[:10]}"
