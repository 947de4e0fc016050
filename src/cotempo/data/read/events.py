"""`read_events`: ``client, sequence, time, mark``, and the windows in which events were observed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cotempo.data.events import Events, order_marks
from cotempo.data.problems import Problems, quote
from cotempo.data.read.grouping import group_rows
from cotempo.data.read.reader import read_sheets
from cotempo.data.read.sheet import LIMIT, Keys, Reading, Sheet
from cotempo.data.read.times import to_times
from cotempo.data.read.windows import Bounds, WindowTable, read_windows, windows_of
from cotempo.data.tables import READERS
from cotempo.errors import nearest

KNOWN = ("sequence", "time", "mark", "start", "end")


@dataclass(frozen=True)
class Draft:
    """One client's events before the marks of all clients are known."""

    unit: str
    sequence: NDArray[np.str_]
    time: NDArray[np.float64]
    marks: Keys | None
    windows: Mapping[str, Bounds]

    @classmethod
    def empty(cls, unit: str) -> Draft:
        """Return a draft without events."""
        return cls(unit, np.zeros(0, dtype=np.str_), np.zeros(0), None, {})


def read_events(
    source: Any,
    *,
    client: str = "client",
    windows: Any = None,
    unit: str = "s",
    marks: Sequence[str] | None = None,
    limit: int = LIMIT,
) -> dict[str, Events]:
    """Read events and return one table per client, sorted by the client's name.

    Parameters
    ----------
    source
        A CSV, gzipped CSV or Parquet file; a folder with one such file per client, named after it; or a pandas,
        polars or pyarrow dataframe. A single source without the column `client` is one client, named after the file
        (``"client"`` for a dataframe).
    client
        Name of the column that holds the client.
    windows
        A second source with ``client, sequence, start, end``: when each sequence was observed. It may list sequences
        and clients without events; without a column `client` it holds for every client. By default the columns
        ``start`` and ``end`` of `source` are used, which must be constant inside a sequence. Without them a window
        reaches from the first to the last event, and rates are estimated too high, most of all in short sequences.
    unit
        The unit of timestamps, counted since 1970-01-01 UTC: ``"s"``, ``"h"`` or ``"D"``. Those without a zone are
        taken as UTC. A column of plain numbers is kept, and the table's unit is empty.
    marks
        All marks, in the order of their codes; by default those that occur at any client, sorted.
    limit
        The most bytes one file may expand to.

    Returns
    -------
    dict of Events
        Events are sorted by sequence and time, whatever their order in the source. Without a column ``sequence`` a
        client has one sequence, ``0``.

    Raises
    ------
    DataError
        With all problems at once. Rows are numbered as in the file: the first row under the header of a CSV is row 2,
        and blank lines do not count; in Parquet and dataframes the first row is row 0.

    Examples
    --------
    >>> import pandas
    >>> frame = pandas.DataFrame({"client": ["a", "a", "b", "b"], "time": [1.0, 4.0, 2.0, 3.0]})
    >>> read_events(frame)["a"].windows
    {'0': (1.0, 4.0)}
    """
    reading = Reading(client, unit, limit)
    table = None if windows is None else read_windows(windows, reading)
    drafts = read_sheets(source, reading, lambda sheet: _read_sheet(sheet, table))
    if table is not None:
        drafts = _add_silent(drafts, table, unit)
    vocabulary = _vocabulary(drafts, marks, reading.problems)
    reading.problems.raise_any()
    return {name: _build(drafts[name], vocabulary) for name in sorted(drafts)}


READERS["events"] = read_events


def _read_sheet(sheet: Sheet, table: WindowTable | None) -> tuple[dict[str, Draft], bool | None]:
    problems, unit = sheet.reading.problems, sheet.reading.unit
    before = len(problems)
    _refuse_unknown_columns(sheet)
    if table is not None and sheet.rows == 0:
        return {sheet.client: Draft.empty(unit if table.stamped else "")}, None
    if not sheet.require("time") or not sheet.require_rows():
        return {}, None
    sequences, times = sheet.keys("sequence"), to_times(sheet, "time")
    marks = sheet.keys("mark") if "mark" in sheet.columns else None
    if table is not None and table.stamped != times.stamped:
        sheet.note("windows table: start and end must be numbers or timestamps as the times of the events are")
    if len(problems) > before:
        return {}, times.stamped
    grouped = group_rows(sheet, sequences, times)
    bounds = windows_of(grouped, table)
    found = {}
    for name, rows, groups in grouped.by_client():
        windows = {grouped.owner(group)[1]: (float(bounds[group, 0]), float(bounds[group, 1])) for group in groups}
        own_marks = None if marks is None else Keys(marks.names, marks.codes[rows])
        stamp = unit if times.stamped else ""
        found[name] = Draft(stamp, grouped.sequence[rows], times.values[rows], own_marks, windows)
    return found, times.stamped


def _refuse_unknown_columns(sheet: Sheet) -> None:
    known = (sheet.reading.client, *KNOWN)
    for name in sheet.columns:
        if name not in known:
            columns = ", ".join(known)
            sheet.note(
                f"a table of events has only the columns {columns}{nearest(name, known)}; rename or drop it", name
            )


def _add_silent(drafts: Mapping[str, Draft], table: WindowTable, unit: str) -> dict[str, Draft]:
    """Return all clients with the sequences that were observed while nothing happened; drop those without windows."""
    none = Draft.empty(unit if table.stamped else "")
    found = {name: drafts.get(name, none) for name in [*drafts, *table.clients]}
    full = {name: replace(draft, windows={**table.of(name), **draft.windows}) for name, draft in found.items()}
    return {name: draft for name, draft in full.items() if draft.windows}


def _vocabulary(drafts: Mapping[str, Draft], marks: Sequence[str] | None, problems: Problems) -> tuple[str, ...]:
    """Return all marks, the same for every client; note clients that have none where others do."""
    used: dict[str, set[str]] = {}
    for name, draft in drafts.items():
        if draft.marks is not None:
            used[name] = {draft.marks.names[code] for code in np.unique(draft.marks.codes)}
    bare = [name for name, draft in drafts.items() if draft.marks is None and len(draft.time)]
    if used or marks is not None:
        for name in bare:
            problems.add("must be there, as other clients have it, or marks= is given", client=name, column="mark")
    if marks is None:
        return order_marks(set().union(*used.values()))
    for name, own in used.items():
        for mark in sorted(own - set(marks)):
            problems.add(f"must be one of marks=, got {quote(mark)}{nearest(mark, marks)}", client=name, column="mark")
    return tuple(str(mark) for mark in marks)


def _build(draft: Draft, vocabulary: tuple[str, ...]) -> Events:
    names = sorted(draft.windows)
    start, end = np.array([draft.windows[name] for name in names]).T
    codes = np.zeros(len(draft.time), dtype=np.int64)
    if draft.marks is not None:
        code = {mark: code for code, mark in enumerate(vocabulary)}
        codes = np.array([code.get(mark, -1) for mark in draft.marks.names], dtype=np.int64)[draft.marks.codes]
    return Events(draft.sequence, draft.time, codes, vocabulary, np.array(names), start, end, draft.unit)
