"""`read_series`: ``client, sequence, time`` and one column per feature."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cotempo.data.problems import Problems
from cotempo.data.read.reader import Grouped, group_rows, read_sheets
from cotempo.data.read.sheet import LIMIT, Columns, DateFormat, Reading, Sheet, is_text
from cotempo.data.read.signs import is_repeat
from cotempo.data.read.times import TWICE_OR_NEVER
from cotempo.data.series import Series
from cotempo.data.tables import READERS, pluralize
from cotempo.errors import DataError, nearest
from cotempo.typing import Floats

NUMBER = re.compile(r"[-+]?[\d.,]*\d[\d.,]*(e[-+]?\d+)?", re.IGNORECASE)
LEAST_WORDS, LEAST_LETTERS = 4, 15  # of a text rather than a name


def read_series(
    source: Any,
    *,
    columns: Columns | None = None,
    unit: str = "s",
    zone: str | Mapping[str, str] = "",
    date_format: DateFormat = "",
    limit: int = LIMIT,
    missing: Sequence[str | float] = (),
    without: Sequence[str] = (),
    decimal: str = "",
    resample: str | float | Mapping[str, str | float] = "",
    ambiguous: str = "",
    replace_signs: Mapping[str, float] | None = None,
) -> dict[str, Series]:
    """Read series and return one table per client, sorted by the client's name.

    Parameters
    ----------
    source, columns, unit, zone, date_format, limit
        As in `read_events`: files, folders, patterns, dataframes or a mapping of them; what columns are called; unit,
        time zone and format of dates; the most bytes one file may expand to. Errors are as there.
    missing
        Further signs for a missing value, such as ``["n.d.", -999]``; empty cells, NA, NaN and null are known. A sign
        that is a number stands for that number, however it is written (-999,00). One that no cell holds is warned of.
    without
        Columns to leave out, by their names in the source, such as ``["operator"]``; each must be in some source.
    decimal
        The sign before decimals, ``","`` or ``"."``, by default guessed for files; the other one marks thousands.
    ambiguous
        As in `read_events`, for an hour that clocks repeat where not both are there; rows that have both are told
        apart by their order.
    resample
        Take means over so long, such as ``"1h"``, as `Series.resample` does, so that rows are equally far apart at all
        clients; or that by client, for these only. Rows of the same time are refused without it, but for equal ones.
    replace_signs
        Numbers that texts stand for, such as ``{"<0,1": 0.05}`` for what is below a limit of detection, or
        ``{"ON": 1, "OFF": 0}``.

    Returns
    -------
    dict of Series
        Every column besides ``client``, ``sequence`` and ``time`` is a feature. Rows are sorted by sequence and time;
        without a column ``sequence`` a client has one sequence, ``0``.

    Examples
    --------
    >>> import pandas
    >>> frame = pandas.DataFrame({"client": ["a", "a", "b"], "time": [0, 1, 0], "pulse": [61.0, None, 70.0]})
    >>> read_series(frame)["a"]
    Series(2 rows, 1 sequence, features pulse)
    """
    signs = replace_signs or {}
    reading = Reading(
        columns, unit, zone, date_format, limit, missing, without, decimal, ambiguous, signs, ordered=True
    )
    found = read_sheets(source, reading, lambda sheet: _read_sheet(sheet, resample))
    reading.problems.raise_any()
    _refuse_empty_features(found, reading.problems)
    reading.finish()
    first = next(iter(found.values())).features
    steps = resample if isinstance(resample, Mapping) else dict.fromkeys(found, resample)
    if unknown := [name for name in steps if name not in found]:
        raise DataError(f"resample must name clients, {unknown[0]!r} is none{nearest(unknown[0], found)}")
    tables = {name: _reorder(table, first) for name, table in found.items()}
    return {name: table.resample(steps[name]) if steps.get(name) else table for name, table in tables.items()}


READERS["series"] = read_series


def _read_sheet(sheet: Sheet, resample: Any) -> dict[str, Series]:
    features = [name for name in sheet.columns if name not in ("client", "sequence", "time")]
    if not features:
        sheet.note("a series must have at least one column besides client, sequence and time")
    if "time" not in sheet.columns and (posts := [name for name in features if _is_prose(sheet, name)]):
        sheet.note(f"a column 'text' must be there if these are posts; pass columns={{'text': {posts[0]!r}}}", "text")
    sheet.require("time")
    _refuse_long(sheet, features)
    grouped = group_rows(sheet)
    values = np.column_stack([np.zeros((sheet.rows, 0)), *(sheet.numbers(name) for name in features)])
    kept = _settle_repeated_times(grouped, values, resample)
    sheet.problems.raise_any()
    sequence, times = grouped.sequence, grouped.times
    clients = ((name, rows[kept[rows]]) for name, rows, _ in grouped.by_client())
    return {
        name: Series(tuple(features), sequence[rows], times.values[rows], values[rows], times.unit, times.zone)
        for name, rows in clients
    }


def _reorder(table: Series, features: tuple[str, ...]) -> Series:
    """Return the features in the order of the first file, if they are the same ones."""
    if set(table.features) != set(features):
        return table
    return replace(table, features=features, values=table.values[:, [table.features.index(name) for name in features]])


def _settle_repeated_times(grouped: Grouped, values: Floats, resample: Any) -> NDArray[np.bool_]:
    """Return which rows to keep, one of each time; values are made means where means are asked for, others refused.

    Rows that are equal are left out, with a word.
    """
    order, sheet, kept = grouped.order, grouped.sheet, np.ones(len(values), dtype=bool)
    if any(TWICE_OR_NEVER in problem.must for problem in sheet.problems.found):
        return kept  # the hour that comes twice where clocks are changed is told already
    repeated = (np.diff(grouped.group[order]) == 0) & (np.diff(grouped.times.values[order]) == 0)
    begins = np.flatnonzero(np.append(True, ~repeated))
    again = begins[np.diff(begins, append=len(order)) > 1]
    twin: dict[int, int] = {}
    left_out: dict[str, int] = {}
    for first in again.tolist():
        stop = first + 1 + int(np.argmin(np.append(repeated[first:], False)))
        rows, client = order[first:stop], grouped.owner(int(grouped.group[order[first]]))[0]
        equal = bool(((values[rows] == values[rows[0]]) | (np.isnan(values[rows]) & np.isnan(values[rows[0]]))).all())
        if not equal and not (resample.get(client) if isinstance(resample, Mapping) else resample):
            twin |= zip(rows[1:].tolist(), rows[:-1].tolist(), strict=True)
            continue
        kept[rows[1:]] = False
        if equal:
            left_out[client] = left_out.get(client, 0) + len(rows) - 1
        else:
            known = ~np.isnan(values[rows])
            sums = np.where(known, values[rows], 0.0).sum(axis=0)
            values[rows[0]] = np.where(known.any(axis=0), sums / np.maximum(known.sum(axis=0), 1), np.nan)
    for client, count in left_out.items():
        sheet.reading.remark(f"{pluralize(count, 'row')} left out, equal to another of the same time", client)
    must = "must differ inside a sequence, got the time of row {} again with other values; pass resample= for means"
    if "sequence" not in sheet.columns and (apart := [name for name in sheet.columns if is_repeat(name)]):
        must += f", or columns={{{{'sequence': {apart[0]!r}}}}} if that column tells sequences apart"
    sheet.note_rows(np.array(sorted(twin), np.intp), lambda row: must.format(sheet.row_number(twin[row])), "time")
    return kept


def _refuse_empty_features(found: Mapping[str, Series], problems: Problems) -> None:
    """Note features without a single value at any client; missing at some clients is what federations are for."""
    columns = [column for table in found.values() for column in zip(table.features, table.values.T, strict=True)]
    filled = {feature for feature, values in columns if np.isfinite(values).any()}
    for feature in dict.fromkeys(feature for feature, _ in columns if feature not in filled):
        problems.add("must hold at least one value at some client; drop the column", column=feature)


def _refuse_long(sheet: Sheet, features: Sequence[str]) -> None:
    """Refuse rows of one value each, with a column that names what was measured: names must be columns."""
    values = [name for name in features if _holds_numbers(sheet, name)]
    places = [name for name in sheet.columns if name in ("client", "sequence", "time") or is_repeat(name)]
    named = [name for name in features if name not in (*values, *places)]
    if len(values) != 1 or not named or "time" not in places or not sheet.distinct(places) < sheet.rows:
        return
    for name in named:
        if sheet.distinct([*places, name]) == sheet.rows:
            pivot = f"frame.pivot(index={places!r}, columns={name!r}, values={values[0]!r}).reset_index()"
            must = f"each of its names must be a column, got a row for each; pass {pivot}"
            sheet.note(f"{must}, or columns={{'sequence': {name!r}}} if that tells replicates apart", name)
            sheet.problems.raise_any()


def _holds_numbers(sheet: Sheet, name: str) -> bool:
    """Return whether most of the first cells of a column are numbers."""
    cells = sheet.columns[name].slice(0, 50).drop_null()
    return not is_text(cells.type) or sum(bool(NUMBER.fullmatch(str(cell).strip())) for cell in cells) > len(cells) / 2


def _is_prose(sheet: Sheet, name: str) -> bool:
    """Return whether the first cells of a column are texts of several words or of a script without spaces, no dates."""
    cells = [str(cell) for cell in sheet.columns[name].slice(0, 50).to_pylist() if cell is not None]
    wordy = [
        (len(cell.split()) >= LEAST_WORDS or len(cell) >= LEAST_LETTERS)
        and sum(map(str.isdigit, cell)) < sum(map(str.isalpha, cell))  # of dates most are digits
        for cell in cells
    ]
    return is_text(sheet.columns[name].type) and sum(wordy) > len(wordy) / 2
