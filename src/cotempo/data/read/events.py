"""Reading events: `client, sequence, time, mark`, and the windows they were watched in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cotempo.data.events import Events, order_marks
from cotempo.data.problems import Report, shown
from cotempo.data.read.columns import Keys, client_keys, text_keys
from cotempo.data.read.grouping import group_rows
from cotempo.data.read.sources import LIMIT, Sheet, agree_on_time, load, refuse_no_rows
from cotempo.data.read.times import check_unit, to_times
from cotempo.data.read.windows import Bounds, WindowTable, read_windows, windows_of
from cotempo.errors import nearest

KNOWN = ("sequence", "time", "mark", "start", "end")


@dataclass(frozen=True)
class Draft:
    """One client's events before the marks of all clients are known."""

    sequence: NDArray[np.str_]
    time: NDArray[np.float64]
    marks: Keys | None
    windows: dict[str, Bounds]
    unit: str


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
        A second source with ``client, sequence, start, end``: when each sequence was watched. It may list sequences
        and clients without events; without a column `client` it holds for every client. Else the columns ``start``
        and ``end`` of `source` are used, which must be constant inside a sequence. Else a window reaches from the
        first to the last event. That costs: nothing is known of the quiet time before and after, so that rates are
        estimated too high, most of all in short sequences.
    unit
        What timestamps are counted in since 1970-01-01 UTC: ``"s"``, ``"h"`` or ``"D"``. Those without a zone are
        taken as UTC. A column of plain numbers is kept as it is, and the table's unit is empty.
    marks
        All marks there are, in the order of their codes. Without it: those that occur at any client, sorted.
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
    check_unit(unit)
    report = Report()
    table = None if windows is None else read_windows(windows, client, unit, report, limit)
    drafts: dict[str, Draft] = {}
    stamped: dict[str, bool] = {}
    for sheet in load(source, report, limit):
        _read_sheet(sheet, client, unit, report, table, drafts, stamped)
    if table is not None:
        _add_silent(drafts, table, unit)
        if any(stamp != table.stamped for stamp in stamped.values()):
            report.add("windows table: start and end must be numbers or timestamps as the times of the events are")
    agree_on_time(stamped, report)
    vocabulary = _vocabulary(drafts, marks, report)
    report.check()
    return {name: _build(drafts[name], vocabulary) for name in sorted(drafts)}


def _read_sheet(
    sheet: Sheet,
    client: str,
    unit: str,
    report: Report,
    table: WindowTable | None,
    drafts: dict[str, Draft],
    stamped: dict[str, bool],
) -> None:
    before = len(report.problems)
    _refuse_unknown_columns(sheet, client, report)
    if table is not None and sheet.rows == 0:
        table.bounds.setdefault(sheet.client, {})
    elif sheet.require("time", report) and not refuse_no_rows(sheet, report):
        clients = client_keys(sheet, client, report)
        sequences = text_keys(sheet, "sequence", report, clients.name)
        times = to_times(sheet, "time", unit, report, clients.name)
        marks = text_keys(sheet, "mark", report, clients.name) if "mark" in sheet.columns else None
        stamped[sheet.client] = times.stamped
        if len(report.problems) > before:
            return
        grouped = group_rows(sheet, clients, sequences, times)
        bounds = windows_of(grouped, table, unit, report)
        names = np.array(sequences.names, dtype=np.str_)
        for name, rows, groups in grouped.by_client():
            windows = {grouped.owner(group)[1]: (float(bounds[group, 0]), float(bounds[group, 1])) for group in groups}
            own_marks = None if marks is None else Keys(marks.names, marks.codes[rows])
            stamp = unit if times.stamped else ""
            drafts[name] = Draft(names[sequences.codes[rows]], times.values[rows], own_marks, windows, stamp)


def _refuse_unknown_columns(sheet: Sheet, client: str, report: Report) -> None:
    known = (client, *KNOWN)
    for name in sheet.columns:
        if name not in known:
            must = f"a table of events has only the columns {', '.join(known)}{nearest(name, known)}; rename or drop it"
            report.add(must, client=sheet.client if sheet.alone else None, column=name)


def _add_silent(drafts: dict[str, Draft], table: WindowTable, unit: str) -> None:
    """Add the sequences and the clients that were watched while nothing happened."""
    stamp = unit if table.stamped else ""
    for client in [*drafts, *(name for name in table.bounds if name is not None and name not in drafts)]:
        empty = Draft(np.zeros(0, dtype=np.str_), np.zeros(0), None, {}, stamp)
        draft = drafts.get(client, empty)
        windows = table.of(client) | draft.windows
        if windows:
            drafts[client] = Draft(draft.sequence, draft.time, draft.marks, windows, draft.unit)


def _vocabulary(drafts: dict[str, Draft], marks: Sequence[str] | None, report: Report) -> tuple[str, ...]:
    """Return all marks, the same for every client; note clients that have none where others do."""
    used: dict[str, set[str]] = {}
    for name, draft in drafts.items():
        if draft.marks is not None:
            used[name] = {draft.marks.names[code] for code in np.unique(draft.marks.codes)}
    bare = [name for name, draft in drafts.items() if draft.marks is None and len(draft.time)]
    if used or marks is not None:
        for name in bare:
            report.add("must be there, as other clients have it, or marks= is given", client=name, column="mark")
    if marks is None:
        return order_marks(set().union(*used.values()))
    for name, own in used.items():
        for mark in sorted(own - set(marks)):
            report.add(f"must be one of marks=, got {shown(mark)}{nearest(mark, marks)}", client=name, column="mark")
    return tuple(str(mark) for mark in marks)


def _build(draft: Draft, vocabulary: tuple[str, ...]) -> Events:
    names = sorted(draft.windows)
    start, end = np.array([draft.windows[name] for name in names]).T
    codes = np.zeros(len(draft.time), dtype=np.int64)
    if draft.marks is not None:
        place = {mark: code for code, mark in enumerate(vocabulary)}
        codes = np.array([place.get(mark, -1) for mark in draft.marks.names], dtype=np.int64)[draft.marks.codes]
    return Events(draft.sequence, draft.time, codes, vocabulary, np.array(names), start, end, draft.unit)
