"""`PerRow`: answers of large and small clients in one scale, as vectors that rules can compare."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from cotempo.federation.exchange import Expect, Spec
from cotempo.federation.message import Message
from cotempo.typing import Floats

#: What a row contributes must be smaller.
LARGEST = 1e100
#: Logarithms are of at least this.
TINY = 1e-150


@dataclass(frozen=True)
class FieldScale:
    """Where a field lies in a vector, and what its values are divided by."""

    name: str
    spec: Spec
    shape: tuple[int, ...] | None
    place: slice
    scale: Floats


@dataclass(frozen=True)
class PerRow:
    """Answers as vectors of what a row contributes, in units of how much clients usually differ in each field.

    `sizes` are the rows of each client, or its weight in phases that count none. Moments are divided by the clients'
    median variances first, so that units of columns do not matter. Fields that decide nothing are left out.
    """

    names: tuple[str, ...]
    sizes: Floats
    weights: Floats
    vectors: Floats
    fields: tuple[FieldScale, ...]

    @classmethod
    def of(cls, messages: Mapping[str, Message], expect: Expect) -> PerRow:
        """Read checked answers; those of no rows, or of too much for so few, are left out."""
        sizes = {name: expect.size_of(message) for name, message in messages.items()}
        names = tuple(name for name, size in sizes.items() if size > 0 and _is_readable(messages[name], expect, size))
        size = np.array([sizes[name] for name in names])
        weights = np.array([expect.weight_of(messages[name]) for name in names])
        fields: list[FieldScale] = []
        parts: list[Floats] = []
        start = 0
        for name, spec in expect.fields.items() if names else ():
            if decides(spec):
                first = messages[names[0]][name]
                shape = first.shape if isinstance(first, np.ndarray) else None
                values = np.stack([np.asarray(messages[one][name], np.float64).ravel() for one in names])
                values = values * (weights / size)[:, None]
                scale = _scale(values, spec)
                fields.append(FieldScale(name, spec, shape, slice(start, start + values.shape[1]), scale))
                parts.append(values / scale)
                start += values.shape[1]
        vectors = np.hstack(parts) if parts else np.zeros((len(names), 0))
        return cls(names, size, weights, vectors, tuple(fields))

    def total(self, centre: Floats, sizes: Floats) -> tuple[dict[str, Any], float]:
        """Return the fields of a sum over clients of these sizes whose rows are like `centre`, and its weight."""
        rows, found = float(sizes.sum()), dict[str, Any]()
        for field in self.fields:
            value = centre[field.place] * field.scale
            if field.spec.packed:
                value = make_packed_semidefinite(value.reshape(field.shape or ())).ravel()
            value = rows * value
            found[field.name] = float(value[0]) if field.shape is None else _typed(value.reshape(field.shape), field)
        return found, float((self.weights * sizes / self.sizes).sum())


def decides(spec: Spec) -> bool:
    """Return whether a field decides something that a liar could want; flags from 0 to 1 can do little."""
    is_number = spec.dtype not in ("str", "bool") and None not in spec.shape
    return is_number and not spec.reported and not spec.votes and not (spec.low >= 0 and spec.high <= 1)


def diagonal_places(pairs: int) -> tuple[int, Floats]:
    """Return the side of a packed matrix, and where its diagonal lies."""
    side = round((math.sqrt(8 * pairs + 1) - 1) / 2)
    row = np.arange(side)
    return side, row * side - row * (row - 1) // 2


def relations(packed: Floats) -> dict[str, Floats]:
    """Return correlations, logarithms of spreads about their median, and the scale that neither depends on.

    Examples
    --------
    >>> relations(np.array([4.0, 3.0, 9.0]))["correlations"]
    array([0.5])
    """
    side, diagonal = diagonal_places(packed.shape[-1])
    rows, columns = np.triu_indices(side, 1)
    spread = np.sqrt(packed[..., diagonal].clip(0))
    scale = spread[..., rows] * spread[..., columns]
    related = np.divide(packed[..., diagonal[rows] + columns - rows], scale, out=np.zeros_like(scale), where=scale > 0)
    scale = np.log(np.maximum(spread, TINY)).mean(keepdims=True)
    return {"correlations": related, "spreads": about_own_median(spread), "scale": scale}


def about_own_median(values: Floats) -> Floats:
    """Return logarithms about the median of the last axis: sizes relative to each other, whatever their unit."""
    logarithms = np.log(np.maximum(values, TINY))
    return np.asarray(logarithms - np.median(logarithms, axis=-1, keepdims=True))


def make_packed_semidefinite(packed: Floats) -> Floats:
    """Raise negative eigenvalues to zero: single entries of several matrices may not make one that rows can have."""
    side, diagonal = diagonal_places(packed.shape[-1])
    rows, columns = np.triu_indices(side)
    found = packed.reshape(-1, packed.shape[-1]).copy()
    for part in found:
        spread = np.sqrt(np.maximum(part[diagonal], 0.0))
        scale = np.outer(spread, spread)
        matrix = np.zeros((side, side))
        matrix[rows, columns] = matrix[columns, rows] = part
        related = np.divide(matrix, scale, out=np.zeros_like(scale), where=scale > 0)
        values, vectors = np.linalg.eigh(np.clip(related, -1.0, 1.0))
        if values[0] < 0:
            lifted = (vectors * np.maximum(values, 0.0)) @ vectors.T * scale
            part[:] = lifted[rows, columns]
    return found.reshape(packed.shape)


def _is_readable(message: Message, expect: Expect, size: float) -> bool:
    """Return whether squares of what a row contributes are numbers, too."""
    values = [np.asarray(message[name], np.float64) for name, spec in expect.fields.items() if decides(spec)]
    most = max((float(np.abs(value).max(initial=0.0)) for value in values), default=0.0)
    return most * (expect.weight_of(message) / size) < LARGEST


def _scale(values: Floats, spec: Spec) -> Floats:
    """Return what to divide a field by, ``(length,)``, from its values, ``(clients, length)``."""
    scale = np.ones(values.shape[1])
    if spec.packed:
        pairs = values.shape[1] // math.prod(length or 1 for length in spec.shape[:-1])
        side, diagonal = diagonal_places(pairs)
        rows, columns = np.triu_indices(side)
        spread = np.sqrt(np.median(values.reshape(len(values), -1, pairs), axis=0)[:, diagonal].clip(0))
        spread = np.where(spread > 0, spread, 1.0)
        scale = (spread[:, rows] * spread[:, columns]).ravel()
    values = values / scale
    differ = float(np.median(np.linalg.norm(values - np.median(values, axis=0), axis=1)))
    least = 1e-9 * float(np.abs(values).max(initial=0.0))
    return scale * (max(differ, least) or 1.0)


def _typed(value: Floats, field: FieldScale) -> Any:
    kind = np.dtype(field.spec.dtype)
    return value.astype(np.float32 if kind in (np.float16, np.float32) else np.float64)
