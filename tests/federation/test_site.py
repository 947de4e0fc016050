"""A client's place: idempotent by step, versioned memory, typed when something is lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toys import SECRET, Walk, WalkMemory, make_clients

from cotempo.errors import MemoryLost, MessageError
from cotempo.federation import EMPTY, Failure, Message, Question, Reply
from cotempo.federation.site import Site
from cotempo.federation.wire import (
    identify_question,
    parse_reply,
    question_from_bytes,
    question_to_bytes,
    reply_from_bytes,
    reply_to_bytes,
)
from cotempo.storage.store import DiskStore, RamStore
from cotempo.storage.tree import encode

TABLE = make_clients(1)["a"]
MakeStore = Callable[[], RamStore | DiskStore]


@pytest.fixture(params=["ram", "disk"])
def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> MakeStore:
    """A store as a site would find it after a restart; in memory there is only one."""
    ram = RamStore()
    return lambda: ram if request.param == "ram" else DiskStore(tmp_path / "a", (WalkMemory,))


def site(store: Any, method: Walk | None = None) -> Site:
    return Site(method or Walk(), "a", TABLE, 0, store)


def question(step: int, base: int = 0, keep: int = 0, total: float = 0.0, client: str = "a") -> Question:
    return Question("run", step, step, "walk", client, base, keep, Message({"total": np.full(2, total)}), EMPTY)


def ask(make_store: MakeStore, asked: Question, method: Walk | None = None) -> Reply:
    return reply_from_bytes(site(make_store(), method).answer_bytes(question_to_bytes(asked)))


def test_the_same_question_gets_the_stored_answer(make_store: MakeStore) -> None:
    data = question_to_bytes(question(1))
    first = site(make_store()).answer_bytes(data)
    broken = site(make_store())
    broken.method = None  # type: ignore[assignment] - whoever computes anew fails
    assert broken.answer_bytes(data) == first
    assert reply_from_bytes(first).version == 1


def test_keep_is_housekeeping_and_not_another_content(make_store: MakeStore) -> None:
    assert ask(make_store, question(1)).message is not None
    assert ask(make_store, question(1, keep=0)).message == ask(make_store, question(1, keep=-1)).message


@pytest.mark.parametrize("other", [{"total": 1.0}, {"base": -1}])
def test_the_same_step_with_another_content_is_refused(make_store: MakeStore, other: dict[str, Any]) -> None:
    first = ask(make_store, question(1))
    refused = ask(make_store, question(1, **other))
    assert refused.message is None
    assert refused.failure is not None
    assert (refused.failure.client, refused.failure.kind) == ("a", "MessageError")
    assert "another content" in refused.failure.detail
    assert ask(make_store, question(1)).message == first.message


def test_another_run_is_another_content(make_store: MakeStore) -> None:
    ask(make_store, question(1))
    assert ask(make_store, replace(question(1), run="other")).failure is not None


def test_a_question_for_somebody_else_is_refused_and_leaves_no_trace(make_store: MakeStore) -> None:
    refused = ask(make_store, question(1, client="b"))
    assert refused.failure is not None
    assert refused.failure.kind == "MessageError"
    assert ask(make_store, question(1)).message is not None


def test_a_failure_is_not_stored_so_that_a_resumed_run_can_try_again(make_store: MakeStore) -> None:
    failed = ask(make_store, question(1), Walk(victim="a", at=1, trouble="raise"))
    assert failed.failure == Failure("a", 1, "walk", "ValueError")
    assert SECRET.encode() not in reply_to_bytes(failed)
    assert ask(make_store, question(1)).message is not None


def test_memory_is_read_at_the_version_asked_for(make_store: MakeStore) -> None:
    one = ask(make_store, question(1))
    two = ask(make_store, question(2, base=1))
    assert one.message is not None
    assert two.message is not None
    place = make_store().load(2).place
    np.testing.assert_array_equal(place, one.message["move"] + two.message["move"])


def test_an_answer_that_was_not_counted_never_happened(make_store: MakeStore) -> None:
    ask(make_store, question(1))
    ask(make_store, question(2, base=1))  # lost on its way back: step 3 starts from 1 again
    third = ask(make_store, question(3, base=1))
    fresh = RamStore()
    ask(lambda: fresh, question(1))
    assert ask(lambda: fresh, question(3, base=1)).message == third.message
    with pytest.raises(MemoryLost):
        make_store().load(2)


def test_versions_are_pruned_by_keep_and_base(make_store: MakeStore) -> None:
    store = make_store()
    for version in range(1, 8):
        store.save(version, WalkMemory(np.full(2, float(version))))
    store.prune(3, 5)
    kept = []
    for version in range(1, 8):
        try:
            kept.append(int(make_store().load(version).place[0]))
        except MemoryLost:
            continue
    assert kept == [3, 4, 5]


def test_what_two_checkpoints_need_is_always_there(make_store: MakeStore) -> None:
    for step in range(1, 8):
        assert ask(make_store, question(step, base=step - 1, keep=max(step - 2, 0))).message is not None
        # The checkpoint before this step, and the one before that.
        for version in range(max(step - 2, 1), step + 1):
            assert isinstance(make_store().load(version), (WalkMemory,))
    with pytest.raises(MemoryLost):
        make_store().load(4)


def test_a_wiped_site_fails_as_memory_lost_and_does_not_begin_anew() -> None:
    reply = ask(RamStore, question(5, base=4))
    assert reply.message is None
    assert reply.failure == Failure("a", 5, "walk", "MemoryLost")
    assert ask(RamStore, question(5, base=0)).message is not None  # its first memory can always be made


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-1], lambda data: b"", lambda data: data[:90] + b"~" + data[91:]]
)
def test_a_damaged_memory_on_disk_is_lost(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    store = DiskStore(tmp_path, (WalkMemory,))
    store.save(3, WalkMemory(np.ones(2)))
    (path,) = tmp_path.glob("memory-*3.*")
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(MemoryLost, match="step 3"):
        store.load(3)
    assert ask(lambda: store, question(4, base=3)).failure == Failure("a", 4, "walk", "MemoryLost")


def test_a_damaged_stored_answer_is_computed_anew(tmp_path: Path) -> None:
    def make() -> DiskStore:
        return DiskStore(tmp_path, (WalkMemory,))

    first = ask(make, question(1))
    (path,) = tmp_path.glob("answer-*")
    path.write_bytes(path.read_bytes()[:-1])
    assert ask(make, question(1)).message == first.message


def test_somebody_elses_file_in_the_folder_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "memory-backup.safetensors").write_bytes(b"mine")
    assert ask(lambda: DiskStore(tmp_path, (WalkMemory,)), question(1)).message is not None
    assert (tmp_path / "memory-backup.safetensors").read_bytes() == b"mine"


def test_few_answers_are_kept(tmp_path: Path) -> None:
    for step in range(1, 9):
        ask(lambda: DiskStore(tmp_path, (WalkMemory,)), question(step, base=step - 1, keep=max(step - 2, 0)))
    assert len(list(tmp_path.glob("answer-*"))) == 3
    assert len(list(tmp_path.glob("memory-*"))) == 3


def test_a_method_that_returns_no_message_fails_by_name() -> None:
    class Dict(Walk):
        def answer(self, *args: Any) -> Any:
            return {"move": np.zeros(2)}, None

    reply = site(RamStore(), Dict()).answer(question(1))
    assert reply.failure == Failure("a", 1, "walk", "MessageError")


# Questions and replies as bytes.


def test_questions_and_replies_survive_the_wire() -> None:
    asked = replace(question(3, base=2, keep=1), own=Message({"x": 1}, weight=4))
    assert question_from_bytes(question_to_bytes(asked)) == asked
    for reply in (
        Reply("a", 3, 2, Message({"x": np.arange(3)}, weight=0.5)),
        Reply("a", 3, 2, None, Failure("a", 3, "walk", "ValueError", "about")),
    ):
        assert reply_from_bytes(reply_to_bytes(reply)) == reply


def test_an_exception_never_crosses() -> None:
    reply = Reply("a", 1, 0, None, Failure("a", 1, "walk", "ValueError"), ValueError(SECRET))
    assert SECRET.encode() not in reply_to_bytes(reply)
    assert reply_from_bytes(reply_to_bytes(reply)).cause is None


MESSAGE = {"fields": {}, "weight": 1.0}
FAILURE = {"client": "a", "step": 1, "phase": "walk", "kind": "X", "detail": ""}
REPLY = {"client": "a", "step": 1, "version": 1, "message": MESSAGE, "failure": None}


@pytest.mark.parametrize(
    "change",
    [
        {"client": 3},
        {"step": 1.0},
        {"step": True},
        {"step": None},
        {"version": "1"},
        {"message": None},
        {"failure": FAILURE},
        {"message": {"fields": {}}},
        {"message": 3},
        {"message": None, "failure": 3},
        {"message": None, "failure": {**FAILURE, "more": 1}},
        {"message": None, "failure": {"client": "a"}},
        {"message": None, "failure": {**FAILURE, "kind": 3}},
        {"extra": 1},
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_malformed_reply_is_a_message_error(change: dict[str, Any]) -> None:
    assert reply_from_bytes(encode(REPLY)).message is not None
    with pytest.raises(MessageError):
        reply_from_bytes(encode({**REPLY, **change}))


@pytest.mark.parametrize("missing", sorted(REPLY))
def test_a_reply_that_misses_something_is_a_message_error(missing: str) -> None:
    with pytest.raises(MessageError):
        reply_from_bytes(encode({key: value for key, value in REPLY.items() if key != missing}))


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=80) | st.integers(0, 180).map(lambda n: reply_to_bytes(Reply("a", 1, 1, EMPTY))[:n]))
def test_garbage_is_a_failure_of_the_client_that_was_asked(data: bytes) -> None:
    reply = parse_reply(question(7, base=6), data)
    assert reply.message is None
    assert reply.failure is not None
    assert (reply.client, reply.step, reply.version) == ("a", 7, 6)
    assert (reply.failure.client, reply.failure.step, reply.failure.kind) == ("a", 7, "MessageError")
    with pytest.raises(MessageError):
        question_from_bytes(data)


def test_a_reply_over_the_cap_is_refused_unread() -> None:
    data = reply_to_bytes(Reply("a", 1, 1, Message({"x": np.zeros(1000)})))
    assert parse_reply(question(1), data).message is not None
    failure = parse_reply(question(1), data, limit=1000).failure
    assert failure is not None
    assert "at most 1000 bytes" in failure.detail


def test_nobody_answers_in_another_ones_name() -> None:
    failure = parse_reply(question(1), reply_to_bytes(Reply("b", 1, 1, EMPTY))).failure
    assert failure is not None
    assert (failure.client, failure.detail) == ("a", "a client must answer in its own name")


def test_what_follows_a_question_crosses_with_it_and_is_no_part_of_its_identity() -> None:
    asked = question(1)
    then = replace(asked, phase="shield/next", own=Message({"x": np.arange(3.0)}))
    data = question_to_bytes(replace(asked, then=then))
    assert question_from_bytes(data) == replace(asked, then=then)
    assert identify_question(data) == identify_question(question_to_bytes(asked))
    assert replace(asked, then=then).nbytes == asked.nbytes + then.nbytes
    for wrong in (replace(then, then=then), replace(then, step=2), replace(then, client="other")):
        with pytest.raises(MessageError, match="may be followed by one about the same step"):
            question_from_bytes(question_to_bytes(replace(asked, then=wrong)))


def test_only_a_shields_question_may_follow_another(make_store: MakeStore) -> None:
    asked = question(1)
    reply = reply_from_bytes(site(make_store()).answer_bytes(question_to_bytes(replace(asked, then=asked))))
    assert reply.failure is not None
    assert "only a shield's question" in reply.failure.detail
