"""`PrivateForm`: the differentially private form of a method, and the noise it asks for."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np

from cotempo.data import Schema, Series, Table
from cotempo.errors import MessageError, ParameterError
from cotempo.federation import Message, Method, Roster
from cotempo.privacy.secure_sum.shamir import threshold
from cotempo.privacy.settings import Privacy
from cotempo.typing import Floats


class PrivateForm(Method):
    """A method whose messages, once noise is added to them, are differentially private.

    It clips what one unit adds to a message, so that the noise can be sized; everything learned from the noised sums
    is post-processing and costs nothing. `Method.private` returns it, `Noise` adds the noise, and its `result` is an
    ordinary result of `inner`, the method it stands for.
    """

    inner: Any
    privacy: Privacy

    @classmethod
    def of(cls, inner: Method, privacy: Privacy) -> Self:
        """Return the private form of a method; refuse a unit that it cannot protect."""
        if privacy.unit not in inner.private_units:
            raise ParameterError(
                f"unit must be {' or '.join(repr(unit) for unit in inner.private_units)} for {type(inner).__name__}, "
                f"got {privacy.unit!r}"
            )
        return cls(inner=inner, privacy=privacy)

    @property
    def kind(self) -> str:  # type: ignore[override]
        """The kind of table that the method learns from."""
        kind: str = self.inner.kind
        return kind

    @property
    def memory_types(self) -> tuple[type, ...]:
        """The dataclasses of the method's memory."""
        types: tuple[type, ...] = self.inner.memory_types
        return types

    def check(self, roster: Roster) -> None:
        """Require of tables what the method requires."""
        self.inner.check(roster)

    def prepare(self, table: Table) -> Any:
        """Prepare a table as the method does."""
        return self.inner.prepare(table)

    def public_schema(self, schema: Schema) -> Schema:
        """Return what a site tells of its table before anything is asked, which no row may decide."""
        return schema

    def misled_by(self, table: Table) -> list[str]:
        """Warn of what the method warns of."""
        found: list[str] = self.inner.misled_by(table)
        return found

    @property
    @abstractmethod
    def budget(self) -> Mapping[str, tuple[float, int]]:
        """By phase, its share of the budget in 1 / deviation**2, and how often it is asked; shares add up to 1.

        A phase that is not named must send nothing.
        """

    @property
    def silent_phases(self) -> frozenset[str]:
        """The phases that no part of the budget is for: whether a client fails there may depend on its rows."""
        return frozenset(self.phases) - {*self.budget}

    @abstractmethod
    def scales(self, phase: str, message: Message) -> Mapping[str, float]:
        """Return a scale for every field of a message, from public facts only, its shapes among them.

        Let s_f be the largest change, in L2 norm, that one unit makes in field f: the sum of (s_f / scale_f)**2 over
        the fields must be at most 1. Noise is added in proportion to the scale; what no unit can change has 0.
        """

    def multiplier(self, phase: str) -> float:
        """Return the deviation of the noise in a phase as a multiple of a field's scale."""
        from cotempo.privacy.accounting import gaussian_multiplier

        share, times = self.budget[phase]
        assert self.privacy.epsilon is not None  # `Method.private` is called only where there is one
        return gaussian_multiplier(self.privacy.epsilon, self.privacy.delta) * math.sqrt(times / share)

    def total_deviation(self, phase: str, scale: float, counted: int, asked: int) -> float:
        """Return the deviation of the noise in a sum over `counted` of the clients asked."""
        fewest = threshold(asked) if self.privacy.secure_sum else 1
        return self.multiplier(phase) * scale * math.sqrt(counted / fewest)

    def promise(self) -> dict[str, Any]:
        """Return what was promised, in words and numbers, for `fitted.privacy` and the report."""
        shared = bool(self.privacy.secure_sum)
        where = "in shares under the secure sum" if shared else "at each client"
        return {
            "epsilon": self.privacy.epsilon,
            "delta": self.privacy.delta,
            "unit": self.privacy.unit,
            "mechanism": f"discrete Gaussian noise, {where}",
            "protects_from": "the server, everyone who sees the result, and the other clients"
            + (" while fewer than a third of them collude or are away" if shared else ""),
            "void": self.privacy.seeded,
        }


def per_column(common: Message, count: int, *names: str) -> list[Floats]:
    """Return what the server says of each of so many columns; raise `MessageError` for any other shape.

    An array with rows would be stretched over those of a piece, or a piece of one row over those of the array: the row
    would count many times. Whether it fits would tell how long pieces are.
    """
    found = [np.asarray(common[name], dtype=np.float64) for name in names]
    if any(one.shape != (count,) for one in found):
        raise MessageError(f"{' and '.join(names)} must have one number for each of the {count} columns")
    return found


def without_values(table: Series) -> Series:
    """Return a table of the same rows with values that say nothing: what is refused of it is refused for its rows.

    To refuse a table for its values would tell of them, and without noise.
    """
    return replace(table, values=np.random.default_rng(0).normal(size=table.values.shape))
