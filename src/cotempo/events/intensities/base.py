"""Intensity, what every fitted model of events answers: over time (`IntensityOverTime`), or given the events before
(`IntensityGivenHistory`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from cotempo.data import Events
from cotempo.data.clock import LABELS, Clock
from cotempo.data.html import html_table
from cotempo.data.tables import FrameKind, make_frame, pluralize
from cotempo.errors import CotempoError, DataError, ParameterError, warn
from cotempo.events.intensities.next_event import NextEvent
from cotempo.events.records.record import Grid, Record, as_events, read_record
from cotempo.events.scores import gains
from cotempo.storage.saved import Saved
from cotempo.threads import limit_threads
from cotempo.typing import Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CELLS = 1000
# Mean of an intensity, and centre and deviation of its logarithm, ``(times,)`` each.
# The deviation is NaN where nothing is known about it.
LogNormal = tuple[Floats, Floats, Floats]
# How finely a period or the span is looked at, twice as finely as curves are learned, and the most cells of a stretch.
PER_PERIOD, MOST_CELLS = 2016, 200_000
# Where nobody says how far to look for the next event: until this many are expected, one in a million misses it.
SURELY = 14.0
# Simulated counts: events in all, the fewest and most paths, the parts of a stretch whose surprises are weighed, and
# how many mean waits are looked ahead at once.
SIMULATED, PATHS, PARTS, NEAR = 1200, (30, 300), 6, 4.0
# How many paths it is worth that chance is at least that of a Poisson process.
POISSON_PATHS = 10
# Steps of a forecast, as shares of the time looked ahead: fine at first, where hazards have their spikes.
AHEAD = np.unique(np.concatenate([[0.0], np.geomspace(1e-5, 1.0, 200), np.linspace(0.0, 1.0, 201)]))
# The same for each event of a simulated count.
COARSE = np.unique(np.concatenate([[0.0], np.geomspace(1e-4, 1.0, 40), np.linspace(0.0, 1.0, 41)]))
NOWHERE = np.zeros(0)


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


class Count(NamedTuple):
    """A number of events to come: its mean, and the two ends of an interval."""

    mean: float
    lower: float
    upper: float

    @classmethod
    def from_masses(cls, mean: float, masses: Floats, level: float) -> Count:
        """Return the count of Poisson processes with these expected numbers; its interval always holds the mean."""
        drawn = np.random.default_rng(0).poisson(np.resize(masses, 20_000))
        lower, upper = np.quantile(drawn, [0.5 - level / 2, 0.5 + level / 2], method="inverted_cdf").tolist()
        return cls(mean, min(float(lower), float(np.floor(mean))), max(float(upper), float(np.ceil(mean))))


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
    beyond
        How it goes on outside the span where it does not know other times, in words.
    conditional
        Whether an event that opens its window is history and not counted.
    """

    conditional: ClassVar[bool] = True
    clock: Clock = Clock()
    span: tuple[float, float]
    seen: tuple[float, float]
    anytime: bool = False
    period: float | None = None
    beyond: ClassVar[str] = "what depends on time stays there as it was at the end"

    @abstractmethod
    def score_record(self, record: Record) -> Mapping[str, float]:
        """Return the scores of a record."""

    def rescale_record(self, record: Record) -> list[Floats]:
        """Return the waiting times of a record on the clock of the model."""
        raise CotempoError(f"waiting times on its clock are not defined for {type(self).__name__}")

    def read(self, events: Any, window: tuple[Any, Any] | None = None) -> Record:
        """Return a table, or plain sorted times and their window, as a record."""
        table = as_events(events, window, self.clock)
        return read_record(table, condition=self.conditional, local=self.period is not None)

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
        warn(f"times should lie in {learned}: {self.beyond}; where there is a rhythm, learn with FedPP(period=...)")
        return at

    def local(self, times: Floats) -> Floats:
        """Return times as the period counts them: on the clock that people read, in summer too."""
        return times if self.period is None else self.clock.local(times)

    def _farthest(self, first: float) -> float:
        """Return until when it can look from a time on: as far beyond the span as that is long, or without end."""
        start, end = self.span
        far = np.inf if self.anytime else 2 * end - start
        if first >= far:
            learned = f"[{self.clock.text(start)}, {self.clock.text(end)}], the time learned from"
            raise ParameterError(f"times must lie in or near {learned}, got {self.clock.text(first)}")
        return far

    def stretch(self, start: Any, end: Any) -> tuple[float, float]:
        """Return the ends of a stretch of time as numbers of the clock."""
        clock = self.clock
        first, last = self.numbers(np.array([clock.number(start), clock.number(end)])).tolist()
        if not first <= last:
            raise ParameterError(f"start must not be after end, got [{clock.text(first)}, {clock.text(last)}]")
        return first, last

    @property
    def _wait(self) -> float:
        """How long the first look ahead is: until some events are expected."""
        events, exposure = self.seen
        return SURELY * exposure / max(events, 0.5)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({'; '.join(self._facts().values())})"

    def _repr_html_(self) -> str:
        return html_table(type(self).__name__, list(self._facts().items()))

    def _facts(self) -> dict[str, str]:
        """Return what it was learned from, by name."""
        (events, exposure), (first, last), clock = self.seen, self.span, self.clock
        rate = f"{events / exposure:.3g} {clock.rate_label} and sequence"
        return {
            "learned from": f"{pluralize(round(events), 'event')}, {rate}",
            "time": f"{clock.text(first)} to {clock.text(last)}",
        }


class IntensityOverTime(Intensity):
    """An intensity over time. A model gives `mean`, `band` and `ceiling`; everything people ask for follows.

    The events before do not matter: `history`, `start` and `marks` are taken as an `IntensityGivenHistory` takes them,
    so that the same lines serve both, and change nothing but when the wait for the next event begins.
    """

    grid: Grid

    @property
    def span(self) -> tuple[float, float]:  # type: ignore[override]
        """The stretch of time learned from."""
        return self.grid.start, self.grid.end

    @property
    def shown(self) -> tuple[float, float]:
        """The stretch of time that figures and frames show: the span, or one period, of dates from midnight on.

        A week begins on Monday.
        """
        first, last = self.span
        if self.period is None:
            return first, last
        if self.clock.dates:
            first = self.clock.first_of(self.clock.rhythm(self.period), first)
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

    def intensity(
        self, times: Any, level: float = 0.95, *, history: Any = None, start: Any = None, marks: tuple[str, ...] = ()
    ) -> Band:
        """Return mean, lower and upper end of a pointwise band that should hold a share `level` of the truths."""
        check_level(level)
        at = self.numbers(times)
        return self.band(at.ravel(), level).reshape(at.shape)

    def to_frame(self, times: Any = None, level: float = 0.95, kind: FrameKind = "pandas") -> Any:
        """Return the columns ``time, mean, lower, upper`` as a dataframe; by default at up to 300 times of `shown`.

        These are in plain steps where times are dates, such as hours from midnight on.
        """
        at = self.clock.plain_times(*self.shown, 300) if times is None else self.clock.numbers(times)
        columns = {"time": at, **self.intensity(at, level)._asdict()}
        return make_frame(columns, kind, {"time": self.clock})

    def plot(self, events: Events | None = None, level: float = 0.95) -> Figure:
        """Draw the posterior mean and its band over `shown`, with a rug of events where they are given."""
        from cotempo.events.plots import plot_intensities

        return plot_intensities({"": self}, events={"": events} if events is not None else {}, level=level)

    def predict_count(
        self, start: Any, end: Any, level: float = 0.95, history: Any = None, marks: tuple[str, ...] = ()
    ) -> Count:
        """Return how many events one sequence will have in ``[start, end]``, with an interval for their number.

        The mean is the integral of the mean intensity. The interval holds both chance, as a Poisson process has it, and
        the doubt of the model about its intensity. A client with several sequences at once has as many times more.
        """
        check_level(level)
        first, last = self.stretch(start, end)
        if first == last:
            return Count(0.0, 0.0, 0.0)
        around = self.span[1] - self.span[0] if self.period is None else self.period
        stretch = Grid(first, last, int(np.clip((last - first) / around * PER_PERIOD, CELLS, MOST_CELLS)))
        return Count.from_masses(self.mass(stretch), self.masses(stretch), level)

    def mass(self, stretch: Grid) -> float:
        """Return the integral of the mean intensity over a stretch of time."""
        return float(self.mean(stretch.middles).sum() * stretch.width)

    def survival(self, times: Any, after: Any = None, level: float = 0.95) -> Band:
        """Return the chance that a sequence has no event from `after` until each time, with a band for it.

        For tables of `Events.from_durations` this is the survival function; `after` is by default where the span
        begins. The median is ``predict_next(after).quantile(0.5)``.
        """
        check_level(level)
        begin = self.span[0] if after is None else self.clock.number(after)
        at, tails = self.numbers(times), [0.5 - level / 2, 0.5 + level / 2]
        found = np.ones((3, at.size))
        for place, time in enumerate(at.ravel().tolist()):
            if time < begin:
                raise ParameterError(f"times must not lie before {self.clock.text(begin)}, got {self.clock.text(time)}")
            if time > begin:
                stretch = Grid(begin, time, CELLS)
                mean = np.exp(-self._mass(stretch)[-1])
                lower, upper = np.quantile(np.exp(-self.masses(stretch)), tails)
                found[:, place] = mean, min(lower, mean), max(upper, mean)
        return Band(*found).reshape(at.shape)

    @abstractmethod
    def masses(self, stretch: Grid) -> Floats:
        """Return draws of the integral of the intensity over a stretch of time, ``(draws,)``."""

    def score_record(self, record: Record) -> Mapping[str, float]:
        """Return the scores of a record."""
        cells = Grid(float(record.start.min()), float(record.end.max()), CELLS)
        count, exposure = cells.count(record), cells.expose(record)
        known = np.flatnonzero((count > 0) | (exposure > 0))
        count, exposure, mean = count[known], exposure[known], self.mean(cells.middles[known])
        fit, mass = float(log_likelihood(count, exposure, mean)), float((mean * exposure).sum())
        return gains(fit, mass, float(count.sum()), float(exposure.sum()), self.references)

    @property
    def references(self) -> dict[str, tuple[float, float]]:
        """Events and exposure behind the constant rates that a record is scored against, by the name of the gain."""
        return {"gain": self.seen}

    def sample(self, start: Any, end: Any, seed: np.random.Generator | int = 0, count: int = 1) -> Events:
        """Draw sequences from the posterior mean intensity by thinning (Lewis and Shedler, 1979)."""
        stream, (first, last) = np.random.default_rng(seed), self.stretch(start, end)
        sequences = []
        for _ in range(count):
            candidates = np.sort(stream.uniform(first, last, stream.poisson(self.ceiling * (last - first))))
            keep = stream.uniform(0, self.ceiling, len(candidates)) < self.mean(candidates)
            sequences.append(candidates[keep])
        return Events.from_arrays(sequences, (first, last), unit=self.clock.unit, zone=self.clock.zone)

    def predict_next(
        self,
        after: Any = None,
        until: Any = None,
        start: Any = None,
        marks: tuple[str, ...] = (),
        *,
        history: Any = None,
    ) -> NextEvent:
        """Return the distribution of the first event of a sequence after `after`.

        `after` may also be the times of the events so far, as may `history`: then it begins at the last of them, or at
        `start` without any. It is looked for until `until`; by default until it has come almost surely, or as far as
        the model can say.
        """
        clock, past = self.clock, after if history is None else history
        if np.ndim(past):
            past = clock.numbers(past)[-1] if len(past) else None
        if past is None and start is None:
            raise ParameterError("after must say when the wait begins, or history or start, got none of them")
        first = clock.number(start if past is None else past)
        if until is not None:
            last = clock.number(until)
            if not first < last:
                raise ParameterError(f"until must lie after {clock.text(first)}, got {clock.text(last)}")
        else:
            far, last = self._farthest(first), first + self._wait
            while last < far and self._mass(Grid(first, last, CELLS))[-1] < SURELY:
                last += last - first
            last = min(last, far)
        ahead = Grid(*self.stretch(first, last), CELLS)
        return NextEvent(ahead.edges, np.exp(-np.append(0.0, self._mass(ahead))), clock)

    def _mass(self, ahead: Grid) -> Floats:
        """Return the expected number of events up to the end of each cell."""
        return np.asarray(np.cumsum(self.mean(ahead.middles)) * ahead.width)

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
    """An intensity over time whose posterior is a set of draws: bands are their quantiles.

    Outside its span it goes from its value at the end to its mean level: as far beyond the end as a time lies, so far
    back is averaged. A draw has there what it had at some time of that stretch, so that bands hold how much it varied.
    """

    beyond: ClassVar[str] = "the curve goes to its mean level there"

    @abstractmethod
    def inside(self, times: Floats) -> Floats:
        """Return the posterior mean of the intensity at times of the span, or of any time where it knows them."""

    @abstractmethod
    def drawn_inside(self, times: Floats) -> Floats:
        """Return all draws of the intensity at such times, ``(draws, times)``."""

    @cached_property
    def _cumulative(self) -> Floats:
        return np.append(0.0, np.cumsum(self.inside(self.grid.middles)) * self.grid.width)

    def _outside(self, times: Floats) -> list[tuple[NDArray[np.bool_], float, Floats]]:
        """Return, for both ends of the span, which times lie beyond it, the end, and the signed way back from it."""
        (first, last), found = self.span, []
        for end, sign in ((first, 1.0), (last, -1.0)):
            far = sign * (end - times)
            if not self.anytime and (far > 0).any():
                back = np.clip(far[far > 0], self.grid.width, last - first)
                found.append((far > 0, end, sign * back))
        return found

    def mean(self, times: Floats) -> Floats:
        """Return the posterior mean; outside the span, its average over as far back as a time lies beyond the end."""
        found, edges = self.inside(times), self.grid.edges
        for beyond, end, back in self._outside(times):
            masses = [np.interp(time, edges, self._cumulative) for time in (end + back, end)]
            found[beyond] = (masses[0] - masses[1]) / back
        return found

    def drawn(self, times: Floats) -> Floats:
        """Return all draws of the intensity, ``(draws, times)``."""
        found = self.drawn_inside(times)
        for beyond, end, back in self._outside(times):
            # Each draw looks back by a share of its own.
            reach = float(back[np.argmax(np.abs(back))])
            known = self.drawn_inside(end + reach * (np.arange(CELLS) + 0.5) / CELLS)
            share = np.random.default_rng(2).uniform(size=(len(known), 1))
            found[:, beyond] = np.take_along_axis(known, (share * (back / reach) * CELLS).astype(np.intp), axis=1)
        return found

    def masses(self, stretch: Grid) -> Floats:
        """Return the integrals of the draws."""
        chunks = np.array_split(stretch.middles, -(-stretch.cells // CELLS))
        return np.asarray(sum(self.drawn(chunk).sum(axis=1) for chunk in chunks) * stretch.width)

    def band(self, times: Floats, level: float) -> Band:
        """Return the mean and quantiles of the draws."""
        tails, mean = [0.5 - level / 2, 0.5 + level / 2], self.mean(times)
        # A thousand times at once, for the sake of memory.
        chunks = [times[first : first + 1000] for first in range(0, len(times), 1000)]
        quantiles = [np.quantile(self.drawn(chunk), tails, axis=0) for chunk in chunks]
        lower, upper = np.concatenate([np.zeros((2, 0)), *quantiles], axis=1)
        return Band(mean, np.minimum(lower, mean), np.maximum(upper, mean))


class Path(NamedTuple):
    """Drawn events: their times and types, and what their intensity had summed up to by some times, ``(times,)``."""

    times: list[float]
    marks: list[str]
    mass: Floats


class IntensityGivenHistory(Intensity):
    """An intensity given the events before.

    Attributes
    ----------
    remembers
        Whether the events before matter to it.
    """

    remembers: bool = True

    @abstractmethod
    def given(self, times: Floats, history: Floats, start: float, marks: tuple[str, ...]) -> LogNormal:
        """Return the posterior of the intensity at times, given the sorted times and types of earlier events."""

    def draw_mark(
        self, time: float, history: list[float], start: float, marks: list[str], rng: np.random.Generator
    ) -> str | None:
        """Return the type of a drawn event; none where events are unmarked."""
        return None

    def intensity(
        self, times: Any, history: Any = None, start: Any = None, level: float = 0.95, marks: tuple[str, ...] = ()
    ) -> Band:
        """Return mean, lower and upper end of a band that should hold a share `level` of the truths.

        A model that does not know how sure it is, such as a process of few parameters or a neural one, has ends of NaN.

        Of `history`, the sorted times of the sequence's events, those before a time count for it; `marks` are their
        types, where the model knows types. The sequence began to be watched at `start`, by default the start of the
        span. Without a history there was no event before, which is warned of; an empty one says so.
        """
        check_level(level)
        at, past, begin = self.look_back(times, self._so_far(history), start)
        return Band.from_logarithm(*self.given(at.ravel(), past, begin, marks), level).reshape(at.shape)

    def to_frame(
        self,
        times: Any = None,
        history: Any = None,
        start: Any = None,
        level: float = 0.95,
        marks: tuple[str, ...] = (),
        kind: FrameKind = "pandas",
    ) -> Any:
        """Return the columns ``time, mean, lower, upper`` of `intensity` as a dataframe; by default over the span."""
        at = self.clock.plain_times(*self.span, 300) if times is None else self.clock.numbers(times)
        columns = {"time": at, **self.intensity(at, history, start, level, marks)._asdict()}
        return make_frame(columns, kind, {"time": self.clock})

    def _so_far(self, history: Any) -> Any:
        """Return the history; warn where the model looks back at events and there is none."""
        if history is None and self.remembers:
            warn(
                "this begins as if no event had come before, and the model looks back at events; pass history=, the "
                "times of those so far, or [] if there were none"
            )
        return () if history is None else history

    def look_back(self, times: Any, history: Any, start: Any) -> tuple[Floats, Floats, float]:
        """Return times, history and start as numbers of the clock; refuse those that do not fit together."""
        at, past, clock = self.numbers(times), self.past(history), self.clock
        begin = self.span[0] if start is None else clock.number(start)
        if not np.isfinite(past).all() or (np.diff(past) < 0).any():
            raise DataError("the history must be finite and sorted, got times that are not")
        earliest = min([begin, *at.ravel().tolist(), *past[:1].tolist()])
        if earliest < begin:
            words = f"times and history must not lie before {clock.text(begin)}, when the sequence began to be watched"
            raise DataError(f"{words}, got {clock.text(earliest)}; pass start=")
        return at, past, begin

    def past(self, history: Any) -> Floats:
        """Return the times of a history as numbers of the clock; refuse what is no list of times."""
        if np.ndim(history) != 1:
            must = "history must be the sorted times of the sequence's events so far, such as those of its table"
            raise ParameterError(f"{must}, got {history!r}; where there were none, pass [] and start=")
        return self.clock.numbers(history) if len(history) else np.zeros(0)

    def predict_next(
        self, history: Any = None, until: Any = None, start: Any = None, marks: tuple[str, ...] = ()
    ) -> NextEvent:
        """Return the distribution of the first event after the last of `history`, or after `start` without events.

        It is looked for until `until`; by default until it has come almost surely, or as far as the model can say.
        """
        clock = self.clock
        _, past, begin = self.look_back([], () if history is None and start is not None else history, start)
        last = float([begin, *past][-1])
        if until is None:
            far, end = self._farthest(last), last + self._wait
            while end < far and self._ahead(past, end, begin, marks).survival[-1] > np.exp(-SURELY):
                end += end - last
            until = min(end, far)
        end = float(self.numbers([clock.number(until)])[0])
        if not last < end:
            words = f"until must lie after the last event at {clock.text(last)}"
            raise ParameterError(f"{words}, got {clock.text(end)}")
        return self._ahead(past, end, begin, marks)

    def _ahead(
        self,
        past: Floats,
        until: float,
        begin: float,
        marks: tuple[str, ...],
        now: float | None = None,
        steps: Floats = AHEAD,
    ) -> NextEvent:
        last = float([begin, *past][-1]) if now is None else now
        edges = last + (until - last) * steps
        mean = self.given((edges[1:] + edges[:-1]) / 2, past, begin, marks)[0]
        return NextEvent(edges, np.exp(-np.append(0.0, np.cumsum(mean * np.diff(edges)))), self.clock)

    def sample(self, start: Any, end: Any, seed: np.random.Generator | int = 0, count: int = 1) -> Events:
        """Draw sequences event by event, each from the distribution of the next given those before."""
        stream, (first, last) = np.random.default_rng(seed), self.stretch(start, end)
        drawn = [self._draw(first, last, np.zeros(0), first, (), stream) for _ in range(count)]
        types = [path.marks for path in drawn]
        kept = types if any(types) else None
        sequences = [path.times for path in drawn]
        return Events.from_arrays(sequences, (first, last), kept, unit=self.clock.unit, zone=self.clock.zone)

    def _draw(
        self,
        first: float,
        last: float,
        past: Floats,
        begin: float,
        marks: tuple[str, ...],
        stream: np.random.Generator,
        bounds: Floats = NOWHERE,
        steps: Floats = AHEAD,
    ) -> Path:
        """Return the events drawn in a stretch, given those before; looked for some at a time."""
        times, types, known = past.tolist(), list(marks), len(past)
        now, mass = first, np.zeros(len(bounds))
        while now < last:
            until = min(now + self._wait / SURELY * NEAR, last)
            ahead = self._ahead(np.array(times), until, begin, tuple(types), now, steps)
            time = ahead.number_at(stream.uniform())
            mass -= np.log(np.interp(np.clip(bounds, now, min(time, until)), ahead.numbers, ahead.survival))
            # Without an event until then, what follows is drawn anew from there.
            now = min(time, until)
            if time < until:
                mark = self.draw_mark(time, times, begin, types, stream)
                times.append(time)
                types += [] if mark is None else [mark]
        return Path(times[known:], types[len(marks) :], mass)

    def predict_count(
        self, start: Any, end: Any, level: float = 0.95, history: Any = None, marks: tuple[str, ...] = ()
    ) -> Count:
        """Return how many events one sequence will have in ``[start, end]``, with an interval, by simulation.

        `history` are the sorted times of the sequence's events before `start`, `marks` their types where the model
        knows types. The interval holds how much simulated counts vary, and the doubt about the client's level. Without
        a history there was no event before, which is warned of; an empty one says so.
        """
        check_level(level)
        first, last = self.stretch(start, end)
        if first == last:
            return Count(0.0, 0.0, 0.0)
        past = self.past(self._so_far(history))
        begin = min([first, *past[:1].tolist()])
        if len(past) and past[-1] > first:
            raise DataError(f"the history must lie before {self.clock.text(first)}, got {self.clock.text(past[-1])}")
        mean, variance = self.count_moments(first, last, past, begin, marks)
        chance = variance + mean**2 / max(self.seen[0], 1.0)
        shape = mean**2 / max(chance - mean, 1e-9) if mean else 0.0
        # Each client has chances of its own: those of one seed would err in the same direction at all.
        stream = np.random.default_rng(np.array(self.seen).view(np.uint32))
        masses = stream.gamma(shape, mean / shape, 20_000) if mean else np.zeros(1)
        return Count.from_masses(mean, masses, level)

    def count_moments(
        self, first: float, last: float, past: Floats, begin: float, marks: tuple[str, ...]
    ) -> tuple[float, float]:
        r"""Return mean and variance of the number of events in a stretch, by simulation.

        The mean of counts is that of the integrals of the intensity along the paths. In each part of the stretch,
        count minus integral is a martingale's increment, whose mean is zero: what the integrals owe to it by a
        regression is taken away. For a linear Hawkes process that leaves little chance, for a constant rate none.
        """
        stream, usual = np.random.default_rng(np.array(self.seen).view(np.uint32)), (last - first) / self._wait * SURELY
        paths, bounds = int(np.clip(SIMULATED / max(usual, 1.0), *PATHS)), np.linspace(first, last, PARTS + 1)[1:]
        with limit_threads(1):  # of small arrays, which several threads only wait for
            drawn = [self._draw(first, last, past, begin, marks, stream, bounds, COARSE) for _ in range(paths)]
        masses = np.stack([path.mass for path in drawn])
        reached = np.stack([np.searchsorted(path.times, bounds, side="right") for path in drawn])
        surprise = np.diff(reached - masses, axis=1, prepend=0.0)
        centred = surprise - surprise.mean(axis=0)
        weight = np.linalg.lstsq(centred, masses[:, -1] - masses[:, -1].mean(), rcond=None)[0]
        mean = max(float(masses[:, -1].mean() - surprise.mean(axis=0) @ weight), 0.0)
        # Few paths know the variance less well: it is drawn to that of a Poisson process.
        varies = float(np.var(reached[:, -1])) * paths + max(mean, 1.0) * POISSON_PATHS
        return mean, varies / (paths + POISSON_PATHS)

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
