"""One liar of eight, inside of what is checked: how far it can move a result with the defaults, and is it named."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cotempo as ct
from cotempo.engines.inprocess import InProcess
from cotempo.federation import Expect, Message, Question, Reply
from cotempo.federation.reducers import PlainReducer
from cotempo.robust.reducer import SCREEN
from cotempo.testing import Faulty, drive

LIAR = "client-3"
CLIENTS, TRUTH = ct.make_networks(variables=6, clients=8, samples=2400, seed=2)


def wrong_edges(fitted: Any) -> float:
    return float(ct.score_network(fitted.network, TRUTH)["shd"])


def fit(method: Any, clients: dict[str, Any], **options: Any) -> Any:
    with warnings.catch_warnings(action="ignore"):
        return method.fit(clients, progress=False, **options)


ONE_ROUND = ct.OneRound(compare=False, restarts=0)
FDBNL = ct.FDBNL(compare=False, rounds=25, scaled=False)


@pytest.mark.parametrize(
    ("method", "kind", "strength"),
    [
        (ONE_ROUND, "forged_edge", 1.0),
        (ONE_ROUND, "inflated_weight", 10.0),
        (ONE_ROUND, "inflated_weight", 1e9),
        (ONE_ROUND, "backdoor", None),
        (FDBNL, "lying_duals", 2.0),
        (FDBNL, "lying_duals", 1000.0),
        (FDBNL, "inflated_weight", 100.0),
        (FDBNL, "sign_flip", None),
    ],
)
def test_networks_have_at_most_two_more_wrong_edges_and_the_liar_is_named(
    method: Any, kind: Any, strength: float | None
) -> None:
    attack = ct.Attack(kind, clients=(LIAR,), strength=strength)
    lied = fit(method, CLIENTS, attack=attack)
    assert wrong_edges(lied) <= wrong_edges(fit(method, CLIENTS)) + 2
    assert {failure["client"] for failure in lied.failures} == {LIAR}
    assert lied.suspects in ((LIAR,), ())  # a claim of too many rows is refused, anything else is suspect


def test_a_forged_edge_would_get_through_a_plain_sum() -> None:
    attack = ct.Attack("forged_edge", clients=(LIAR,), strength=3.0)
    lied = fit(ONE_ROUND, CLIENTS, attack=attack, reducer=PlainReducer())
    assert wrong_edges(lied) > 2
    assert fit(ONE_ROUND, CLIENTS, attack=attack).suspects == (LIAR,)


def test_honest_clients_get_the_same_bits_as_by_a_plain_sum() -> None:
    for method in (ONE_ROUND, FDBNL):
        found = fit(method, CLIENTS)
        assert not found.failures
        assert found.digest == fit(method, CLIENTS, reducer=PlainReducer()).digest


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["scaling", "gaussian", "sign_flip", "inflated_weight", "inflated_precision"])
def test_an_intensity_moves_by_at_most_a_tenth(kind: Any) -> None:
    clients = ct.make_events(clients=8, sequences=6, seed=0)[0]
    method = ct.FedPP(kernel="time", compare=False, window=(0.0, 10.0), cells=48)
    times, honest = np.linspace(0.25, 9.75, 40), sorted({*clients} - {LIAR})
    before, after = (
        np.stack([fitted[name].intensity(times).mean for name in honest])
        for fitted in (fit(method, clients), fit(method, clients, attack=ct.Attack(kind, clients=(LIAR,))))
    )
    assert np.abs(after - before).mean() <= 0.1 * before.mean()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["scaling", "inflated_weight", "poisoned_vocabulary", "gaussian"])
def test_a_detector_loses_at_most_three_hundredths(kind: Any) -> None:
    clients, truth = ct.make_posts(clients=8, posts=80, events=10, seed=0)
    method = ct.EventDetector(dimension=20, buckets=1024, compare=False)
    honest = sorted({*clients} - {LIAR})

    def score(fitted: Any) -> float:
        found = [np.mean(np.array(truth.labels[n]) == fitted[n].detect(clients[n]).event) for n in honest]
        return float(np.mean(found))

    assert score(fit(method, clients, attack=ct.Attack(kind, clients=(LIAR,)))) >= score(fit(method, clients)) - 0.03


Lie = Callable[[np.random.Generator, Message], Message]


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


def lie_once(method: Any, clients: dict[str, Any], seed: int) -> list[Any]:
    """Run with a liar whose answers are extreme, from a step drawn at random."""
    stream = np.random.default_rng(seed)
    expected: dict[str, Expect] = {}

    class Watched(type(method)):  # type: ignore[misc]
        def expects(self, state: Any, phase: str) -> Expect:
            expected[phase] = super().expects(state, phase)
            return expected[phase]

    def tamper(question: Question, reply: Reply) -> Reply:
        if question.client != LIAR or reply.message is None or stream.random() < 0.3:
            return reply
        lied = extreme(np.random.default_rng([seed, question.step]), reply.message, expected[question.phase])
        return Reply(reply.client, reply.step, reply.version, lied)

    watched = Watched(**method.model_dump())
    with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
        engine = Faulty(InProcess(watched, clients, seed=0), tamper=tamper)
        return list(drive(watched, engine, reducer=SCREEN))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ["OneRound", "FedMean"])
def test_extreme_but_valid_messages_do_not_end_a_run(name: str, seed: int) -> None:
    method = {"OneRound": ONE_ROUND, "FedMean": ct.FedMean()}[name]
    steps = lie_once(method, CLIENTS, seed)
    assert steps[-1].state is not None
    assert {failure.client for step in steps for failure in step.answers.failures} <= {LIAR}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["OneRound", "FDBNL", "FedMean"])
def test_none_of_200_extreme_messages_ends_a_run_or_changes_it_much(name: str) -> None:
    method: Any = {"OneRound": ONE_ROUND, "FDBNL": FDBNL, "FedMean": ct.FedMean()}[name]
    honest = list(drive(method, InProcess(method, CLIENTS, seed=0)))[-1].state
    changed = []
    for seed in range(200):
        state = lie_once(method, CLIENTS, seed)[-1].state
        if name == "FedMean":  # a mean has no moments to compare: only that the run ends is asked
            continue
        field = "shared" if name == "FDBNL" else "within"
        before, after = getattr(honest, field), getattr(state, field)
        changed.append(np.mean((before != 0) != (after != 0)) > 0.05)
    assert not any(changed), f"{sum(changed)} of {len(changed)} moved the network"
