"""Intensity, what every fitted model of events answers: over time (`IntensityOverTime`), or given the events before
(`IntensityGivenHistory`)."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import norm

from cotempo.data import Events
from cotempo.errors import CotempoError, DataError, ParameterError
from cotempo.events.records.record import Grid, Record, as_events, read_record
from cotempo.events.scores import gains
from cotempo.typing import Floats

CELLS = 1000
# Mean of an intensity, and centre and deviation of its logarithm, ``(times,)`` each.
LogNormal = tuple[Floats, Floats, Floats]
# Steps of a forecast, as shares of the time looked ahead: fine at first, where hazards have their spikes.
AHEAD = np.unique(np.concatenate([[0.0], np.geomspace(1e-5, 1.0, 200), np.linspace(0.0, 1.0, 201)]))


class Band(NamedTuple):
    """An intensity: posterior mean and the two ends of a band, ``(times,)`` each."""

    mean: Floats
    lower: Floats
    upper: Floats

    @classmethod
    def from_logarithm(cls, mean: Floats, centre: Floats, deviation: Floats, level: float) -> "Band":
        """Return the band of a log-normal with this mean, and this centre and deviation of the logarithm."""
        half = norm.ppf(0.5 + level / 2) * deviation
        return cls(mean, np.exp(centre - half), np.exp(centre + half))

    def reshape(self, shape: tuple[int, ...]) -> "Band":
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


class Intensity(ABC):
    """A fitted intensity; `conditional` says whether an event that opens its window is history and not counted."""

    conditional: ClassVar[bool] = True

    @abstractmethod
    def score_record(self, record: Record) -> Mapping[str, float]:
        """Return the scores of a record."""

    def rescale_record(self, record: Record) -> list[Floats]:
        """Return the waiting times of a record on the clock of the model."""
        raise CotempoError(f"waiting times on its clock are not defined for {type(self).__name__}")

    def read(self, events: Events | ArrayLike, window: tuple[float, float] | None = None) -> Record:
        """Return a table, or plain sorted times and their window, as a record."""
        return read_record(as_events(events, window), condition=self.conditional)

    def score(self, events: Events | ArrayLike, window: tuple[float, float] | None = None) -> Mapping[str, float]:
        """Score new events by the posterior mean, in nats per event over homogeneous Poisson processes.

        `gain` is over the rate of the client's own events learned from, `gain_over_pooled` over that of all clients;
        `count_ratio` is expected over observed events. With types of events, `gain_of_marks` is what the history adds
        to predicting them, over their own frequencies.
        """
        return self.score_record(self.read(events, window))

    def rescale(self, events: Events | ArrayLike, window: tuple[float, float] | None = None) -> list[Floats]:
        """Return waiting times on the clock of the model, per sequence: unit exponentials where the model is right."""
        return self.rescale_record(self.read(events, window))


class IntensityOverTime(Intensity):
    """An intensity over time. A model gives `mean`, `band` and `ceiling`; everything people ask for follows.

    `grid` is the stretch of time the model knows, `seen` the number of events learned from and their exposure.
    """

    grid: Grid
    seen: tuple[float, float]

    @abstractmethod
    def mean(self, times: Floats) -> Floats:
        """Return the posterior mean of the intensity, ``(times,)``."""

    @abstractmethod
    def band(self, times: Floats, level: float) -> Band:
        """Return mean and ends of a pointwise band."""

    @property
    @abstractmethod
    def ceiling(self) -> float:
        """A bound on the posterior mean intensity at any time."""

    def intensity(self, times: ArrayLike, level: float = 0.95) -> Band:
        """Return mean, lower and upper end of a pointwise band that should hold a share `level` of the truths."""
        at, _ = check_times(times, (), level)
        return self.band(at.ravel(), level).reshape(at.shape)

    def expected_count(self, start: float, end: float) -> float:
        """Return the expected number of events in ``[start, end]`` of one sequence."""
        if not start <= end:
            raise ParameterError(f"start must not be after end, got [{start:g}, {end:g}]")
        if start == end:
            return 0.0
        stretch = Grid(start, end, CELLS)
        return float(self.mean(stretch.middles).sum() * stretch.width)

    def score_record(self, record: Record) -> Mapping[str, float]:
        """Return the scores of a record."""
        cells = Grid(float(record.start.min()), float(record.end.max()), CELLS)
        count, exposure = cells.count(record), cells.expose(record)
        known = np.flatnonzero((count > 0) | (exposure > 0))
        count, exposure, mean = count[known], exposure[known], self.mean(cells.middles[known])
        fit, mass = float(log_likelihood(count, exposure, mean)), float((mean * exposure).sum())
        return gains(fit, mass, float(count.sum()), float(exposure.sum()), {"gain": self.seen})

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

    def rescale_record(self, record: Record) -> list[Floats]:
        """Return the waiting times of a record on the clock of the model."""
        clock = Grid(float(record.start.min()), float(record.end.max()), 4 * CELLS)
        reading = np.append(0.0, np.cumsum(self.mean(clock.middles)) * clock.width)
        stamps = np.repeat(np.interp(record.time, clock.edges, reading), record.count.astype(np.intp))
        owner = np.repeat(record.sequence, record.count.astype(np.intp))
        begins = np.interp(record.start, clock.edges, reading)
        return [
            np.diff(stamps[owner == number], prepend=begin)
            for number, begin in zip(record.window_sequence, begins, strict=True)
        ]


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


class IntensityGivenHistory(Intensity):
    """An intensity given the events before; `origin` is when a sequence began to be watched, unless given."""

    origin: float

    @abstractmethod
    def given(self, times: Floats, history: Floats, start: float, marks: tuple[str, ...]) -> LogNormal:
        """Return the posterior of the intensity at times, given the sorted times and types of earlier events."""

    def draw_mark(
        self, time: float, history: list[float], start: float, marks: list[str], rng: np.random.Generator
    ) -> str | None:
        """Return the type of a drawn event; none where events are unmarked."""
        return None

    def intensity(
        self,
        times: ArrayLike,
        history: ArrayLike = (),
        start: float | None = None,
        level: float = 0.95,
        marks: tuple[str, ...] = (),
    ) -> Band:
        """Return mean, lower and upper end of a band that should hold a share `level` of the truths.

        Of `history`, the sorted times of the sequence's events, those before a time count for it; `marks` are their
        types, where the model knows types. The sequence began to be watched at `start`, by default the start of the
        span.
        """
        at, past = check_times(times, history, level)
        found = self.given(at.ravel(), past, self.origin if start is None else start, marks)
        return Band.from_logarithm(*found, level).reshape(at.shape)

    def predict_next(
        self, history: ArrayLike, until: float, start: float | None = None, marks: tuple[str, ...] = ()
    ) -> NextEvent:
        """Return the distribution of the first event after the last of `history`, looked for until `until`."""
        past = np.asarray(history, dtype=np.float64)
        last = float(past[-1]) if len(past) else self.origin if start is None else start
        if not last < until:
            raise ParameterError(f"until must lie after the last event at {last:g}, got {until:g}")
        edges = last + (until - last) * AHEAD
        mean = self.intensity((edges[1:] + edges[:-1]) / 2, past, start, marks=marks).mean
        return NextEvent(edges, np.exp(-np.append(0.0, np.cumsum(mean * np.diff(edges)))))

    def sample(self, start: float, end: float, rng: np.random.Generator | int = 0, count: int = 1) -> Events:
        """Draw sequences event by event, each from the distribution of the next given those before."""
        stream = np.random.default_rng(rng)
        sequences, types = [], []
        for _ in range(count):
            past: list[float] = []
            marks: list[str] = []
            while (past[-1] if past else start) < end:
                time = self.predict_next(past, end, start, tuple(marks)).quantile(stream.uniform())
                if not time < end:
                    break
                mark = self.draw_mark(time, past, start, marks, stream)
                past.append(time)
                marks += [] if mark is None else [mark]
            sequences.append(past)
            types.append(marks)
        return Events.from_arrays(sequences, (start, end), types if any(types) else None)


def check_times(times: ArrayLike, history: ArrayLike, level: float) -> tuple[Floats, Floats]:
    """Return times and history as arrays; refuse what is not finite or not sorted."""
    if not 0 < level < 1:
        raise ParameterError(f"level must lie between 0 and 1, got {level}")
    at, past = np.asarray(times, dtype=np.float64), np.asarray(history, dtype=np.float64)
    if not np.isfinite(at).all() or not np.isfinite(past).all() or (np.diff(past) < 0).any():
        raise DataError("times must be finite, and the history sorted")
    return at, past


def log_likelihood(count: Floats, exposure: Floats, rate: Floats) -> Floats:
    """Return log-likelihood of cells with constant intensity, summed over the last axis."""
    return np.asarray((count * np.log(np.maximum(rate, 1e-300)) - exposure * rate).sum(axis=-1))
