"""Fixed point: a client's addends as whole numbers modulo 2^64, on scales that are public.

A value x becomes round(x 2^shift). `shift` is chosen so that the sum over all clients of what they may send stays
below 2^63; a client that exceeds its part of that is never clipped. It replaces all it sends by random numbers, which
hides everybody's addend, and raises a flag: the server learns that the scale was too small for someone, agrees on a
new one and repeats the sum.

Small fields have two words per value, which together hold about 120 bits: values from 2^-20 to 2^52 fit one scale that
needs no agreement and tells nobody anything. A client with larger ones refuses, and before anything is revealed scales
are agreed on; where all are smaller, a flag says so, scales are agreed on, and the sum is repeated. Larger fields have
one word, if that is enough, and always agree.

Scales are agreed on by the secure sum itself, in a sum of its own before the data. Each field has a row of words, one
per power of four. A client adds a random number to every word up to the size of its largest value. The sum
of a word is zero if nobody added to it, and uniformly random otherwise: the server learns the largest power of four
over all clients and nothing else, neither whose it is nor how many are near it. Other ways tell more: sending one's own
maximum names its owner, adding up ones tells how many clients have each size.

Where the largest is so large that it would drown all others, sizes are agreed on once more under a limit: a client
above it refuses, and is left out under its name. So does a client that exceeds an older scale by as much. If more than
a third refuse, all is agreed on without a limit. On the usual scale a refusal leaves nobody out yet, but leads to the
agreement, before anything is revealed.

A single word keeps at least 50 bits below the largest value. Small fields, and fields in which more than a hundredth of
a client's values are smaller than the largest by more than 2^20, have a second word per value for the part that the
first one rounds away. A field is told to have shrunk once fewer than 44 bits are left, of two words 48.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from cotempo.errors import MessageError
from cotempo.federation.exchange import Expect, Spec
from cotempo.federation.message import Message
from cotempo.federation.shields import validate
from cotempo.typing import Array

WEIGHT = "\0weight"  # no field of a method: the weight itself is one more summed field
LOWEST, STRIDE, WORDS = -256, 2, 256  # sizes from 2^-256 to 2^254, in powers of four
HEADROOM = 4  # a field may grow by 2^4 before its scale is agreed on again
SHRINKING = 12  # and shrink by 2^12, if it has one word per value
KEPT_BITS = 48  # if it has two, until so many are left of its largest value
SMALL = 1024  # up to so many values, a second word costs little
SPAN = 20
LARGE, DROWNING = 52, 40  # a largest value of 2^52 is asked for again, among those at least 2^40 times smaller
LARGE_WEIGHT, DROWNING_WEIGHT = 36, 20
LOWEST_LIMIT = 2.0**12  # as every refusal tells the server that somebody's values are larger

Draw = Callable[[int], Array]
"""Returns so many random words that nobody else knows."""


class ScaleExceeded(Exception):  # noqa: N818 - it never leaves the package
    """Somebody's values exceed the scale; the sum says nothing."""


@dataclass(frozen=True)
class SummedField:
    """One field of a sum: what a valid addend looks like, and its scale.

    `shift` is the power of two a value is multiplied by, `words` how many words a value takes, `limit` how large a
    value times its weight may be.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    low: float = -math.inf
    high: float = math.inf
    shift: int = 0
    words: int = 1
    limit: float = math.inf

    @property
    def size(self) -> int:
        """How many values the field has."""
        return math.prod(self.shape)

    @property
    def large(self) -> int:
        """From which power of two on a value is suspect."""
        return LARGE_WEIGHT if self.name == WEIGHT else LARGE

    @property
    def drowning(self) -> int:
        """By which power of two a value must exceed all others to drown them."""
        return DROWNING_WEIGHT if self.name == WEIGHT else DROWNING

    @property
    def is_scalar(self) -> bool:
        """Whether the field is a plain number, not an array."""
        return self.dtype in ("float", "int", "bool")


@dataclass(frozen=True)
class Layout:
    """What a vector of words stands for; the same for all clients of a session, who sign it.

    `clients` is how many may add, `kind` is ``"range"`` for the agreement on scales, ``"limited"`` if it is repeated
    under a limit, and ``"data"`` for the sum itself.
    """

    kind: str
    clients: int
    fields: tuple[SummedField, ...]
    weight: tuple[float, float]

    @classmethod
    def of(cls, kind: str, clients: int, expect: Expect) -> Layout:
        """Return a layout without scales for what a valid answer looks like."""
        fields = []
        for name, spec in expect.fields.items():
            if None in spec.shape or spec.dtype == "str":
                raise MessageError(f"field {name!r} must be numbers of a fixed shape to be summed, got {spec.shape}")
            shape = tuple(length for length in spec.shape if length is not None)
            fields.append(SummedField(name, shape, spec.dtype, spec.low, spec.high))
        fields.append(SummedField(WEIGHT, (), "float", *expect.weight))
        return cls(kind, clients, tuple(fields), expect.weight)

    def to_text(self) -> str:
        """Return the layout as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> Layout:
        """Read what `to_text` wrote; raise `MessageError` for anything else."""
        try:
            tree = json.loads(text)
            fields = tuple(SummedField(**{**field, "shape": tuple(field["shape"])}) for field in tree["fields"])
            layout = cls(str(tree["kind"]), int(tree["clients"]), fields, (tree["weight"][0], tree["weight"][1]))
            valid = (
                layout.kind in ("range", "limited", "data")
                and all(field.limit >= LOWEST_LIMIT for field in fields)
                and layout.clients >= 3
                and fields[-1].name == WEIGHT
                and all(field.words in (1, 2) and abs(field.shift) <= 1000 and field.size >= 0 for field in fields)
            )
        except (ValueError, TypeError, KeyError, IndexError, AttributeError):
            valid = False
        if not valid:
            raise MessageError("a layout must say what every word of the sum stands for")
        return layout

    def with_scales(self, scales: Mapping[str, tuple[int, int]]) -> Layout:
        """Return the layout of the data, with a shift and a number of words by field."""
        fields = (replace(field, shift=scales[field.name][0], words=scales[field.name][1]) for field in self.fields)
        return replace(self, kind="data", fields=tuple(fields))

    def with_usual_scales(self) -> Layout | None:
        """Return the layout of the data on the scale that fits usual values, or `None` if a field is not small."""
        if any(_rows(field) > 1 for field in self.fields):
            return None
        shift = _room(self.clients) - LARGE
        fields = (replace(field, shift=shift, words=2, limit=2.0**field.large) for field in self.fields)
        return replace(self, kind="data", fields=tuple(fields))

    def with_limits(self, scales: Mapping[str, tuple[int, int]]) -> Layout | None:
        """Return the layout under limits, or `None` if agreed scales are not so large that they are needed."""
        limits = {}
        for field in self.fields:
            exponent = _room(self.clients) - HEADROOM - scales[field.name][0]
            if exponent >= field.large:
                limits[field.name] = 2.0 ** (exponent - field.drowning)
        fields = (replace(field, limit=limits.get(field.name, math.inf)) for field in self.fields)
        return replace(self, kind="limited", fields=tuple(fields)) if limits else None

    @property
    def expect(self) -> Expect:
        """What a valid addend looks like."""
        fields = {
            field.name: Spec(field.shape, field.dtype, field.low, field.high)
            for field in self.fields
            if field.name != WEIGHT
        }
        return Expect(fields, sums=True, weight=self.weight)

    @property
    def length(self) -> int:
        """How many words the vector has."""
        if self.kind != "data":
            return sum(WORDS * _rows(field) for field in self.fields)
        return 1 + len(self.fields) + sum(field.size * field.words for field in self.fields)


def addends(message: Message, layout: Layout) -> list[Array]:
    """Return a client's values times its weight, field by field, after checking that they are valid."""
    validate(message, layout.expect)
    values = []
    for field in layout.fields:
        value = message.weight if field.name == WEIGHT else np.asarray(message[field.name], np.float64) * message.weight
        values.append(np.asarray(value, np.float64).ravel())
    return values


def encode(values: Sequence[Array], layout: Layout, draw: Draw) -> Array:
    """Return the vector of words a client adds, before masking."""
    for field, value in zip(layout.fields, values, strict=True):
        limit = field.limit
        if layout.kind == "data":
            limit = min(limit, max(2.0**field.large, 2.0 ** (_room(layout.clients) - field.shift + field.drowning)))
        if float(np.abs(value).max(initial=0.0)) > limit:
            raise MessageError(f"field {field.name!r} times its weight must be at most {limit:g} to be summed here")
    return (_encode_data if layout.kind == "data" else _encode_sizes)(values, layout, draw)


def _encode_data(values: Sequence[Array], layout: Layout, draw: Draw) -> Array:
    limit = 2.0**62 / layout.clients
    least = {1: limit * 2.0**-SHRINKING, 2: 2.0 ** (KEPT_BITS - _room(layout.clients))}
    vector = np.zeros(layout.length, "<u8")
    position = 1 + len(layout.fields)
    for index, (field, value) in enumerate(zip(layout.fields, values, strict=True)):
        scaled = value * 2.0**field.shift
        largest = float(np.abs(scaled).max(initial=0.0))
        if largest > limit:
            random = draw(layout.length)
            random[0] |= np.uint64(1)  # so that one flag alone is not zero
            return random
        if largest >= least[field.words]:
            vector[1 + index] = draw(1)[0]
        whole = np.rint(scaled)
        vector[position : position + field.size] = whole.astype(np.int64).view("<u8")
        position += field.size
        if field.words == 2:
            rest = np.rint((scaled - whole) * 2.0 ** _room(layout.clients))
            vector[position : position + field.size] = rest.astype(np.int64).view("<u8")
            position += field.size
    return vector


def decode(total: Array, layout: Layout) -> tuple[Message, bool]:
    """Return the sum that a vector of words stands for, and whether its values have become small for their scale.

    Raise `ScaleExceeded` if somebody's values were too large.
    """
    if total[0]:
        raise ScaleExceeded
    flags, position = total[1 : 1 + len(layout.fields)], 1 + len(layout.fields)
    fields: dict[str, Any] = {}
    has_shrunk = False
    for field, flag in zip(layout.fields, flags, strict=True):
        words = total[position : position + field.size * field.words].view("<i8").reshape(field.words, field.size)
        position += words.size
        value = words[0].astype(np.float64)
        if field.words == 2:
            value += words[1] * 2.0 ** -_room(layout.clients)
        value = (value * 2.0**-field.shift).reshape(field.shape)
        # As the plain sum holds it: half precision in single, whole numbers in double.
        kind = np.float32 if field.dtype in ("float16", "float32") else np.float64
        fields[field.name] = float(value) if field.is_scalar else value.astype(kind)
        has_shrunk |= not flag and bool(words.any())
    weight = fields.pop(WEIGHT)
    return Message(fields, weight=weight), has_shrunk


def _encode_sizes(values: Sequence[Array], layout: Layout, draw: Draw) -> Array:
    vector = np.zeros(layout.length, "<u8")
    position = 0
    for field, value in zip(layout.fields, values, strict=True):
        sizes = np.abs(value[value != 0])
        largest = _word(float(sizes.max(initial=0.0)))
        if largest >= WORDS:
            raise MessageError(f"field {field.name!r} times its weight must be below 2^{LOWEST + STRIDE * (WORDS - 1)}")
        if sizes.size:
            vector[position : position + largest + 1] = draw(largest + 1)
        position += WORDS
        if _rows(field) == 2:
            if sizes.size:
                # Single tiny values do not count: normal noise alone has some 2^-20 as large as its largest.
                hundredth = sizes.size // 100
                smallest = _word(float(np.partition(sizes, hundredth)[hundredth]))
                vector[position + smallest : position + WORDS] = draw(WORDS - smallest)
            position += WORDS
    return vector


def decode_sizes(total: Array, layout: Layout) -> dict[str, tuple[int, int]]:
    """Return the shift and the number of words of every field."""
    scales = {}
    position = 0
    for field in layout.fields:
        used = np.flatnonzero(total[position : position + WORDS])
        largest = int(used[-1]) if used.size else 0
        position += WORDS
        words = 2
        if _rows(field) == 2:
            used = np.flatnonzero(total[position : position + WORDS])
            words = 2 if used.size and STRIDE * (largest - int(used[0])) > SPAN else 1
            position += WORDS
        scales[field.name] = _room(layout.clients) - HEADROOM - (LOWEST + STRIDE * largest), words
    return scales


def _rows(field: SummedField) -> int:
    return 1 if field.size <= SMALL else 2


def _word(size: float) -> int:
    """Return the index k of the least power of four, 2^(LOWEST + STRIDE k), above a size."""
    return max(0, -((LOWEST - math.frexp(size)[1]) // STRIDE))


def _room(clients: int) -> int:
    """Return how many bits of a word each of the clients can use."""
    return 62 - math.ceil(math.log2(clients))
