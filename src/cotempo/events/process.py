"""What a simple point process is, and the two simplest: a constant rate, and a profile of time.

A process gives four verbs on unrolled records: `statistics` (sums a client sends), `update` (what the server makes of
their total), `log_rate` (at events) and `mass` (the intensity's integral over cells).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter1d

from cotempo.events.history import Unrolled
from cotempo.events.record import Floats, Record
from cotempo.events.summary import Summary


class Process(ABC):
    """A point process with few parameters."""

    decays: Floats = np.zeros(0)

    @abstractmethod
    def start(self) -> Floats:
        """First parameters."""

    @abstractmethod
    def statistics(self, unrolled: Unrolled, record: Record, parameters: Floats) -> Floats:
        """What a client adds to the sums."""

    @abstractmethod
    def update(self, parameters: Floats, sums: Floats) -> Floats:
        """Better parameters, from the total of `statistics`."""

    @abstractmethod
    def log_rate(self, unrolled: Unrolled, parameters: Floats) -> Floats:
        """Log intensity just before each event, ``(events,)``."""

    @abstractmethod
    def mass(self, unrolled: Unrolled, parameters: Floats) -> Floats:
        """Integral of the intensity over each cell, ``(cells,)``."""


@dataclass(frozen=True)
class Poisson(Process):
    """One constant rate."""

    summary: Summary

    def start(self) -> Floats:
        """The pooled rate."""
        return np.array([max(self.summary.events, 0.5) / self.summary.exposure])

    def statistics(self, unrolled: Unrolled, record: Record, parameters: Floats) -> Floats:
        """Events and exposure."""
        return np.array([record.events, record.exposure])

    def update(self, parameters: Floats, sums: Floats) -> Floats:
        """Events over exposure."""
        return np.array([max(sums[0], 0.5) / sums[1]])

    def log_rate(self, unrolled: Unrolled, parameters: Floats) -> Floats:
        """The same everywhere."""
        return np.full(len(unrolled.time), np.log(parameters[0]))

    def mass(self, unrolled: Unrolled, parameters: Floats) -> Floats:
        """Rate times length."""
        return np.asarray(parameters[0] * (unrolled.upper - unrolled.lower))


@dataclass(frozen=True)
class Profile(Process):
    """A rate for each part of a period: the time of day, or the whole span where no period is given.

    With `smooth` the parts are fine and a Gaussian kernel of Silverman's width runs over them: a kernel density.
    """

    summary: Summary
    period: float
    parts: int = 48
    smooth: bool = False

    def start(self) -> Floats:
        """Flat."""
        return np.full(self.parts, max(self.summary.events, 0.5) / self.summary.exposure)

    def _phase(self, times: Floats) -> tuple[Floats, Floats]:
        """Whole periods since the span's start, and the rest as a share of a period."""
        whole, rest = np.divmod((times - self.summary.start) / self.period, 1.0)
        return whole, rest

    def _place(self, times: Floats) -> NDArray[np.intp]:
        """The part each time falls into; the very end of a period belongs to its last part."""
        whole, rest = self._phase(times)
        rest = np.where((rest == 0) & (whole > 0), 1.0, rest)
        return np.minimum((rest * self.parts).astype(np.intp), self.parts - 1)

    def statistics(self, unrolled: Unrolled, record: Record, parameters: Floats) -> Floats:
        """Events and exposure of each part, ``(2 * parts,)``."""
        place = self._place(record.time)
        events = np.bincount(place, weights=record.count, minlength=self.parts)
        lower = np.arange(self.parts) / self.parts
        watched = np.zeros(self.parts)
        for sign, times in ((1, record.end), (-1, record.start)):
            whole, rest = self._phase(times)
            inside = np.clip(rest[:, None] - lower, 0, 1 / self.parts)
            watched += sign * (whole[:, None] / self.parts + inside).sum(axis=0)
        return np.asarray(np.concatenate([events, watched * self.period]), dtype=np.float64)

    def update(self, parameters: Floats, sums: Floats) -> Floats:
        """Events over exposure, drawn to the mean rate by the weight of two events."""
        events, exposure = sums[: self.parts], sums[self.parts :]
        rate = max(events.sum(), 0.5) / exposure.sum()
        if self.smooth:
            width = self._silverman(events)
            events, exposure = (gaussian_filter1d(part, width, mode="nearest") for part in (events, exposure))
        return np.asarray((events + 2) / (exposure + 2 / rate))

    def _silverman(self, events: Floats) -> float:
        at = np.arange(self.parts)
        total = max(events.sum(), 1.0)
        centre = (events * at).sum() / total
        return float(max(1.06 * np.sqrt((events * (at - centre) ** 2).sum() / total) * total**-0.2, 0.5))

    def log_rate(self, unrolled: Unrolled, parameters: Floats) -> Floats:
        """The rate of the part an event falls into."""
        place = self._place(unrolled.time)
        return np.asarray(np.log(parameters[place]))

    def mass(self, unrolled: Unrolled, parameters: Floats) -> Floats:
        """Differences of the cumulative profile."""
        edges = np.linspace(0, 1, self.parts + 1)
        cumulative = np.append(0.0, np.cumsum(parameters)) * self.period / self.parts
        ends = []
        for times in (unrolled.begin, unrolled.begin + (unrolled.upper - unrolled.lower)):
            whole, rest = self._phase(times)
            ends.append(whole * cumulative[-1] + np.interp(rest, edges, cumulative))
        return np.asarray(np.maximum(ends[1] - ends[0], 0.0))
