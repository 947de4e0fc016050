"""The loop that does not wait: the same bits where there is nothing to wait for, and what late answers do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from toys import SECRET, Walk, WalkState, Wrapped, make_clients

import cotempo as ct
from cotempo.engines.delayed import Delays, Timed, asynchronous_rounds, timed_rounds
from cotempo.errors import ParameterError, QuorumError
from cotempo.federation import Ask, Expect, Message, Method, Participation, Rng, Staleness
from cotempo.federation.registry import methods
from cotempo.federation.rounds import LoopOptions
from cotempo.storage.tree import digest
from cotempo.testing import Bytewise, Faulty, drive, example
from cotempo.testing.engines import direct

CLIENTS = make_clients(5)
EVENTS, _ = ct.make_events(clients=4, sequences=4, length=5.0)
FEDPP = ct.FedPP(preset="paper", rounds=3, inducing=6, cells=20, window=(0.0, 5.0))


class Stroll(Walk):
    """A walk whose answers may come late."""

    sums: bool = True

    @property
    def staleness(self) -> Mapping[str, Staleness]:
        return {"walk": "weighted"}


class Journey(Stroll):
    """A stroll, at whose end all are asked once more, and waited for."""

    phases: ClassVar[tuple[str, ...]] = ("walk", "arrive")

    def ask(self, state: WalkState, cohort: Sequence[str], rng: Rng) -> Ask | None:
        if state.round == self.rounds:
            return Ask("arrive", cohort, Message({"total": state.total}))
        return super().ask(state, cohort, rng)

    def expects(self, state: WalkState, phase: str) -> Expect:
        return super().expects(state, "walk")


def at_once(client: str, step: int) -> float:
    return 0.0


def slow_e(client: str, step: int) -> float:
    return 2.5 if client == "e" else 1.0


def run(method: Method, seconds: Any = at_once, engine: Any = None, **options: Any) -> list[Timed]:
    setup = LoopOptions(**{key: options.pop(key) for key in ("public", "seed", "quorum") if key in options})
    return list(asynchronous_rounds(method, engine or direct(method, CLIENTS), seconds, setup, **options))


def digests(steps: list[Timed]) -> list[str]:
    return [digest(step.step.state) for step in steps]


# Where there is nothing to wait for.


@pytest.mark.parametrize("name", [name for name, cls in methods().items() if example(cls)[0].staleness])
def test_without_delays_and_with_everyone_in_the_buffer_it_is_the_synchronous_loop(name: str) -> None:
    method, clients, public = example(methods()[name])
    waited = [digest(step.state) for step in drive(method, direct(method, clients), public=public, seed=3)]
    engine = direct(method, clients)
    assert digests(run(method, engine=engine, buffer=len(clients), public=public, seed=3)) == waited


def test_the_same_with_a_cohort_drawn_each_round() -> None:
    method = Stroll(rounds=6, alone=True)
    waited = drive(method, direct(method, CLIENTS), participation=Participation(3), seed=2)
    assert digests(run(method, buffer=3, concurrency=3, seed=2)) == [digest(step.state) for step in waited]


def test_at_least_one_method_of_each_kind_allows_it() -> None:
    kinds = {kind for cls in methods().values() for kind in example(cls)[0].staleness.values()}
    assert kinds == {"weighted", "replace", "accumulate"}
    assert ct.FedPP(preset="paper").staleness == {"train": "weighted"}


def test_the_synchronous_clock_waits_for_the_slowest_of_those_asked() -> None:
    method = Stroll(rounds=4, alone=True)
    steps = list(timed_rounds(method, direct(method, CLIENTS), slow_e, LoopOptions()))
    assert [step.seconds for step in steps] == [2.5, 2.5, 5.0, 5.0]  # the server alone takes no time


# Late answers.


def test_answers_count_in_the_order_they_come_and_less_the_older_they_are() -> None:
    steps = run(Stroll(), slow_e, buffer=4)
    assert [step.seconds for step in steps] == [1.0, 2.0, 3.0, 4.0]
    assert ["".join(step.step.answers.names) for step in steps] == ["abcd", "abcd", "abce", "abcd"]
    weights = [step.step.answers.sum.weight for step in steps]
    assert weights == pytest.approx([4, 4, 3 + 3**-0.5, 3 + 2**-0.5])
    before, after = (steps[i].step.state.total for i in (1, 2))
    np.testing.assert_allclose(after - before, steps[2].step.answers.sum["move"])


def test_by_default_it_waits_for_those_who_were_in_time_before() -> None:
    steps = run(Stroll(), slow_e)
    assert [step.seconds for step in steps] == [1.0, 2.0, 3.0, 4.0]
    # Half of five, rounded up; then those three, of whom d's answer takes one's place; then all but e, who is slow.
    assert ["".join(step.step.answers.names) for step in steps] == ["abc", "abd", "abce", "abcd"]


def test_old_answers_are_weighted_by_hand() -> None:
    method = Stroll()
    engine = Wrapped(direct(method, CLIENTS), lambda questions, replies: keep(replies))
    kept: dict[tuple[str, int], np.ndarray] = {}

    def keep(replies: Any) -> Any:
        for reply in replies:
            kept[reply.client, reply.step] = reply.message["move"]
            yield reply

    third = run(method, slow_e, engine, buffer=4)[2].step
    by_hand = kept["a", 3] + kept["b", 3] + kept["c", 3] + kept["e", 1] / np.sqrt(3)
    np.testing.assert_allclose(third.answers.sum["move"], by_hand)


class Remembered(Stroll):
    """A stroll in which everybody's last move stays in the sum."""

    @property
    def staleness(self) -> Mapping[str, Staleness]:
        return {"walk": "replace"}


def test_kept_answers_stay_until_the_next_one_replaces_them() -> None:
    method = Remembered(rounds=5, more={f"b {step}": "raise" for step in range(2, 6)})
    engine = Wrapped(direct(method, CLIENTS), lambda questions, replies: keep(replies))
    kept: dict[tuple[str, int], np.ndarray] = {}

    def keep(replies: Any) -> Any:
        for reply in replies:
            if reply.message is not None:
                kept[reply.client, reply.step] = reply.message["move"]
            yield reply

    steps = [step.step for step in run(method, slow_e, engine, buffer=3)]
    assert ["".join(step.answers.names) for step in steps] == ["abc", "abcd", "abcde", "abcde", "abcde"]
    assert "b" in {failure.client for step in steps for failure in step.answers.failures}
    by_hand = [kept["a", 2], kept["b", 1], kept["c", 2], kept["d", 1]]
    np.testing.assert_allclose(steps[1].answers.sum["move"], sum(by_hand))


class Bounded(Remembered):
    """Who is asked for the second time too many steps ago is waited for."""

    @property
    def most_stale(self) -> Mapping[str, int]:
        return {"walk": 2}


def test_a_bound_waits_for_first_answers_and_for_those_asked_too_many_steps_ago() -> None:
    """Client e takes ten seconds, the others one: without it two steps pass, and the third waits for it."""

    def seconds(client: str, step: int) -> float:
        return 10.0 if client == "e" else 1.0

    steps = run(Bounded(rounds=7), seconds, buffer=4)
    assert [step.seconds for step in steps] == [10, 11, 12, 20, 21, 22, 30]
    assert ["".join(step.step.answers.names) for step in steps] == ["abcde"] * 7
    unbounded = run(Remembered(rounds=7), seconds, buffer=4)
    assert [step.seconds for step in unbounded] == [1, 2, 3, 4, 5, 6, 7]


def test_a_client_has_one_question_at_a_time_and_starts_from_what_counted() -> None:
    method = Stroll(rounds=12)
    engine = Wrapped(direct(method, CLIENTS), lambda questions, replies: replies)
    steps = run(method, Delays(spread=1, jitter=1).among(CLIENTS, 0), engine, buffer=2, concurrency=3)
    counted: dict[int, Mapping[str, int]] = {0: {}}
    for step in steps:
        number = step.step.step
        counted[number] = {**counted[number - 1], **step.step.answers.versions}
    asked = [(question.client, question.step) for question in engine.asked]
    assert len(set(asked)) == len(asked)
    for question in engine.asked:
        assert question.base == counted[question.step - 1].get(question.client, 0)
        at_work = {q.client for q in engine.asked if q.step <= question.step} - {
            name for name, version in counted[question.step - 1].items()
            if version == max(q.step for q in engine.asked if q.client == name and q.step <= question.step)
        }  # fmt: skip
        assert len(at_work) <= 3


def test_the_same_seed_gives_the_same_bits_on_every_engine(tmp_path: Path) -> None:
    method = Stroll(rounds=15)
    delays = Delays(spread=1, jitter=1, stragglers=0.2)
    first, again = (run(method, delays.among(CLIENTS, 1), buffer=2) for _ in range(2))
    assert digests(first) == digests(again)
    assert [step.seconds for step in first] == [step.seconds for step in again]
    bytewise = Bytewise(method, CLIENTS, tmp_path)
    assert digests(run(method, delays.among(CLIENTS, 1), bytewise, buffer=2)) == digests(first)
    assert digests(run(method, delays.among(CLIENTS, 2), buffer=2)) != digests(first)


def test_an_answer_that_comes_when_the_phase_is_over_never_happened() -> None:
    def seconds(client: str, step: int) -> float:
        return 100.0 if client == "e" else 1.0

    method = Journey(rounds=3)
    asked = Wrapped(direct(method, CLIENTS), lambda questions, replies: replies)
    lost = Faulty(direct(method, CLIENTS), deliver=lambda question: (question.client, question.step) != ("e", 1))
    steps = run(method, seconds, asked, buffer=4)
    assert [step.seconds for step in steps] == [1, 2, 3, 200]  # e first finishes what nobody waits for any more
    assert ["".join(step.step.answers.names) for step in steps] == ["abcd", "abcd", "abcd", "abcde"]
    assert [(question.step, question.base) for question in asked.asked if question.client == "e"] == [(1, 0), (4, 0)]
    assert digests(run(method, seconds, lost, buffer=4)) == digests(steps)


def test_sums_that_do_not_age_are_added_whenever_they_come() -> None:
    clients, _ = ct.make_networks(variables=3, clients=5, samples=80, seed=0)
    method = ct.OneRound(restarts=0)
    waited = [digest(step.state) for step in drive(method, direct(method, clients))]
    seconds = Delays(spread=1.0).among(clients, 0)
    steps = run(method, seconds, direct(method, clients), buffer=2)
    sums = [step for step in steps if step.step.phase == "products"]
    assert [len(step.step.answers.names) for step in sums] == [2, 4, 5]
    assert [digest(sums[-1].step.state), digests(steps)[-1]] == [waited[1], waited[-1]]


# Trouble.


def test_a_client_that_fails_costs_only_itself() -> None:
    method = Stroll(rounds=5, more={f"b {step}": "raise" for step in range(1, 6)})
    steps = run(method, slow_e, buffer=3)
    assert not any("b" in step.step.answers.names for step in steps)
    assert all(len(step.step.answers.names) == 3 for step in steps)
    failures = [failure for step in steps for failure in step.step.answers.failures]
    assert {(failure.client, failure.kind) for failure in failures} == {("b", "ValueError")}
    assert SECRET not in str(failures)


def test_fewer_than_the_buffer_do_where_nobody_else_is_left() -> None:
    method = Stroll(victim="b", at=1, trouble="raise")
    steps = run(method, buffer=5)
    assert [len(step.step.answers.names) for step in steps] == [4, 5, 5, 5]


def test_with_nobody_answering_it_stops() -> None:
    silent = Faulty(direct(Stroll(), CLIENTS), deliver=lambda question: False)
    with pytest.raises(QuorumError, match="at least 50% of the 5 clients asked must answer, 0 did"):
        run(Stroll(), engine=silent, buffer=3)


def test_comers_and_goers_cost_only_themselves() -> None:
    method = Stroll(rounds=6)
    late = Faulty(direct(method, CLIENTS), present=lambda call, names: list(names)[: 4 if call < 3 else 5])
    gone = Faulty(direct(method, CLIENTS), present=lambda call, names: list(names)[: 5 if call < 3 else 4])
    for engine, at_first, at_last in ((late, False, True), (gone, True, False)):
        steps = run(method, engine=engine, buffer=4)
        assert {len(step.step.answers.names) for step in steps} == {4}
        assert ("e" in steps[0].step.sent) == at_first
        assert any("e" in step.step.sent for step in steps[2:]) == at_last


@pytest.mark.parametrize(
    ("method", "options", "text"),
    [
        (ct.PFDBNL(), {"buffer": 1}, "answers to PFDBNL .* must not come late"),
        (ct.FedPP(preset="paper", aggregation="mmd"), {"buffer": 1}, "answers to FedPP .* must not come late"),
        (Stroll(), {"buffer": 0}, "buffer must be at least 1 and at most concurrency, got 0"),
        (Stroll(), {"buffer": 3, "concurrency": 2}, "buffer must be at least 1 and at most concurrency, got 3"),
        (Stroll(), {"buffer": 1, "concurrency": 0}, "concurrency must be at least 1"),
    ],
)
def test_what_does_not_fit_is_refused(method: Method, options: dict[str, int], text: str) -> None:
    with pytest.raises(ParameterError, match=text):
        run(method, engine=direct(method, CLIENTS), **options)


# Delays.


def test_stragglers_are_a_share_of_the_clients_whatever_their_order() -> None:
    names = [f"c{number}" for number in range(20)]
    seconds = Delays(median=2.0, stragglers=0.2, slowdown=10).among(names, seed=4)
    taken = [seconds(name, 1) for name in names]
    assert sorted(taken) == [2.0] * 16 + [20.0] * 4
    assert [Delays(median=2.0, stragglers=0.2).among(names[::-1], seed=4)(name, 9) for name in names] == taken


def test_delays_are_log_normal_between_clients_and_between_questions() -> None:
    names = [f"c{number}" for number in range(400)]
    between = np.log([Delays(spread=1.5).among(names, 0)(name, 1) for name in names])
    within = np.log([Delays(median=np.e, jitter=0.5).among(names, 0)("c0", step) for step in range(400)])
    found = [between.mean(), between.std(), within.mean(), within.std()]
    np.testing.assert_allclose(found, [0.0, 1.5, 1.0, 0.5], atol=0.2)
    assert Delays(spread=1.5).among(names, 0)("c7", 1) == Delays(spread=1.5).among(names, 0)("c7", 2)


@pytest.mark.parametrize("wrong", [{"median": -1.0}, {"jitter": float("nan")}, {"stragglers": 1.5}])
def test_impossible_delays_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ParameterError, match=next(iter(wrong))):
        Delays(**wrong)


def test_what_people_call_runs_both_loops() -> None:
    options: dict[str, Any] = {"delays": Delays(stragglers=0.25), "seed": 1}
    waited = ct.simulate_delays(FEDPP, EVENTS, **options)
    ahead = ct.simulate_delays(FEDPP, EVENTS, buffer=3, **options)
    assert [step.seconds for step in waited] == [10, 20, 30]
    assert [step.seconds for step in ahead] == [1, 2, 3]
    assert "prior moved" in ahead[-1].step.metrics
