"""Fixed point: exact in whole numbers, near in all others, and refused rather than clipped."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotempo.errors import MessageError
from cotempo.federation import Expect, Message, Spec
from cotempo.privacy.secure_sum.fixed_point import (
    WEIGHT,
    Layout,
    ScaleExceeded,
    addends,
    decode,
    decode_sizes,
    encode,
)

VECTORS = json.loads((Path(__file__).parent.parent / "vectors" / "secure_sum.json").read_text())


def drawing(seed: int) -> Callable[[int], Any]:
    stream = np.random.default_rng(seed)
    return lambda count: stream.integers(0, 2**64, count, dtype="<u8")


def add(messages: list[Message], layout: Layout) -> Any:
    vectors = [encode(addends(message, layout), layout, drawing(n)) for n, message in enumerate(messages)]
    return np.sum(vectors, axis=0, dtype="<u8")


def agreed(messages: list[Message], expect: Expect, clients: int | None = None) -> Layout:
    layout = Layout.of("range", clients or max(3, len(messages)), expect)
    return layout.with_scales(decode_sizes(add(messages, layout), layout))


@settings(max_examples=100, deadline=None)
@given(st.integers(3, 12), st.integers(0, 2**32), st.floats(-60, 60), st.floats(0, 40))
def test_sums_are_near_what_was_added(clients: int, seed: int, size: float, span: float) -> None:
    stream = np.random.default_rng(seed)
    values = stream.normal(size=(clients, 5)) * 2.0 ** (size - span * stream.random(5))
    weights = stream.random(clients) * 100
    messages = [Message({"x": row}, weight=weight) for row, weight in zip(values, weights, strict=True)]
    layout = agreed(messages, Expect({"x": Spec((5,))}, sums=True))
    total, _ = decode(add(messages, layout), layout)
    scale = (np.abs(values) * weights[:, None]).sum(axis=0)  # sums of floats are not nearer than this allows
    assert (np.abs(total["x"] - values.T @ weights) <= 1e-14 * scale).all()
    assert total.weight == pytest.approx(weights.sum(), rel=1e-14)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(-(2**52), 2**52), min_size=3, max_size=20))
def test_whole_numbers_are_exact(values: list[int]) -> None:
    messages = [Message({"x": np.array([float(value)])}) for value in values]
    layout = agreed(messages, Expect({"x": Spec((1,))}, sums=True))
    total, _ = decode(add(messages, layout), layout)
    assert total["x"][0] == float(sum(values))


def test_every_kind_of_number() -> None:
    fields = {
        "half": (np.array([1.5], np.float16), Spec((1,), "float16")),
        "single": (np.array([[1.5, 2.0]], np.float32), Spec((1, 2), "float32")),
        "whole": (np.array([3], np.int32), Spec((1,), "int32")),
        "flag": (True, Spec((), "bool")),
        "count": (4, Spec((), "int")),
        "number": (0.25, Spec((), "float")),
        "point": (np.array(2.0), Spec(())),
    }
    message = Message({name: value for name, (value, _) in fields.items()}, weight=2.0)
    expect = Expect({name: spec for name, (_, spec) in fields.items()}, sums=True)
    layout = agreed([message] * 4, expect)
    total, _ = decode(add([message] * 4, layout), layout)
    kinds = {name: value.dtype.name if isinstance(value, np.ndarray) else type(value) for name, value in total.items()}
    assert kinds == {
        "half": "float32", "single": "float32", "whole": "float64", "flag": float, "count": float,
        "number": float, "point": "float64",
    }  # fmt: skip
    for name, (value, _) in fields.items():
        assert np.array_equal(total[name], 8.0 * np.asarray(value, float))
    assert total.weight == 8.0


def test_what_exceeds_its_scale_hides_everything_and_says_so() -> None:
    expect = Expect({"x": Spec((4,))}, sums=True)
    small = [Message({"x": np.ones(4)})] * 4
    layout = agreed(small, expect)
    exceeding = [*small[:3], Message({"x": np.array([1.0, 1.0, 1e9, 1.0])})]
    found = add(exceeding, layout)
    with pytest.raises(ScaleExceeded):
        decode(found, layout)
    # Nothing of the others is left to be read.
    others = add(small[:3], layout)
    assert not np.isin(found, others).any()


@pytest.mark.parametrize(("size", "kept", "lost"), [(4, -60, -70), (5000, -6, -20)])
def test_a_field_may_grow_a_little_and_is_told_when_it_has_shrunk(size: int, kept: int, lost: int) -> None:
    """Two words per value of a small field have room for more."""
    expect = Expect({"x": Spec((size,))}, sums=True)
    layout = agreed([Message({"x": np.ones(size)})] * 4, expect)
    for factor, shrunk in ((8.0, False), (1.0, False), (2.0**kept, False), (2.0**lost, True), (0.0, False)):
        total, has_shrunk = decode(add([Message({"x": np.full(size, factor)})] * 4, layout), layout)
        assert has_shrunk is shrunk, factor
        assert np.array_equal(total["x"], np.full(size, 4 * factor))


@settings(max_examples=100, deadline=None)
@given(st.integers(3, 12), st.integers(0, 2**32), st.floats(-14, 45))
def test_the_usual_scale_is_as_fine_as_it_says(clients: int, seed: int, size: float) -> None:
    values = np.random.default_rng(seed).normal(size=(clients, 5)) * 2.0**size
    messages = [Message({"x": row}) for row in values]
    layout = Layout.of("range", clients, Expect({"x": Spec((5,))}, sums=True)).with_usual_scales()
    assert layout is not None
    total, has_shrunk = decode(add(messages, layout), layout)
    assert not has_shrunk
    error = np.abs(total["x"] - [math.fsum(column) for column in values.T])
    assert (error <= clients * 2.0**-64 + 2.0**-51 * np.abs(values).sum(axis=0)).all()


def test_the_usual_scale_is_for_small_fields_and_refuses_what_would_drown_others() -> None:
    assert Layout.of("range", 3, Expect({"x": Spec((5000,))}, sums=True)).with_usual_scales() is None
    layout = Layout.of("range", 3, Expect({"x": Spec((1,))}, sums=True)).with_usual_scales()
    assert layout is not None
    for message in (Message({"x": np.array([2.0**53])}), Message({"x": np.zeros(1)}, weight=2.0**37)):
        with pytest.raises(MessageError, match="to be summed here"):
            add([message], layout)


def test_the_agreement_tells_the_largest_power_of_four_and_nothing_else() -> None:
    expect = Expect({"x": Spec((2,))}, sums=True)
    layout = Layout.of("range", 4, expect)
    few = [Message({"x": np.array([5.0, 0.1])}), *[Message({"x": np.array([1e-9, 0.0])})] * 3]
    many = [Message({"x": np.array([-7.9, 3.0])})] * 4
    one, other = (add(messages, layout) for messages in (few, many))
    assert decode_sizes(one, layout) == decode_sizes(other, layout)
    words = slice(0, 256)
    assert np.array_equal(one[words] != 0, other[words] != 0)  # which words are used is all there is to see


def test_large_fields_have_a_second_word_only_where_they_span_much() -> None:
    stream = np.random.default_rng(0)
    expect = Expect({"x": Spec((5000,))}, sums=True)
    plain = [Message({"x": stream.normal(size=5000)}) for _ in range(4)]
    assert agreed(plain, expect).fields[0].words == 1
    units = np.repeat([1.0, 1e-9], 2500)
    spread = [Message({"x": stream.normal(size=5000) * units}) for _ in range(4)]
    layout = agreed(spread, expect)
    assert layout.fields[0].words == 2
    total, _ = decode(add(spread, layout), layout)
    wanted = sum(message["x"] for message in spread)
    assert np.abs((total["x"] - wanted) / np.abs(spread[0]["x"])).max() < 1e-9


def test_no_values_and_no_weight() -> None:
    expect = Expect({"x": Spec((0,)), "y": Spec((2,))}, sums=True)
    messages = [Message({"x": np.zeros(0), "y": np.zeros(2)}, weight=0.0)] * 3
    layout = agreed(messages, expect)
    total, _ = decode(add(messages, layout), layout)
    assert (total["x"].shape, total["y"].tolist(), total.weight) == ((0,), [0.0, 0.0], 0.0)


@pytest.mark.parametrize(
    "message",
    [
        Message({"x": np.array([1.0, np.nan])}),
        Message({"x": np.array([1.0, 11.0])}),
        Message({"x": np.ones(3)}),
        Message({"x": np.ones(2)}, weight=-1.0),
        Message({"y": np.ones(2)}),
    ],
)
def test_what_is_not_valid_is_refused_at_the_client(message: Message) -> None:
    layout = Layout.of("range", 3, Expect({"x": Spec((2,), high=10)}, sums=True))
    with pytest.raises(MessageError):
        addends(message, layout)


def test_what_no_scale_holds_is_refused() -> None:
    layout = Layout.of("range", 3, Expect({"x": Spec((1,))}, sums=True))
    with pytest.raises(MessageError, match=r"must be below 2\^254"):
        encode(addends(Message({"x": np.array([1e80])}), layout), layout, drawing(0))


@pytest.mark.parametrize("spec", [Spec((None,)), Spec((), "str")])
def test_what_cannot_be_summed_is_refused(spec: Spec) -> None:
    with pytest.raises(MessageError, match="fixed shape"):
        Layout.of("range", 3, Expect({"x": spec}, sums=True))


def test_a_layout_survives_the_wire_and_nothing_else_does() -> None:
    layout = agreed([Message({"x": np.ones(2)})] * 3, Expect({"x": Spec((2,), low=0)}, sums=True))
    assert Layout.from_text(layout.to_text()) == layout
    tree = json.loads(layout.to_text())
    for change in ({"kind": "other"}, {"clients": 2}, {"fields": []}, {"fields": tree["fields"][:1]}, {"weight": 3}):
        with pytest.raises(MessageError, match="layout"):
            Layout.from_text(json.dumps({**tree, **change}))
    for text in ("", "[]", "{}", "null"):
        with pytest.raises(MessageError, match="layout"):
            Layout.from_text(text)


def test_vectors() -> None:
    for case in VECTORS["fixed_point"]:
        layout = Layout.from_text(case["layout"])
        message = Message({"x": np.array(case["values"])}, weight=case["weight"])
        vector = encode(addends(message, layout), layout, lambda count: np.zeros(count, "<u8"))
        assert vector.tolist() == case["words"]
        total, _ = decode(vector, layout)
        for found, value in zip(total["x"], case["values"], strict=True):
            assert math.isclose(found, value * case["weight"], rel_tol=1e-15)
    assert layout.fields[-1].name == WEIGHT
