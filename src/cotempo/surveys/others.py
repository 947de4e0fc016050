"""`Others`: what the other clients' figures look like, from sums, and how well a client's own fit them.

A figure is one number of a client's table, such as the logarithm of a column's usual size. Clients send their figures
and the squares of them; from the sums, less its own part, a client has the mean m and the deviation s of the k others.
A new client's figure is then expected to follow Student's distribution:

    (x - m) / (s' sqrt(1 + 1/k)) ~ t(k - 1 + d),    s'^2 = ((k - 1) s^2 + d s0^2) / (k - 1 + d)

where `s0` is how much such figures usually differ between honest clients, worth `PRIOR` = d of them. Sites that differ
much widen s', so that different populations are no fault.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr

from cotempo.federation import Message
from cotempo.typing import Floats

Key = tuple[str, ...]
Figures = Mapping[Key, float]

PRIOR = 2.0
#: Figures are rounded to multiples of 2**-GRID, their squares to twice as many bits, so that sums are exact.
GRID = 8
LARGEST = 127.0
LEAST_OTHERS = 2
#: Corrected figures fit if their mean log-likelihood is at least this; an honest client's has about -0.6.
MISFIT = -2.0
#: Of figures of the same rows, so many count in full; more of them count as the square root of their number. Waves of
#: several columns by the hour of the day repeat each other less.
INDEPENDENT, INDEPENDENT_WAVES = 4, 8
#: How much honest clients' figures usually differ, by the last part of a figure's key.
TYPICAL = {
    "size": 0.1, "spread": 0.15, "sign": 0.1, "skew": 0.1, "rough": 0.15, "rise": 0.05, "missing": 0.05,
    "whole": 0.05, "lowest": 0.1, "tenth": 0.05, "edge": 0.02, "tail": 0.3, "varies": 0.05, "same": 0.03,
    "levels": 0.15, "steps": 0.1, "step": 0.1, "phase": 0.03, "repeats": 0.01, "span": 0.2, "middle": 0.2,
    "late": 0.05, "daily": 0.06, "gap": 0.2, "window": 0.1, "share": 0.1, "garbled": 0.005,
    "escaped": 0.03, "foreign": 0.05, "capitals": 0.05, "language": 0.015, "has": 0.1,
}  # fmt: skip


@dataclass(frozen=True)
class Others:
    """Count, mean and deviation of the other clients' figures, by key."""

    found: Mapping[Key, tuple[float, float, float]]

    @classmethod
    def of_sums(cls, sums: Mapping[str, Floats], layout: Sequence[Key], own: Message | None) -> Others:
        """Return what the others' figures look like; `own` is this client's part of the sums, if it has one."""
        known, total, squares = (
            sums[name] - (0 if own is None else own[name]) for name in ("known", "total", "squares")
        )
        many = known >= LEAST_OTHERS - 0.5
        mean = total / np.maximum(known, 1)
        variance = np.maximum(squares - known * mean**2, 0.0) / np.maximum(known - 1, 1)
        rows = zip(layout, many, known, mean, np.sqrt(variance), strict=True)
        return cls({key: (float(k), float(m), float(s)) for key, enough, k, m, s in rows if enough})

    def distance(self, key: Key, value: float) -> tuple[float, float]:
        """Return Student's t of a figure, and its degrees of freedom; NaN where it cannot be compared."""
        if key not in self.found or math.isnan(value):
            return math.nan, 1.0
        count, mean, _ = self.found[key]
        return (value - mean) / self.scale(key), count - 1 + PRIOR

    def scale(self, key: Key) -> float:
        """Return the scale of Student's distribution of a figure that the others have."""
        count, _, deviation = self.found[key]
        variance = ((count - 1) * deviation**2 + PRIOR * TYPICAL[key[-1]] ** 2) / (count - 1 + PRIOR)
        return math.sqrt(variance * (1 + 1 / count))

    def mean(self, key: Key) -> float:
        """Return the mean of the others' figures; NaN where too few have one."""
        return self.found[key][1] if key in self.found else math.nan

    def log_likelihood(self, key: Key, value: float) -> float:
        """Return the log-density of a figure, but for what depends on the others only; NaN if not comparable."""
        distance, freedom = self.distance(key, value)
        return -(freedom + 1) / 2 * math.log1p(distance**2 / freedom)

    def evidence(self, own: Figures, changed: Figures, independent: int = INDEPENDENT) -> float:
        """Return by how much changed figures are more likely than the own; minus infinity if they do not fit either.

        Figures that are not comparable count nothing. Figures of the same rows repeat each other: if more than
        `independent` of them speak for the change, evidence grows as the square root of their number.
        """
        before = [self.log_likelihood(key, own.get(key, math.nan)) for key in changed]
        after = [self.log_likelihood(key, value) for key, value in changed.items()]
        both = [(new, old) for new, old in zip(after, before, strict=True) if not math.isnan(new - old)]
        if not both or math.fsum(new for new, _ in both) < MISFIT * len(both):
            return -math.inf
        gains = np.array([new - old for new, old in both])
        speaking = float(np.abs(gains).sum() ** 2 / max(float((gains**2).sum()), 1e-300))
        return float(gains.sum()) / math.sqrt(max(1.0, speaking / independent))

    def chance(self, key: Key, value: float) -> float:
        """Return how likely an honest client's figure is as far from the others'; 1 where it cannot be compared."""
        distance, freedom = self.distance(key, value)
        return 1.0 if math.isnan(distance) else float(2 * stdtr(freedom, -abs(distance)))


def pack(figures: Figures, layout: Sequence[Key]) -> Message:
    """Return a client's part of the sums: whether it has each figure, the figure on the grid, and its square."""
    values = np.array([figures.get(key, math.nan) for key in layout])
    known = np.isfinite(values)
    rounded = np.round(np.clip(np.where(known, values, 0.0), -LARGEST, LARGEST) * 2.0**GRID) / 2.0**GRID
    return Message({"known": known.astype(np.float64), "total": rounded, "squares": rounded**2})
