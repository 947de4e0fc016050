"""What is sealed is unsealed, small or large; versions are agreed on, or refused in words."""

from __future__ import annotations

import pytest

from cotempo.engines.flower import protocol
from cotempo.engines.flower.patches import wire_type
from cotempo.engines.flower.protocol import Envelope, Part, Verb
from cotempo.engines.flower.wire import CHUNK, SMALL, Sealer, object_ids, unseal
from cotempo.errors import MessageError

METADATA = {"run_id": 5, "src_node_id": 1, "dst_node_id": 7, "message_type": "query", "created_at": 1.0, "ttl": 2.0}


@pytest.mark.parametrize("size", [0, 1, SMALL, SMALL + 1, 10 * SMALL, CHUNK, 2 * CHUNK + 1])
def test_bytes_come_back_as_they_went(size: int) -> None:
    parts = {Part.QUESTION: bytes(range(256)) * (size // 256) + b"x" * (size % 256), Part.COMMON: b"c" * (SMALL + 7)}
    envelope, sealer = Envelope.write(Verb.ASK, parts), Sealer()
    sealed = sealer.seal(METADATA, envelope)
    assert unseal(sealed.id, sealer.objects) == envelope
    assert {*object_ids(sealed.tree)} == {*sealer.objects}


def test_what_all_are_sent_is_stored_once() -> None:
    sealer, common = Sealer(), bytes(3 * SMALL)
    for node in range(5):
        sealer.seal({**METADATA, "dst_node_id": node}, Envelope.write(Verb.ASK, {Part.COMMON: common}))
    assert sum(len(content) > SMALL for content in sealer.objects.values()) == 1
    assert len(sealer.objects) == 6


def other_content() -> tuple[str, dict[str, bytes]]:
    """A message of Flower's, as older versions of cotempo sent them: its content is in objects of its own."""
    body = wire_type("Message")(metadata=METADATA).SerializeToString()
    return "root", {"root": f"Message {'0' * 64} {len(body)}".encode() + b"\0" + body}


def sealed(**changes: object) -> tuple[str, dict[str, bytes]]:
    sealer = Sealer()
    envelope = Envelope.write(Verb.ASK, {Part.COMMON: bytes(2 * SMALL)})
    for name, value in changes.items():
        object.__setattr__(envelope, name, value)
    return sealer.seal(METADATA, envelope).id, sealer.objects


@pytest.mark.parametrize(
    ("message_id", "objects"),
    [
        other_content(),
        ("root", {"root": b"no divider"}),
        ("root", {"root": b"Message  3\0\xff\xff\xff"}),
        sealed(verb="shell"),
        sealed(parts={"code": b"import os"}),
        (sealed()[0], {sealed()[0]: sealed()[1][sealed()[0]]}),  # a chunk is missing
    ],
)
def test_anything_else_is_refused(message_id: str, objects: dict[str, bytes]) -> None:
    with pytest.raises(MessageError, match="too old or too new"):
        unseal(message_id, objects)


@pytest.mark.parametrize(
    ("ours", "theirs", "common"),
    [((3, 4), (3, 4), 4), ((3, 4), (4, 5), 4), ((4, 5), (3, 4), 4), ((5, 6), (3, 4), None), ((3, 4), (5, 6), None)],
)
def test_the_newest_common_version_is_spoken(
    monkeypatch: pytest.MonkeyPatch, ours: tuple[int, int], theirs: tuple[int, int], common: int | None
) -> None:
    monkeypatch.setattr(protocol, "SPEAKS", ours)
    joining = Envelope(Verb.JOIN, {}, theirs[0], theirs)
    assert joining.common_version == common
    assert (joining.refusal() is None) == (common is not None)


@pytest.mark.parametrize(("theirs", "where"), [((5, 6), "here"), ((1, 2), "at the coordinator")])
def test_a_refusal_says_who_must_upgrade(monkeypatch: pytest.MonkeyPatch, theirs: tuple[int, int], where: str) -> None:
    monkeypatch.setattr(protocol, "SPEAKS", (3, 4))
    refusal = Envelope(Verb.JOIN, {}, theirs[0], theirs).refusal()
    assert refusal is not None
    assert f"this site speaks 3 to 4 and the coordinator {theirs[0]} to {theirs[1]}; upgrade cotempo {where}" in refusal


def test_a_question_in_a_version_that_is_not_spoken_is_refused_though_there_is_a_common_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(protocol, "SPEAKS", (4, 5))
    refusal = Envelope(Verb.ASK, {}, 3, (3, 4)).refusal()
    assert refusal is not None
    assert "resume the run" in refusal
    assert Envelope(Verb.ASK, {}, 4, (3, 4)).refusal() is None
