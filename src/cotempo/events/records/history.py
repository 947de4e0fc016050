"""History: time since the last event and decayed counts, at every event and in cells between events."""

from dataclasses import dataclass

import numpy as np

from cotempo.events.records.record import Record
from cotempo.typing import Bools, Floats, Integers

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
    sequence: Integers
    begin: Floats
    lower: Floats
    upper: Floats
    origin_recency: Floats
    cell_sequence: Integers
    cell_before: Integers
    open: Floats
    closed: Bools
    decays: Floats

    def at_events(self) -> tuple[Floats, Floats, Floats]:
        """Return time, elapsed time and recency at the events that count."""
        counted = self.count > 0
        return self.time[counted], self.elapsed[counted], self.recency[counted]

    def at_middles(self) -> tuple[Floats, Floats, Floats]:
        """Return time, elapsed time and recency in the middle of each cell."""
        elapsed = (self.lower + self.upper) / 2
        recency = self.origin_recency * np.exp(-elapsed[:, None] * self.decays)
        return self.begin + (self.upper - self.lower) / 2, elapsed, recency


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


def place_in_sequence(record: Record) -> Integers:
    """Return how many distinct times the sequence of each time had before it, ``(times,)``."""
    return np.arange(len(record.sequence)) - np.searchsorted(record.sequence, record.sequence)


def _gaps(record: Record) -> tuple[Floats, Floats, Integers, Integers, Bools]:
    """Return stretches without events inside windows: both ends, the event before (-1: none), the sequence, and whether
    the stretch ends with its window and not with an event."""
    bounds = np.searchsorted(record.sequence, np.arange(len(record.origin) + 1))
    found = [np.zeros((5, 0))]
    for start, end, number in zip(record.start, record.end, record.window_sequence, strict=True):
        times = record.time[bounds[number] : bounds[number + 1]]
        inside = slice(*np.searchsorted(times, [start, end], side="right"))
        ends_with_event = inside.stop > inside.start and times[inside.stop - 1] == end
        points = np.concatenate([[start], times[inside], [] if ends_with_event else [end]])
        count = len(points) - 1
        index = bounds[number] + np.arange(inside.start - 1, inside.start - 1 + count)
        previous = np.where(index >= bounds[number], index, -1)
        is_open = (np.arange(count) == count - 1) & (not ends_with_event)
        found.append(np.stack([points[:-1], points[1:], previous, np.full(count, number), is_open]))
    low, high, before, owner, opened = np.concatenate(found, axis=1)
    return low, high, before.astype(np.int64), owner.astype(np.int64), opened.astype(bool)


def decayed_counts(elapsed: Floats, size_before: Floats, first: Bools, decays: Floats) -> Floats:
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
    first, recency = np.arange(len(history)) == 0, np.zeros((len(times), len(decays)))
    after = 1.0 + decayed_counts(
        np.diff(history, prepend=origin), np.append(0.0, np.ones(len(history)))[:-1], first, decays
    )
    known = before > 0
    recency[known] = after[before[known] - 1] * np.exp(-(times[known] - last[known])[:, None] * decays)
    no, none = np.zeros(0), np.zeros(len(times))
    return Unrolled(
        times, none, times - last, recency, none.astype(np.int64), no, no, no, np.zeros((0, len(decays))),
        no.astype(np.int64), no.astype(np.int64), no, no.astype(bool), decays,
    )  # fmt: skip
