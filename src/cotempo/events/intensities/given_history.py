"""IntensityGivenHistory: bands, the next event and samples of any intensity given the events before."""

from abc import ABC, abstractmethod
from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from cotempo.data import Events
from cotempo.errors import DataError, ParameterError
from cotempo.events.intensities.over_time import Band, NextEvent
from cotempo.events.records.record import Record, as_events
from cotempo.typing import Floats

# Steps of a forecast, as shares of the time looked ahead: fine at first, where hazards have their spikes.
AHEAD = np.unique(np.concatenate([[0.0], np.geomspace(1e-5, 1.0, 200), np.linspace(0.0, 1.0, 201)]))


class IntensityGivenHistory(ABC):
    """An intensity given the events before, learned.

    Attributes
    ----------
    origin
        When a sequence began to be watched, unless given.
    """

    origin: float

    @abstractmethod
    def given(
        self, times: Floats, history: Floats, start: float, marks: tuple[str, ...]
    ) -> tuple[Floats, Floats, Floats]:
        """Return posterior mean of the intensity, and centre and deviation of its logarithm, ``(times,)`` each."""

    @abstractmethod
    def score_record(self, record: Record) -> Mapping[str, float]:
        """Return the scores of a record."""

    def read(self, events: Events | ArrayLike, window: tuple[float, float] | None = None) -> Record:
        """Return a table, or plain sorted times and their window, as a record."""
        return Record.of(as_events(events, window))

    def score(self, events: Events | ArrayLike, window: tuple[float, float] | None = None) -> Mapping[str, float]:
        """Return gains in nats per event over homogeneous rates, and the ratio of expected to observed events.

        `gain` is over the client's own rate, `gain_over_pooled` over that of all clients; with types of events,
        `gain_of_marks` is what the history adds to predicting them, over their own frequencies.
        """
        return self.score_record(self.read(events, window))

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
        """Return mean, lower and upper end of a band, given the events of the sequence.

        Parameters
        ----------
        times
            Where, in the unit of the events.
        history
            Sorted times of the sequence's events; only those before a time count for it.
        start
            When the sequence began to be watched; by default the start of the span.
        level
            The share of the truths the band should hold.
        marks
            The types of the events in `history`, where the model knows types.
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


def check_times(times: ArrayLike, history: ArrayLike, level: float = 0.95) -> tuple[Floats, Floats]:
    """Return times and history as arrays; refuse what is not finite or not sorted."""
    if not 0 < level < 1:
        raise ParameterError(f"level must lie between 0 and 1, got {level}")
    at, past = np.asarray(times, dtype=np.float64), np.asarray(history, dtype=np.float64)
    if not np.isfinite(at).all() or not np.isfinite(past).all() or (np.diff(past) < 0).any():
        raise DataError("times must be finite, and the history sorted")
    return at, past
