"""Lies in messages: each takes what a liar would send honestly and returns what it sends instead.

References
----------
Xie et al., Fall of empires: breaking Byzantine-tolerant SGD by inner product manipulation, UAI 2019.
Baruch et al., A little is enough: circumventing defenses for distributed learning, NeurIPS 2019.
Karimireddy et al., Byzantine-robust learning on heterogeneous datasets via bucketing, ICLR 2022 (Mimic).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cotempo.federation.exchange import Expect, Question
from cotempo.federation.message import Message, Value
from cotempo.typing import Floats

PRECISION_FIELDS = ("quadratic", "linear", "curvature", "first", "second")


@dataclass(frozen=True)
class Situation:
    """What a liar knows when it answers: its own honest answer, the others' honest ones, and what is expected."""

    own: Message
    honest: Sequence[Message]
    question: Question
    expect: Expect
    strength: float
    stream: np.random.Generator

    def changed(self, change: Callable[[str, Floats], Floats], weight: float | None = None) -> Message:
        """Return the own answer with every field of numbers changed, inside of the bounds that are checked."""
        fields = {name: self._fit(name, value, change) for name, value in self.own.items()}
        return Message(fields, weight=self.own.weight if weight is None else weight)

    def stacked(self, name: str) -> Floats:
        """Return a field of the honest answers, ``(clients, ...)``; the own one where there are none."""
        return np.stack([np.asarray(message[name], np.float64) for message in self.honest or [self.own]])

    def _fit(self, name: str, value: Value, change: Callable[[str, Floats], Floats]) -> Value:
        spec = self.expect.fields.get(name)
        is_array = isinstance(value, np.ndarray) and value.dtype.kind == "f"
        if spec is None or not (is_array or type(value) is float):
            return value
        found = np.clip(change(name, np.asarray(value, np.float64)), spec.low, spec.high)
        return found.astype(value.dtype) if isinstance(value, np.ndarray) else float(found)


def sign_flip(seen: Situation) -> Message:
    """Send the opposite of the own answer."""
    return seen.changed(lambda name, value: -seen.strength * value)


def scaling(seen: Situation) -> Message:
    """Send a multiple of the own answer."""
    return seen.changed(lambda name, value: seen.strength * value)


def gaussian(seen: Situation) -> Message:
    """Add noise of a multiple of each field's size."""

    def noised(name: str, value: Floats) -> Floats:
        size = np.sqrt(np.mean(np.square(value))) if value.size else 0.0
        return np.asarray(value + seen.strength * size * seen.stream.standard_normal(value.shape))

    return seen.changed(noised)


def inner_product(seen: Situation) -> Message:
    """Send the opposite of the honest mean, so that the sum points the wrong way."""
    return seen.changed(lambda name, value: -seen.strength * seen.stacked(name).mean(axis=0))


def alie(seen: Situation) -> Message:
    """Send the honest mean, moved in every coordinate by so little that it does not stand out."""

    def moved(name: str, value: Floats) -> Floats:
        values = seen.stacked(name)
        return np.asarray(values.mean(axis=0) - seen.strength * values.std(axis=0))

    return seen.changed(moved)


def mimic(seen: Situation) -> Message:
    """Send what the first honest client sends: all liars count for it."""
    return seen.honest[0] if seen.honest else seen.own


def free_rider(seen: Situation) -> Message:
    """Send back what came, or nothing; do no work."""

    def idle(name: str, value: Floats) -> Floats:
        sent = seen.question.common.get(name)
        known = isinstance(sent, np.ndarray) and sent.shape == value.shape
        return np.asarray(sent, np.float64) if known else np.zeros_like(value)

    return seen.changed(idle)


def inflated_weight(seen: Situation) -> Message:
    """Claim many times the rows: by the weight, or by sums that are as much larger."""
    low, high = seen.expect.weight
    if seen.own.weight == 1.0 and seen.expect.rows is not None:
        return scaling(seen)
    return Message(seen.own, weight=min(max(seen.own.weight * seen.strength, low), high))


def lying_duals(seen: Situation) -> Message:
    """Pretend in every round of ADMM that the own network has one more edge."""

    def forged(name: str, value: Floats) -> Floats:
        if name != "target":
            return value
        value = value.copy()
        value[..., 0, 1] += seen.strength
        return value

    return seen.changed(forged)


def inflated_precision(seen: Situation) -> Message:
    """Claim to be many times as sure of the own posterior."""
    return seen.changed(lambda name, value: value * (seen.strength if name in PRECISION_FIELDS else 1.0))


LIES: Mapping[str, tuple[Callable[[Situation], Message], float]] = {
    "sign_flip": (sign_flip, 1.0),
    "scaling": (scaling, 10.0),
    "gaussian": (gaussian, 3.0),
    "inner_product": (inner_product, 2.0),
    "alie": (alie, 1.5),
    "mimic": (mimic, 1.0),
    "free_rider": (free_rider, 1.0),
    "inflated_weight": (inflated_weight, 100.0),
    "lying_duals": (lying_duals, 2.0),
    "inflated_precision": (inflated_precision, 100.0),
}
"""Each lie by name, and its strength unless told otherwise."""
