"""`read_events`: ``client, sequence, time, mark``, and the windows in which events were observed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as compute
from numpy.typing import ArrayLike

from cotempo.data.clock import Clock
from cotempo.data.events import Events, order_marks, window_text
from cotempo.data.problems import Problems, list_names, quote
from cotempo.data.read.reader import Grouped, group_rows, read_sheets
from cotempo.data.read.sheet import LIMIT, Columns, DateFormat, Keys, Reading, Sheet, check_columns
from cotempo.data.read.signs import trimmed
from cotempo.data.read.sources import column_names, is_shared, source_name, windows_beside
from cotempo.data.read.times import Times, kind_of, to_times
from cotempo.data.tables import READERS, numbered, pluralize
from cotempo.errors import DataError, nearest
from cotempo.typing import Bools, Floats

UNKNOWN = "; leave start and end empty if they are unknown"
KNOWN = ("client", "sequence", "time", "mark", "start", "end")


Bounds = tuple[float, float]


def read_events(
    source: Any,
    *,
    windows: Any = None,
    marks: Sequence[str] | None = None,
    columns: Columns | None = None,
    unit: str = "s",
    zone: str | Mapping[str, str] = "",
    date_format: DateFormat = "",
    limit: int = LIMIT,
    ambiguous: str = "",
    unmarked: str = "",
) -> dict[str, Events]:
    """Read events and return one table per client, sorted by the client's name.

    Parameters
    ----------
    source
        A CSV, gzipped CSV, Parquet or JSON-lines (``.jsonl``) file; a pandas, polars or pyarrow dataframe, whose index
        may hold the times; a folder with one file per client, named after it; a list of files, or a pattern such as
        ``"raw/*.csv"``; or a mapping from client to file or dataframe. A file without the column ``client`` is one
        client, named after it (a dataframe: ``"client"``). What separates the cells of a CSV, whether it has decimal
        commas, and whether it is cp1252 rather than UTF-8, is guessed, with a `DataWarning`.
    windows
        A second source with ``client, sequence, start, end``: when each sequence was observed. It may list sequences
        and clients without events; without a column ``client`` it holds for every client, without ``sequence``
        for every sequence of its client. Where a client's windows are several that do not overlap, and neither they nor
        its rows name sequences, each is a sequence: a site was closed between them. By default the file
        ``<name>.windows.csv`` beside `source`, which `write_clients` writes, a file ``windows.csv`` beside it or in its
        folder, or the columns ``start`` and ``end`` of `source` are used, which must be constant inside a sequence.
        Without them, and where a cell is empty, a window begins with the first and ends with the last event, and rates
        are estimated too high, most of all in short sequences.
    unit
        The unit of dates, counted since 1970-01-01 UTC: ``"s"``, ``"h"`` or ``"D"``. A column of plain numbers is
        kept, and the table's unit is empty.
    zone
        The time zone of dates that come without one, such as ``"Europe/Berlin"`` or ``"+01:00"``, and the one they are
        shown in; by client where sources differ, ``{"nord": "Europe/Berlin", ...}``. By default dates without a zone
        stay so, which is allowed if none has one; those with one keep it, and a column of several offsets is shown in
        UTC.
    marks
        All marks, in the order of their codes; by default those that occur at any client, sorted.
    columns
        What columns are called in the source: ``{"time": "Aufnahme", "client": "Klinik"}``. Those that are not columns
        of events are left out, with a `DataWarning`.
    date_format
        How dates are written that are not ISO 8601, such as ``"%d.%m.%Y %H:%M"`` (`datetime.strptime`); several where
        files or columns differ, of which one must fit all dates of a column; or one by client. Numbers since 1970
        UTC are dates with ``"s"``, ``"ms"``, ``"us"`` or ``"ns"``.
    limit
        The most bytes one file may expand to.
    ambiguous
        Which hour dates without an offset mean where clocks repeat one, in autumn: ``"first"`` or ``"second"``. Nothing
        in a list of events tells, and an hour a year is little; by default such dates are refused.
    unmarked
        The type of events whose mark is missing, such as ``"unknown"``: cells that are empty or NA, n/a, NaN, null or
        none. By default they are refused.

    Returns
    -------
    dict of Events
        Events are sorted by sequence and time, whatever their order in the source. Without a column ``sequence`` a
        client has one sequence, ``0``.

    Raises
    ------
    DataError
        With all problems at once. Rows are numbered as in the file: the first row under the header of a CSV is row 2,
        and blank lines do not count; in JSON lines the first is row 1, in Parquet and dataframes row 0.

    Examples
    --------
    >>> import pandas
    >>> frame = pandas.DataFrame({"client": ["a", "a", "b", "b"], "time": [1.0, 4.0, 2.0, 3.0]})
    >>> read_events(frame)["a"].windows
    {'0': (1.0, 4.0)}
    """
    check_columns(columns, KNOWN)
    reading = Reading(columns, unit, zone, date_format, limit, ambiguous=ambiguous)
    alone = ""  # the client of a file that is one client's, beside windows that may be of others, too
    windows, given = windows_beside(source) if windows is None else windows, windows
    if given is None and is_shared(windows):
        reading.remark("taken for the windows of the events beside it", windows.name)
        alone = source_name(Path(source), None)
    table = None if windows is None else read_windows(windows, reading)
    used: dict[str, set[str]] = {}
    found = read_sheets(source, reading, lambda sheet: _read_sheet(sheet, table, used, unmarked))
    if table is not None:
        known = {"", *(name.casefold() for name in found)}
        # Who is refused is not silent.
        known |= {(problem.client or "").casefold() for problem in reading.problems.found}
        lost = any(problem.client is None for problem in reading.problems.found)
        lost |= list(found) == [alone]
        for name in [name for name in table.bounds if name.casefold() not in known and not lost]:
            with reading.problems.collect(name):
                found[name] = table.silent(name)
            near = nearest(name, [other for other in found if other not in table.bounds], cutoff=0.75)
            if near:
                reading.remark(f"is a client of the windows table alone, without events{near}", name)
    vocabulary = _vocabulary(used, marks, reading.problems)
    if given is None and isinstance(windows, Path) and any("window" in str(one) for one in reading.problems.found):
        reading.problems.add(f"the windows were those of {quote(windows.name)} beside it; pass others as windows=")
    reading.finish()
    return {name: _recode(found[name], vocabulary) for name in sorted(found)}


READERS["events"] = read_events


@dataclass(frozen=True)
class WindowTable:
    """The second table: windows by client and sequence; those without a name hold for all clients, or sequences.

    Clients of `parted` have several windows without a name, between which nobody watched: each is a sequence.
    """

    bounds: Mapping[str, Mapping[str, Bounds]]
    parted: Set[str]  # names, case folded; all clients where it holds the empty one
    clock: Clock | None  # None if all cells are empty
    problems: Problems

    def of(self, client: str, sequences: Sequence[str] = ()) -> dict[str, Bounds]:
        """Return the windows of a client, by sequence: of those the table names, and of these if it names none."""
        own = (bounds for name, bounds in self.bounds.items() if name.casefold() == client.casefold())
        known = {**self.bounds.get("", {}), **next(own, {})}
        every = known.pop("", None)
        return known if every is None else {**dict.fromkeys(sequences, every), **known}

    def is_parted(self, client: str) -> bool:
        """Whether a client's windows have no names, and are several."""
        return bool({"", client.casefold()} & self.parted)

    def deal(self, clients: Keys, times: Times) -> Keys:
        """Return each row's sequence where no column says it: of several windows the last that begins before it."""
        found = np.full(len(times.values), "0", dtype=object)
        for code, client in enumerate(clients.names):
            if self.is_parted(client):
                rows, windows = np.flatnonzero(clients.codes == code), self.of(client)
                names, starts = sorted(windows), [windows[name][0] for name in sorted(windows)]
                place = np.searchsorted(starts, times.values[rows], side="right") - 1
                found[rows] = np.array(names, dtype=object)[place.clip(0, len(names) - 1)]
        known, codes = np.unique(found.astype(np.str_), return_inverse=True)
        return Keys(tuple(known.tolist()), codes.astype(np.intp))

    def silent(self, client: str) -> Events:
        """Return the table of a client that observed nothing."""
        nothing = Keys((), np.zeros(0, dtype=np.intp))
        return _build([], [], nothing, self.of(client, ["0"]), self.clock or Clock())


def read_windows(source: Any, reading: Reading) -> WindowTable:
    """Read ``client, sequence, start, end``; problems say that they are in the windows table."""
    called = {name: old for name, old in reading.named.items() if old in column_names(source)}
    own = replace(reading, columns=called, problems=Problems(), clocks={})
    parted: set[str] = set()
    bounds = read_sheets(source, own, lambda sheet: _read_window_sheet(sheet, parted), "start")
    with reading.problems.collect(prefix="windows table: "):
        own.problems.raise_any()
    parted &= {name.casefold() for name in bounds}  # a table with faults has no windows
    return WindowTable(bounds, parted, next(iter(own.clocks.values()), None), own.problems)


def _read_window_sheet(sheet: Sheet, parted: set[str]) -> dict[str, dict[str, Bounds]]:
    """Return the windows of each client by sequence; note in `parted` who has several without a name."""
    sheet.require("start", "end")
    if "sequence" in sheet.columns:  # who has one window need not name it
        named = compute.fill_null(sheet.text("sequence"), "")
        sheet = replace(sheet, columns={**sheet.columns, "sequence": named})
    clients, sequences = sheet.clients, sheet.keys("sequence", "")
    start, end = to_times(sheet, "start", needed=False), to_times(sheet, "end", needed=False)
    if start.kind and end.kind and start.kind != end.kind:
        sheet.note(f"must be {start.kind}, as start is, got {end.kind}", "end")
    sheet.problems.raise_any()
    shared = "client" not in sheet.columns and not sheet.one_client
    found: dict[str, dict[str, Bounds]] = {}
    unnamed: dict[str, list[Bounds]] = {}
    for row, bounds in enumerate(zip(start.values.tolist(), end.values.tolist(), strict=True)):
        client, sequence = clients.names[clients.codes[row]], sequences.names[sequences.codes[row]]
        known = found.setdefault("" if shared else client, {})
        place = {"client": client, "row": sheet.row_number(row)}
        if sequence and sequence in known:
            sheet.problems.add(f"sequence {sequence!r} must have one window", **place)
        if not sequence and not _follows(bounds, unnamed.setdefault("" if shared else client, [])):
            must = "windows without a name of their sequence must be one, or several that do not overlap"
            sheet.problems.add(must, **place)
        if bounds[1] <= bounds[0]:
            sheet.problems.add(_late_end(start.clock, sequence, bounds), column="end", **place)
        known[sequence] = bounds
    for client, several in unnamed.items():
        if len(several) > 1:
            if len(found[client]) > 1:
                must = "several windows must all name their sequence, or none of them"
                sheet.problems.add(must, client=client or None, column="sequence")
            found[client] = dict(zip(numbered(len(several)), sorted(several), strict=True))
            parted.add(client.casefold())
    return found


def _follows(bounds: Bounds, others: list[Bounds]) -> bool:
    """Add a window to others; return whether it overlaps with none of them."""
    apart = [bounds[0] >= end or bounds[1] <= start for start, end in others]
    others.append(bounds)
    return all(apart)


def _read_sheet(sheet: Sheet, table: WindowTable | None, used: dict[str, set[str]], unmarked: str) -> dict[str, Events]:
    """Return the events of each client; note in `used` the marks of each, also if its windows are wrong."""
    if extra := [name for name in sheet.columns if name not in KNOWN]:
        free = [known for known in KNOWN if known not in sheet.columns]
        names = ", ".join(quote(name) + nearest(name, free, cutoff=0.75) for name in extra)
        sheet.reading.remark(f"left out what is no column of events: {names}", sheet.client)
        if twice := sheet.repeated():
            what = f"{pluralize(twice, 'row')} equal to another in every column"
            sheet.reading.remark(f"{what}: the same event twice? drop one of each before", sheet.client)
    if table is not None and sheet.rows == 0:
        return {sheet.client: table.silent(sheet.client)} if table.of(sheet.client, ["0"]) else {}
    sheet.require("time")
    grouped = group_rows(sheet, None if table is None else table.deal)
    if table is not None and "sequence" in sheet.columns:
        for name in sheet.clients.names:
            if table.is_parted(name):
                must = "windows table: each of several windows must name its sequence, as the rows of events do"
                sheet.problems.add(must, client=name, column="sequence")
    if table is not None and table.clock is not None and kind_of(table.clock) != grouped.times.kind:
        must = f"windows table: start and end must be {grouped.times.kind}, as time is"
        sheet.note(f"{must}, got {kind_of(table.clock)}")
    # Windows before marks: a mark that is missing must not hide dates that lie outside, or the other way round.
    bounds, guessed = (
        (np.zeros((0, 2)), np.zeros((0, 2), np.bool_)) if sheet.problems.found else _windows(grouped, table)
    )
    marks = _marks(sheet, unmarked) if "mark" in sheet.columns else Keys((), np.zeros(sheet.rows, dtype=np.intp))
    for name, rows, _ in grouped.by_client():
        used[name] = {marks.names[code] for code in np.unique(marks.codes[rows])} if marks.names else set()
    sheet.problems.raise_any()
    sequence, times = grouped.sequence, grouped.times
    found = {}
    for name, rows, groups in grouped.by_client():
        windows = {} if table is None else table.of(name)
        windows |= {grouped.owner(group)[1]: (bounds[group, 0], bounds[group, 1]) for group in groups}
        own_marks = Keys(marks.names, marks.codes[rows])
        with sheet.problems.collect(name):
            events = _build(sequence[rows], times.values[rows], own_marks, windows, times.clock)
            found[name] = replace(events, guessed=bool(guessed[groups].any()))
    return found


def _marks(sheet: Sheet, unmarked: str) -> Keys:
    """Return the marks; those that are missing become `unmarked`, or are noted where that is empty."""
    texts = sheet.text("mark")
    missing = compute.is_null(trimmed(texts))
    if not unmarked:
        must = "must be given in every row; pass unmarked='unknown' to make a type of its own of those without, got "
        rows = np.flatnonzero(missing.to_numpy())
        sheet.note_rows(rows, lambda row: must + quote(texts[row].as_py() or ""), "mark")
    return replace(sheet, columns={**sheet.columns, "mark": compute.if_else(missing, unmarked, texts)}).keys("mark")


def _build(sequence: ArrayLike, time: ArrayLike, marks: Keys, windows: Mapping[str, Bounds], clock: Clock) -> Events:
    names = sorted(windows)
    for name in names:
        if np.isnan(windows[name]).any():
            raise DataError(f"windows table: sequence {name!r} has no events, so its start and end must be given")
    start, end = np.array([windows[name] for name in names]).reshape(-1, 2).T
    return Events(sequence, time, marks.codes, marks.names, names, start, end, clock.unit, clock.zone)  # type: ignore[arg-type]


def _windows(grouped: Grouped, table: WindowTable | None) -> tuple[Floats, Bools]:
    """Return start and end of each group, ``(groups, 2)``, and which were guessed; note what is wrong with them."""
    sheet, time, clock = grouped.sheet, grouped.times.values, grouped.times.clock
    in_columns = bool({"start", "end"} & set(sheet.columns))
    last = np.append(grouped.first[1:], len(time)) - 1
    known = _from_columns(grouped) if in_columns else None
    if table is not None:
        known = _from_table(grouped, table, known)
    seen = time[grouped.order[np.column_stack([grouped.first, last])]]
    known = np.full_like(seen, np.nan) if known is None else known
    guessed = np.isnan(known)
    bounds = np.where(guessed, seen, known)
    if sheet.problems.found or (table is not None and table.problems.found):
        return bounds, guessed
    for group in np.flatnonzero(bounds[:, 1] <= bounds[:, 0]).tolist():
        client, sequence = grouped.owner(group)
        if in_columns or table is not None:
            sheet.problems.add(_late_end(clock, sequence, bounds[group]), client=client, column="end")
        else:
            must = f"sequence {sequence!r} must have a window, as all its events are at one time; give start and end"
            sheet.problems.add(must, client=client, column="time")
    limits = bounds[grouped.group]
    outside = np.flatnonzero((time < limits[:, 0]) | (time > limits[:, 1]))
    sheet.note_rows(
        outside,
        lambda row: f"must lie in its window {window_text(clock, *limits[row])}, got {clock.text(time[row])}",
        "time",
    )
    return bounds, guessed


def _from_columns(grouped: Grouped) -> Floats:
    found, sheet = np.full((len(grouped.first), 2), np.nan), grouped.sheet
    for index, name in enumerate(("start", "end")):
        if name in sheet.columns:
            bound = to_times(sheet, name, needed=False)
            if bound.kind and bound.kind != grouped.times.kind:
                sheet.note(f"must be {grouped.times.kind}, as time is, got {bound.kind}", name)
                continue
            found[:, index] = bound.values[grouped.order[grouped.first]]
            first = found[grouped.group, index]
            changed = (bound.values != first) & ~(np.isnan(bound.values) & np.isnan(first))
            sheet.note_rows(np.flatnonzero(changed), "must be the same in all rows of a sequence", name)
    sheet.require("start", "end")
    return found


def _from_table(grouped: Grouped, table: WindowTable, columns: Floats | None) -> Floats:
    problems = grouped.sheet.problems
    found = np.full((len(grouped.first), 2), np.nan)
    for name, _, groups in grouped.by_client():
        sequences = [grouped.owner(group)[1] for group in groups]
        windows = table.of(name, sequences)
        lacking = [sequence for sequence in sequences if sequence not in windows]
        if lacking and not table.problems.found:
            must = f"must have a row in the windows table{nearest(name, table.bounds, cutoff=0.75)}"
            if table.of(name, ["0"]):
                names = list_names([repr(sequence) for sequence in lacking])
                must = f"sequence {names} must have a row in the windows table, or the table no column 'sequence'"
            problems.add(must + UNKNOWN, client=name)
        for group, sequence in zip(groups, sequences, strict=True):
            if sequence not in windows:
                continue
            found[group] = windows[sequence]
            if columns is not None and not np.array_equal(columns[group], found[group], equal_nan=True):
                both = "the same in the columns start, end and the windows table"
                problems.add(f"window of sequence {sequence!r} must be {both}", client=name)
    return found


def _late_end(clock: Clock, sequence: str, bounds: Sequence[float]) -> str:
    return f"the window of sequence {sequence!r} must end after its start, got {window_text(clock, *bounds)}"


def _vocabulary(used: Mapping[str, Set[str]], marks: Sequence[str] | None, problems: Problems) -> tuple[str, ...]:
    """Return all marks, the same for every client; note clients that have none where others do."""
    known = order_marks(set().union(*used.values())) if marks is None else tuple(str(mark) for mark in marks)
    for name, own in used.items():
        if known and not own:
            must = (
                "must be there, as marks= or other clients name marks; add it, or read all clients without this column"
            )
            problems.add(must, client=name, column="mark")
        for mark in sorted(own - set(known)):
            problems.add(f"must be one of marks=, got {quote(mark)}{nearest(mark, known)}", client=name, column="mark")
    return known


def _recode(table: Events, vocabulary: tuple[str, ...]) -> Events:
    """Return the table with the marks of all clients."""
    if table.marks == vocabulary:
        return table
    code = {mark: code for code, mark in enumerate(vocabulary)}
    codes = np.array([code[mark] for mark in table.marks], dtype=np.int64)
    return replace(table, marks=vocabulary, mark=codes[table.mark])
