"""PointProcess, a process of few parameters, and the two simplest: a constant rate, and a profile of time.

A process gives four verbs on unrolled records: `statistics` (sums a client sends), `update` (what the server makes of
their total), `log_rate` (at events) and `mass` (the intensity's integral over cells).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cotempo.events.records.history import Unrolled
from cotempo.events.records.record import Record
from cotempo.events.records.summary import Summary
from cotempo.typing import Floats


class PointProcess(ABC):
    """A point process with few parameters."""

    decays: Floats = np.zeros(0)

    @abstractmethod
    def start(self) -> Floats:
        """Return the first parameters."""

    @abstractmethod
    def statistics(self, unrolled: Unrolled, record: Record, parameters: Floats) -> Floats:
        """Return what a client adds to the sums."""

    @abstractmethod
    def update(self, parameters: Floats, sums: Floats) -> Floats:
        """Return better parameters, from the total of `statistics`."""

    @abstractmethod
    def log_rate(self, unrolled: Unrolled, parameters: Floats) -> Floats:
        """Return log intensity just before each event, ``(events,)``."""

    @abstractmethod
    def mass(self, unrolled: Unrolled, parameters: Floats) -> Floats:
        """Return integral of the intensity over each cell, ``(cells,)``."""


@dataclass(frozen=True)
class Poisson(PointProcess):
    """One constant rate."""

    summary: Summary

    def start(self) -> Floats:
        """Return the pooled rate."""
        return np.array([max(self.summary.events, 0.5) / self.summary.exposure])

    def statistics(self, unrolled: Unrolled, record: Record, parameters: Floats) -> Floats:
        """Return events and exposure."""
        return np.array([record.events, record.exposure])

    def update(self, parameters: Floats, sums: Floats) -> Floats:
        """Return events over exposure."""
        return np.array([max(sums[0], 0.5) / sums[1]])

    def log_rate(self, unrolled: Unrolled, parameters: Floats) -> Floats:
        """Return the same rate everywhere."""
        return np.full(len(unrolled.time), np.log(parameters[0]))

    def mass(self, unrolled: Unrolled, parameters: Floats) -> Floats:
        """Return rate times length."""
        return np.asarray(parameters[0] * (unrolled.upper - unrolled.lower))


@dataclass(frozen=True)
class RateProfile(PointProcess):
    """A rate for each part of a period: the time of day, or the complete span where no period is given.

    `smoother` makes rates of the events and exposures of the parts, such as `curves.smoothers.density`; by default each
    part has its own, shrunk to the mean rate by two pseudo-events.
    """

    summary: Summary
    period: float
    parts: int = 48
    smoother: Callable[[Floats, Floats], Floats] | None = None

    def start(self) -> Floats:
        """Return a flat profile."""
        return np.full(self.parts, max(self.summary.events, 0.5) / self.summary.exposure)

    def _phase(self, times: Floats) -> tuple[Floats, NDArray[np.intp], Floats]:
        """Return full periods since the span's start, the part each time falls into, and how far it lies into it.

        The very end of a period belongs to its last part. Where no period was seen to its end nothing returns: what
        lies outside belongs to the nearest part.
        """
        since = (times - self.summary.start) / self.period
        returns = self.period < self.summary.end - self.summary.start
        whole = np.maximum(np.ceil(since) - 1, 0.0) if returns else np.zeros(len(times))
        rest = (since - whole) * self.parts
        place = np.clip(rest, 0, self.parts - 1).astype(np.intp)
        return whole, place, rest - place

    def place(self, times: Floats) -> NDArray[np.intp]:
        """Return the part each time falls into."""
        return self._phase(times)[1]

    def share(self, times: Floats) -> Floats:
        """Return where in the period each time lies, from 0 to 1."""
        _, place, into = self._phase(times)
        return np.clip((place + into) / self.parts, 0.0, 1.0)

    def statistics(self, unrolled: Unrolled, record: Record, parameters: Floats) -> Floats:
        """Return events and exposure of each part, ``(2 * parts,)``."""
        events = np.bincount(self.place(record.time), weights=record.count, minlength=self.parts)
        watched = np.zeros(self.parts)
        for sign, times in ((1, record.end), (-1, record.start)):
            whole, place, into = self._phase(times)
            beyond = len(times) - np.cumsum(np.bincount(place, minlength=self.parts))
            watched += sign * (whole.sum() + beyond + np.bincount(place, into, self.parts))
        # Differences of sums leave rounding behind where nothing was watched.
        watched[watched < 1e-12 * len(record.start) * self.parts] = 0.0
        return np.asarray(np.concatenate([events, watched * self.period / self.parts]), dtype=np.float64)

    def update(self, parameters: Floats, sums: Floats) -> Floats:
        """Return rates of the parts from their events and exposure."""
        events, exposure = sums[: self.parts], sums[self.parts :]
        if self.smoother is not None:
            return self.smoother(events, exposure)
        rate = max(events.sum(), 0.5) / exposure.sum()
        return np.asarray((events + 2) / (exposure + 2 / rate))

    def log_rate(self, unrolled: Unrolled, parameters: Floats) -> Floats:
        """Return the rate of the part an event falls into."""
        return np.asarray(np.log(parameters[self.place(unrolled.time)]))

    def mass(self, unrolled: Unrolled, parameters: Floats) -> Floats:
        """Return differences of the cumulative profile."""
        cumulative = np.append(0.0, np.cumsum(parameters))
        ends = []
        for times in (unrolled.begin, unrolled.begin + (unrolled.upper - unrolled.lower)):
            whole, place, into = self._phase(times)
            ends.append(whole * cumulative[-1] + cumulative[place] + into * parameters[place])
        return np.asarray(np.maximum(ends[1] - ends[0], 0.0) * self.period / self.parts)
