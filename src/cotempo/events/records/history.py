"""History: time since the last event and decayed counts, at every event and in cells between events."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cotempo.events.records.record import Record
from cotempo.typing import Floats

# Where a gap between two events is cut, finely after the event, where hazards have their spikes; finer for networks.
CUTS = np.array([0.0, 0.01, 0.05, 0.2, 0.45, 0.7, 1.0])
SPIKES = np.array([0.0, 0.005, 0.02, 0.08, 0.25, 0.55, 1.0])
WHOLE = np.array([0.0, 1.0])


@dataclass(frozen=True)
class Unrolled:
    """A record with its history, ``(events, ...)`` and ``(cells, ...)``.

    Per distinct event time: `count` is how many events count, `elapsed` the time since the event before (or since the
    sequence began), `recency` the sum of ``exp(-decay * age)`` over earlier events for each of `decays`. Per cell
    between events: `begin` is its time, `lower` and `upper` are the times since the last event at its ends,
    `origin_recency` the recency just after that event, `cell_before` the number of distinct times its sequence had
    before. `open` has, per window that ends without an event, the time since the last one; `closed` says per gap, which
    is a run of as many cells as it was cut into, whether an event ends it.
    """

    time: Floats
    count: Floats
    elapsed: Floats
    recency: Floats
    sequence: NDArray[np.int64]
    begin: Floats
    lower: Floats
    upper: Floats
    origin_recency: Floats
    cell_sequence: NDArray[np.int64]
    cell_before: NDArray[np.int64]
    open: Floats
    closed: NDArray[np.bool_]
    decays: Floats

    @property
    def middle(self) -> Floats:
        """The time in the middle of each cell."""
        return self.begin + (self.upper - self.lower) / 2

    @property
    def middle_elapsed(self) -> Floats:
        """The time since the last event in the middle of each cell."""
        return (self.lower + self.upper) / 2

    @property
    def middle_recency(self) -> Floats:
        """The recency in the middle of each cell."""
        return self.origin_recency * np.exp(-self.middle_elapsed[:, None] * self.decays)


def unroll(record: Record, decays: Floats, cuts: Floats = CUTS) -> Unrolled:
    """Look back from every event and from cells between them; each sequence has its own history."""
    first = np.append(True, np.diff(record.sequence) > 0)[: len(record.sequence)]
    last_time = np.where(first, record.origin[record.sequence], np.roll(record.time, 1))
    elapsed = record.time - last_time
    recency = decayed_counts(elapsed, np.where(first, 0.0, np.roll(record.size, 1)), first, decays)
    low, high, previous, owner, is_open = _gaps(record)
    known = previous >= 0
    anchor = np.where(known, record.time[previous] if len(record.time) else 0.0, record.origin[owner])
    after = np.zeros((len(low), len(decays)))
    after[known] = recency[previous[known]] + record.size[previous[known], None]
    before = np.zeros(len(low), dtype=np.int64)
    before[known] = place_in_sequence(record)[previous[known]] + 1
    edges = (low - anchor)[:, None] + (high - low)[:, None] * cuts
    pieces = len(cuts) - 1
    return Unrolled(
        time=record.time, count=record.count, elapsed=elapsed, recency=recency, sequence=record.sequence,
        begin=(anchor[:, None] + edges[:, :-1]).ravel(), lower=edges[:, :-1].ravel(), upper=edges[:, 1:].ravel(),
        origin_recency=np.repeat(after, pieces, axis=0), cell_sequence=np.repeat(owner, pieces),
        cell_before=np.repeat(before, pieces), open=(high - anchor)[is_open], closed=~is_open, decays=decays,
    )  # fmt: skip


def waits(unrolled: Unrolled, mass: Floats) -> list[Floats]:
    """Return waiting times between events on a model's clock, one array a sequence; its windows are put end to end.

    `mass` is what the clock does in each piece of each gap, ``(gaps * pieces,)``.
    """
    count = len(unrolled.closed)
    if not count:
        return []
    gaps, owner = mass.reshape(count, -1).sum(axis=1), unrolled.cell_sequence.reshape(count, -1)[:, 0]
    parts = [owner == number for number in np.unique(owner)]
    return [np.diff(np.cumsum(gaps[part])[unrolled.closed[part]], prepend=0.0) for part in parts]


def place_in_sequence(record: Record) -> NDArray[np.int64]:
    """Return how many distinct times the sequence of each time had before it, ``(times,)``."""
    return np.arange(len(record.sequence)) - np.searchsorted(record.sequence, record.sequence)


def _gaps(record: Record) -> tuple[Floats, Floats, NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """Return stretches without events inside windows: both ends, the event before (-1: none), the sequence, and whether
    the stretch ends with its window and not with an event."""
    bounds = np.searchsorted(record.sequence, np.arange(len(record.origin) + 1))
    lows, highs, previous, owners, opens = [], [], [], [], []
    for start, end, number in zip(record.start, record.end, record.window_sequence, strict=True):
        times = record.time[bounds[number] : bounds[number + 1]]
        inside = slice(*np.searchsorted(times, [start, end], side="right"))
        ends_with_event = inside.stop > inside.start and times[inside.stop - 1] == end
        points = np.concatenate([[start], times[inside], [] if ends_with_event else [end]])
        index = bounds[number] + np.arange(inside.start - 1, inside.start - 1 + len(points) - 1)
        lows.append(points[:-1])
        highs.append(points[1:])
        previous.append(np.where(index >= bounds[number], index, -1))
        owners.append(np.full(len(points) - 1, number))
        opens.append(np.append(np.zeros(max(len(points) - 2, 0), dtype=bool), not ends_with_event)[: len(points) - 1])
    empty = np.zeros(0)
    return (
        np.concatenate([empty, *lows]),
        np.concatenate([empty, *highs]),
        np.concatenate([empty, *previous]).astype(np.int64),
        np.concatenate([empty, *owners]).astype(np.int64),
        np.concatenate([empty, *opens]).astype(bool),
    )


def decayed_counts(elapsed: Floats, size_before: Floats, first: NDArray[np.bool_], decays: Floats) -> Floats:
    r"""Return sums of :math:`e^{-\beta (t_i - t_j)}` over earlier events of the same sequence, ``(events, decays)``.

    The recursion :math:`R_i = e^{-\beta (t_i - t_{i-1})} (R_{i-1} + n_{i-1})` runs by doubling, in log2(events) passes,
    so that one very long sequence costs no loop over its events.
    """
    step = np.where(first[:, None], 0.0, np.exp(-elapsed[:, None] * decays))
    value = step * size_before[:, None]
    shift, starts = 1, np.flatnonzero(np.append(first, True))
    longest = int(np.diff(starts).max()) if len(starts) > 1 else 0
    while shift < longest:
        value[shift:] = value[shift:] + step[shift:] * value[:-shift]
        step[shift:] = step[shift:] * step[:-shift]
        shift *= 2
    return value


def look_back(times: Floats, history: Floats, origin: float, decays: Floats) -> Unrolled:
    """Look back from any times of one sequence; only events strictly before a time are its history."""
    before = np.searchsorted(history, times, side="left")
    last = np.where(before > 0, history[np.maximum(before - 1, 0)] if len(history) else origin, origin)
    age = np.where(history < times[:, None], times[:, None] - history, np.inf)
    recency = np.exp(-age[:, :, None] * decays).sum(axis=1)
    nothing, none = np.zeros(0), np.zeros(len(times))
    place = np.zeros(len(times), dtype=np.int64)
    return Unrolled(
        times, none, times - last, recency, place, nothing, nothing, nothing, np.zeros((0, len(decays))),
        np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), nothing, np.zeros(0, dtype=bool), decays,
    )  # fmt: skip
