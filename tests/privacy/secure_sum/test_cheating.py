"""Cheating servers: whatever they ask, a client masks once, signs one set, and reveals one share of each peer."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from parties import RUN, exact_sum, expect_whole, make_clients, whole_numbers

from cotempo.errors import MessageError
from cotempo.federation import Message
from cotempo.privacy.secure_sum.client import MOST_SESSIONS, SumClient
from cotempo.privacy.secure_sum.fixed_point import Layout
from cotempo.privacy.secure_sum.identity import Identity, announcement, survivors_statement
from cotempo.privacy.secure_sum.masks import digest
from cotempo.privacy.secure_sum.session import Journal, Session

COUNT = 5
CLIENTS = make_clients(COUNT)
NAMES = sorted(CLIENTS)
MESSAGES = whole_numbers(COUNT)
VICTIM = NAMES[1]
EMPTY_LAYOUT = Layout.of("range", COUNT, expect_whole())
LAYOUT = EMPTY_LAYOUT.with_scales({field.name: (4, 2) for field in EMPTY_LAYOUT.fields})
OTHER_LAYOUT = EMPTY_LAYOUT.with_scales({field.name: (9, 2) for field in EMPTY_LAYOUT.fields})


@dataclass
class Transcript:
    """One honest session up to its end: what the victim was asked, and how it stood before each stage."""

    step: int
    asked: dict[str, tuple[Message, Message]]
    stood: dict[str, tuple[bytes | None, bytes]]


def stand(client: SumClient) -> tuple[bytes | None, bytes]:
    return (client.session.to_bytes() if client.session else None), client.journal.to_bytes()


def put_back(client: SumClient, stood: tuple[bytes | None, bytes]) -> None:
    client.session = Session.from_bytes(stood[0]) if stood[0] else None
    client.prepared = None
    client.journal = Journal.from_bytes(stood[1])


def play(step: int, session: str, survivors: list[str] = NAMES) -> Transcript:
    """An honest server, with everybody there up to the masked messages."""
    victim, asked, stood = CLIENTS[VICTIM], {}, {}
    announced = {name: client.keys() for name, client in CLIENTS.items()}
    common = Message(
        {
            "session": session,
            "kind": "data",
            "names": json.dumps(NAMES),
            "keys": np.stack([announced[name]["key"] for name in NAMES]),
            "signatures": np.stack([announced[name]["signature"] for name in NAMES]),
        }
    )
    asked["shares"], stood["shares"] = (common, Message()), stand(victim)
    shared = {name: client.shares(step, common) for name, client in CLIENTS.items()}
    for name, client in CLIENTS.items():
        client.withhold(step, "answer", MESSAGES[name])
    common = Message({"session": session, "members": json.dumps(NAMES), "layout": LAYOUT.to_text()})
    masked = {}
    for name, client in CLIENTS.items():
        others = [other for other in NAMES if other != name]
        rows = [shared[other]["envelopes"][[peer for peer in NAMES if peer != other].index(name)] for other in others]
        own = Message({"envelopes": np.stack(rows)})
        if name == VICTIM:
            asked["masked"], stood["masked"] = (common, own), stand(victim)
        masked[name] = client.masked(common, own)
    common = Message({"session": session, "survivors": json.dumps(survivors)})
    asked["echo"], stood["echo"] = (common, Message()), stand(victim)
    signed = {name: CLIENTS[name].echo(common)["signature"] for name in survivors}
    common = Message(
        {
            "session": session,
            "signers": json.dumps(survivors),
            "signatures": np.stack([signed[name] for name in survivors]),
        }
    )
    asked["unmask"], stood["unmask"] = (common, Message()), stand(victim)
    for name in survivors:
        CLIENTS[name].unmask(common)
    stood["end"] = stand(victim)
    return Transcript(step, asked, stood)


EARLIER = play(1, "aa" * 16)
NOW = play(2, "bb" * 16)
LATER = play(2, "cc" * 16)  # the same step again, as a resumed server does
OUTSIDER = Identity.create(NAMES[2])
OTHER_RUN = "f" * 32

Choice = random.Random
Cheat = Callable[[Choice, SumClient], Any]


def changed(message: Message, **fields: Any) -> Message:
    return Message({**message, **fields})


def flipped(array: np.ndarray, choice: Choice) -> np.ndarray:
    array = array.copy()
    flat = array.reshape(-1)
    flat[choice.randrange(flat.size)] ^= np.uint8(1 << choice.randrange(8))
    return array


def some_other(choice: Choice) -> int:
    """The place of a client that is not the victim."""
    return choice.choice([place for place, name in enumerate(NAMES) if name != VICTIM])


def fewer(choice: Choice, least: int = 4) -> list[str]:
    """Another set with the victim in it, large enough to be allowed."""
    left_out = choice.choice([name for name in NAMES if name != VICTIM])
    return [name for name in NAMES if name != left_out][: max(least, 4)]


def forged_roster(choice: Choice, victim: SumClient) -> Any:
    put_back(victim, NOW.stood["shares"])
    common = NOW.asked["shares"][0]
    place = some_other(choice)
    names = list(NAMES)
    match choice.randrange(6):
        case 0:
            names[place] = f"stranger-{choice.random()}"
            names.sort()
            wrong = changed(common, names=json.dumps(names))
        case 1:
            kept = sorted([place, NAMES.index(VICTIM)])
            wrong = changed(
                common, names=json.dumps([NAMES[k] for k in kept]), keys=common["keys"][kept],
                signatures=common["signatures"][kept],
            )  # fmt: skip
        case 2:
            choice.shuffle(names)
            wrong = changed(common, names=json.dumps(names if names != NAMES else names[::-1]))
        case 3:
            names[place] = VICTIM
            wrong = changed(common, names=json.dumps(names))
        case 4:
            victim._seal_keys.clear()  # else it remembers that these keys were signed
            signatures = common["signatures"].copy()
            signatures[place] = flipped(signatures[place], choice)
            wrong = changed(common, signatures=signatures)
        case _:
            wrong = changed(common, names=json.dumps([name for name in NAMES if name != VICTIM]))
    return victim.shares(2, wrong)


def swapped_key(choice: Choice, victim: SumClient) -> Any:
    put_back(victim, NOW.stood["shares"])
    common = NOW.asked["shares"][0]
    keys, signatures = common["keys"].copy(), common["signatures"].copy()
    place = some_other(choice)
    match choice.randrange(5):
        case 0:
            other = choice.choice([k for k in range(COUNT) if k != place])
            keys[[place, other]] = keys[[other, place]]
        case 1:
            keys[place] = np.frombuffer(choice.randbytes(32), np.uint8)
        case 2:  # a key of the server's own, signed by a key nobody has pinned
            keys[place] = np.frombuffer(choice.randbytes(32), np.uint8)
            forged = OUTSIDER.sign(announcement(RUN, NAMES[place], keys[place].tobytes()))
            signatures[place] = np.frombuffer(forged, np.uint8)
        case 3:  # rightly signed, for another run
            peer = CLIENTS[NAMES[place]]
            keys[place] = np.frombuffer(choice.randbytes(32), np.uint8)
            old = peer.identity.sign(announcement(OTHER_RUN, NAMES[place], keys[place].tobytes()))
            signatures[place] = np.frombuffer(old, np.uint8)
        case _:  # rightly signed, by another peer
            peer = CLIENTS[NAMES[(place + 1) % COUNT]]
            keys[place] = np.frombuffer(choice.randbytes(32), np.uint8)
            theirs = peer.identity.sign(announcement(RUN, NAMES[place], keys[place].tobytes()))
            signatures[place] = np.frombuffer(theirs if peer.name != NAMES[place] else bytes(64), np.uint8)
    return victim.shares(2, changed(common, keys=keys, signatures=signatures))


def replayed_step(choice: Choice, victim: SumClient) -> Any:
    put_back(victim, LATER.stood[choice.choice(["masked", "echo", "unmask", "end"])])
    old = choice.choice([EARLIER, NOW])
    match choice.randrange(5):
        case 0:
            return victim.masked(*old.asked["masked"])
        case 1:
            return victim.echo(old.asked["echo"][0])
        case 2:
            return victim.unmask(old.asked["unmask"][0])
        case 3:  # envelopes of an old session in the new one
            put_back(victim, LATER.stood["masked"])
            return victim.masked(LATER.asked["masked"][0], old.asked["masked"][1])
        case _:  # signatures of an old session in the new one
            put_back(victim, LATER.stood["unmask"])
            signatures = old.asked["unmask"][0]["signatures"]
            return victim.unmask(changed(LATER.asked["unmask"][0], signatures=signatures))


def masked_twice(choice: Choice, victim: SumClient) -> Any:
    """The same masks for other data: another scale, other members, another layout."""
    put_back(victim, NOW.stood[choice.choice(["echo", "unmask", "end"])])
    common, own = NOW.asked["masked"]
    if choice.random() < 0.5:
        return victim.masked(changed(common, layout=OTHER_LAYOUT.to_text()), own)
    members = fewer(choice)
    rows = [row for row, name in enumerate([name for name in NAMES if name != VICTIM]) if name in members]
    return victim.masked(changed(common, members=json.dumps(members)), Message({"envelopes": own["envelopes"][rows]}))


def tampered_share(choice: Choice, victim: SumClient) -> Any:
    put_back(victim, NOW.stood["masked"])
    common, own = NOW.asked["masked"]
    envelopes = own["envelopes"]
    match choice.randrange(3):
        case 0:
            envelopes = flipped(envelopes, choice)
        case 1:
            order = list(range(COUNT - 1))
            while order == sorted(order):
                choice.shuffle(order)
            envelopes = envelopes[order]
        case _:
            envelopes = envelopes[:-1]
    return victim.masked(common, Message({"envelopes": envelopes}))


def two_survivor_sets(choice: Choice, victim: SumClient) -> Any:
    match choice.randrange(3):
        case 0:  # after it signed one set, another one
            put_back(victim, NOW.stood[choice.choice(["unmask", "end"])])
            return victim.echo(changed(NOW.asked["echo"][0], survivors=json.dumps(fewer(choice))))
        case 1:  # signatures of others for another set
            put_back(victim, NOW.stood["unmask"])
            other = fewer(choice)
            statement = survivors_statement("bb" * 16, victim.session.agreed, other)  # type: ignore[union-attr]
            signatures = np.stack([np.frombuffer(CLIENTS[name].identity.sign(statement), np.uint8) for name in other])
            return victim.unmask(changed(NOW.asked["unmask"][0], signers=json.dumps(other), signatures=signatures))
        case _:  # others were given another layout, which would leave only the victim's values in the sum
            put_back(victim, NOW.stood["unmask"])
            agreed = digest("agreed", RUN, 2, "data", json.dumps(NAMES), OTHER_LAYOUT.to_text())
            statement = survivors_statement("bb" * 16, agreed, NAMES)
            signatures = np.stack([np.frombuffer(CLIENTS[name].identity.sign(statement), np.uint8) for name in NAMES])
            return victim.unmask(changed(NOW.asked["unmask"][0], signatures=signatures))


def too_few_signatures(choice: Choice, victim: SumClient) -> Any:
    put_back(victim, NOW.stood["unmask"])
    common = NOW.asked["unmask"][0]
    match choice.randrange(3):
        case 0:
            return victim.unmask(changed(common, signers=json.dumps(NAMES[:3]), signatures=common["signatures"][:3]))
        case 1:  # one client's signature several times
            place = choice.randrange(COUNT)
            signatures = np.repeat(common["signatures"][[place]], COUNT, axis=0)
            return victim.unmask(changed(common, signers=json.dumps([NAMES[place]] * COUNT), signatures=signatures))
        case _:
            signatures = common["signatures"].copy()
            for place in choice.sample(range(COUNT), 2):
                signatures[place] = np.frombuffer(choice.randbytes(64), np.uint8)
            return victim.unmask(changed(common, signatures=signatures))


def both_shares(choice: Choice, victim: SumClient) -> Any:
    """After the seed's share of a peer was revealed, say that the peer was away, to be given its key's share too."""
    other = fewer(choice)
    match choice.randrange(3):
        case 0:  # in the same session
            put_back(victim, NOW.stood["end"])
            statement = survivors_statement("bb" * 16, victim.session.agreed, other)  # type: ignore[union-attr]
        case 1:  # in another session of the same step, which would give a second sum without one addend
            put_back(victim, (LATER.stood["echo"][0], LATER.stood["end"][1]))
            return victim.echo(changed(LATER.asked["echo"][0], survivors=json.dumps(other)))
        case _:  # before it signed anything
            put_back(victim, NOW.stood["echo"])
            statement = survivors_statement("bb" * 16, victim.session.agreed, other)  # type: ignore[union-attr]
    signatures = np.stack([np.frombuffer(CLIENTS[name].identity.sign(statement), np.uint8) for name in other])
    return victim.unmask(changed(NOW.asked["unmask"][0], signers=json.dumps(other), signatures=signatures))


def shrunken_set(choice: Choice, victim: SumClient) -> Any:
    """Fewer than two thirds, strangers, or everybody but the one asked."""
    match choice.randrange(3):
        case 0:
            names = sorted({VICTIM, *choice.sample(NAMES, 2)})
        case 1:
            names = sorted([*NAMES[:4], "stranger"])
        case _:
            names = [name for name in NAMES if name != VICTIM]
    if choice.random() < 0.5:
        put_back(victim, LATER.stood["echo"])
        return victim.echo(changed(LATER.asked["echo"][0], survivors=json.dumps(names)))
    put_back(victim, NOW.stood["masked"])
    common, own = NOW.asked["masked"]
    return victim.masked(changed(common, members=json.dumps(names)), own)


def without_echo(choice: Choice, victim: SumClient) -> Any:
    """The set of all, signed with what was masked, beside a smaller one, signed when asked: only one is revealed."""
    all_signed = NOW.asked["unmask"][0]
    other = fewer(choice)
    smaller = changed(NOW.asked["echo"][0], survivors=json.dumps(other))
    put_back(victim, NOW.stood["echo"])
    match choice.randrange(4):
        case 0:  # revealed for all, then asked to sign fewer
            victim.unmask(all_signed)
            return victim.echo(smaller)
        case 1:  # asked to sign fewer, then to reveal for all
            put_back(victim, (NOW.stood["echo"][0], NOW.stood["masked"][1]))
            victim.echo(smaller)
            return victim.unmask(all_signed)
        case 2:  # in a second session of a step that was revealed for fewer
            journal = Journal.from_bytes(LATER.stood["echo"][1])
            journal.revealed["2 data"] = digest(*other)
            put_back(victim, (LATER.stood["echo"][0], journal.to_bytes()))
            return victim.unmask(LATER.asked["unmask"][0])
        case _:  # a session for a step far ahead, to have more of them than a step may
            ahead = Message({**NOW.asked["shares"][0], "session": "dd" * 16, "step": choice.randrange(4, 100)})
            return victim.unmask(all_signed, ahead)


CHEATS: list[Cheat] = [
    forged_roster, swapped_key, replayed_step, masked_twice, tampered_share, two_survivor_sets, too_few_signatures,
    both_shares, shrunken_set, without_echo,
]  # fmt: skip


def refuses(cheat: Cheat, seed: int) -> bool:
    victim = CLIENTS[VICTIM]
    try:
        cheat(random.Random(seed), victim)
    except MessageError:
        return True
    return False


@pytest.mark.parametrize("cheat", CHEATS)
def test_cheating_is_refused(cheat: Cheat) -> None:
    assert [seed for seed in range(40) if not refuses(cheat, seed)] == []


@pytest.mark.slow
@pytest.mark.parametrize("cheat", CHEATS)
def test_ten_thousand_cheats_are_refused(cheat: Cheat) -> None:
    count = -(-10_000 // len(CHEATS))
    assert [seed for seed in range(1000, 1000 + count) if not refuses(cheat, seed)] == []


def test_the_same_question_gets_the_same_answer() -> None:
    """Repetition by the network or after a crash says nothing new."""
    victim = CLIENTS[VICTIM]
    put_back(victim, NOW.stood["masked"])
    first = victim.masked(*NOW.asked["masked"])
    assert victim.masked(*NOW.asked["masked"]) == first
    put_back(victim, NOW.stood["unmask"])
    assert victim.echo(NOW.asked["echo"][0]) == victim.echo(NOW.asked["echo"][0])
    revealed = victim.unmask(NOW.asked["unmask"][0])
    assert victim.unmask(NOW.asked["unmask"][0]) == revealed
    assert len(revealed["shares"]) == COUNT  # one of each peer


def test_without_echo_the_set_of_all_is_revealed_and_the_next_session_opened() -> None:
    victim = CLIENTS[VICTIM]
    put_back(victim, NOW.stood["masked"])
    signature = victim.masked(*NOW.asked["masked"])["signature"]
    place = NAMES.index(VICTIM)
    assert signature.tolist() == NOW.asked["unmask"][0]["signatures"][place].tolist()  # as an echo of all would be
    ahead = Message({**NOW.asked["shares"][0], "session": "dd" * 16, "step": 3})
    revealed = victim.unmask(NOW.asked["unmask"][0], ahead)
    assert len(revealed["shares"]) == COUNT
    assert len(revealed["envelopes"]) == COUNT - 1
    assert victim.find("dd" * 16).step == 3
    assert victim.session is not None
    assert victim.session.stage == "revealed"


def test_a_client_that_helped_to_reveal_another_set_signs_nothing_with_what_it_masks() -> None:
    victim = CLIENTS[VICTIM]
    journal = Journal.from_bytes(LATER.stood["masked"][1])
    journal.revealed["2 data"] = digest(*NAMES[:4])
    put_back(victim, (LATER.stood["masked"][0], journal.to_bytes()))
    assert not victim.masked(*LATER.asked["masked"])["signature"].any()


def test_an_aborted_session_cannot_be_used_to_search_for_sizes() -> None:
    """A client that refuses a layout because of its bounds has used the session up, and a step has few of them."""
    clients = make_clients(3)
    names = sorted(clients)
    announced = {name: client.keys() for name, client in clients.items()}
    victim = clients[names[0]]

    def ask(number: int) -> Message:
        return Message(
            {
                "session": f"{number:032x}", "kind": "data", "names": json.dumps(names),
                "keys": np.stack([announced[name]["key"] for name in names]),
                "signatures": np.stack([announced[name]["signature"] for name in names]),
            }
        )  # fmt: skip

    for number in range(MOST_SESSIONS):
        victim.shares(7, ask(number))
    with pytest.raises(MessageError, match="at most 16 sessions"):
        victim.shares(7, ask(99))
    victim.shares(8, ask(100))


def test_the_transcript_was_an_honest_sum() -> None:
    total, weight = exact_sum(MESSAGES, NAMES)
    assert total
    assert weight
