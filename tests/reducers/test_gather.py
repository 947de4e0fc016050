"""Gathering: the same sum whoever answers first, and no more held than must be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotempo.errors import MessageError
from cotempo.federation import Failure, Message, Reply
from cotempo.federation.reducers import gather_each, gather_sum, in_order

NAMES = tuple("abcdef")
STREAM = np.random.default_rng(0)
MESSAGES = {
    name: Message(
        {"x": STREAM.normal(size=3) * 10.0 ** STREAM.integers(-8, 8), "n": index, "f": 0.1}, weight=0.1 + index
    )
    for index, name in enumerate(NAMES)
}


def reply(name: str, failed: bool = False) -> Reply:
    if failed:
        return Reply(name, 1, 0, None, Failure(name, 1, "phase", "Lost"))
    return Reply(name, 1, 1, MESSAGES[name])


@settings(max_examples=100, deadline=None)
@given(st.permutations(NAMES), st.sets(st.sampled_from(NAMES)))
def test_the_sum_does_not_depend_on_who_answers_first(order: list[str], failed: set[str]) -> None:
    found = gather_sum((reply(name, name in failed) for name in order), NAMES)
    counted = [name for name in NAMES if name not in failed]
    assert found.names == tuple(counted)
    assert [failure.client for failure in found.failures] == sorted(failed)
    assert found.versions == dict.fromkeys(counted, 1)
    expected = Message()
    if counted:
        total: Any = {"x": np.zeros(3), "n": 0.0, "f": 0.0}
        weight = 0.0
        for name in counted:
            message = MESSAGES[name]
            total = {key: total[key] + message[key] * message.weight for key in total}
            weight += message.weight
        expected = Message(total, weight=weight)
    else:
        expected = Message(weight=0)
    assert found.total == expected  # bit for bit


@settings(max_examples=50, deadline=None)
@given(st.permutations(NAMES), st.sets(st.sampled_from(NAMES)))
def test_single_answers_come_in_name_order(order: list[str], failed: set[str]) -> None:
    found = gather_each(reply(name, name in failed) for name in order)
    assert found.each is not None
    assert list(found.each) == list(found.names) == [name for name in NAMES if name not in failed]
    assert [failure.client for failure in found.failures] == sorted(failed)
    assert all(found[name] is MESSAGES[name] for name in found.names)


def test_the_mean_is_weighted() -> None:
    found = gather_sum(map(reply, NAMES), NAMES)
    weights = np.array([message.weight for message in MESSAGES.values()])
    values = np.stack([message["x"] for message in MESSAGES.values()])
    np.testing.assert_allclose(found.mean("x"), np.average(values, axis=0, weights=weights), rtol=1e-12)
    assert found.mean("n") == pytest.approx(np.average(range(6), weights=weights), rel=1e-14)


def test_replies_in_turn_are_not_held() -> None:
    seen: list[str] = []

    def replies() -> Any:
        for name in "abc":
            seen.append(name)
            yield reply(name)

    ordered = in_order(replies(), "abc")
    for count, _ in enumerate(ordered, start=1):
        assert len(seen) == count


@settings(max_examples=50, deadline=None)
@given(st.permutations(NAMES))
def test_in_order_is_a_stable_sort(order: list[str]) -> None:
    assert [found.client for found in in_order(map(reply, order), NAMES)] == list(NAMES)


def test_messages_are_not_changed_by_summing() -> None:
    before = {name: message.to_bytes() for name, message in MESSAGES.items()}
    gather_sum(map(reply, NAMES), NAMES)
    assert {name: message.to_bytes() for name, message in MESSAGES.items()} == before


@pytest.mark.parametrize(("dtype", "held"), [("f2", "f4"), ("f4", "f4"), ("f8", "f8"), ("i1", "f8"), ("?", "f8")])
def test_narrow_numbers_do_not_overflow_in_the_sum(dtype: str, held: str) -> None:
    value = np.array([1, 0], dtype=dtype) if dtype == "?" else np.array([100, 1], dtype=dtype)
    replies = [Reply(name, 1, 1, Message({"x": value}, weight=1000)) for name in "abc"]
    total = gather_sum(replies, "abc").sum["x"]
    assert total.dtype == np.dtype(held)
    assert total.tolist() == (3000 * value.astype(float)).tolist()


def test_a_scalar_array_stays_one() -> None:
    replies = [Reply(name, 1, 1, Message({"x": np.array(2.0)}, weight=3)) for name in "ab"]
    total = gather_sum(replies, "ab").sum["x"]
    assert isinstance(total, np.ndarray)
    assert (total.shape, float(total)) == ((), 12.0)


def test_text_cannot_be_summed() -> None:
    with pytest.raises(MessageError, match="'word' is str"):
        gather_sum([Reply("a", 1, 1, Message({"word": "x"}))], "a")
