"""Canaries: units of data that a client puts into its table at random before a run, to see whether the run tells.

Each can be taken out by itself, and what it adds to a sum is found by answering the run's own question for the few rows
around it: with the canary, and without.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cotempo.data import Events, Posts, Series, Table
from cotempo.errors import ParameterError
from cotempo.typing import Bools, Floats

#: Squared length of a canary row in standard deviations, per column: what the private forms clip to by default.
SQUARED_SIZE = 1.5
#: Events of a canary sequence; words and letters of a canary post, which has more n-grams than the private form counts.
EVENTS, WORDS, LETTERS = 20, 30, 7
LETTER = np.array(list("abcdefghijklmnopqrstuvwxyz"))


class Canaries(ABC):
    """Canaries for one client's table."""

    unit = "canaries"

    def __init__(self, table: Any, count: int, stream: np.random.Generator):
        self.table, self.count, self.stream = table, count, stream

    @abstractmethod
    def around(self, place: int, *, present: bool) -> Any:
        """Return a small table of one canary and what surrounds it, or of what surrounds it alone; None if nothing."""

    @abstractmethod
    def insert(self, included: Bools) -> Table:
        """Return the client's table with those canaries."""


class RowCanaries(Canaries):
    """A row of a series, between rows of its own sequence that are there in any case."""

    unit = "rows"
    table: Series

    def __init__(self, table: Series, count: int, stream: np.random.Generator, reach: int):
        super().__init__(table, count, stream)
        self.reach = max(reach, 1)
        self.centre, self.spread = np.nanmean(table.values, axis=0), np.nanstd(table.values, axis=0)
        shape = (count, 2 * self.reach + 1, len(table.features))
        rows = stream.normal(size=shape)
        rows *= np.sqrt(SQUARED_SIZE * shape[2]) / np.linalg.norm(rows, axis=2, keepdims=True)
        self.rows = self.centre + self.spread * rows
        self.step = usual_step(table)

    def around(self, place: int, *, present: bool) -> Series:
        """Return the rows around a canary as one sequence with it, or as two without."""
        rows, name = self.rows[place], f"canary-{place:06d}"
        if present:
            return sequence_like(self.table, name, rows, self.step)
        before = sequence_like(self.table, f"{name}-0", rows[: self.reach], self.step)
        return join(before, [sequence_like(self.table, f"{name}-1", rows[self.reach + 1 :], self.step)])

    def insert(self, included: Bools) -> Series:
        """Return the series and the rows around all canaries."""
        return join(self.table, [self.around(place, present=bool(one)) for place, one in enumerate(included)])


class WindowCanaries(Canaries):
    """A window of a series: a sequence of its own, of rows that have nothing to do with each other."""

    unit = "windows"
    table: Series

    def __init__(self, table: Series, count: int, stream: np.random.Generator, length: int):
        super().__init__(table, count, stream)
        drawn = stream.normal(size=(count, length, len(table.features)))
        self.windows = np.nanmean(table.values, axis=0) + np.nanstd(table.values, axis=0) * drawn
        self.step = usual_step(table)

    def around(self, place: int, *, present: bool) -> Series | None:
        """Return the canary alone, or nothing."""
        return sequence_like(self.table, f"canary-{place:06d}", self.windows[place], self.step) if present else None

    def insert(self, included: Bools) -> Series:
        """Return the series and the canaries that are in."""
        added = [self.around(place, present=True) for place in np.flatnonzero(included).tolist()]
        return join(self.table, [one for one in added if one is not None])


class EventCanaries(Canaries):
    """An event, at a time of its own in the client's first sequence."""

    unit = "events"
    table: Events

    def __init__(self, table: Events, count: int, stream: np.random.Generator):
        super().__init__(table, count, stream)
        start, end = float(table.start[0]), float(table.end[0])
        # In the middle half of equal stretches: those two cells long or longer, no two are in the same cell.
        self.times = start + (end - start) * (np.arange(count) + stream.uniform(0.25, 0.75, size=count)) / count

    def around(self, place: int, *, present: bool) -> Events:
        """Return one sequence with the canary as its only event, or without any."""
        return self._first(self.times[[place]] if present else np.zeros(0))

    def _first(self, time: Floats) -> Events:
        size = len(time)
        return replace(
            self.table, names=self.table.names[:1], start=self.table.start[:1], end=self.table.end[:1], time=time,
            sequence=np.repeat(self.table.names[:1], size), mark=np.zeros(size, np.int64),
        )  # fmt: skip

    def insert(self, included: Bools) -> Events:
        """Return the events with canaries among those of the first sequence."""
        parts = [self.table, self._first(self.times[included])]
        sequence, time, mark = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("sequence", "time", "mark")
        )
        order = np.lexsort((time, sequence))
        return replace(self.table, sequence=sequence[order], time=time[order], mark=mark[order])


class SequenceCanaries(Canaries):
    """A sequence of events, watched as long as the client's first one."""

    unit = "sequences"
    table: Events

    def __init__(self, table: Events, count: int, stream: np.random.Generator):
        super().__init__(table, count, stream)
        start, end = float(table.start[0]), float(table.end[0])
        self.times = np.sort(stream.uniform(start, end, size=(count, EVENTS)), axis=1)

    def around(self, place: int, *, present: bool) -> Events | None:
        """Return the canary alone, or nothing."""
        return self._sequences([place]) if present else None

    def _sequences(self, places: Sequence[int]) -> Events:
        names = np.array([f"canary-{place:06d}" for place in places], dtype=np.str_)
        ends: dict[str, Any] = {
            name: np.repeat(getattr(self.table, name)[:1], len(places)) for name in ("start", "end")
        }
        time = self.times[list(places)].ravel()
        mark = np.zeros(len(time), np.int64)
        return replace(self.table, sequence=np.repeat(names, EVENTS), time=time, mark=mark, names=names, **ends)

    def insert(self, included: Bools) -> Events:
        """Return the events and the canaries that are in, sorted by name."""
        parts = [self.table, self._sequences(np.flatnonzero(included).tolist())]
        joined = {
            name: np.concatenate([getattr(part, name) for part in parts])
            for name in ("sequence", "time", "mark", "names", "start", "end")
        }
        rows, order = np.argsort(joined["sequence"], kind="stable"), np.argsort(joined["names"], kind="stable")
        sorted_by = {"sequence": rows, "time": rows, "mark": rows, "names": order, "start": order, "end": order}
        columns: dict[str, Any] = {name: joined[name][places] for name, places in sorted_by.items()}
        return replace(self.table, **columns)


class PostCanaries(Canaries):
    """A post of random words, without a label."""

    unit = "posts"
    table: Posts

    def __init__(self, table: Posts, count: int, stream: np.random.Generator):
        super().__init__(table, count, stream)
        drawn = LETTER[stream.integers(len(LETTER), size=(count, WORDS, LETTERS))]
        self.texts = [" ".join("".join(word) for word in words) for words in drawn]
        known = table.time[~np.isnan(table.time)]
        self.time = float(np.median(known)) if len(known) else float("nan")

    def around(self, place: int, *, present: bool) -> Posts | None:
        """Return the canary alone, or nothing."""
        return self._posts([self.texts[place]]) if present else None

    def _posts(self, texts: Sequence[str]) -> Posts:
        return Posts(np.full(len(texts), self.time), tuple(texts), unit=self.table.unit, zone=self.table.zone)

    def insert(self, included: Bools) -> Posts:
        """Return the posts and the canaries that are in."""
        own, added = self.table, [text for text, present in zip(self.texts, included, strict=True) if present]
        columns: dict[str, Any] = {
            name: (*getattr(own, name), *getattr(self._posts(added), name))
            for name in ("author", "hashtags", "mentions", "event")
        }
        extra = {name: (*values, *[None] * len(added)) for name, values in own.extra.items()}
        time, text = np.append(own.time, np.full(len(added), self.time)), (*own.text, *added)
        return replace(own, time=time, text=text, extra=extra, **columns)


def usual_step(table: Series) -> float:
    """Return the median time between two rows."""
    steps = np.diff(table.time)
    return float(np.median(steps[steps > 0])) if (steps > 0).any() else 1.0


def sequence_like(table: Series, name: str, values: Floats, step: float) -> Series:
    """Return rows as one sequence with the columns of a table."""
    time = table.time[0] + step * np.arange(len(values))
    return replace(table, sequence=np.repeat([name], len(values)), time=time, values=values, weights=np.zeros(0))


def join(table: Series, more: Sequence[Series]) -> Series:
    """Return a series with further sequences, sorted by name."""
    parts = [table, *more]
    names = np.concatenate([part.sequence for part in parts])
    order = np.argsort(names, kind="stable")
    time, values = (np.concatenate([getattr(part, name) for part in parts])[order] for name in ("time", "values"))
    return replace(table, sequence=names[order], time=time, values=values, weights=np.zeros(0))


def plant(table: Table, count: int, stream: np.random.Generator, *, unit: str, reach: int) -> Canaries:
    """Return canaries for a table; `unit` is what the run promises to hide, `reach` how far rows act on each other."""
    if isinstance(table, Series):
        return RowCanaries(table, count, stream, reach)
    if isinstance(table, Events):
        return (SequenceCanaries if unit == "sequence" else EventCanaries)(table, count, stream)
    if isinstance(table, Posts):
        return PostCanaries(table, count, stream)
    raise ParameterError(f"there must be canaries for the kind of table, got a table of {table.kind}")
