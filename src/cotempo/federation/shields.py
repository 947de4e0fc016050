"""`Shield`: something applied around every message; `Validator`, the first of them, guards a method's state."""

import math
import sys

import numpy as np

from cotempo.errors import MessageError
from cotempo.federation.exchange import Ask, Expect, Question, Spec
from cotempo.federation.message import Message, Value
from cotempo.federation.rng import Rng
from cotempo.typing import Array

MOST_CLIENTS = 1e6
# Half precision is summed in single precision.
_WIDEST = {size: float(np.finfo(kind).max) for size, kind in ((2, np.float32), (4, np.float32), (8, np.float64))}
_SCALARS: dict[str, tuple[type, ...]] = {"float": (int, float), "int": (int,), "bool": (bool,), "str": (str,)}


class Shield:
    """Something applied around messages: clipping, noise, masks, compression.

    At the clients, shields are applied in order as a message leaves; at the server, in reverse as it arrives. A
    subclass overrides what it needs. One that answers questions of its own (the keys of a secure sum) names their
    phases; a reducer asks them. One that remote sites have of their own is asked for by the name `at_sites`.
    """

    phases: tuple[str, ...] = ()
    at_sites: str | None = None

    def before(self, ask: Ask, expect: Expect) -> Expect:
        """At the server, before questions are sent: charge a budget, or raise to stop the run.

        Return what a valid answer looks like with this shield applied; noise widens the bounds.
        """
        return expect

    def protect(self, message: Message, question: Question, rng: Rng) -> Message:
        """At a client: return what leaves in place of `message`; `rng` holds the client's streams of this step."""
        return message

    def check(self, message: Message, question: Question, expect: Expect) -> Message:
        """At the server: undo what can be undone, and return the message or raise `MessageError`."""
        return message

    def answer(self, question: Question) -> Message:
        """At a client: answer a question of one of the shield's `phases` in place of the method."""
        raise MessageError(f"a shield must answer in each of its phases, {type(self).__name__} does not")


class Validator(Shield):
    """Lets nothing reach a method's state that is not what the method expects; always the first shield."""

    def check(self, message: Message, question: Question, expect: Expect) -> Message:
        """Return the message if it is valid."""
        validate(message, expect)
        return message


def validate(message: Message, expect: Expect, limit: int = 2**31) -> None:
    """Raise `MessageError`, naming the field and the rule, unless `message` is what `expect` says.

    Examples
    --------
    >>> expect = Expect({"mean": Spec((2,))})
    >>> validate(Message({"mean": np.zeros(2)}), expect)
    >>> validate(Message({"mean": np.array([0.0, np.nan])}), expect)
    Traceback (most recent call last):
    cotempo.errors.MessageError: field 'mean' must be finite, 1 of its 2 values are not
    """
    if message.nbytes > limit:
        raise MessageError(f"a message must be at most {limit} bytes, this one has {message.nbytes}")
    low, high = expect.weight
    if not (math.isfinite(message.weight) and low <= message.weight <= high):
        raise MessageError(f"the weight must lie in [{low:g}, {high:g}], it is {message.weight:g}")
    for name in message:
        if name not in expect.fields:
            raise MessageError(f"field {name!r} is not expected; expected are {sorted(expect.fields)}")
    for name, spec in expect.fields.items():
        if name not in message:
            raise MessageError(f"field {name!r} is missing")
        value = message[name]
        if isinstance(value, np.ndarray):
            _check_array(name, value, spec)
        else:
            _check_scalar(name, value, spec)
        if expect.sums:
            _check_room(name, value, message.weight)


def _check_array(name: str, value: Array, spec: Spec) -> None:
    if spec.dtype in _SCALARS:
        raise MessageError(f"field {name!r} must be one {spec.dtype}, it is an array of shape {value.shape}")
    if value.dtype != spec.dtype:
        raise MessageError(f"field {name!r} must have dtype {spec.dtype}, it has {value.dtype}")
    if value.shape != spec.shape and (
        len(value.shape) != len(spec.shape)
        or any(want is not None and want != got for want, got in zip(spec.shape, value.shape, strict=True))
    ):
        shape = "(" + ", ".join("any" if length is None else str(length) for length in spec.shape) + ")"
        raise MessageError(f"field {name!r} must have shape {shape}, it has {value.shape}")
    if value.dtype.kind == "f":
        # A sum is finite exactly when no value is NaN or infinite, save for overflow, and costs a fifth of isfinite.
        with np.errstate(over="ignore", invalid="ignore"):
            suspect = not math.isfinite(value.sum())
        if suspect and (bad := int(value.size - np.isfinite(value).sum())):
            raise MessageError(f"field {name!r} must be finite, {bad} of its {value.size} values are not")
    if (spec.low > -math.inf or spec.high < math.inf) and value.size:
        smallest, largest = float(value.min()), float(value.max())
        if smallest < spec.low or largest > spec.high:
            raise MessageError(
                f"field {name!r} must lie in [{spec.low:g}, {spec.high:g}], it spans [{smallest:g}, {largest:g}]"
            )
    for rule in spec.rules:
        try:
            broken = rule(value)
        except (ValueError, IndexError, ArithmeticError) as error:  # LinAlgError is a ValueError
            broken = f"must be checked by the rule {rule.__name__}, which failed: {type(error).__name__}"
        if broken:
            raise MessageError(f"field {name!r} {broken}")


def _check_scalar(name: str, value: object, spec: Spec) -> None:
    kinds = _SCALARS.get(spec.dtype)
    if kinds is None:
        raise MessageError(f"field {name!r} must be an array of dtype {spec.dtype}, it is {type(value).__name__}")
    if not isinstance(value, kinds) or (isinstance(value, bool) and spec.dtype != "bool"):
        raise MessageError(f"field {name!r} must be {spec.dtype}, it is {type(value).__name__}")
    if isinstance(value, int | float):
        if isinstance(value, int) and abs(value) >= 2**63:
            raise MessageError(f"field {name!r} must fit into 64 bits, it has {value.bit_length()}")
        if not math.isfinite(value):
            raise MessageError(f"field {name!r} must be finite, it is {value}")
        if not spec.low <= value <= spec.high:
            raise MessageError(f"field {name!r} must lie in [{spec.low:g}, {spec.high:g}], it is {value:g}")


def _check_room(name: str, value: Value, weight: float) -> None:
    """A value may be finite and still so large that the sum over clients is not: one sender would spoil it for all."""
    if isinstance(value, np.ndarray):
        if value.dtype.kind != "f" or not value.size:
            return
        limit = _WIDEST[value.dtype.itemsize] / MOST_CLIENTS
        # No value is larger than the norm, which costs a tenth of looking for the largest.
        with np.errstate(over="ignore"):
            if math.sqrt(np.vdot(value, value)) * weight <= limit:
                return
        largest = max(float(value.max()), -float(value.min()))
    elif isinstance(value, float):
        largest, limit = abs(value), sys.float_info.max / MOST_CLIENTS
    else:
        return
    if largest * weight > limit:
        raise MessageError(f"field {name!r} times its weight must be at most {limit:g}, so that sums do not overflow")
