"""Summary: the span of all clients together, their totals, and how long the gaps between their events are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cotempo.events.records.record import Record
from cotempo.typing import Floats

# Gaps are counted in half octaves of the span: the unit of time does not matter.
OCTAVES = np.arange(-60.0, 60.5, 0.5)
QUANTILES = (0.1, 0.4, 0.7, 0.95)


@dataclass(frozen=True)
class Summary:
    """Sums over clients, and quantiles of the gaps between events read off their summed histogram."""

    events: float
    exposure: float
    start: float
    end: float
    gaps: tuple[float, ...]

    @property
    def rate(self) -> float:
        """The pooled rate; half an event stands for none."""
        return max(self.events, 0.5) / self.exposure

    def to_array(self) -> Floats:
        """Return as one row of numbers, to be sent."""
        return np.array([self.events, self.exposure, self.start, self.end, *self.gaps])

    @classmethod
    def from_array(cls, values: Floats) -> Summary:
        """Read `to_array`."""
        events, exposure, start, end, *gaps = values.tolist()
        return cls(events, exposure, start, end, tuple(gaps))


def rounded_span(record: Record) -> tuple[float, float]:
    """Return first start and last end of the windows, rounded outwards to a tenth of their order of magnitude.

    A window may begin or end with an event; what crosses must not tell its time. Orders of magnitude are those of the
    unit and origin of time: to depend on neither, agree on a window instead.
    """
    first, last = float(record.start.min()), float(record.end.max())
    step = 10.0 ** np.floor(np.log10(last - first)) / 10
    low, high = float(np.floor(first / step) * step), float(np.ceil(last / step) * step)
    # The product is rounded itself, and may come to lie inside by the last digit.
    return low - step if low > first else low, high + step if high < last else high


def gap_histogram(record: Record, span: Floats) -> Floats:
    """Return how many gaps that end with an event that counts fall into each half octave of the span, ``(240,)``."""
    gaps = np.diff(record.time)[(np.diff(record.sequence) == 0) & (record.count[1:] > 0)]
    return np.histogram(np.log2(gaps / (span[1] - span[0])), OCTAVES)[0].astype(np.float64)


def gap_quantiles(histogram: Floats, fallback: float, span: Floats) -> tuple[float, ...]:
    """Return quantiles of the gaps; multiples of `fallback` where there is no gap at all."""
    if not histogram.sum():
        return tuple(fallback * 2.0**k for k in range(-2, len(QUANTILES) - 2))
    cumulative = np.append(0.0, np.cumsum(histogram)) / histogram.sum()
    return tuple(float((span[1] - span[0]) * 2.0 ** np.interp(share, cumulative, OCTAVES)) for share in QUANTILES)
