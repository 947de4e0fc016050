"""When each sequence of events was watched: from columns, from a second table, or from the events themselves."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cotempo.data.problems import Report
from cotempo.data.read.columns import client_keys, text_keys
from cotempo.data.read.grouping import Grouped
from cotempo.data.read.sources import Sheet, load
from cotempo.data.read.times import to_times

Bounds = tuple[float, float]


@dataclass
class WindowTable:
    """The second table: windows by client and sequence; under the client None those that hold for everybody."""

    bounds: dict[str | None, dict[str, Bounds]] = field(default_factory=dict)
    stamped: bool = False

    def of(self, client: str) -> dict[str, Bounds]:
        """Return the windows of a client, by sequence."""
        return self.bounds.get(None, {}) | self.bounds.get(client, {})


def read_windows(source: Any, client: str, unit: str, report: Report, limit: int) -> WindowTable:
    """Read ``client, sequence, start, end``; problems say that they are in the windows table."""
    own = Report()
    table = WindowTable()
    for sheet in load(source, own, limit):
        _read_sheet(sheet, client, unit, own, table)
    for problem in own.problems:
        report.add(f"windows table: {problem.must}", client=problem.client, column=problem.column, row=problem.row)
    return table


def _read_sheet(sheet: Sheet, client: str, unit: str, report: Report, table: WindowTable) -> None:
    before = len(report.problems)
    for name in ("start", "end"):
        sheet.require(name, report)
    if len(report.problems) > before:
        return
    clients = client_keys(sheet, client, report)
    sequences = text_keys(sheet, "sequence", report, clients.name)
    start, end = (to_times(sheet, name, unit, report, clients.name) for name in ("start", "end"))
    if start.stamped != end.stamped:
        report.add("start and end must both be numbers or both be timestamps", column="end")
    table.stamped = start.stamped
    if len(report.problems) > before:
        return
    shared = client not in sheet.columns and not sheet.alone
    for row, (first, last) in enumerate(zip(start.values.tolist(), end.values.tolist(), strict=True)):
        owner, name = clients.name(row), str(sequences.name(row))
        known = table.bounds.setdefault(None if shared else owner, {})
        if name in known:
            report.add(f"sequence {name!r} must have one window", client=owner, row=row + sheet.first_row)
        if last <= first:
            report.add(_late_end(name, (first, last)), client=owner, column="end", row=row + sheet.first_row)
        known[name] = (first, last)


def windows_of(grouped: Grouped, table: WindowTable | None, unit: str, report: Report) -> NDArray[np.float64]:
    """Return start and end of each group, ``(groups, 2)``, checked; problems are noted."""
    columns = {"start", "end"} & set(grouped.sheet.columns)
    from_columns = _from_columns(grouped, unit, report) if columns else None
    if table is not None:
        bounds = _from_table(grouped, table, from_columns, report)
    elif from_columns is not None:
        bounds = from_columns
    else:
        bounds = _from_events(grouped)
    _check(grouped, bounds, report, measured=table is not None or bool(columns))
    return bounds


def _from_events(grouped: Grouped) -> NDArray[np.float64]:
    time = grouped.sorted_times
    last = np.append(grouped.first[1:], len(time)) - 1
    return np.column_stack([time[grouped.first], time[last]])


def _from_columns(grouped: Grouped, unit: str, report: Report) -> NDArray[np.float64]:
    found = np.full((len(grouped.first), 2), np.nan)
    for index, name in enumerate(("start", "end")):
        if not grouped.sheet.require(name, report):
            continue
        bound = to_times(grouped.sheet, name, unit, report, grouped.clients.name)
        if bound.stamped != grouped.times.stamped:
            report.add("must be numbers where time is numbers, timestamps where time is timestamps", column=name)
            continue
        values = bound.values[grouped.order]
        found[:, index] = values[grouped.first]
        changed = np.flatnonzero((values != found[grouped.group, index]) & np.isfinite(values))
        grouped.note(changed, lambda _: "must be the same in all rows of a sequence", name, report)
    return found


def _from_table(
    grouped: Grouped, table: WindowTable, columns: NDArray[np.float64] | None, report: Report
) -> NDArray[np.float64]:
    found = np.full((len(grouped.first), 2), np.nan)
    for group in range(len(found)):
        client, sequence = grouped.owner(group)
        bounds = table.of(client).get(sequence)
        if bounds is None:
            report.add(f"sequence {sequence!r} must have a row in the windows table", client=client)
            continue
        found[group] = bounds
        if columns is not None and not np.array_equal(columns[group], found[group]):
            must = f"window of sequence {sequence!r} must be the same in the columns start, end and the windows table"
            report.add(must, client=client)
    return found


def _check(grouped: Grouped, bounds: NDArray[np.float64], report: Report, *, measured: bool) -> None:
    for group in np.flatnonzero(bounds[:, 1] <= bounds[:, 0]).tolist():
        client, sequence = grouped.owner(group)
        if measured:
            report.add(_late_end(sequence, (bounds[group, 0], bounds[group, 1])), client=client, column="end")
        else:
            must = f"sequence {sequence!r} must have a window, as all its events are at one time; give start and end"
            report.add(must, client=client, column="time")
    limits = bounds[grouped.group]
    time = grouped.sorted_times
    outside = np.flatnonzero((time < limits[:, 0]) | (time > limits[:, 1]))
    by_row = dict(zip(grouped.order[outside].tolist(), limits[outside].tolist(), strict=True))
    grouped.note(
        outside,
        lambda row: f"must lie in its window {by_row[row]}, got {grouped.times.values[row]:.17g}",
        "time",
        report,
    )


def _late_end(sequence: str, bounds: Bounds) -> str:
    return f"the window of sequence {sequence!r} must end after its start, got [{bounds[0]:g}, {bounds[1]:g}]"
