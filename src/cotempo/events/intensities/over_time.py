"""IntensityOverTime: bands, scores, samples and the next event of any intensity over time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp
from scipy.stats import norm

from cotempo.data import Events
from cotempo.errors import DataError, ParameterError
from cotempo.events.records.grid import Grid
from cotempo.events.records.record import Record, as_events, read_record
from cotempo.typing import Floats

CELLS = 1000
DRAWS = 200


class Band(NamedTuple):
    """An intensity: posterior mean and the two ends of a band, ``(times,)`` each."""

    mean: Floats
    lower: Floats
    upper: Floats

    @classmethod
    def from_logarithm(cls, mean: Floats, centre: Floats, deviation: Floats, level: float) -> Band:
        """Return the band of a log-normal with this mean, and this centre and deviation of the logarithm."""
        half = norm.ppf(0.5 + level / 2) * deviation
        return cls(mean, np.exp(centre - half), np.exp(centre + half))

    def reshape(self, shape: tuple[int, ...]) -> Band:
        """Return the band with its arrays in another shape."""
        return Band(*(part.reshape(shape) for part in self))


@dataclass(frozen=True)
class NextEvent:
    """When the next event comes: `survival` is the chance that none has come by each of `times`."""

    times: Floats
    survival: Floats

    @property
    def chance(self) -> float:
        """The chance that it comes before the last of the times."""
        return float(1 - self.survival[-1])

    @property
    def mean(self) -> float:
        """The mean time of the next event, given that it comes before the last of the times."""
        mass = -np.diff(self.survival)
        middles = (self.times[1:] + self.times[:-1]) / 2
        return float((mass * middles).sum() / max(mass.sum(), 1e-300))

    def quantile(self, share: float) -> float:
        """Return the time before which the event comes with chance `share`; infinite where it may not come at all."""
        if share > self.chance:
            return float("inf")
        return float(np.interp(-(1 - share), -self.survival, self.times))


class IntensityOverTime(ABC):
    """An intensity over time, learned.

    A model gives `mean`, `band`, `draw` and `ceiling`; everything people ask for follows.

    Attributes
    ----------
    grid
        The stretch of time the model knows.
    reference
        The rate of the events learned from.
    conditional
        Whether an event that opens its window is history and not counted, as in learning.
    """

    grid: Grid
    reference: float
    conditional: ClassVar[bool] = True

    @abstractmethod
    def mean(self, times: Floats) -> Floats:
        """Return the posterior mean of the intensity, ``(times,)``."""

    @abstractmethod
    def band(self, times: Floats, level: float) -> Band:
        """Return mean and ends of a pointwise band."""

    @abstractmethod
    def draw(self, times: Floats, draws: int, rng: np.random.Generator) -> Floats:
        """Return intensities drawn from the posterior, ``(draws, times)``."""

    @property
    @abstractmethod
    def ceiling(self) -> float:
        """A bound on the posterior mean intensity at any time."""

    def intensity(self, times: ArrayLike, level: float = 0.95) -> Band:
        """Return mean, lower and upper end of a pointwise band.

        Parameters
        ----------
        times
            Where, in the unit of the events.
        level
            The share of the truths the band should hold.
        """
        if not 0 < level < 1:
            raise ParameterError(f"level must lie between 0 and 1, got {level}")
        at = np.asarray(times, dtype=np.float64)
        if not np.isfinite(at).all():
            raise DataError("times must be finite")
        return self.band(at.ravel(), level).reshape(at.shape)

    def expected_count(self, start: float, end: float) -> float:
        """Return the expected number of events in ``[start, end]`` of one sequence."""
        if not start <= end:
            raise ParameterError(f"start must not be after end, got [{start:g}, {end:g}]")
        if start == end:
            return 0.0
        stretch = Grid(start, end, CELLS)
        return float(self.mean(stretch.middles).sum() * stretch.width)

    def score(self, events: Events | ArrayLike, window: tuple[float, float] | None = None) -> Mapping[str, float]:
        """Score new events, in nats per event over a homogeneous Poisson process.

        The reference has the rate of the events learned from. `gain` is that of the posterior mean intensity,
        `gain_predictive` the log of the expected likelihood, `gain_expected` the expected log-likelihood.
        `count_ratio` is expected over observed events.
        """
        record = self._read(events, window)
        cells = Grid(float(record.start.min()), float(record.end.max()), CELLS)
        count, exposure = cells.count(record), cells.expose(record)
        seen = np.flatnonzero((count > 0) | (exposure > 0))
        count, exposure, times = count[seen], exposure[seen], cells.middles[seen]
        total = max(count.sum(), 1.0)
        flat = log_likelihood(count, exposure, np.full(len(seen), self.reference))
        mean = self.mean(times)
        drawn = log_likelihood(count, exposure, self.draw(times, DRAWS, np.random.default_rng(0)))
        return {
            "gain": float((log_likelihood(count, exposure, mean) - flat) / total),
            "gain_predictive": float((logsumexp(drawn) - np.log(DRAWS) - flat) / total),
            "gain_expected": float((drawn.mean() - flat) / total),
            "count_ratio": float((mean * exposure).sum() / total),
            "events": float(count.sum()),
        }

    def sample(self, start: float, end: float, rng: np.random.Generator | int = 0, count: int = 1) -> Events:
        """Draw sequences from the posterior mean intensity by thinning (Lewis and Shedler, 1979)."""
        stream = np.random.default_rng(rng)
        sequences = []
        for _ in range(count):
            candidates = np.sort(stream.uniform(start, end, stream.poisson(self.ceiling * (end - start))))
            keep = stream.uniform(0, self.ceiling, len(candidates)) < self.mean(candidates)
            sequences.append(candidates[keep])
        return Events.from_arrays(sequences, (start, end))

    def predict_next(self, after: float, until: float | None = None) -> NextEvent:
        """Return the distribution of the first event after `after`, looked for until `until` (the window's end)."""
        last = self.grid.end if until is None else until
        if not after < last:
            raise ParameterError(f"until must lie after {after:g}, got {last:g}; pass until= to look beyond the window")
        ahead = Grid(after, last, CELLS)
        mass = np.cumsum(self.mean(ahead.middles)) * ahead.width
        return NextEvent(ahead.edges, np.exp(-np.append(0.0, mass)))

    def rescale(self, events: Events | ArrayLike, window: tuple[float, float] | None = None) -> list[Floats]:
        """Return waiting times on the clock of the model, per sequence: unit exponentials where the model is right."""
        return self.rescale_record(self._read(events, window))

    def rescale_record(self, record: Record) -> list[Floats]:
        """Return waiting times of a record."""
        clock = Grid(float(record.start.min()), float(record.end.max()), 4 * CELLS)
        reading = np.append(0.0, np.cumsum(self.mean(clock.middles)) * clock.width)
        stamps = np.repeat(np.interp(record.time, clock.edges, reading), record.count.astype(np.intp))
        owner = np.repeat(record.sequence, record.count.astype(np.intp))
        begins = np.interp(record.start, clock.edges, reading)
        return [
            np.diff(stamps[owner == number], prepend=begin)
            for number, begin in zip(record.window_sequence, begins, strict=True)
        ]

    def _read(self, events: Events | ArrayLike, window: tuple[float, float] | None) -> Record:
        return read_record(as_events(events, window), condition=self.conditional)


class DrawnIntensity(IntensityOverTime):
    """An intensity over time whose posterior is a set of draws: bands are their quantiles."""

    @abstractmethod
    def drawn(self, times: Floats) -> Floats:
        """Return all draws of the intensity, ``(draws, times)``."""

    def band(self, times: Floats, level: float) -> Band:
        """Return the mean and quantiles of the draws."""
        tails, mean = [0.5 - level / 2, 0.5 + level / 2], self.mean(times)
        # A thousand times at once, for the sake of memory.
        chunks = [times[first : first + 1000] for first in range(0, len(times), 1000)]
        quantiles = [np.quantile(self.drawn(chunk), tails, axis=0) for chunk in chunks]
        lower, upper = np.concatenate([np.zeros((2, 0)), *quantiles], axis=1)
        return Band(mean, np.minimum(lower, mean), np.maximum(upper, mean))

    def draw(self, times: Floats, draws: int, rng: np.random.Generator) -> Floats:
        """Return some of the draws, ``(draws, times)``."""
        drawn = self.drawn(times)
        return drawn[rng.choice(len(drawn), draws, replace=draws > len(drawn))]


def log_likelihood(count: Floats, exposure: Floats, rate: NDArray[np.float64]) -> Floats:
    """Return log-likelihood of cells with constant intensity, summed over the last axis."""
    safe = np.maximum(rate, 1e-300)
    return np.asarray((count * np.log(safe) - exposure * rate).sum(axis=-1))
