"""`windows_of`: the observation window of each sequence, from columns, a second table, or the events themselves."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cotempo.data.problems import Problems
from cotempo.data.read.grouping import Grouped
from cotempo.data.read.sheet import Reading, Sheet
from cotempo.data.read.sources import load
from cotempo.data.read.times import to_times

Bounds = tuple[float, float]
Windows = dict[str | None, dict[str, Bounds]]


@dataclass(frozen=True)
class WindowTable:
    """The second table: windows by client and sequence; under the client None those that hold for all clients."""

    bounds: Mapping[str | None, Mapping[str, Bounds]]
    stamped: bool

    @property
    def clients(self) -> list[str]:
        """The clients that have windows of their own."""
        return [name for name in self.bounds if name is not None]

    def of(self, client: str) -> dict[str, Bounds]:
        """Return the windows of a client, by sequence."""
        return {**self.bounds.get(None, {}), **self.bounds.get(client, {})}


def read_windows(source: Any, reading: Reading) -> WindowTable:
    """Read ``client, sequence, start, end``; problems say that they are in the windows table."""
    own = replace(reading, problems=Problems())
    parts = [_read_sheet(sheet) for sheet in load(source, own)]
    for problem in own.problems.found:
        must = f"windows table: {problem.must}"
        reading.problems.add(must, client=problem.client, column=problem.column, row=problem.row)
    bounds = {client: windows for part, _ in parts for client, windows in part.items()}
    return WindowTable(bounds, any(stamped for _, stamped in parts))


def _read_sheet(sheet: Sheet) -> tuple[Windows, bool]:
    problems = sheet.reading.problems
    before = len(problems)
    if not all([sheet.require("start"), sheet.require("end")]):
        return {}, False
    clients, sequences = sheet.clients, sheet.keys("sequence")
    start, end = to_times(sheet, "start"), to_times(sheet, "end")
    if start.stamped != end.stamped:
        sheet.note("start and end must both be numbers or both be timestamps", "end")
    if len(problems) > before:
        return {}, start.stamped
    shared = sheet.reading.client not in sheet.columns and not sheet.one_client_file
    found: Windows = {}
    for row, (first, last) in enumerate(zip(start.values.tolist(), end.values.tolist(), strict=True)):
        owner, name = clients.name(row), str(sequences.name(row))
        known = found.setdefault(None if shared else owner, {})
        if name in known:
            problems.add(f"sequence {name!r} must have one window", client=owner, row=row + sheet.first_row)
        if last <= first:
            problems.add(_late_end(name, (first, last)), client=owner, column="end", row=row + sheet.first_row)
        known[name] = (first, last)
    return found, start.stamped


def windows_of(grouped: Grouped, table: WindowTable | None) -> NDArray[np.float64]:
    """Return start and end of each group, ``(groups, 2)``, checked; problems are noted."""
    columns = {"start", "end"} & set(grouped.sheet.columns)
    from_columns = _from_columns(grouped) if columns else None
    if table is not None:
        bounds = _from_table(grouped, table, from_columns)
    elif from_columns is not None:
        bounds = from_columns
    else:
        bounds = _from_events(grouped)
    _check_windows(grouped, bounds, measured=table is not None or bool(columns))
    return bounds


def _from_events(grouped: Grouped) -> NDArray[np.float64]:
    time = grouped.sorted_times
    last = np.append(grouped.first[1:], len(time)) - 1
    return np.column_stack([time[grouped.first], time[last]])


def _from_columns(grouped: Grouped) -> NDArray[np.float64]:
    found = np.full((len(grouped.first), 2), np.nan)
    for index, name in enumerate(("start", "end")):
        if not grouped.sheet.require(name):
            continue
        bound = to_times(grouped.sheet, name)
        if bound.stamped != grouped.times.stamped:
            grouped.sheet.note("must be numbers where time is numbers, timestamps where time is timestamps", name)
            continue
        values = bound.values[grouped.order]
        found[:, index] = values[grouped.first]
        changed = np.flatnonzero((values != found[grouped.group, index]) & np.isfinite(values))
        grouped.note(changed, "must be the same in all rows of a sequence", name)
    return found


def _from_table(grouped: Grouped, table: WindowTable, columns: NDArray[np.float64] | None) -> NDArray[np.float64]:
    problems = grouped.sheet.reading.problems
    found = np.full((len(grouped.first), 2), np.nan)
    for group in range(len(found)):
        client, sequence = grouped.owner(group)
        bounds = table.of(client).get(sequence)
        if bounds is None:
            problems.add(f"sequence {sequence!r} must have a row in the windows table", client=client)
            continue
        found[group] = bounds
        if columns is not None and not np.array_equal(columns[group], found[group]):
            must = f"window of sequence {sequence!r} must be the same in the columns start, end and the windows table"
            problems.add(must, client=client)
    return found


def _check_windows(grouped: Grouped, bounds: NDArray[np.float64], *, measured: bool) -> None:
    problems = grouped.sheet.reading.problems
    for group in np.flatnonzero(bounds[:, 1] <= bounds[:, 0]).tolist():
        client, sequence = grouped.owner(group)
        if measured:
            problems.add(_late_end(sequence, (bounds[group, 0], bounds[group, 1])), client=client, column="end")
        else:
            must = f"sequence {sequence!r} must have a window, as all its events are at one time; give start and end"
            problems.add(must, client=client, column="time")
    limits = bounds[grouped.group]
    time = grouped.sorted_times
    outside = np.flatnonzero((time < limits[:, 0]) | (time > limits[:, 1]))
    by_row = dict(zip(grouped.order[outside].tolist(), limits[outside].tolist(), strict=True))
    must = "must lie in its window {}, got {:.17g}"
    grouped.note(outside, lambda row: must.format(by_row[row], grouped.times.values[row]), "time")


def _late_end(sequence: str, bounds: Bounds) -> str:
    return f"the window of sequence {sequence!r} must end after its start, got [{bounds[0]:g}, {bounds[1]:g}]"
