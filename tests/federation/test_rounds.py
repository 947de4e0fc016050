"""The one loop: what counts, who is asked, and where it can go on from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest
from toys import SECRET, Notes, Walk, Wrapped, make_clients

from cotempo.data import Series
from cotempo.errors import CotempoError, MessageError, Problem, QuorumError, SchemaError
from cotempo.federation import Answers, Ask, Failure, Message, Participation, Question, Reply, Roster
from cotempo.federation.rounds import Step
from cotempo.storage.tree import digest
from cotempo.testing import Faulty, drive
from cotempo.testing.engines import direct

CLIENTS = make_clients(4)


def run(method: Walk, engine: Any = None, **options: Any) -> list[Step]:
    return list(drive(method, engine or direct(method, CLIENTS), **options))


def last(steps: Sequence[Step]) -> str:
    return digest(steps[-1].state)


def silent(*names: str) -> Any:
    """Answers of these clients are lost."""
    return lambda question, reply: None if question.client in names else reply


# Quorum.


def test_below_quorum_pauses_with_the_state_untouched_and_can_go_on() -> None:
    method, notes = Walk(), Notes()
    whole = run(method)
    away = Faulty(direct(method, CLIENTS), tamper=lambda q, reply: None if q.step == 3 and q.client in "abc" else reply)
    with pytest.raises(QuorumError, match=r"at least 50% of the 4 clients asked must answer, 1 did") as caught:
        run(method, away, recorder=notes)
    for name in "abc":
        assert f"{name}, step 3, phase 'walk': Lost" in str(caught.value)
    start = notes.checkpoints[-1]
    assert start.step == 2
    assert digest(start.state) == digest(whole[1].state)
    engine = direct(method, CLIENTS)
    engine.restore(start.memories, start.ledger)
    resumed = run(method, engine, start=start)
    assert [step.step for step in resumed] == [3, 4]
    assert last(resumed) == last(whole)


@pytest.mark.parametrize(
    ("quorum", "answers", "enough"), [(0.55, 11, True), (0.55, 10, False), (0.1, 2, True), (1, 19, False), (0, 0, True)]
)
def test_quorum_is_a_share_of_those_asked(quorum: float, answers: int, enough: bool) -> None:
    clients = make_clients(20)
    lost = sorted(clients)[answers:]
    method = Walk(rounds=1)
    engine = Faulty(direct(method, clients), tamper=silent(*lost))
    if enough:
        (step,) = run(method, engine, quorum=quorum)
        assert len(step.answers.names) == answers
    else:
        with pytest.raises(QuorumError):
            run(method, engine, quorum=quorum)


def test_the_quorum_error_is_raised_from_the_clients_error() -> None:
    method = Walk(victim="a", at=1, trouble="raise")
    with pytest.raises(QuorumError) as caught:
        run(method, direct(method, {"a": CLIENTS["a"]}))
    assert SECRET in str(caught.value.__cause__)
    assert SECRET not in str(caught.value)


def test_with_everybody_gone_the_run_pauses_and_goes_on_when_they_are_back() -> None:
    method, notes = Walk(), Notes()
    empty_house = Faulty(direct(method, CLIENTS), present=lambda call, names: names if call < 3 else [])
    with pytest.raises(QuorumError, match="all have left"):
        run(method, empty_house, recorder=notes)
    start = notes.checkpoints[-1]
    engine = direct(method, CLIENTS)
    engine.restore(start.memories, start.ledger)
    assert last(run(method, engine, start=start)) == last(run(method))


def test_no_clients_at_all_is_an_error() -> None:
    with pytest.raises(CotempoError, match="at least one client"):
        run(Walk(), direct(Walk(), {}))


# Who takes part.


def test_a_late_joiner_takes_part_from_the_next_round_on() -> None:
    method = Walk()
    engine = Faulty(direct(method, CLIENTS), present=lambda call, names: names[:3] if call < 3 else names)
    steps = run(method, engine)
    assert [len(step.sent) for step in steps] == [3, 3, 4, 4]
    assert not any(step.answers.failures for step in steps)


def test_a_late_joiner_with_another_schema_is_left_out() -> None:
    method = Walk()
    clients = {**CLIENTS, "A": Series.from_arrays(np.ones((3, 5))), "z": Series.from_arrays(np.ones((3, 1)))}
    engine = Faulty(direct(method, clients), present=lambda call, names: list("abcd") if call < 2 else names)
    steps = run(method, engine)
    assert [sorted(step.sent) for step in steps] == [list("abcd")] * 4
    assert last(steps) == last(run(method))


def test_a_stranger_is_not_let_in_because_everybody_else_has_left() -> None:
    method = Walk()
    clients = {**CLIENTS, "z": Series.from_arrays(np.ones((3, 1)))}
    engine = Faulty(direct(method, clients), present=lambda call, names: list("abcd") if call < 2 else ["z"])
    with pytest.raises(QuorumError, match="all have left"):
        run(method, engine)


class Gregarious(Walk):
    """Tables fit together among enough others; `seen` notes how many were looked at each time."""

    seen: ClassVar[list[int]] = []
    least: int = 4

    def check(self, roster: Roster) -> None:
        self.seen.append(len(roster.names))
        if len(roster.names) < self.least:
            raise SchemaError([Problem("there must be others")])


def test_who_was_let_in_with_all_others_is_not_judged_again_whatever_the_cohort() -> None:
    method, notes, who = Gregarious(), Notes(), Participation(1)
    Gregarious.seen.clear()
    steps = run(method, direct(method, CLIENTS), participation=who, recorder=notes)
    assert Gregarious.seen == [4]
    assert notes.troubles == []
    for start in notes.checkpoints:
        assert start.known == tuple(CLIENTS)
        engine = direct(method, CLIENTS)
        engine.restore(start.memories, start.ledger)
        resumed = run(method, engine, participation=who, start=start)
        assert last([*steps[: start.step], *resumed]) == last(steps)
    assert Gregarious.seen == [4]


def test_many_clients_are_checked_once() -> None:
    stream = np.random.default_rng(0)
    clients = {f"c{k:03d}": Series.from_arrays(stream.normal(size=(3, 2))) for k in range(500)}
    Gregarious.seen.clear()
    fitted = Gregarious(rounds=3, least=500).fit(clients, cohort=50)
    assert Gregarious.seen == [500]
    assert [len(record["sent"]) for record in fitted.history] == [50, 50, 50]
    assert not fitted.failures


def test_an_engine_is_asked_for_declared_rows_at_most_once_a_step() -> None:
    """Asked for every answer, it would list all clients each time: time would grow with their square."""

    class Declaring(Wrapped):
        times = 0

        def declared_rows(self) -> dict[str, int]:
            self.times += 1
            return dict(self.engine.declared_rows())

    engine = Declaring(direct(Walk(rounds=3), make_clients(20)), lambda questions, replies: replies)
    steps = list(drive(Walk(rounds=3), engine))
    assert 1 <= engine.times <= len(steps)


def test_a_late_joiner_is_known_after_a_resume() -> None:
    method, notes = Walk(), Notes()
    engine = Faulty(direct(method, CLIENTS), present=lambda call, names: names[:3] if call < 3 else names)
    run(method, engine, participation=Participation(1), recorder=notes)
    assert notes.checkpoints[0].known == ("a", "b", "c")
    assert notes.checkpoints[-1].known == ("a", "b", "c", "d")


def test_clients_that_do_not_agree_are_refused_before_the_first_step() -> None:
    clients = {**CLIENTS, "z": Series.from_arrays(np.ones((3, 1)))}
    engine = Wrapped(direct(Walk(), clients), lambda questions, replies: replies)
    with pytest.raises(SchemaError, match="client z, column x1"):
        run(Walk(), engine)
    assert engine.asked == []


def test_a_cohort_stays_for_its_period() -> None:
    steps = run(Walk(rounds=12), participation=Participation(size=2, period=3), seed=1)
    cohorts = [tuple(step.sent) for step in steps]
    assert all(len(set(cohorts[start : start + 3])) == 1 for start in range(0, 12, 3))
    assert len(set(cohorts)) > 1
    assert all(len(cohort) == 2 for cohort in cohorts)


def test_a_cohort_survives_a_resume_in_the_middle_of_its_period() -> None:
    method, notes = Walk(rounds=8), Notes()
    options: dict[str, Any] = {"participation": Participation(size=2, period=3), "seed": 3}
    whole = run(method, recorder=notes, **options)
    for start in notes.checkpoints:
        engine = direct(method, CLIENTS)
        engine.restore(start.memories, start.ledger)
        resumed = run(method, engine, start=start, **options)
        assert [tuple(step.sent) for step in resumed] == [tuple(step.sent) for step in whole[start.step :]]
        assert digest(resumed[-1].state if resumed else start.state) == last(whole)


# Steps of the server alone.


def test_an_ask_to_nobody_is_work_of_the_server_and_is_checkpointed() -> None:
    method, notes = Walk(alone=True), Notes()
    engine = Wrapped(direct(method, CLIENTS), lambda questions, replies: replies)
    steps = run(method, engine, recorder=notes, quorum=1.0)
    assert [step.phase for step in steps] == ["walk", "alone", "walk", "alone"]
    assert {question.phase for question in engine.asked} == {"walk"}
    assert [point.step for point in notes.checkpoints] == [0, 1, 2, 3, 4]
    np.testing.assert_array_equal(steps[1].state.total, 0.5 * steps[0].state.total)
    # Going on from the checkpoint after the server's own work.
    start = notes.checkpoints[2]
    again = direct(method, CLIENTS)
    again.restore(start.memories, start.ledger)
    assert last(run(method, again, start=start)) == last(steps)


# The ledger: an answer that was not counted never happened.


def test_base_is_the_last_counted_step_and_keep_that_of_the_checkpoint_before() -> None:
    method = Walk(rounds=5)
    lost = {("a", 2), ("a", 3)}
    engine = Wrapped(
        direct(method, CLIENTS),
        lambda questions, replies: (reply for reply in replies if (reply.client, reply.step) not in lost),
    )
    steps = run(method, engine)
    asked = {(q.client, q.step): (q.base, q.keep) for q in engine.asked}
    assert [asked["a", step] for step in range(1, 6)] == [(0, 0), (1, 0), (1, 1), (1, 1), (4, 1)]
    assert [asked["b", step] for step in range(1, 6)] == [(0, 0), (1, 0), (2, 1), (3, 2), (4, 3)]
    assert [f.client for step in steps for f in step.answers.failures] == ["a", "a"]


def test_a_lost_answer_leaves_the_same_as_a_lost_question() -> None:
    method = Walk()
    for victim, step in (("a", 1), ("c", 3)):
        answer = Faulty(
            direct(method, CLIENTS), tamper=lambda q, r, v=victim, s=step: None if (q.client, q.step) == (v, s) else r
        )
        question = Faulty(direct(method, CLIENTS), deliver=lambda q, v=victim, s=step: (q.client, q.step) != (v, s))
        assert last(run(method, answer)) == last(run(method, question)) != last(run(method))


def test_the_sum_the_server_holds_is_where_its_clients_stand() -> None:
    method = Walk(rounds=6)
    engine = direct(method, CLIENTS)
    lossy = Faulty(engine, tamper=lambda q, reply: None if (q.step + ord(q.client)) % 3 == 0 else reply)
    notes = Notes()
    steps = run(method, lossy, recorder=notes, quorum=0)
    places = engine.memories(notes.checkpoints[-1].ledger)
    np.testing.assert_allclose(steps[-1].state.total, sum(memory.place for memory in places.values()), rtol=1e-12)


def test_a_client_asked_twice_in_one_ask_is_asked_once() -> None:
    class Stutter(Walk):
        def ask(self, state: Any, cohort: Sequence[str], rng: Any) -> Ask | None:
            ask = super().ask(state, cohort, rng)
            return ask and replace(ask, to=[*ask.to, *ask.to])

    for sums in (False, True):
        assert last(run(Stutter(sums=sums), quorum=1.0)) == last(run(Walk(sums=sums)))


# Replies from elsewhere.


def forged(forge: Any) -> Any:
    """An engine in which client b's replies are replaced by what `forge` makes of them."""

    def change(questions: Sequence[Question], replies: Iterable[Reply]) -> Iterable[Reply]:
        for reply in replies:
            yield from forge(reply) if reply.client == "b" else [reply]

    return Wrapped(direct(Walk(), CLIENTS), change)


def test_a_failure_names_the_client_that_was_asked_whoever_it_blames() -> None:
    blame = Failure("a", 77, "other", "Error\nc, step 1", "text\ud800 with\x1b[2J\na second line" + "x" * 1000)
    notes = Notes()
    steps = run(Walk(), forged(lambda reply: [replace(reply, message=None, failure=blame)]), recorder=notes)
    (failure,) = steps[0].answers.failures
    assert (failure.client, failure.step, failure.phase) == ("b", 1, "walk")
    assert len(failure.detail) == 300
    assert f"{failure}".isprintable()
    assert notes.troubles[0] == failure


def test_a_reply_with_neither_message_nor_failure_is_left_out() -> None:
    steps = run(Walk(), forged(lambda reply: [replace(reply, message=None)]))
    assert [f.kind for f in steps[0].answers.failures] == ["MessageError"]


@pytest.mark.parametrize("version", [-1, 2, 10**30])
def test_a_client_cannot_claim_another_version_of_its_memory(version: int) -> None:
    steps = run(Walk(), forged(lambda reply: [replace(reply, version=version) if reply.step == 1 else reply]))
    (failure,) = steps[0].answers.failures
    assert (failure.client, failure.kind) == ("b", "MessageError")
    assert "version must be 0 or 1" in failure.detail
    assert steps[1].answers.versions["b"] == 2


def test_the_first_reply_counts_and_the_rest_are_noted() -> None:
    notes = Notes()
    other = Message({"move": np.full(2, 1e6)})
    steps = run(Walk(), forged(lambda reply: [reply, replace(reply, message=other)]), recorder=notes)
    assert last(steps) == last(run(Walk()))
    assert {(trouble.client, trouble.kind) for trouble in notes.troubles} == {("b", "Unasked")}


def test_what_a_client_said_of_an_error_stays_with_it() -> None:
    method, notes = Walk(victim="b", at=2, trouble="raise"), Notes()
    steps = run(method, recorder=notes)
    (failure,) = steps[1].answers.failures
    assert (failure.client, failure.step, failure.phase, failure.kind, failure.detail) == (
        "b",
        2,
        "walk",
        "ValueError",
        "",
    )
    assert SECRET in str(notes.causes[0])
    assert steps[1].answers.names == ("a", "c", "d")
    assert steps[2].answers.names == ("a", "b", "c", "d")


# What is seen of a step.


def test_bytes_sent_and_received_are_counted_per_client() -> None:
    step = run(Walk(rounds=1))[0]
    assert step.sent == dict.fromkeys("abcd", 8 + 16 + 8)  # two numbers, and two weights
    assert step.received == dict.fromkeys("abcd", 8 + 16)
    assert step.metrics == {"size": float(np.abs(step.state.total).max())}


def test_the_state_cannot_be_written_on() -> None:
    step = run(Walk(rounds=1))[0]
    with pytest.raises(ValueError, match="read-only"):
        step.state.total[0] = 1.0


def test_rounds_are_counted_by_their_last_step() -> None:
    class Pairs(Walk):
        phases: ClassVar[tuple[str, ...]] = ("walk",)

        def ask(self, state: Any, cohort: Sequence[str], rng: Any) -> Ask | None:
            ask = super().ask(state, cohort, rng)
            return ask and replace(ask, ends_round=bool(state.round % 2))

    notes = Notes()
    steps = run(Pairs(), recorder=notes)
    assert [(step.step, step.round, step.ends_round) for step in steps] == [
        (1, 1, False), (2, 1, True), (3, 2, False), (4, 2, True),
    ]  # fmt: skip
    assert [point.round for point in notes.checkpoints] == [1, 1, 2, 2, 3]


def test_single_answers_and_sums_are_not_confused() -> None:
    total = Answers(("a",), total=Message({"x": 6.0}, weight=3.0))
    each = Answers(("a",), each={"a": Message({"x": 6.0})})
    assert total.mean("x") == 2.0
    with pytest.raises(MessageError, match="sums=False"):
        total["a"]
    with pytest.raises(MessageError, match="sums=True"):
        each.mean("x")


def test_no_mean_without_weight() -> None:
    with pytest.raises(MessageError, match="more than zero"):
        Answers(("a", "b"), total=Message({"x": 0.0}, weight=0.0)).mean("x")
