"""Fuzzed messages: refused by the validator, or absorbed by every rule; nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from cotempo.errors import MessageError
from cotempo.federation import Expect, Message, Spec, validate
from cotempo.robust.per_row import relations
from cotempo.robust.reducer import Robust
from cotempo.robust.rules import RULES

EXPECT = Expect(
    {
        "counts": Spec((2, 1), low=0, high=1e12),
        "products": Spec((2, 6), packed=True),
        "single": Spec((4,), "float32"),
        "number": Spec((), "float"),
        "flag": Spec((), "float", low=0, high=1),
        "votes": Spec((3,), votes=True),
    },
    sums=True,
    weight=(0, 1e12),
    rows=lambda message: float(message["counts"].sum()),
)
SPECIAL = [0.0, -0.0, 1.0, -1.0, 1e-300, 1e12, -1e12, 1e150, -1e150, 1.7e308, np.nan, np.inf]


def honest(stream: np.random.Generator) -> Message:
    rows = stream.normal(size=(30, 3))
    products = (rows.T @ rows)[np.triu_indices(3)]
    fields = {
        "counts": np.full((2, 1), 15.0),
        "products": np.stack([products, products]),
        "single": stream.normal(size=4).astype(np.float32),
        "number": float(stream.normal()),
        "flag": 0.0,
        "votes": stream.normal(size=3),
    }
    return Message(fields, weight=1.0)


def fuzzed(stream: np.random.Generator, message: Message) -> Message:
    """Return a message of which some fields are special values, missing, more, or of another kind or shape."""
    fields: dict[str, Any] = dict(message)
    for name in list(fields):
        choice = stream.integers(8)
        value = SPECIAL[stream.integers(len(SPECIAL))]
        if choice == 0:
            del fields[name]
        elif choice == 1:
            fields[name] = np.full(stream.integers(0, 4, size=stream.integers(0, 3)), value)
        elif choice <= 4:
            given = np.array(fields[name])
            given[...] = np.where(stream.random(given.shape) < 0.5, given, value)
            fields[name] = given if isinstance(fields[name], np.ndarray) else float(given)
    if stream.random() < 0.1:
        fields["more"] = "text"
    return Message(fields, weight=SPECIAL[stream.integers(len(SPECIAL))] if stream.random() < 0.3 else 1.0)


def absorb(count: int) -> int:
    """Fuzz so many messages; return how many of them were valid."""
    stream, valid = np.random.default_rng(0), 0
    others = {f"c{index}": honest(stream) for index in range(6)}
    rules = [Robust(rule, mixing=mixing) for rule in ("screen", *RULES) for mixing in (False, True)]
    for number in range(count):
        with np.errstate(all="ignore"):
            try:
                lie = fuzzed(stream, others["c0"])
                validate(lie, EXPECT)
            except MessageError:
                continue
            valid += 1
            total, _ = rules[number % len(rules)].combine({**others, "liar": lie}, EXPECT)
        assert {*total} == {*EXPECT.fields}
        assert all(np.isfinite(np.asarray(value)).all() for value in total.values())
    return valid


def test_fuzzed_messages_are_refused_or_absorbed() -> None:
    assert absorb(600) > 20


@pytest.mark.slow
def test_ten_thousand_fuzzed_messages_are_refused_or_absorbed() -> None:
    assert absorb(10_000) > 300


NUMBERS = st.floats(width=64) | st.sampled_from(SPECIAL)
MESSAGES = st.fixed_dictionaries(
    {},
    optional={
        "counts": arrays(np.float64, (2, 1), elements=NUMBERS),
        "products": arrays(np.float64, (2, 6), elements=NUMBERS),
        "single": arrays(np.float32, (4,), elements=st.floats(width=32)),
        "number": NUMBERS,
        "flag": NUMBERS,
        "votes": arrays(np.float64, (3,), elements=NUMBERS),
        "more": st.text() | st.integers() | st.booleans(),
    },
)


@pytest.mark.slow
@settings(max_examples=10_000, deadline=None, suppress_health_check=[*HealthCheck])
@given(fields=MESSAGES, weight=NUMBERS, rule=st.sampled_from(["screen", *RULES]))
def test_drawn_messages_are_refused_or_absorbed(fields: dict[str, Any], weight: float, rule: Any) -> None:
    others = {f"c{index}": honest(np.random.default_rng(index)) for index in range(6)}
    expect = replace(EXPECT, alike=lambda message: relations(message["products"] / message["counts"]))
    with np.errstate(all="ignore"):
        try:
            lie = Message({**others["c0"], **fields}, weight=weight)
            validate(lie, expect)
        except MessageError:
            return
        total, _ = Robust(rule).combine({**others, "liar": lie}, expect)
    assert all(np.isfinite(np.asarray(value)).all() for value in total.values())
