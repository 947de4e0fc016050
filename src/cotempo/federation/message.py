"""`Message`: named arrays and plain scalars, the only thing that crosses between a client and the server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from cotempo.errors import MessageError
from cotempo.storage.tree import Scalar, TreeError, decode, encode, from_tensor, holds_numbers, is_tensor, own
from cotempo.typing import Array

Value = Array | Scalar
LONGEST_NAME = 256  # names are repeated in logs, records and errors


class Message(Mapping[str, Any]):
    """Named arrays and plain scalars, read-only, with the weight the sender gives them.

    Parameters
    ----------
    fields
        Arrays of numbers or booleans (torch tensors become arrays), booleans, whole numbers, floats, text or None.
    weight
        What the answer counts in a weighted sum. It travels apart from the fields, so that robust rules see the
        fields as they are; the reducer multiplies.

    Examples
    --------
    >>> message = Message({"mean": np.array([1.0, 2.0]), "rows": 40}, weight=40)
    >>> message["rows"], message.weight
    (40, 40.0)
    >>> Message.from_bytes(message.to_bytes()) == message
    True
    """

    __slots__ = ("_fields", "_nbytes", "_weight")

    def __init__(self, fields: Mapping[str, Any] | None = None, *, weight: float = 1.0):
        self._fields: dict[str, Value] = {}
        self._nbytes = 8
        try:
            self._weight = float(weight)
        except (TypeError, ValueError, OverflowError):
            raise MessageError(f"a message's weight must be a number a float can hold, not {weight!r:.40}") from None
        for name, value in (fields or {}).items():
            if not isinstance(name, str):
                raise MessageError(f"a field's name must be text, not {type(name).__name__}")
            if len(name) > LONGEST_NAME:
                raise MessageError(f"a field's name must have at most {LONGEST_NAME} letters, got {len(name)}")
            value = _plain(name, value)
            self._fields[name] = value
            self._nbytes += value.nbytes if isinstance(value, np.ndarray) else 8
            self._nbytes += len(value) if isinstance(value, str) else 0

    @property
    def weight(self) -> float:
        """What the message counts in a weighted sum."""
        return self._weight

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays and scalars, without names and headers."""
        return self._nbytes

    def get(self, name: str, default: Any = None) -> Any:
        """Return a field, or `default` where there is none."""
        return self._fields.get(name, default)

    def __getitem__(self, name: str) -> Any:
        try:
            return self._fields[name]
        except KeyError:
            raise MessageError(f"the message has no field {name!r}; it has {sorted(self._fields)}") from None

    def __contains__(self, name: object) -> bool:
        return name in self._fields

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Message) and self.to_bytes() == other.to_bytes()

    def __hash__(self) -> int:
        return hash((tuple(self._fields), self.weight))

    def __reduce__(self) -> Any:
        return partial(Message, weight=self.weight), (self._fields,)  # arrays would come back writable otherwise

    def __repr__(self) -> str:
        parts = [
            f"{name}: {value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else f"{name}: {value!r}"
            for name, value in self._fields.items()
        ]
        return f"Message({', '.join(parts)}; weight {self.weight:g})"

    def to_tree(self) -> dict[str, Any]:
        """Return the message as a tree, to go inside a larger one."""
        return {"fields": dict(self._fields), "weight": self.weight}

    @classmethod
    def from_tree(cls, tree: Any) -> Message:
        """Read what `to_tree` returned; raise `MessageError` if it is no message."""
        if not isinstance(tree, dict) or set(tree) != {"fields", "weight"} or not isinstance(tree["fields"], dict):
            raise MessageError("a message must hold exactly its fields and its weight")
        if type(tree["weight"]) not in (int, float):
            raise MessageError(f"a message's weight must be a number, not {type(tree['weight']).__name__}")
        return cls(tree["fields"], weight=tree["weight"])

    def to_bytes(self) -> bytes:
        """Serialise by safetensors and JSON, never pickle."""
        return encode(self.to_tree())

    @classmethod
    def from_bytes(cls, data: bytes, limit: int = 2**31) -> Message:
        """Read `to_bytes`; anything else, or more than `limit` bytes, is a `MessageError`."""
        if len(data) > limit:
            raise MessageError(f"a message must be at most {limit} bytes, this one has {len(data)}")
        try:
            return cls.from_tree(decode(data))
        except TreeError as error:
            raise MessageError(str(error)) from error


def _plain(name: str, value: Any) -> Value:
    if is_tensor(value):
        try:
            value = from_tensor(value)
        except TreeError as error:
            raise MessageError(f"field {name!r}: {error}") from error
    if isinstance(value, np.ndarray):
        if isinstance(value, np.ma.MaskedArray):
            raise MessageError(f"field {name!r} must not be a masked array: what the mask hides would be sent with it")
        if not holds_numbers(value):
            raise MessageError(
                f"field {name!r} must hold booleans or numbers of at most 64 bits, not dtype {value.dtype}; "
                "send numeric arrays"
            )
        return own(value)
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or type(value) in (bool, int, float, str):
        plain: Value = value
        return plain
    raise MessageError(
        f"field {name!r} must be an array, a number, a boolean, text or None, not {type(value).__name__}"
    )


EMPTY = Message()
