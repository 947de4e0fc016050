"""Messages are read-only, own their arrays, and hold nothing but numbers, text and None."""

from __future__ import annotations

import enum
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from cotempo.errors import MessageError
from cotempo.federation import EMPTY, Message
from cotempo.storage.tree import encode


class Colour(enum.IntEnum):
    RED = 1


def test_changing_the_source_later_changes_nothing() -> None:
    array = np.arange(6.0).reshape(2, 3)
    message = Message({"plain": array, "view": array[:, ::2], "turned": array.T})
    before = message.to_bytes()
    array[...] = -1.0
    assert message.to_bytes() == before
    assert message["turned"].tolist() == [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]


def test_changing_a_tensor_later_changes_nothing() -> None:
    tensor = torch.arange(3.0)
    message = Message({"x": tensor})
    tensor += 1
    assert message["x"].tolist() == [0.0, 1.0, 2.0]
    assert message["x"].dtype == np.float32


@pytest.mark.parametrize(
    "copy", [lambda m: m, lambda m: Message.from_bytes(m.to_bytes()), lambda m: pickle.loads(pickle.dumps(m))]
)
def test_nothing_in_it_can_be_changed(copy: Any) -> None:
    message = copy(Message({"x": np.arange(3.0), "n": 4}, weight=2))
    with pytest.raises(ValueError, match="read-only"):
        message["x"][0] = 1.0
    with pytest.raises(TypeError):
        message["n"] = 5
    with pytest.raises(AttributeError):
        message.weight = 9.0
    with pytest.raises(AttributeError):
        message.nbytes = 0
    message.to_tree()["fields"]["n"] = 5
    assert message["n"] == 4


@pytest.mark.parametrize(
    "value",
    [
        np.array([object()]),
        np.array(["text"]),
        np.array([1j]),
        np.array(["2020-01-01"], dtype="datetime64[D]"),
        np.zeros(1, dtype=[("a", "f8")]),
        np.zeros(2, np.longdouble),
        np.datetime64("2020-01-01"),
        np.complex128(1j),
        np.ma.array([1.0, 2.0], mask=[False, True]),
        torch.zeros(2, dtype=torch.bfloat16),
        torch.zeros(2, dtype=torch.complex64),
        torch.zeros(2).to_sparse(),
        [1.0],
        (1.0,),
        {"a": 1},
        b"bytes",
        1j,
        object(),
        Colour.RED,
    ],
    ids=lambda value: f"{type(value).__name__}-{getattr(value, 'dtype', '')}",
)
def test_what_has_no_place_in_it_is_refused_by_name(value: object) -> None:
    with pytest.raises(MessageError, match="'rows'"):
        Message({"rows": value})


@pytest.mark.parametrize("weight", ["three", None, 10**400, [1.0]])
def test_a_weight_that_is_no_number_is_refused(weight: Any) -> None:
    with pytest.raises(MessageError, match="weight"):
        Message(weight=weight)


def test_a_name_that_is_no_text_is_refused() -> None:
    with pytest.raises(MessageError, match="name"):
        Message({3: 1.0})  # type: ignore[dict-item]


def test_numpy_scalars_become_plain_ones() -> None:
    message = Message({"f": np.float32(0.5), "i": np.int64(3), "b": np.bool_(True), "s": np.str_("x")})
    assert [type(value) for value in message.values()] == [float, int, bool, str]


def test_it_is_a_mapping_whose_missing_fields_are_named() -> None:
    message = Message({"x": 1})
    assert dict(message) == {"x": 1}
    assert "y" not in message
    assert message.get("y") is None
    assert message.get("y", 7) == 7
    with pytest.raises(MessageError, match=r"no field 'y'.*'x'"):
        message["y"]


def test_its_size_counts_what_it_holds() -> None:
    assert EMPTY.nbytes == 8
    assert Message({"x": np.zeros((3, 5)), "n": 1}).nbytes == 8 + 3 * 5 * 8 + 8
    assert Message({"x": np.zeros(10, np.float32)}).nbytes == 8 + 40


fields = st.dictionaries(
    st.text(max_size=5),
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=5)
    | hnp.arrays(st.sampled_from(["f4", "f8", "i8", "?"]), hnp.array_shapes(min_dims=0, min_side=0, max_side=3)),
    max_size=4,
)


@settings(max_examples=100, deadline=None)
@given(fields, st.floats())
def test_bytes_and_back(fields: dict[str, Any], weight: float) -> None:
    message = Message(fields, weight=weight)
    found = Message.from_bytes(message.to_bytes())
    assert found == message
    assert hash(found) == hash(message) or weight != weight
    assert found.nbytes == message.nbytes
    assert {name: type(value) for name, value in found.items()} == {name: type(fields[name]) for name in fields}


def test_messages_differ_by_weight_dtype_and_shape() -> None:
    messages = [
        Message({"x": np.zeros(4)}),
        Message({"x": np.zeros(4)}, weight=2),
        Message({"x": np.zeros(4, np.float32)}),
        Message({"x": np.zeros((2, 2))}),
        Message({"y": np.zeros(4)}),
        EMPTY,
    ]
    assert [[one == other for other in messages] for one in messages] == np.eye(len(messages), dtype=bool).tolist()


@pytest.mark.parametrize(
    "tree",
    [
        None,
        3,
        (),
        {},
        {"fields": {}},
        {"weight": 1.0},
        {"fields": {}, "weight": 1.0, "more": 1},
        {"fields": (), "weight": 1.0},
        {"fields": {}, "weight": "1"},
        {"fields": {}, "weight": True},
        {"fields": {}, "weight": 10**400},
        {"fields": {"a": {"nested": 1}}, "weight": 1.0},
        {"fields": {"a": (1, 2)}, "weight": 1.0},
    ],
    ids=lambda value: type(value).__name__,
)
def test_trees_that_are_no_message_are_refused(tree: object) -> None:
    with pytest.raises(MessageError):
        Message.from_bytes(encode(tree))


def test_bytes_over_the_cap_are_refused_unread() -> None:
    data = Message({"x": np.zeros(100)}).to_bytes()
    assert Message.from_bytes(data, limit=len(data)) is not None
    with pytest.raises(MessageError, match=f"at most {len(data) - 1} bytes"):
        Message.from_bytes(data, limit=len(data) - 1)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=100))
def test_garbage_is_a_message_error(data: bytes) -> None:
    with pytest.raises(MessageError):
        Message.from_bytes(data)
