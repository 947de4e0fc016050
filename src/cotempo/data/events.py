"""`Events`: times and marks of events, and the windows in which they were observed."""

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cotempo.data.clock import Clock
from cotempo.data.description import ClientDescription
from cotempo.data.problems import Problems, duplicates
from cotempo.data.silence import find_silences
from cotempo.data.stamps import find_step, spread_stamps, step_name
from cotempo.data.tables import Schema, Table, numbered, pluralize, runs_of
from cotempo.errors import DataError
from cotempo.typing import Floats, Integers

# So few equal rows are not worth a word.
FEW_REPEATED = 2


@dataclass(frozen=True, eq=False, repr=False)
class Events(Table):
    """One client's events, sorted by sequence and time, with the observation window of each sequence.

    A sequence may have a window and no events: that nothing happened is information too.

    Parameters
    ----------
    sequence, time, mark
        Name of the sequence, time and code of the mark of each event, ``(rows,)``. Equal times are allowed.
    marks
        Name of each code; empty when the events are unmarked, and then all codes are 0.
    names, start, end
        One entry per sequence, sorted by name, ``(sequences,)``; events lie in the closed window ``[start, end]``.
    unit
        ``"s"``, ``"h"`` or ``"D"`` since 1970-01-01 UTC; empty where time is a plain number.
    zone
        The time zone of the dates, such as ``"Europe/Berlin"`` or ``"+01:00"``; empty where they came without one.
    guessed
        Whether any window begins with the first event and ends with the last because none was given.

    Examples
    --------
    >>> Events.from_arrays([[0.5, 2.0], []], windows=(0.0, 3.0))
    Events(2 rows, 2 sequences, 6 exposed, unmarked)
    """

    sequence: NDArray[np.str_]
    time: Floats
    mark: Integers
    marks: tuple[str, ...]
    names: NDArray[np.str_]
    start: Floats
    end: Floats
    unit: str = ""
    zone: str = ""
    guessed: bool = False
    kind: ClassVar[str] = "events"
    columns_are: ClassVar[str] = "marks"
    row_fields: ClassVar[tuple[str, ...]] = ("sequence", "time", "mark")
    time_columns: ClassVar[tuple[str, ...]] = ("time", "start", "end")

    def __post_init__(self) -> None:
        object.__setattr__(self, "marks", tuple(map(str, self.marks)))
        self._own(sequence=np.str_, time=np.float64, mark=np.int64, names=np.str_, start=np.float64, end=np.float64)
        _check(self)

    @classmethod
    def from_arrays(
        cls,
        times: Sequence[ArrayLike],
        windows: ArrayLike | None = None,
        marks: Sequence[Sequence[object]] | None = None,
        mark_names: Sequence[str] | None = None,
        unit: str = "",
        zone: str = "",
    ) -> Self:
        """Build a table from a list of sorted arrays of times, one per sequence.

        Parameters
        ----------
        times
            Times of the events of each sequence, numbers or dates, in rising order.
        windows
            One ``(start, end)`` for all sequences, or one per sequence. By default a window reaches from the first to
            the last event, which loses the quiet time before and after.
        marks
            The mark of each event, sequence by sequence.
        mark_names
            All marks there are; by default those that occur, sorted.
        unit, zone
            The unit of `times`, and the zone their dates are shown in.
        """
        clock, guessed = Clock(unit, zone), windows is None
        parts = [clock.numbers(part) for part in times]
        sizes = [len(part) for part in parts]
        names = np.array(numbered(len(parts)), dtype=np.str_)
        if windows is None:
            windows = np.array([[part[0], part[-1]] if len(part) else [0.0, 0.0] for part in parts])
        start, end = np.broadcast_to(clock.numbers(windows), (len(parts), 2)).T
        codes, vocabulary = _codes(marks, mark_names, sizes)
        joined = np.concatenate([np.zeros(0), *parts])
        return cls(np.repeat(names, sizes), joined, codes, vocabulary, names, start, end, unit, zone, guessed)

    @classmethod
    def from_durations(
        cls, durations: ArrayLike, observed: ArrayLike | None = None, entered: ArrayLike = 0.0, unit: str = ""
    ) -> Self:
        """Build a table of survival times, one sequence a subject; time is counted since each subject's own start.

        An intensity over this time is the hazard, and `survival` of what is fitted the chance to have come that far.

        Parameters
        ----------
        durations
            When each subject's event came, or until when it was watched in vain.
        observed
            Whether the event came; where not, the duration is censored. By default all came.
        entered
            From when on each subject was watched, where that is later than its start.
        unit
            The unit of `durations`.

        Examples
        --------
        >>> table = Events.from_durations([2.0, 5.0, 1.5], observed=[True, False, True])
        >>> table
        Events(2 rows, 3 sequences, 8.5 exposed, unmarked)
        """
        ends = np.asarray(durations, dtype=np.float64)
        starts = np.broadcast_to(np.asarray(entered, dtype=np.float64), ends.shape)
        came = np.ones(len(ends), dtype=bool) if observed is None else np.asarray(observed)
        if came.shape != ends.shape or not np.isin(came, (0, 1)).all():
            raise DataError("observed must say True or False, or 1 or 0, for each duration; got something else")
        wrong = np.flatnonzero(~(np.isfinite(ends) & (starts >= 0) & (starts < ends)))
        if len(wrong):
            first = wrong[0]
            raise DataError(
                "durations must be numbers above 0, and above `entered`, "
                f"got duration {ends[first]:g} entered at {starts[first]:g} for subject {first}"
            )
        times = [[end] if here else [] for end, here in zip(ends, came.astype(bool), strict=True)]
        return cls.from_arrays(times, np.column_stack([starts, ends]), unit=unit)

    @property
    def schema(self) -> Schema:
        """Kind, marks, unit and zone."""
        return Schema(self.kind, self.marks, self.unit, self.zone)

    @property
    def windows(self) -> dict[str, tuple[float, float]]:
        """``(start, end)`` of each sequence, by name."""
        return {name: (start, end) for name, _, _, start, end in self.sequences()}

    def sequences(self) -> Iterator[tuple[str, Floats, Integers, float, float]]:
        """Yield ``(name, times, mark codes, start, end)`` of each sequence, also of those without events."""
        first = np.searchsorted(self.sequence, self.names, side="left")
        last = np.searchsorted(self.sequence, self.names, side="right")
        for index, name in enumerate(self.names.tolist()):
            rows = slice(int(first[index]), int(last[index]))
            yield name, self.time[rows], self.mark[rows], float(self.start[index]), float(self.end[index])

    def columns(self) -> dict[str, Any]:
        """Return ``sequence``, ``time``, ``mark`` (when marked), ``start`` and ``end``, by name."""
        index = self._owner
        marked = {"mark": np.array(self.marks, dtype=np.str_)[self.mark]} if self.marks else {}
        bounds = {"start": self.start[index], "end": self.end[index]}
        return {"sequence": self.sequence, "time": self.time, **marked, **bounds}

    def side_tables(self) -> dict[str, dict[str, Any]]:
        """Return the windows of all sequences, also of those without events."""
        return {"windows": {"sequence": self.names, "start": self.start, "end": self.end}}

    @classmethod
    def recognizes(cls, columns: Set[str]) -> bool:
        """Return whether there is a mark, or no column but those of events."""
        return {"time", "mark"} <= columns or columns <= {"sequence", "time", "mark", "start", "end"}

    def split_by_time(self, shares: Floats) -> tuple[Self, ...]:
        """Cut every window at fractions of its length; an event at a cut belongs to the later part."""
        length = (self.end - self.start)[:, None]
        cuts = np.column_stack([self.start, self.start[:, None] + length * np.cumsum(shares[:-1]), self.end])
        inner = cuts[self._owner, 1:-1]
        part_of = (self.time[:, None] >= inner).sum(axis=1)
        return tuple(
            replace(self, **self._picked(part_of == part), start=cuts[:, part], end=cuts[:, part + 1])
            for part in range(len(shares))
        )

    def sequence_names(self) -> list[str]:
        """Return the names of the sequences, sorted."""
        return [str(name) for name in self.names]

    def labels(self) -> NDArray[np.str_] | None:
        """Return the most frequent mark of each sequence, empty text for one without events; None if unmarked."""
        if not self.marks:
            return None
        marks = [mark for _, _, mark, _, _ in self.sequences()]
        return np.array([self.marks[np.bincount(mark).argmax()] if len(mark) else "" for mark in marks], dtype=np.str_)

    def take(self, units: ArrayLike) -> Self:
        """Return the sequences at these positions, in the order of the table."""
        kept = np.sort(np.asarray(units, dtype=np.intp))
        names, start, end = self.names[kept], self.start[kept], self.end[kept]
        return replace(self, **self._picked(np.isin(self.sequence, names)), names=names, start=start, end=end)

    def describe(self, client: str = "client") -> ClientDescription:
        """Return sizes, marks and time, with a warning for quiet sequences, tied events and unused marks."""
        parts = list(self.sequences())
        silent = sum(len(times) == 0 for _, times, *_ in parts)
        tied = sum(int((np.diff(times) == 0).sum()) for _, times, *_ in parts)
        warnings = [f"{pluralize(silent, 'sequence')} without events"] if silent else []
        if step := self.step:
            words = f"times are in steps of {step_name(step, self.clock)}"
            warnings.append(f"{words}: an event is taken to be anywhere in its step, from its time on")
        elif tied:
            warnings.append(f"{pluralize(tied, 'event')} at the very time of another in the sequence")
        if repeated := self._repeated(step):
            words = f"{pluralize(repeated, 'row')} equal to another in sequence, time and mark: the same event twice?"
            # Of a burst, many events have the same day: to remove rows would then remove most of them.
            long = self.clock.dates and step >= self.clock.duration("1h")
            remove = "remove them with pandas: frame.drop_duplicates()"
            warnings.append(f"{words} {'in steps so long they may be different events' if long else remove}")
        unknown = sum(len(times) > 0 and times[-1] == end and not self._is_midnight(end) for _, times, *_, end in parts)
        if unknown:
            begin = f"{pluralize(unknown, 'window')} that an event begins or ends, as if unknown"
            warnings.append(f"{begin}: rates come out too high; pass windows= or columns start and end")
        if len(parts) == 1:
            words = "one sequence: nothing tells how sequences differ"
            warnings.append(f"{words}, so bands rest on blocks that FedPP cuts itself")
        counts = {mark: int((self.mark == code).sum()) for code, mark in enumerate(self.marks)}
        warnings += [f"mark {mark!r} never occurs" for mark, count in counts.items() if count == 0]
        start, end = self.span(self.start.min(), self.end.max()) if parts else (None, None)
        warnings += self.faults()
        return ClientDescription(
            client, self.rows, len(parts), start, end, marks=counts or None, warnings=tuple(warnings)
        )

    def faults(self) -> list[str]:
        """Return in words when a sequence is silent for so long that hardly anybody watched it."""
        found = []
        for _, times, _, begin, end in self.sequences():
            for first, last, usual in find_silences(times, begin, end, self.clock):
                when = f"from {self.clock.text(first)} to {self.clock.text(last)}"
                words = f"no event {when}, where about {usual:,.0f} were usual"
                found.append(f"{words}: closed, or lost? Then leave it out of the windows: one before, one after")
        return found

    def _repeated(self, step: float) -> int:
        """Return how many rows are equal to one before, if more than times that were cut down to steps are by chance.

        How often the next step has an event, too, tells how many events a step has.
        """
        rows = np.unique(np.column_stack([self._owner, self.mark, self.time]), axis=0)
        repeated = self.rows - len(rows)
        gaps = np.diff(rows[:, 2])[(np.diff(rows[:, :2], axis=0) == 0).all(axis=1)]
        follows = float(np.isclose(gaps, gaps.min(), rtol=1e-3).mean()) if step and len(gaps) else 0.0
        usual = -np.log1p(-min(follows, 1 - 1 / max(len(rows), 2)))
        by_chance = self.rows * (1 - -np.expm1(-usual) / usual) if usual else 0.0
        return repeated if repeated > FEW_REPEATED + 2 * by_chance else 0

    def _is_midnight(self, time: float) -> bool:
        """Whether a date is one that people give windows with, and not that of an event."""
        day = self.clock.duration("1D") if self.clock.dates else np.inf
        return self.clock.dates and bool(np.mod(self.clock.local(np.array([time]))[0], day) == 0)

    @property
    def step(self) -> float:
        """The step that nearly all times were cut down to, in the unit of the table; 0 where there is none."""
        return find_step(self.time, self._owner, self.clock)

    @property
    def _owner(self) -> NDArray[np.intp]:
        """The position of each event's sequence."""
        return np.searchsorted(self.names, self.sequence)

    def spread(self) -> Self:
        """Return the events at times within the steps they were cut down to, in order; the table itself without steps.

        An event that opens its window stays where it is.
        """
        owner = self._owner
        opening = (np.diff(owner, prepend=-1) > 0) & (self.time == self.start[owner])
        time = spread_stamps(self.time, owner, np.where(opening, self.time, self.end[owner]), self.clock)
        if time is self.time:
            return self
        order = np.lexsort((time, owner))
        return replace(self, sequence=self.sequence[order], time=time[order], mark=self.mark[order])

    def with_markers(self, number: int) -> tuple[Self, list[float | str]]:
        """Return the table as it is, and all times that are not whole numbers."""
        return self, [time for time in self.time.tolist() if not time.is_integer()]

    def __repr__(self) -> str:
        marked = f"marks {', '.join(self.marks)}" if self.marks else "unmarked"
        exposed = f"{float((self.end - self.start).sum()):g} {self.unit}".rstrip()
        size = f"{pluralize(self.rows, 'row')}, {pluralize(len(self.names), 'sequence')}"
        return f"Events({size}, {exposed} exposed, {marked})"


def window_text(clock: Clock, start: float, end: float) -> str:
    """Return a window as errors show it."""
    return f"[{clock.text(start)}, {clock.text(end)}]"


def order_marks(marks: set[str]) -> tuple[str, ...]:
    """Return marks sorted, as numbers if all are whole numbers."""
    whole = all(mark.isascii() and mark.isdigit() for mark in marks)
    return tuple(sorted(marks, key=lambda mark: (int(mark) if whole else 0, mark)))


def _codes(
    marks: Sequence[Sequence[object]] | None, mark_names: Sequence[str] | None, sizes: list[int]
) -> tuple[Integers, tuple[str, ...]]:
    if marks is None:
        return np.zeros(sum(sizes), dtype=np.int64), ()
    if [len(part) for part in marks] != sizes:
        raise DataError("marks must have one entry for each event, in every sequence")
    flat = [str(mark) for part in marks for mark in part]
    vocabulary = tuple(map(str, mark_names)) if mark_names is not None else order_marks(set(flat))
    code = {name: index for index, name in enumerate(vocabulary)}
    unknown = sorted(set(flat) - set(code))
    if unknown:
        raise DataError(f"every mark must be one of mark_names, got {unknown[0]!r}; add it to mark_names")
    return np.array([code[name] for name in flat], dtype=np.int64), vocabulary


def _check(events: Events) -> None:
    rows, windows = len(events.time), len(events.names)
    if events.sequence.shape != (rows,) or events.mark.shape != (rows,):
        raise DataError(f"sequence and mark must have one entry for each of the {rows} times")
    if events.start.shape != (windows,) or events.end.shape != (windows,):
        raise DataError(f"start and end must have one entry for each of the {windows} sequences")
    problems = Problems()
    if duplicates(events.marks):
        problems.add("names of marks must differ", column="mark")
    if rows and not (events.mark.min() >= 0 and events.mark.max() < max(len(events.marks), 1)):
        problems.add("codes of marks must be positions in marks", column="mark")
    if (events.names[1:] <= events.names[:-1]).any():
        problems.add("names of sequences must differ and be sorted", column="sequence")
    for name, part in runs_of(events.sequence):
        if not np.isfinite(events.time[part]).all() or (np.diff(events.time[part]) < 0).any():
            problems.add(f"times of sequence {name!r} must be finite and sorted", column="time")
    if (events.sequence[1:] < events.sequence[:-1]).any() or not np.isin(events.sequence, events.names).all():
        problems.add("rows must be sorted by their sequence, and every sequence must have a window", column="sequence")
    for name, start, end in zip(events.names.tolist(), events.start.tolist(), events.end.tolist(), strict=True):
        if not (np.isfinite(start) and np.isfinite(end) and start < end):
            window = f"the window of sequence {name!r} must end after its start"
            problems.add(f"{window}, got {window_text(events.clock, start, end)}; pass windows=", column="end")
    problems.raise_any()
    for name, times, _, start, end in events.sequences():
        if len(times) and (times[0] < start or times[-1] > end):
            window = window_text(events.clock, start, end)
            problems.add(f"events of sequence {name!r} must lie in its window {window}", column="time")
    problems.raise_any()
