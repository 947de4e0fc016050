"""The protocol: exact sums, whoever drops out when; below the threshold nothing."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parties import (
    ANSWER,
    RUN,
    STAGES,
    Parties,
    drop_at,
    exact_sum,
    expect_whole,
    is_at,
    names_of,
    whole_numbers,
)

from cotempo.errors import MessageError, ParameterError, QuorumError
from cotempo.federation import Answers, Expect, Message, Question, Spec
from cotempo.privacy.secure_sum import neighbours
from cotempo.privacy.secure_sum.fixed_point import Layout
from cotempo.privacy.secure_sum.reducer import SecureSum, SumAborted
from cotempo.privacy.secure_sum.shamir import threshold
from cotempo.privacy.secure_sum.shield import ECHO, KEYS, MASKED, SHARES, UNMASK


def assert_sum(found: Answers, parties: Parties, names: Sequence[str]) -> None:
    total, weight = exact_sum(parties.messages, names)
    assert found.names == tuple(names)
    assert found.sum["x"].tolist() == total  # whole numbers below 2^53: not a bit is lost
    assert found.sum.weight == weight
    assert [failure.client for failure in found.failures] == [name for name in parties.names if name not in names]
    assert set(found.versions) == set(names)


@settings(max_examples=25, deadline=None)
@given(st.integers(3, 9), st.integers(1, 6), st.integers(0, 2**32), st.data())
def test_sums_are_exact(count: int, size: int, seed: int, data: st.DataObject) -> None:
    parties = Parties(whole_numbers(count, size, seed))
    if data.draw(st.booleans()):
        parties.know_scales(expect_whole(size))
    stage = data.draw(st.sampled_from(STAGES))
    parties.needs_echo = stage == ECHO
    away = data.draw(st.permutations(parties.names))[: data.draw(st.integers(0, count - threshold(count)))]
    found = parties.sum(expect_whole(size), drops=drop_at(stage, away))
    # Who sent a masked message is in the sum, also if it left afterwards.
    stays = stage in (ECHO, UNMASK)
    counted = [name for name in parties.names if stays or name not in away]
    assert_sum(found, parties, counted)


@pytest.mark.parametrize("stage", STAGES)
def test_every_subset_of_five_in_every_stage(stage: str) -> None:
    messages = whole_numbers(5)
    for size in range(6):
        for away in itertools.combinations(names_of(5), size):
            parties = Parties(messages)
            parties.know_scales(expect_whole())
            parties.needs_echo = stage == ECHO
            if size > 1:
                with pytest.raises(SumAborted, match="more than two thirds"):
                    parties.sum(expect_whole(), drops=drop_at(stage, away))
                assert_nothing_revealed(parties)
            else:
                counted = [name for name in parties.names if name not in away or stage in (ECHO, UNMASK)]
                assert_sum(parties.sum(expect_whole(), drops=drop_at(stage, away)), parties, counted)


def assert_nothing_revealed(parties: Parties) -> None:
    """At most t - 1 shares of anything have left, which say nothing."""
    revealed = [message for question, message in parties.seen if question.phase == UNMASK]
    assert len(revealed) < threshold(len(parties.names))


@pytest.mark.parametrize("stage", STAGES)
def test_nine_of_thirty_may_leave_in_any_stage(stage: str) -> None:
    parties = Parties(whole_numbers(30))
    parties.know_scales(expect_whole())
    parties.needs_echo = stage == ECHO
    away = parties.names[2:20:2]
    assert len(away) == 9
    found = parties.sum(expect_whole(), drops=drop_at(stage, away))
    assert_sum(found, parties, [name for name in parties.names if name not in away or stage in (ECHO, UNMASK)])
    again = Parties(parties.messages)
    again.know_scales(expect_whole())
    again.needs_echo = stage == ECHO
    with pytest.raises(SumAborted):
        again.sum(expect_whole(), drops=drop_at(stage, [*away, again.names[-1]]))
    assert_nothing_revealed(again)


def test_clients_may_leave_in_several_stages() -> None:
    parties = Parties(whole_numbers(30))
    parties.know_scales(expect_whole())
    leaving = dict(zip(parties.names[1:28:3], itertools.cycle(STAGES), strict=False))
    found = parties.sum(expect_whole(), drops=lambda question: is_at(question, leaving.get(question.client, "")))
    assert_sum(found, parties, [name for name in parties.names if leaving.get(name, ECHO) in (ECHO, UNMASK)])


def test_clients_come_back_and_scales_and_keys_are_kept() -> None:
    parties = Parties(whole_numbers(5))
    away = parties.names[1:2]
    parties.sum(expect_whole(), drops=drop_at(SHARES, away))
    asked = len(parties.seen)
    found = parties.sum(expect_whole(), step=2)
    assert_sum(found, parties, parties.names)
    phases = [question.phase for question, _ in parties.seen[asked:]]
    assert phases.count(KEYS) == 1  # of the one that was away, which might have lost its key
    assert phases.count(MASKED) == 5
    asked = len(parties.seen)
    parties.sum(expect_whole(), step=3)
    assert len(parties.seen) - asked == 5 * len((MASKED, UNMASK))


def test_values_that_outgrow_their_scale_are_summed_all_the_same() -> None:
    size = 2000  # large, so that its scale is agreed on
    parties = Parties(whole_numbers(4, size, most=100))
    parties.sum(expect_whole(size))
    parties.messages["c0002"] = Message({"x": np.append(np.zeros(size - 2), [2.0**45, -1.0])}, weight=3.0)
    asked = len(parties.seen)
    assert_sum(parties.sum(expect_whole(size), step=2), parties, parties.names)
    masked = [message for question, message in parties.seen[asked:] if question.phase == MASKED]
    assert len(masked) == 3 * 4  # too large, the agreement on a new scale, the sum


@pytest.mark.parametrize(("size", "sums"), [(1.0, 1), (2.0**-40, 3), (2.0**60, 2)])
def test_values_that_do_not_fit_the_usual_scale_are_agreed_on(size: float, sums: int) -> None:
    parties = Parties({name: Message({"x": np.full(3, size / 3)}) for name in names_of(4)})
    for step in (1, 2):
        asked = len(parties.seen)
        found = parties.sum(expect_whole(), step=step)
        assert found.sum["x"].tolist() == [4 * (size / 3)] * 3
        sessions = {question.common["session"] for question, _ in parties.seen[asked:] if question.phase == MASKED}
        # On the usual scale, unless all refuse it as too small; the agreement; the sum.
        assert len(sessions) == (sums if step == 1 else 1)


@pytest.mark.parametrize("stage", [MASKED, ECHO, UNMASK])
def test_of_tiny_values_the_coarse_sum_counts_if_somebody_leaves_before_the_fine_one(stage: str) -> None:
    parties = Parties({name: Message({"x": np.full(3, 1e-9)}) for name in names_of(5)})
    parties.needs_echo = stage == ECHO

    def leaves(question: Question) -> bool:
        has_summed = any(asked.phase == UNMASK for asked, _ in parties.seen)
        return has_summed and is_at(question, stage) and question.client == "c0001"

    found = parties.sum(expect_whole(), drops=leaves)
    np.testing.assert_allclose(found.sum["x"], 5e-9, rtol=1e-9)
    assert [*found.names] == parties.names


def test_one_that_is_a_little_above_the_usual_limit_is_not_left_out() -> None:
    parties = Parties({name: Message({"x": np.full(3, 2.0**51)}) for name in names_of(5)})
    parties.messages["c0001"] = Message({"x": np.full(3, 2.0**53)})
    found = parties.sum(expect_whole())
    assert found.sum["x"].tolist() == [4 * 2.0**51 + 2.0**53] * 3
    assert not found.failures


def test_values_that_shrink_get_a_finer_scale() -> None:
    expect = Expect({"x": Spec((2000,))}, sums=True)
    stream = np.random.default_rng(0)
    parties = Parties({name: Message({"x": stream.normal(size=2000)}) for name in names_of(4)})
    parties.sum(expect)
    for step in (2, 3):
        parties.messages = {name: Message({"x": message["x"] * 1e-9}) for name, message in parties.messages.items()}
        found = parties.sum(expect, step=step)
        parties.messages = {name: Message({"x": message["x"] * 1e9}) for name, message in parties.messages.items()}
        wanted = 1e-9 * sum(message["x"] for message in parties.messages.values())
        error = np.abs(found.sum["x"] - wanted).max() / np.abs(wanted).max()
        assert error < (1e-4 if step == 2 else 1e-12)


def test_a_client_whose_answer_is_not_valid_is_left_out() -> None:
    parties = Parties(whole_numbers(5))
    parties.messages["c0001"] = Message({"x": np.full(3, np.nan)})
    found = parties.sum(expect_whole())
    assert_sum(found, parties, [name for name in parties.names if name != "c0001"])
    assert found.failures[0].kind == "MessageError"


def test_a_sum_that_valid_answers_cannot_give_is_refused() -> None:
    """A client that lies about its masked message is noticed if the sum leaves its bounds."""
    parties = Parties({name: Message({"x": np.ones(3)}) for name in names_of(4)})

    def tamper(question: Question, message: Message) -> Message:
        if question.phase == MASKED and question.client == "c0001" and len(message["masked"]) < 100:
            return Message({**message, "masked": message["masked"] + np.uint64(2**60)})
        return message

    parties.tamper = tamper
    with pytest.raises(SumAborted):
        parties.sum(Expect({"x": Spec((3,), low=0, high=1)}, sums=True))


def test_one_false_share_is_left_out_and_too_many_are_noticed() -> None:
    def lying(liars: Sequence[str]) -> Parties:
        parties = Parties(whole_numbers(6))

        def tamper(question: Question, message: Message) -> Message:
            if question.phase == UNMASK and question.client in liars:
                return Message({**message, "shares": message["shares"] ^ np.uint8(1)})
            return message

        parties.tamper = tamper
        return parties

    parties = lying(["c0002"])
    assert_sum(parties.sum(expect_whole()), parties, parties.names)
    with pytest.raises(SumAborted, match="must fit what it published"):
        lying(["c0002", "c0003"]).sum(expect_whole())


@pytest.mark.parametrize(("count", "degree"), [(40, 20), pytest.param(220, 100, marks=pytest.mark.slow)])
def test_above_a_number_of_clients_each_has_some_neighbours(
    count: int, degree: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (neighbours.ALL_UP_TO, neighbours.DEGREE) == (200, 100)
    monkeypatch.setattr(neighbours, "ALL_UP_TO", 2 * degree - 1)
    monkeypatch.setattr(neighbours, "DEGREE", degree)
    parties = Parties(whole_numbers(count, size=2))
    away = parties.names[5 : count - 20 : 10]
    parties.know_scales(expect_whole(2))
    for name in parties.names:
        parties.messages[name] = Message({"x": np.array([3.0, -2.0])}, weight=2.0)
    found = parties.sum(expect_whole(2), drops=drop_at(MASKED, away))
    assert found.sum["x"].tolist() == [6.0 * len(found.names), -4.0 * len(found.names)]
    assert len(found.names) == count - len(away)
    envelopes = [message["envelopes"] for question, message in parties.seen if question.phase == SHARES]
    assert {len(envelope) for envelope in envelopes} == {degree}


@pytest.mark.parametrize("count", [1, 2])
def test_fewer_than_three_are_refused(count: int) -> None:
    with pytest.raises(ParameterError, match=f"at least 3 clients.*got {count}"):
        Parties(whole_numbers(count)).sum(expect_whole())


def test_phases_that_need_single_answers_are_listed_or_refused() -> None:
    parties = Parties(whole_numbers(3))
    expect = Expect({"x": Spec((3,))})
    assert parties.sum(expect)["c0001"] == parties.messages["c0001"]
    parties.reducer = SecureSum(singles="refuse")
    with pytest.raises(ParameterError, match="every phase must be a sum"):
        parties.sum(expect)


def test_an_abort_can_be_resumed_like_a_lost_quorum() -> None:
    assert issubclass(SumAborted, QuorumError)


def test_a_phase_that_was_summed_never_leaves_singly() -> None:
    parties = Parties(whole_numbers(3))
    parties.sum(expect_whole())
    found = parties.sum(Expect({"x": Spec((3,))}), step=2)
    assert not found.names
    assert {failure.kind for failure in found.failures} == {"MessageError"}


def test_the_server_never_holds_an_addend() -> None:
    """Nothing that reaches the reducer is, or holds, what a client added: by value, by encoded word or in part."""
    stream = np.random.default_rng(0)
    messages = {
        name: Message({"x": stream.normal(size=50), "n": float(stream.integers(1e6, 1e7))}, weight=3.0)
        for name in names_of(5)
    }
    expect = Expect({"x": Spec((50,)), "n": Spec((), "float")}, sums=True)
    parties = Parties(messages)
    found = parties.sum(expect)
    secret_words: set[int] = set()
    for message in messages.values():
        for value in (*message["x"], message["n"]):
            for shift in range(20, 80):  # on any scale
                secret_words.add(int(np.rint(value * 3.0 * 2.0**shift)) % 2**64)
                secret_words.add(int(np.rint(value * 2.0**shift)) % 2**64)
    crossed = 0
    for question, message in parties.seen:
        if question.phase == ANSWER:
            assert len(message) == 0
        for value in message.values():
            assert value.dtype.kind == "u"  # bytes and masked words, no number of the data's kind
            if value.dtype == np.uint64:
                crossed += value.size
                assert not secret_words & {int(word) for word in value}
    assert crossed > 5 * 50
    np.testing.assert_allclose(found.sum["x"], 3 * sum(message["x"] for message in messages.values()), rtol=1e-12)
    assert RUN


@pytest.mark.parametrize("size", [2.0**70, 2.0**130, 2.0**300, 0.0])
def test_a_client_that_would_drown_the_others_is_left_out_by_name(size: float) -> None:
    parties = Parties(whole_numbers(5, most=1000))
    honest = parties.messages["c0001"]
    large = Message({"x": np.full(3, size)}, weight=2.0) if size else Message(honest, weight=1e12)
    for step, message in enumerate([honest, large, honest], 1):  # the scale is known when the lie comes
        parties.messages["c0001"] = message
        found = parties.sum(expect_whole(), step=step)
        kept = [name for name in parties.names if name != "c0001" or step != 2]
        assert_sum(found, parties, kept)
        assert [failure.client for failure in found.failures] == (["c0001"] if step == 2 else [])
    parties = Parties({**parties.messages, "c0001": large})  # the lie comes first
    assert_sum(parties.sum(expect_whole()), parties, [name for name in parties.names if name != "c0001"])


def test_where_all_are_large_nobody_is_left_out() -> None:
    parties = Parties(whole_numbers(5))
    expect = Expect({"x": Spec((3,))}, sums=True, weight=(0.0, 1e15))
    for step, size in enumerate([2.0**90, 1.0, 2.0**90], 1):  # the third exceeds the scale of the second
        parties.messages = {name: Message({"x": np.full(3, size)}, weight=2.0**40) for name in names_of(5)}
        found = parties.sum(expect, step=step)
        assert (found.sum["x"] == 5 * size * 2.0**40).all()
        assert not found.failures


def test_a_limit_that_would_tell_ordinary_sizes_is_refused() -> None:
    layout = Layout.of("range", 5, expect_whole())
    low = replace(layout, kind="limited", fields=tuple(replace(field, limit=100.0) for field in layout.fields))
    with pytest.raises(MessageError, match="layout"):
        Layout.from_text(low.to_text())


@pytest.mark.parametrize(("known", "count"), [(False, 5), (True, 4)])
def test_what_was_noised_is_summed_as_it_is_and_among_no_fewer(known: bool, count: int) -> None:
    """Its size would tell about one client, and a share of noise for five is too little for four."""
    size = 3 if known else 2000  # so that a scale must be known
    parties = Parties(whole_numbers(5, size))
    parties.shield.noised_phases = frozenset({ANSWER})
    if known:
        parties.know_scales(expect_whole(size))
        assert_sum(parties.sum(expect_whole(size)), parties, parties.names)
    asked = len(parties.seen)
    parties.names = parties.names[:count]
    parties.know_scales(expect_whole(size))
    if not known:
        parties.reducer = SecureSum()
    with pytest.raises(SumAborted, match="0 sent a masked message"):
        parties.sum(expect_whole(size))
    assert not [question for question, _ in parties.seen[asked:] if question.phase == MASKED]
