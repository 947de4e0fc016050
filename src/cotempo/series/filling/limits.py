"""`Limits`: ends of a feature's range that its values reach and never pass, such as 0 of a flow, and on and off."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cotempo.typing import Floats

#: A range has a hard end where so large a share of the values is that end, or is nearer to it than a hundredth of the
#: range.
SHARE_AT, SHARE_NEAR, NEAR = 0.02, 0.1, 0.01
FEWEST_AT = 5
SAME = 1e-6  # of the range: how far a bound may be from a value that it holds


@dataclass(frozen=True)
class Limits:
    """The hard ends of each feature's range, infinite where it has none, and which have two values only."""

    low: Floats
    high: Floats
    two: NDArray[np.bool_]

    @classmethod
    def none(cls, features: int) -> Limits:
        """Return no limits."""
        return cls(np.full(features, -np.inf), np.full(features, np.inf), np.zeros(features, dtype=bool))

    @classmethod
    def of(cls, values: Floats) -> Limits:
        """Find the limits of rows with NaN where missing.

        Examples
        --------
        >>> flow = np.concatenate([np.zeros(30), np.linspace(1, 40, 100)])
        >>> Limits.of(flow[:, None])
        Limits(low=array([0.]), high=array([inf]), two=array([False]))
        """
        found = cls.none(values.shape[1])
        for column, part in enumerate(values.T):
            known = part[~np.isnan(part)]
            if not len(known) or known.min() == known.max():
                continue
            low, high = known.min(), known.max()
            found.two[column] = ((known == low) | (known == high)).all()
            for end, side in ((low, found.low), (high, found.high)):
                at, near = (known == end).sum(), (np.abs(known - end) <= NEAR * (high - low)).sum()
                often = at >= max(FEWEST_AT, SHARE_AT * len(known)) or near >= max(FEWEST_AT, SHARE_NEAR * len(known))
                if found.two[column] or often:
                    side[column] = end
        return found

    def take(self, columns: NDArray[np.intp]) -> Limits:
        """Return those of some features."""
        return Limits(self.low[columns], self.high[columns], self.two[columns])

    def embed(self, columns: NDArray[np.intp], features: int) -> Limits:
        """Embed among more features, of which nothing is known."""
        found = Limits.none(features)
        found.low[columns], found.high[columns], found.two[columns] = self.low, self.high, self.two
        return found

    def widen(self, values: Floats) -> Limits:
        """Return limits that measured rows are within."""
        known = ~np.isnan(values)
        beyond = known & (values != self.low) & (values != self.high)
        low = np.minimum(self.low, np.where(known, values, np.inf).min(axis=0, initial=np.inf))
        high = np.maximum(self.high, np.where(known, values, -np.inf).max(axis=0, initial=-np.inf))
        return Limits(low, high, self.two & ~beyond.any(axis=0))

    def keep(self, values: Floats) -> Floats:
        """Return values ``(..., features)`` within the limits, the nearer one where there are only two values."""
        found = np.clip(values, self.low, self.high)
        return np.where(self.two, np.where(found - self.low < self.high - found, self.low, self.high), found)

    def bounds(self, values: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """Return bounds within the limits; where there are only two values, those that lie between, and the value."""
        room = SAME * np.where(self.two, self.high - self.low, 0.0)
        low_two = np.where((low <= self.low + room) | (values == self.low), self.low, self.high)
        high_two = np.where((high >= self.high - room) | (values == self.high), self.high, self.low)
        ends = np.clip(low, self.low, self.high), np.clip(high, self.low, self.high)
        return np.where(self.two, low_two, ends[0]), np.where(self.two, high_two, ends[1])
