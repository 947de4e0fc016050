"""The validator: exactly what is expected passes."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from cotempo.errors import MessageError
from cotempo.federation import Expect, Message, Spec, validate


def passes(value: Any, spec: Spec, **options: Any) -> bool:
    message, expect = Message({"x": value}), Expect({"x": spec}, **options)
    try:
        validate(message, expect)
    except MessageError:
        with pytest.raises(MessageError, match="field 'x'"):
            validate(message, expect)
        return False
    return True


@settings(max_examples=200, deadline=None)
@given(hnp.arrays("f8", hnp.array_shapes(min_dims=0, min_side=0, max_side=3), elements=st.floats()))
def test_arrays_pass_exactly_when_they_are_finite(array: np.ndarray) -> None:
    assert passes(array, Spec(array.shape)) == np.isfinite(array).all()


@settings(max_examples=100, deadline=None)
@given(hnp.arrays("f8", 4, elements=st.floats(-10, 10)), st.floats(-10, 10), st.floats(-10, 10))
def test_bounds_are_inclusive(array: np.ndarray, low: float, high: float) -> None:
    assert passes(array, Spec((4,), low=low, high=high)) == bool((array >= low).all() and (array <= high).all())


@settings(max_examples=100, deadline=None)
@given(
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3),
    st.lists(st.none() | st.integers(0, 3), max_size=3).map(tuple),
)
def test_shapes_match_entry_by_entry(shape: tuple[int, ...], spec: tuple[int | None, ...]) -> None:
    fits = len(shape) == len(spec) and all(want in (None, got) for want, got in zip(spec, shape, strict=True))
    assert passes(np.zeros(shape), Spec(spec)) == fits


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i4", "i8", "u1", "?"])
@pytest.mark.parametrize("wanted", ["float32", "float64", "int64", "bool"])
def test_dtypes_match_exactly(dtype: str, wanted: str) -> None:
    spec_is_array = wanted != "bool"  # "bool" means a scalar
    assert passes(np.zeros(2, dtype), Spec((2,), wanted)) == (spec_is_array and np.dtype(dtype) == wanted)


@pytest.mark.parametrize(
    ("value", "dtype", "fits"),
    [
        (1, "int", True), (1.0, "int", False), (True, "int", False), ("1", "int", False),
        (1, "float", True), (1.0, "float", True), (True, "float", False), (float("inf"), "float", False),
        (float("nan"), "float", False), (True, "bool", True), (1, "bool", False), ("a", "str", True),
        (1, "str", False), (None, "str", False), (None, "float", False), (2**63, "int", False),
        (-(2**63) + 1, "int", True), (10**4000, "float", False), (1.0, "float64", False),
    ],
)  # fmt: skip
def test_scalars_match_their_kind(value: Any, dtype: str, fits: bool) -> None:
    assert passes(value, Spec((), dtype)) == fits


def test_large_but_finite_values_are_not_mistaken_for_infinite_ones() -> None:
    assert passes(np.full(3, 1.7e308), Spec((3,)))
    assert passes(np.full(3, 3e38, np.float32), Spec((3,), "float32"))


@pytest.mark.parametrize(("value", "fits"), [(1e299, True), (1e307, False), (-1e307, False)])
def test_what_is_summed_leaves_room_for_the_sum(value: float, fits: bool) -> None:
    assert passes(np.array([0.0, value]), Spec((2,)), sums=True) == fits
    assert passes(value, Spec((), "float"), sums=True) == fits


def test_the_weight_counts_in_that_room() -> None:
    expect = Expect({"x": Spec((1,))}, sums=True)
    validate(Message({"x": np.array([1e297])}, weight=1.0), expect)
    with pytest.raises(MessageError, match="'x' times its weight"):
        validate(Message({"x": np.array([1e297])}, weight=1e9), expect)


def test_the_byte_cap() -> None:
    message, expect = Message({"x": np.zeros(10)}), Expect({"x": Spec((10,))})
    validate(message, expect, limit=88)
    with pytest.raises(MessageError, match="at most 87 bytes, this one has 88"):
        validate(message, expect, limit=87)


@pytest.mark.parametrize("bounds", [(0.0, 1e12), (1.0, 5.0)])
@pytest.mark.parametrize("weight", [-1.0, 0.0, 1.0, 5.0, 6.0, 1e13, float("nan"), float("inf")])
def test_weights_lie_within_bounds(weight: float, bounds: tuple[float, float]) -> None:
    inside = bounds[0] <= weight <= bounds[1]
    with contextlib.nullcontext() if inside else pytest.raises(MessageError, match="weight must lie in"):
        validate(Message(weight=weight), Expect({}, weight=bounds))


def positive_definite(value: np.ndarray) -> str | None:
    return None if np.linalg.eigvalsh(value).min() > 0 else "must be positive definite"


@pytest.mark.parametrize("shape", [(2, 3), (3,), ()])
def test_a_rule_that_cannot_be_applied_is_a_message_error(shape: tuple[int, ...]) -> None:
    assert not passes(np.ones(shape), Spec(tuple(None for _ in shape), rules=(positive_definite,)))


def test_own_rules_are_asked_with_the_array() -> None:
    def rising(value: np.ndarray) -> str | None:
        return None if (np.diff(value) > 0).all() else "must rise"

    assert passes(np.arange(3.0), Spec((3,), rules=(rising,)))
    with pytest.raises(MessageError, match="field 'x' must rise"):
        validate(Message({"x": np.zeros(3)}), Expect({"x": Spec((3,), rules=(rising,))}))
