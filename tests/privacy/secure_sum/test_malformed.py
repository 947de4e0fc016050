"""A client whose software was changed sends what is no message of the protocol: it costs that client only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from parties import RUN, Parties, exact_sum, expect_whole, whole_numbers

import cotempo as ct
from cotempo.engines.inprocess import InProcess
from cotempo.federation import Answers, Message, Question
from cotempo.privacy.secure_sum.disputes import PEERS
from cotempo.privacy.secure_sum.identity import announcement
from cotempo.privacy.secure_sum.reducer import SecureSum, SumAborted
from cotempo.privacy.secure_sum.shield import ECHO, KEYS, MASKED, SHARES, UNMASK, SecureSumShield
from cotempo.testing import drive

LIAR = "c0002"
Change = Callable[[Message], dict[str, Any]]


def lying(stage: str, change: Change, *, count: int = 6, clients: tuple[str, ...] = (LIAR,)) -> Parties:
    """Parties of which some send something else in one stage."""
    parties = Parties(whole_numbers(count))
    parties.needs_echo = stage == ECHO

    def tamper(question: Question, message: Message) -> Message:
        if question.phase == stage and question.client in clients:
            return Message({**message, **change(message)})
        return message

    parties.tamper = tamper
    return parties


def assert_without(found: Answers, parties: Parties, left_out: list[str]) -> None:
    names = [name for name in parties.names if name not in left_out]
    total, weight = exact_sum(parties.messages, names)
    assert (found.names, found.sum["x"].tolist(), found.sum.weight) == (tuple(names), total, weight)
    assert [failure.client for failure in found.failures] == left_out


def no_envelope_can_be_opened(message: Message) -> dict[str, Any]:
    return {"envelopes": message["envelopes"] ^ np.uint8(1)}


def one_cannot_be_opened(place: int) -> Change:
    def change(message: Message) -> dict[str, Any]:
        envelopes = message["envelopes"].copy()
        envelopes[place] ^= np.uint8(1)
        return {"envelopes": envelopes}

    return change


@pytest.mark.parametrize(
    ("stage", "change"),
    [
        (KEYS, lambda message: {"signature": message["signature"] ^ np.uint8(1)}),
        (KEYS, lambda message: {"key": message["key"][::-1].copy()}),
        (KEYS, lambda message: {"key": message["key"][:-1].copy()}),
        (SHARES, no_envelope_can_be_opened),
        (SHARES, lambda message: {"envelopes": message["envelopes"][::-1].copy()}),
        (SHARES, lambda message: {"envelopes": message["envelopes"][:-1].copy()}),
        (SHARES, lambda message: {"mask_key": np.zeros(32, np.uint8)}),
        (SHARES, lambda message: {"accused": np.array([65535], PEERS)}),
        (SHARES, lambda message: {"accused": np.array([-1])}),
        (SHARES, lambda message: {"accused": np.arange(5, dtype=PEERS)}),
        (MASKED, lambda message: {"masked": message["masked"][:-1].copy()}),
        (MASKED, lambda message: {"masked": message["masked"].astype(float)}),
        (MASKED, lambda message: {"extra": np.zeros(1)}),
        (MASKED, lambda message: {"accused": np.arange(5, dtype=PEERS)}),
    ],
)
@pytest.mark.parametrize("knows_scales", [True, False])
def test_what_is_malformed_before_the_survivors_are_fixed_leaves_its_sender_out(
    stage: str, change: Change, knows_scales: bool
) -> None:
    parties = lying(stage, change)
    if knows_scales:
        parties.know_scales(expect_whole())
    assert_without(parties.sum(expect_whole()), parties, [LIAR])
    # In the next step it is honest again, and counts.
    parties.tamper = lambda question, message: message
    assert_without(parties.sum(expect_whole(), step=2), parties, [])


@pytest.mark.parametrize(
    ("stage", "change"),
    [
        (MASKED, lambda message: {"signature": message["signature"] ^ np.uint8(1)}),
        (ECHO, lambda message: {"signature": message["signature"] ^ np.uint8(1)}),
        (ECHO, lambda message: {"signature": message["signature"][:-1].copy()}),
        (UNMASK, lambda message: {"shares": message["shares"][:-1].copy()}),
        (UNMASK, lambda message: {"shares": message["shares"].astype(float)}),
    ],
)
def test_what_is_malformed_after_the_masked_message_changes_nothing(stage: str, change: Change) -> None:
    parties = lying(stage, change)
    assert_without(parties.sum(expect_whole()), parties, [])


def test_a_liar_that_disputes_with_a_second_client_is_left_out_from_then_on() -> None:
    """Who lies in a first dispute nobody can tell; it costs the accuser one step."""
    parties = lying(SHARES, one_cannot_be_opened(0))
    assert_without(parties.sum(expect_whole(), step=1), parties, ["c0000"])
    for step, place in ((2, 1), (3, 0), (4, 4)):
        parties.reducer.prepared = None  # shares are asked for by themselves, where the liar lies
        parties.tamper = lying(SHARES, one_cannot_be_opened(place)).tamper
        assert_without(parties.sum(expect_whole(), step=step), parties, [LIAR])


def test_false_accusations_cost_the_accuser_only() -> None:
    parties = lying(MASKED, lambda message: {"accused": np.array([3], PEERS)})
    for step in (1, 2, 3):
        assert_without(parties.sum(expect_whole(), step=step), parties, [LIAR])


@pytest.mark.parametrize("share", [0, 1, 255])
def test_false_shares_of_one_holder_change_nothing(share: int) -> None:
    parties = lying(UNMASK, lambda message: {"shares": np.full_like(message["shares"], share)})
    assert_without(parties.sum(expect_whole()), parties, [])


def test_a_signed_key_of_small_order_leaves_its_sender_out() -> None:
    parties = Parties(whole_numbers(6))

    def tamper(question: Question, message: Message) -> Message:
        if question.phase != KEYS or question.client != LIAR:
            return message
        signed = parties.client(LIAR).identity.sign(announcement(RUN, LIAR, bytes(32)))
        return Message({"key": np.zeros(32, np.uint8), "signature": np.frombuffer(signed, np.uint8)})

    parties.tamper = tamper
    assert_without(parties.sum(expect_whole()), parties, [LIAR])


def test_too_many_liars_stop_the_step_and_nothing_is_revealed() -> None:
    parties = lying(SHARES, no_envelope_can_be_opened, clients=("c0002", "c0004"))
    with pytest.raises(SumAborted, match="more than two thirds"):
        parties.sum(expect_whole())
    assert UNMASK not in {question.phase for question, _ in parties.seen}


@pytest.mark.parametrize(
    ("stage", "field"), [(KEYS, "signature"), (SHARES, "envelopes"), (MASKED, "masked"), (UNMASK, "shares")]
)
def test_a_run_with_one_such_client_ends_in_the_result_of_the_others(stage: str, field: str) -> None:
    clients = ct.make_series(clients=5, seed=0)[0]
    liar = sorted(clients)[1]
    shield = SecureSumShield.local(sorted(clients))
    answer = shield.answer

    def lie(question: Question) -> Message:
        message = answer(question)
        if question.client != liar or question.phase != stage:
            return message
        return Message({**message, field: message[field][:-1] if stage == MASKED else message[field] ^ np.uint8(1)})

    shield.answer = lie  # type: ignore[method-assign]
    engine = InProcess(ct.FedMean(), clients, seed=0, shields=[shield])
    *_, last = drive(ct.FedMean(), engine, reducer=SecureSum(), shields=(shield,))
    kept = {name: table for name, table in clients.items() if name != liar or stage == UNMASK}
    *_, wanted = drive(ct.FedMean(), InProcess(ct.FedMean(), kept, seed=0))
    np.testing.assert_allclose(last.state.mean, wanted.state.mean, rtol=1e-9)
