"""Intensity, what every fitted model of events answers: over time (`IntensityOverTime`), or given the events before
(`IntensityGivenHistory`)."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from scipy.stats import norm

from cotempo.data import Events
from cotempo.data.clock import LABELS, Clock
from cotempo.data.html import html_table
from cotempo.data.tables import FrameKind, make_frame, pluralize
from cotempo.errors import CotempoError, DataError, DataWarning, ParameterError
from cotempo.events.intensities.next_event import NextEvent
from cotempo.events.records.record import Grid, Record, as_events, read_record
from cotempo.events.scores import gains
from cotempo.storage.saved import Saved
from cotempo.typing import Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
    def from_logarithm(cls, mean: Floats, centre: Floats, deviation: Floats, level: float) -> Band:
        """Return the band of a log-normal with this mean, and this centre and deviation of the logarithm."""
        half = norm.ppf(0.5 + level / 2) * deviation
        return cls(mean, np.exp(centre - half), np.exp(centre + half))

    def reshape(self, shape: tuple[int, ...]) -> Band:
        """Return the band with its arrays in another shape."""
        return Band(*(part.reshape(shape) for part in self))


class Intensity(Saved, ABC):
    """A fitted intensity.

    Wherever a time is asked for, it may be a number, or a date of any kind where those of the table were dates; times
    that are returned are then dates, in the zone of the table.

    Attributes
    ----------
    clock
        How the table counted time.
    span
        The stretch of time learned from, in the numbers of the clock.
    seen
        The number of events learned from, and their exposure.
    anytime, period
        Whether it knows other times as well: because it has a period, or because time does not matter.
    conditional
        Whether an event that opens its window is history and not counted.
    """

    conditional: ClassVar[bool] = True
    clock: Clock = Clock()
    span: tuple[float, float]
    seen: tuple[float, float]
    anytime: bool = False
    period: float | None = None

    @abstractmethod
    def score_record(self, record: Record) -> Mapping[str, float]:
        """Return the scores of a record."""

    def rescale_record(self, record: Record) -> list[Floats]:
        """Return the waiting times of a record on the clock of the model."""
        raise CotempoError(f"waiting times on its clock are not defined for {type(self).__name__}")

    def read(self, events: Any, window: tuple[Any, Any] | None = None) -> Record:
        """Return a table, or plain sorted times and their window, as a record."""
        return read_record(as_events(events, window, self.clock), condition=self.conditional)

    def score(self, events: Any, window: tuple[Any, Any] | None = None) -> Mapping[str, float]:
        """Score new events by the posterior mean, in nats per event over homogeneous Poisson processes.

        `gain` is over the rate of the client's own events learned from, `gain_over_pooled` over that of all clients;
        `count_ratio` is expected over observed events. With types of events, `gain_of_marks` is what the history adds
        to predicting them, over their own frequencies.
        """
        return self.score_record(self.read(events, window))

    def rescale(self, events: Any, window: tuple[Any, Any] | None = None) -> list[Floats]:
        """Return waiting times on the clock of the model, per sequence: unit exponentials where the model is right."""
        return self.rescale_record(self.read(events, window))

    def numbers(self, times: Any) -> Floats:
        """Return times as numbers of the clock; warn of those outside the span, refuse those far away."""
        at = self.clock.numbers(times)
        if not np.isfinite(at).all():
            raise DataError("times must be finite, got one that is missing or infinite")
        (first, last), clock = self.span, self.clock
        if self.anytime or not at.size or (first <= at.min() and at.max() <= last):
            return at
        worst = float(at.min() if first - at.min() > at.max() - last else at.max())
        learned = f"[{clock.text(first)}, {clock.text(last)}], the time learned from, got {clock.text(worst)}"
        if max(first - worst, worst - last) > last - first:
            counted = f"; numbers count {LABELS[clock.unit]} since 1970-01-01 UTC" if clock.dates else ""
            raise ParameterError(f"times must lie in or near {learned}{counted}")
        words = f"times should lie in {learned}: the intensity is extrapolated there"
        warnings.warn(words, DataWarning, stacklevel=3)
        return at

    def stretch(self, start: Any, end: Any) -> tuple[float, float]:
        """Return the ends of a stretch of time as numbers of the clock."""
        clock = self.clock
        first, last = self.numbers(np.array([clock.number(start), clock.number(end)])).tolist()
        if not first <= last:
            raise ParameterError(f"start must not be after end, got [{clock.text(first)}, {clock.text(last)}]")
        return first, last

    def __repr__(self) -> str:
        return f"{type(self).__name__}({'; '.join(self._facts().values())})"

    def _repr_html_(self) -> str:
        return html_table(type(self).__name__, list(self._facts().items()))

    def _facts(self) -> dict[str, str]:
        """Return what it was learned from, by name."""
        (events, exposure), (first, last), clock = self.seen, self.span, self.clock
        return {
            "learned from": f"{pluralize(round(events), 'event')}, {events / exposure:.3g} {clock.rate_label}",
            "time": f"{clock.text(first)} to {clock.text(last)}",
        }


class IntensityOverTime(Intensity):
    """An intensity over time. A model gives `mean`, `band` and `ceiling`; everything people ask for follows."""

    grid: Grid

    @property
    def span(self) -> tuple[float, float]:  # type: ignore[override]
        """The stretch of time learned from."""
        return self.grid.start, self.grid.end

    @property
    def shown(self) -> tuple[float, float]:
        """The stretch of time that figures and frames show: the span, or one period, of dates from midnight on."""
        first, last = self.span
        if self.period is None:
            return first, last
        if self.clock.dates:
            first = self.clock.number(self.clock.date(first).ceil("D"))
        return first, first + self.period

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

    def intensity(self, times: Any, level: float = 0.95) -> Band:
        """Return mean, lower and upper end of a pointwise band that should hold a share `level` of the truths."""
        check_level(level)
        at = self.numbers(times)
        return self.band(at.ravel(), level).reshape(at.shape)

    def to_frame(self, times: Any = None, level: float = 0.95, kind: FrameKind = "pandas") -> Any:
        """Return the columns ``time, mean, lower, upper`` as a dataframe; by default at 300 of `shown`."""
        at = np.linspace(*self.shown, 300) if times is None else self.numbers(times)
        columns = {"time": at, **self.intensity(at, level)._asdict()}
        return make_frame(columns, kind, {"time": self.clock})

    def plot(self, events: Events | None = None, level: float = 0.95) -> Figure:
        """Draw the posterior mean and its band over `shown`, with a rug of events where they are given."""
        from cotempo.events.plots import plot_intensities

        return plot_intensities({"": self}, events={"": events} if events is not None else {}, level=level)

    def expected_count(self, start: Any, end: Any) -> float:
        """Return the expected number of events in ``[start, end]`` of one sequence."""
        first, last = self.stretch(start, end)
        if first == last:
            return 0.0
        stretch = Grid(first, last, CELLS)
        return float(self.mean(stretch.middles).sum() * stretch.width)

    def score_record(self, record: Record) -> Mapping[str, float]:
        """Return the scores of a record."""
        cells = Grid(float(record.start.min()), float(record.end.max()), CELLS)
        count, exposure = cells.count(record), cells.expose(record)
        known = np.flatnonzero((count > 0) | (exposure > 0))
        count, exposure, mean = count[known], exposure[known], self.mean(cells.middles[known])
        fit, mass = float(log_likelihood(count, exposure, mean)), float((mean * exposure).sum())
        return gains(fit, mass, float(count.sum()), float(exposure.sum()), {"gain": self.seen})

    def sample(self, start: Any, end: Any, rng: np.random.Generator | int = 0, count: int = 1) -> Events:
        """Draw sequences from the posterior mean intensity by thinning (Lewis and Shedler, 1979)."""
        stream, (first, last) = np.random.default_rng(rng), self.stretch(start, end)
        sequences = []
        for _ in range(count):
            candidates = np.sort(stream.uniform(first, last, stream.poisson(self.ceiling * (last - first))))
            keep = stream.uniform(0, self.ceiling, len(candidates)) < self.mean(candidates)
            sequences.append(candidates[keep])
        return Events.from_arrays(sequences, (first, last), unit=self.clock.unit, zone=self.clock.zone)

    def predict_next(self, after: Any, until: Any = None) -> NextEvent:
        """Return the distribution of the first event after `after`, looked for until `until` (the span's end)."""
        clock, end = self.clock, self.span[1]
        first, last = clock.number(after), end if until is None else clock.number(until)
        if not first < last:
            words = f"until must lie after {clock.text(first)}, got {clock.text(last)}"
            raise ParameterError(f"{words}; pass until= to look beyond what was learned")
        ahead = Grid(*self.stretch(first, last), CELLS)
        mass = np.cumsum(self.mean(ahead.middles)) * ahead.width
        return NextEvent(ahead.edges, np.exp(-np.append(0.0, mass)), clock)

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
    """An intensity given the events before."""

    @abstractmethod
    def given(self, times: Floats, history: Floats, start: float, marks: tuple[str, ...]) -> LogNormal:
        """Return the posterior of the intensity at times, given the sorted times and types of earlier events."""

    def draw_mark(
        self, time: float, history: list[float], start: float, marks: list[str], rng: np.random.Generator
    ) -> str | None:
        """Return the type of a drawn event; none where events are unmarked."""
        return None

    def intensity(
        self, times: Any, history: Any = (), start: Any = None, level: float = 0.95, marks: tuple[str, ...] = ()
    ) -> Band:
        """Return mean, lower and upper end of a band that should hold a share `level` of the truths.

        Of `history`, the sorted times of the sequence's events, those before a time count for it; `marks` are their
        types, where the model knows types. The sequence began to be watched at `start`, by default the start of the
        span.
        """
        check_level(level)
        at, past, begin = self.look_back(times, history, start)
        return Band.from_logarithm(*self.given(at.ravel(), past, begin, marks), level).reshape(at.shape)

    def look_back(self, times: Any, history: Any, start: Any) -> tuple[Floats, Floats, float]:
        """Return times, history and start as numbers of the clock; refuse those that do not fit together."""
        at, past, clock = self.numbers(times), self.clock.numbers(history), self.clock
        begin = self.span[0] if start is None else clock.number(start)
        if not np.isfinite(past).all() or (np.diff(past) < 0).any():
            raise DataError("the history must be finite and sorted, got times that are not")
        earliest = min([begin, *at.ravel().tolist(), *past[:1].tolist()])
        if earliest < begin:
            words = f"times and history must not lie before {clock.text(begin)}, when the sequence began to be watched"
            raise DataError(f"{words}, got {clock.text(earliest)}; pass start=")
        return at, past, begin

    def predict_next(self, history: Any, until: Any, start: Any = None, marks: tuple[str, ...] = ()) -> NextEvent:
        """Return the distribution of the first event after the last of `history`, looked for until `until`."""
        clock = self.clock
        end, past, begin = self.look_back([clock.number(until)], history, start)
        if not (last := float([begin, *past][-1])) < end[0]:
            words = f"until must lie after the last event at {clock.text(last)}"
            raise ParameterError(f"{words}, got {clock.text(end[0])}")
        return self._ahead(past, float(end[0]), begin, marks)

    def _ahead(self, past: Floats, until: float, begin: float, marks: tuple[str, ...]) -> NextEvent:
        last = float([begin, *past][-1])
        edges = last + (until - last) * AHEAD
        mean = self.given((edges[1:] + edges[:-1]) / 2, past, begin, marks)[0]
        return NextEvent(edges, np.exp(-np.append(0.0, np.cumsum(mean * np.diff(edges)))), self.clock)

    def sample(self, start: Any, end: Any, rng: np.random.Generator | int = 0, count: int = 1) -> Events:
        """Draw sequences event by event, each from the distribution of the next given those before."""
        stream, (first, last) = np.random.default_rng(rng), self.stretch(start, end)
        sequences, types = [], []
        for _ in range(count):
            past: list[float] = []
            marks: list[str] = []
            while (past[-1] if past else first) < last:
                time = self._ahead(np.array(past), last, first, tuple(marks)).number_at(stream.uniform())
                if not time < last:
                    break
                mark = self.draw_mark(time, past, first, marks, stream)
                past.append(time)
                marks += [] if mark is None else [mark]
            sequences.append(past)
            types.append(marks)
        kept = types if any(types) else None
        return Events.from_arrays(sequences, (first, last), kept, unit=self.clock.unit, zone=self.clock.zone)

    def plot(self, events: Any, level: float = 0.95) -> Figure:
        """Draw the intensity along the first sequence of a table, given its events, which stand below it."""
        from cotempo.events.plots import plot_intensities

        return plot_intensities({"": self}, events={"": as_events(events, None, self.clock)}, level=level)


def check_level(level: float) -> None:
    """Refuse a level that is no share."""
    if not 0 < level < 1:
        raise ParameterError(f"level must lie between 0 and 1, got {level}")


def log_likelihood(count: Floats, exposure: Floats, rate: Floats) -> Floats:
    """Return log-likelihood of cells with constant intensity, summed over the last axis."""
    return np.asarray((count * np.log(np.maximum(rate, 1e-300)) - exposure * rate).sum(axis=-1))
