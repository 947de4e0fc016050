"""Record: a client's events as arrays, cut into parts; `Grid` counts them, and `Summary` is what is known of all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cotempo.data import Events, Table, read_events
from cotempo.data.clock import LABELS, Clock
from cotempo.errors import DataError, ParameterError, Problem
from cotempo.typing import Floats

FOLDS = 5
# Blocks of each fold that a window is cut into where there are too few windows to deal out.
BLOCKS = 5
# Gaps are counted in half octaves of the span: the unit of time does not matter.
OCTAVES = np.arange(-60.0, 60.5, 0.5)
QUANTILES = (0.1, 0.4, 0.7, 0.95)


@dataclass(frozen=True)
class Record:
    """Events and windows of one client.

    `time` has each distinct time of a sequence, sorted by sequence and time; `count` how many of its events count,
    `size` how many it has as history, `types` how many of each type, ``(times, types)``, without columns where types
    are left out; `sequence` is the number of its sequence, `held` whether it is held out. Windows have `start` and
    `end`; a sequence that was cut has several. `origin` is when each sequence began to be watched, ``(sequences,)``.
    `step` is what times were cut down to before they were spread again, 0 where they were not.
    """

    time: Floats
    count: Floats
    sequence: NDArray[np.int64]
    held: NDArray[np.bool_]
    size: Floats
    start: Floats
    end: Floats
    window_sequence: NDArray[np.int64]
    window_held: NDArray[np.bool_]
    origin: Floats
    types: Floats
    step: float = 0.0

    @classmethod
    def of(
        cls, events: Events, *, condition: bool = True, marks: bool = False, local: bool = False, spread: bool = True
    ) -> Record:
        """Read a table; nothing is held out yet. With `marks`, types are counted; with `local`, times are local.

        With `condition`, the first event of a sequence is history and not counted when it stands exactly at the
        window's start: a window that begins with its first event was opened by it. With `spread`, times that were cut
        down to steps, as all of them together tell, are spread over these.
        """
        step = events.step if spread else 0.0
        events = events.spread() if step else events
        events = _localize(events) if local else events
        number = np.searchsorted(events.names, events.sequence)
        new = np.ones(len(number), dtype=bool)
        new[1:] = (np.diff(number) > 0) | (np.diff(events.time) > 0)
        first = np.flatnonzero(new)
        size = np.diff(np.append(first, len(number))).astype(np.float64)
        count = size
        time, sequence = events.time[first], number[first]
        if condition:
            opening = np.append(True, np.diff(sequence) > 0)[: len(sequence)] & (time == events.start[sequence])
            count = count - opening
        windows = len(events.names)
        types = np.zeros((len(time), len(events.marks) if marks else 0))
        if marks:
            np.add.at(types, (np.cumsum(new) - 1, events.mark), 1.0)
        return cls(
            time, count, sequence, np.zeros(len(time), dtype=bool), size, np.array(events.start),
            np.array(events.end), np.arange(windows), np.zeros(windows, dtype=bool), np.array(events.start), types,
            step,
        )  # fmt: skip

    @property
    def events(self) -> float:
        """The number of events that count."""
        return float(self.count.sum())

    @property
    def exposure(self) -> float:
        """The total length of the windows."""
        return float((self.end - self.start).sum())

    @property
    def single(self) -> bool:
        """Whether no two windows overlap: one sequence, or several that are one, watched with breaks between."""
        order = np.argsort(self.start, kind="stable")
        return bool((self.start[order][1:] >= self.end[order][:-1]).all())

    def hold_out(self, folds: int = FOLDS, fold: int = -1) -> Record:
        """Mark a fold as held out, the last by default: complete sequences, or of a `single` one short blocks.

        Blocks alternate over the windows, so that a function of time is judged between times it saw. With fewer
        sequences than folds there are as many folds as sequences.
        """
        cut, number = self._deal(folds)
        return cut._hold(number == (number.max(initial=0) if fold < 0 else fold))

    def deal(self, folds: int = FOLDS) -> list[Record]:
        """Return the parts of a cross-validation; with fewer sequences than folds, but not one, the first are empty."""
        cut, number = self._deal(folds)
        return [cut._hold(number == fold).part(held=True) for fold in range(folds)]

    def _deal(self, folds: int) -> tuple[Record, NDArray[np.intp]]:
        """Return the record, cut where it must be, and the fold of each window."""
        sequences, rank = np.unique(self.window_sequence, return_inverse=True)
        if not self.single:
            # Few sequences fill the last folds, so that the last one is never empty.
            return self, rank % folds + max(folds - len(sequences), 0)
        windows, blocks = len(self.start), folds * BLOCKS
        cut = (
            self._cut(-(-blocks // max(windows, 1)))
            if windows < (blocks if windows == len(sequences) else folds)
            else self
        )
        return cut, np.arange(len(cut.start)) % folds

    def _hold(self, windows: NDArray[np.bool_]) -> Record:
        """Mark windows as held out, and the times in them."""
        return replace(self, held=windows[self._window_of_times()], window_held=windows)

    def _cut(self, pieces: int) -> Record:
        """Cut every window into equal pieces."""
        share = np.linspace(0.0, 1.0, pieces + 1)
        edges = self.start[:, None] + (self.end - self.start)[:, None] * share
        edges[:, -1] = self.end
        return replace(
            self,
            start=edges[:, :-1].ravel(),
            end=edges[:, 1:].ravel(),
            window_sequence=np.repeat(self.window_sequence, pieces),
            window_held=np.repeat(self.window_held, pieces),
        )

    def _window_of_times(self) -> NDArray[np.intp]:
        """Return the window each time lies in, ``(times,)``; an edge belongs to the window it ends."""
        windows = len(self.start)
        sequence = np.concatenate([self.sequence, self.window_sequence])
        order = np.lexsort((np.arange(len(sequence)), np.concatenate([self.time, self.start]), sequence))
        opened = np.cumsum(order >= len(self.time)) - 1
        place = np.empty(len(sequence), dtype=np.intp)
        place[order] = opened
        by_start = np.lexsort((self.start, self.window_sequence))
        first = np.searchsorted(self.window_sequence[by_start], self.sequence)
        return by_start[np.clip(place[: len(self.time)], first, max(windows - 1, 0))] if windows else place[:0]

    def part(self, *, held: bool) -> Record:
        """Return the part learned from or held out; all events stay as history, those of the other part count 0."""
        windows = self.window_held == held
        return replace(
            self,
            count=np.where(self.held == held, self.count, 0.0),
            start=self.start[windows],
            end=self.end[windows],
            window_sequence=self.window_sequence[windows],
            window_held=self.window_held[windows],
        )

    def after(self, time: float) -> Record:
        """Return the part after a time; all events stay as history."""
        later = self.end > time
        return replace(
            self,
            count=np.where(self.time > time, self.count, 0.0),
            start=np.maximum(self.start[later], time),
            end=self.end[later],
            window_sequence=self.window_sequence[later],
            window_held=self.window_held[later],
        )

    def whole(self) -> Record:
        """Forget what was held out."""
        return replace(self, held=np.zeros_like(self.held), window_held=np.zeros_like(self.window_held))


def read_record(
    table: Table, *, condition: bool = True, marks: bool = False, local: bool = False, spread: bool = True
) -> Record:
    """Read a client's table as `Record.of` does; refuse one without a watched sequence.

    With `local`, times are those of the clocks of the table's zone, as a period of local days needs them.
    """
    assert isinstance(table, Events)  # a method's `check` saw the schema
    if not len(table.names):
        raise DataError([Problem("there must be at least one watched sequence, there is none; pass its window")])
    return Record.of(table, condition=condition, marks=marks, local=local, spread=spread)


def _localize(table: Events) -> Events:
    """Return the table with times as the clocks of its zone show them; a sequence under a day keeps one offset.

    The hour that clocks skip or repeat counts as one hour: of a night a year, rates are off by as much.
    """
    clock, day = table.clock, table.clock.duration("1D") if table.clock.dates else 0.0
    owner = np.searchsorted(table.names, table.sequence)
    short = table.end - table.start < day
    start = clock.local(table.start)
    moved = start - table.start
    end = np.where(short, table.end + moved, clock.local(table.end))
    # Where clocks are set back, an event soon after the start may come before it, or one just before the end after it.
    time = np.where(short[owner], table.time + moved[owner], clock.local(table.time)).clip(start[owner], end[owner])
    order = np.lexsort((time, owner))
    return replace(
        table, sequence=table.sequence[order], time=time[order], mark=table.mark[order], start=start, end=end
    )


def as_events(events: Any, window: tuple[Any, Any] | None = None, clock: Clock | None = None) -> Events:
    """Return a table as it is, and a dataframe of one client or plain sorted times as a table.

    With `clock`, that of a model, times must be counted as it does.
    """
    if isinstance(events, Mapping):
        names = ", ".join(map(str, list(events)[:3])) or "none"
        raise DataError(f"events must be the table of one client, got a mapping of {names}; pass one of its tables")
    if hasattr(events, "columns") and not isinstance(events, Events):
        events = _single(read_events(events, unit=clock.unit) if clock and clock.dates else read_events(events))
    if not isinstance(events, Events):
        return _from_times(events, window, clock)
    if window is not None:
        raise ParameterError("a table of events knows its windows; pass window= only with plain times")
    if clock is not None and (events.unit, bool(events.zone)) != (clock.unit, bool(clock.zone)):
        wanted, found = _counted(clock), _counted(events.clock)
        raise DataError(f"events must be counted in {wanted}, as those learned from, got {found}")
    return events


def _from_times(times: Any, window: tuple[Any, Any] | None, clock: Clock | None) -> Events:
    """Return plain times, numbers or dates, as a table of one sequence."""
    if not isinstance(times, Iterable) or isinstance(times, str):
        raise DataError(f"events must be a table, a dataframe or sorted times, got {type(times).__name__}")
    if clock is None and np.asarray(times).dtype.kind not in "fiub":
        import pyarrow as pa

        columns = {"time": times}
        if window is not None:
            columns |= {"start": [window[0]] * len(list(times)), "end": [window[1]] * len(list(times))}
        return _single(read_events(pa.table(columns)))
    clock = clock or Clock()
    numbers = clock.numbers(times)
    if numbers.ndim != 1:
        raise DataError(f"times must be one row of numbers, got an array with {numbers.ndim} dimensions")
    ends = None if window is None else [[clock.number(end) for end in window]]
    return Events.from_arrays([numbers], ends, unit=clock.unit, zone=clock.zone)


def _counted(clock: Clock) -> str:
    if not clock.dates:
        return "plain numbers"
    return f"{LABELS[clock.unit]} of dates {'with' if clock.zone else 'without'} a zone"


def _single(tables: Mapping[str, Events]) -> Events:
    if len(tables) != 1:
        names = ", ".join(list(tables)[:3])
        raise DataError(f"events must be those of one client, got {len(tables)}: {names}; read_events returns each")
    return next(iter(tables.values()))


@dataclass(frozen=True)
class Summary:
    """Sums over clients, and quantiles of the gaps between events read off their summed histogram."""

    events: float
    exposure: float
    start: float
    end: float
    gaps: tuple[float, ...]

    @property
    def rate(self) -> float:
        """The pooled rate; half an event stands for none."""
        return max(self.events, 0.5) / self.exposure

    def to_array(self) -> Floats:
        """Return as one row of numbers, to be sent."""
        return np.array([self.events, self.exposure, self.start, self.end, *self.gaps])

    @classmethod
    def from_array(cls, values: Floats) -> Summary:
        """Read `to_array`."""
        events, exposure, start, end, *gaps = values.tolist()
        return cls(events, exposure, start, end, tuple(gaps))


def rounded_span(record: Record) -> tuple[float, float]:
    """Return first start and last end of the windows, rounded outwards to a tenth of their order of magnitude.

    A window may begin or end with an event; what crosses must not tell its time. Orders of magnitude are those of the
    unit and origin of time: to depend on neither, agree on a window instead.
    """
    first, last = float(record.start.min()), float(record.end.max())
    step = 10.0 ** np.floor(np.log10(last - first)) / 10
    low, high = float(np.floor(first / step) * step), float(np.ceil(last / step) * step)
    # The product is rounded itself, and may come to lie inside by the last digit.
    return low - step if low > first else low, high + step if high < last else high


def gap_histogram(record: Record, span: Floats) -> Floats:
    """Return how many gaps that end with an event that counts fall into each half octave of the span, ``(240,)``."""
    gaps = np.diff(record.time)[(np.diff(record.sequence) == 0) & (record.count[1:] > 0)]
    return np.histogram(np.log2(gaps / (span[1] - span[0])), OCTAVES)[0].astype(np.float64)


def gap_quantiles(histogram: Floats, fallback: float, span: Floats) -> tuple[float, ...]:
    """Return quantiles of the gaps; multiples of `fallback` where there is no gap at all."""
    if not histogram.sum():
        return tuple(fallback * 2.0**k for k in range(-2, len(QUANTILES) - 2))
    cumulative = np.append(0.0, np.cumsum(histogram)) / histogram.sum()
    return tuple(float((span[1] - span[0]) * 2.0 ** np.interp(share, cumulative, OCTAVES)) for share in QUANTILES)


@dataclass(frozen=True)
class Grid:
    """Equal cells of the stretch ``[start, end]``, in which events and exposure are counted: cost is that of cells."""

    start: float
    end: float
    cells: int

    def __post_init__(self) -> None:
        if not (np.isfinite(self.start) and np.isfinite(self.end) and self.start < self.end):
            raise ParameterError(f"a grid must end after its start, got [{self.start:g}, {self.end:g}]")

    @property
    def width(self) -> float:
        """The length of a cell."""
        return (self.end - self.start) / self.cells

    @property
    def edges(self) -> Floats:
        """Where cells begin and end, ``(cells + 1,)``."""
        return np.asarray(np.linspace(self.start, self.end, self.cells + 1), dtype=np.float64)

    @property
    def middles(self) -> Floats:
        """The middle of each cell, ``(cells,)``."""
        return np.asarray(self.start + self.width * (np.arange(self.cells) + 0.5), dtype=np.float64)

    def count(self, record: Record) -> Floats:
        """Return the number of events in each cell, ``(cells,)``; those outside are counted at the nearest end."""
        place = np.floor((record.time - self.start) / self.width)
        inside = np.clip(place, 0, self.cells - 1).astype(np.intp)
        return np.asarray(np.bincount(inside, weights=record.count, minlength=self.cells), dtype=np.float64)

    def expose(self, record: Record) -> Floats:
        """Return how long each cell was watched, ``(cells,)``; the ends also stand for what lies outside."""
        edges = self.edges
        total = np.zeros(self.cells + 1)
        # Few windows at a time, so that many windows do not need much memory.
        for first in range(0, len(record.start), 2000):
            starts, ends = record.start[first : first + 2000], record.end[first : first + 2000]
            total += np.clip(edges[:, None] - starts, 0.0, ends - starts).sum(axis=1)
        total[0], total[-1] = 0.0, (record.end - record.start).sum()
        return np.diff(total)
