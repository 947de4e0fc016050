"""What is sent arrives, also if a question gets lost with a site that was killed and is back before anybody noticed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

from cotempo.engines.flower import transport
from cotempo.engines.flower.protocol import Envelope, Part, Verb
from cotempo.engines.flower.transport import Answer, Outbox, send


class Clock:
    """Time that passes by sleeping only; stands for the module `time` and for the pauses between polls."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, began: float, least: float = 0.0) -> None:
        self.now += 1.0

    def reset(self) -> None:
        pass


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(transport, "time", clock)
    monkeypatch.setattr(transport, "Backoff", lambda *_: clock)
    return clock


class Lossy:
    """A channel that loses the first questions, and answers each of the others."""

    def __init__(self, clock: Clock, lost: int):
        self.clock, self.lost = clock, lost
        self.asked: list[tuple[float, int, bytes]] = []

    def push(self, envelopes: Mapping[int, Envelope], seconds: float) -> dict[int, str]:
        self.asked += [(self.clock.now, node, sent.parts[Part.QUESTION]) for node, sent in envelopes.items()]
        return {node: f"{len(self.asked) - 1} {node}" for node in envelopes}

    def pull(self, ids: Iterable[str]) -> list[tuple[str, Answer]]:
        return [(key, self.answer(int(key.split()[0]))) for key in ids if int(key.split()[0]) >= self.lost]

    def answer(self, number: int) -> Envelope:
        return Envelope.write(Verb.ANSWER, {Part.REPLY: self.asked[number][2]})


def question(text: bytes) -> Envelope:
    return Envelope.write(Verb.ASK, {Part.QUESTION: text})


def test_a_question_that_got_lost_is_asked_again_ever_more_rarely(clock: Clock) -> None:
    channel = Lossy(clock, lost=3)
    outbox = Outbox(channel, ask_again=60.0)
    outbox.add({7: question(b"one")}, 3600.0)
    assert [answer and answer.parts[Part.REPLY] for _, answer in outbox.arriving()] == [b"one"]
    assert [when for when, _, _ in channel.asked] == [0.0, 60.0, 180.0, 420.0]


def test_it_is_waited_for_until_its_deadline_and_asked_once_where_answers_are_not_stored(clock: Clock) -> None:
    channel = Lossy(clock, lost=100)
    assert list(send(channel, {7: question(b"one")}, 100.0)) == []
    assert (clock.now, len(channel.asked)) == (100.0, 1)


def test_an_answer_to_what_was_asked_twice_is_not_taken_for_the_next(clock: Clock) -> None:
    channel = Lossy(clock, lost=1)
    outbox = Outbox(channel, ask_again=60.0)
    outbox.add({7: question(b"one")}, 3600.0)
    assert [answer and answer.parts[Part.REPLY] for _, answer in outbox.arriving()] == [b"one"]
    channel.lost = 0  # the first question is answered after all
    outbox.add({7: question(b"two")}, 3600.0)
    assert [answer and answer.parts[Part.REPLY] for _, answer in outbox.arriving()] == [b"two"]


def test_what_is_left_early_goes_on_and_what_is_dropped_is_forgotten(clock: Clock) -> None:
    channel = Lossy(clock, lost=0)
    outbox = Outbox(channel)
    outbox.add({node: question(b"%d" % node) for node in (1, 2, 3)}, 3600.0)
    first, _ = next(iter(outbox.arriving()))
    outbox.drop([2])
    assert {first, *(node for node, _ in outbox.arriving())} == {1, 3}
    assert len(channel.asked) == 3
