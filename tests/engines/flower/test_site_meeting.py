"""Sites that meet reveal unasked, under the same rules as if they were asked; what goes wrong there is asked for."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from paper_channel import PaperChannel, PaperDeployment, Release
from walking import Walking

import cotempo as ct
from cotempo.cli.output import describe_messages
from cotempo.engines.flower.coordinator import engine
from cotempo.engines.flower.coordinator.heard import shown_key
from cotempo.engines.flower.protocol import SPEAKS, Envelope, Part, Verb
from cotempo.errors import MessageError
from cotempo.federation import Fitted, Message
from cotempo.federation.wire import question_from_bytes
from cotempo.privacy.contract import CODE_VERSION
from cotempo.privacy.secure_sum.client import SumClient
from cotempo.privacy.secure_sum.shield import ECHO, MASKED, UNMASK, SecureSumShield
from cotempo.runs.folder import read_lines

SITES = ("ash", "birch", "cedar", "elm", "fir")
ON = ct.Privacy(secure_sum=True)
Words = Callable[[list[str]], list[str]]


@dataclass
class MeetingChannel(PaperChannel):
    """A channel whose server lets sites meet; what it passes on and what gets lost is the test's choice."""

    server: Path = Path()
    words: Words = lambda words: words
    lost: tuple[str, ...] = ()  # sites whose answer to a meeting does not arrive
    dead_after: tuple[str, ...] = ()  # sites that die once they have met
    asked: list[str] = field(default_factory=list)  # phases of what was sent
    met: dict[str, bytes] = field(default_factory=dict)

    def nodes(self) -> dict[str, int]:
        alive = super().nodes()
        return {name: node for name, node in alive.items() if not (self.met and name in self.dead_after)}

    def push(self, envelopes: Mapping[int, Envelope], seconds: float) -> dict[int, str]:
        sent = super().push(envelopes, seconds)
        questions = [question_from_bytes(e.parts[Part.QUESTION]) for e in envelopes.values() if e.verb == Verb.ASK]
        self.asked += {(question.then or question).phase for question in questions}
        here = {name: self.services[name] for name, node in self.nodes().items() if node in envelopes}
        meetings = {name: service.meeting for name, service in here.items() if service.meeting}
        for service in here.values():
            service.meeting = None
        if len(meetings) == len(SITES):
            words = self.words([meeting.word for meeting in meetings.values()])
            answers = {name: self.services[name].answer_met(meeting, words) for name, meeting in meetings.items()}
            self.met = {
                shown_key(self.server, name): answer
                for name, answer in answers.items()
                if answer is not None and name not in (*self.lost, *self.dead_after)
            }
        return sent

    def collect(self, meeting: str) -> dict[str, bytes]:
        return self.met


@pytest.fixture(scope="module")
def tables() -> dict[str, ct.Series]:
    rng = np.random.default_rng(0)
    return {name: ct.Series.from_arrays(rng.normal(size=(20, 2)).round(3)) for name in SITES}


@pytest.fixture
def channel(tmp_path: Path, tables: dict[str, ct.Series], monkeypatch: pytest.MonkeyPatch) -> MeetingChannel:
    made = PaperDeployment(tmp_path / "made", tables, dict.fromkeys(SITES, Release(CODE_VERSION, SPEAKS)))
    folder = made.consortium.server.folder
    met = MeetingChannel(made.channel.services, made.channel.releases, server=folder)
    monkeypatch.setattr(engine, "ServerTask", lambda server, run: met)
    return met


def fit(channel: MeetingChannel, rounds: int = 2) -> Fitted:
    walking = Walking(rounds=rounds)
    return ct.fit(walking, engine="flower", server=channel.server, seed=3, privacy=ON, progress=False)


def clients(channel: MeetingChannel) -> dict[str, SumClient]:
    """The secure sum of every site, in its only run."""
    found = {}
    for name, service in channel.services.items():
        (joined,) = service._runs.values()
        (shield,) = [shield for shield in joined.site.shields if isinstance(shield, SecureSumShield)]
        found[name] = shield.client(name, joined.contract.run)
    return found


def test_sites_that_meet_are_not_asked_to_reveal_and_the_sum_is_the_same(
    channel: MeetingChannel, tables: dict[str, ct.Series]
) -> None:
    there = fit(channel)
    assert there.digest == ct.fit(Walking(rounds=2), tables, seed=3, privacy=ON, progress=False).digest
    assert channel.asked.count(MASKED) == 2
    assert UNMASK not in channel.asked
    for service in channel.services.values():  # the ledger knows of a sum that was revealed unasked
        sums = [entry["participants"] for entry in service.ledger.verify() if entry["kind"] == "sum"]
        assert sums == [list(SITES)]


def test_what_is_masked_is_said_to_be_at_the_site(channel: MeetingChannel) -> None:
    fit(channel)
    service = channel.services["ash"]
    (run,) = (service.home / "runs").iterdir()
    records = read_lines(run / "messages.jsonl")
    lines = describe_messages("ash", records)
    masked = [line for line in lines if line.startswith("Phase 'walk'")]
    assert len(masked) == 1
    assert "masked: only a sum over clients can be read" in masked[0]
    assert not any("each is used as it is" in line for line in lines)
    assert {record["summed"] for record in records if record["phase"] == "walk"} == {True}


def test_who_dies_after_the_meeting_is_in_the_sum_and_who_is_not_heard_is_asked(
    channel: MeetingChannel, tables: dict[str, ct.Series]
) -> None:
    channel.lost, channel.dead_after = ("birch",), ("cedar",)
    there = fit(channel, rounds=1)
    assert there.digest == ct.fit(Walking(rounds=1), tables, seed=3, privacy=ON, progress=False).digest
    assert channel.asked.count(UNMASK) == 1


def forged(words: list[str]) -> list[str]:
    return [b64encode(bytes(64) + b64decode(word)[64:]).decode() for word in words]


def of_one(words: list[str]) -> list[str]:
    """The same signature in all names."""
    return [b64encode(b64decode(words[0])[:64] + b64decode(word)[64:]).decode() for word in words]


@pytest.mark.parametrize("words", [forged, of_one, lambda words: words[:3], lambda words: ["?"], lambda words: []])
def test_false_or_too_few_words_reveal_nothing(
    channel: MeetingChannel, tables: dict[str, ct.Series], words: Words
) -> None:
    revealed: list[bool] = []

    def collect(meeting: str) -> dict[str, bytes]:
        revealed.extend(bool(client.journal.revealed) for client in clients(channel).values())
        return channel.met

    channel.words, vars(channel)["collect"] = words, collect
    there = fit(channel, rounds=1)
    assert revealed == [False] * len(SITES)
    assert not channel.met
    assert channel.asked.count(UNMASK) == 1  # the coordinator brought the true ones
    assert there.digest == ct.fit(Walking(rounds=1), tables, seed=3, privacy=ON, progress=False).digest


def test_words_of_an_earlier_session_reveal_nothing(channel: MeetingChannel) -> None:
    old: list[str] = []

    def replayed(said: list[str]) -> list[str]:
        old.extend(said[: 5 - len(old)])
        return list(old)

    channel.words = replayed
    fit(channel, rounds=2)
    assert channel.asked.count(UNMASK) == 1  # in the second step only


def test_after_a_meeting_no_smaller_set_is_signed_or_revealed(channel: MeetingChannel) -> None:
    refusals: list[str] = []
    collect = channel.collect

    def cheat(meeting: str) -> dict[str, bytes]:
        for client in clients(channel).values():
            fewer = Message({"session": meeting, "survivors": '["ash", "birch", "cedar", "elm"]'})
            with pytest.raises(MessageError) as refused:
                client.echo(fewer)
            refusals.append(str(refused.value))
        return collect(meeting)

    vars(channel)["collect"] = cheat
    fit(channel, rounds=1)
    assert len(refusals) == len(SITES)
    assert all("one set of survivors" in refusal for refusal in refusals)
    assert ECHO not in channel.asked
