"""Reading series: `client, sequence, time` and one column per feature."""

from __future__ import annotations

from typing import Any

import numpy as np

from cotempo.data.problems import Report
from cotempo.data.read.columns import client_keys, text_keys, to_numbers
from cotempo.data.read.grouping import Grouped, group_rows
from cotempo.data.read.sources import LIMIT, Sheet, agree_on_time, load, refuse_no_rows
from cotempo.data.read.times import check_unit, to_times
from cotempo.data.series import Series


def read_series(source: Any, *, client: str = "client", unit: str = "s", limit: int = LIMIT) -> dict[str, Series]:
    """Read series and return one table per client, sorted by the client's name.

    Parameters
    ----------
    source
        A CSV, gzipped CSV or Parquet file; a folder with one such file per client, named after it; or a pandas,
        polars or pyarrow dataframe. A single source without the column `client` is one client, named after the file
        (``"client"`` for a dataframe).
    client
        Name of the column that holds the client.
    unit
        What timestamps are counted in since 1970-01-01 UTC: ``"s"``, ``"h"`` or ``"D"``. Those without a zone are
        taken as UTC. A column of plain numbers is kept as it is, and the table's unit is empty.
    limit
        The most bytes one file may expand to.

    Returns
    -------
    dict of Series
        Every column besides `client`, ``sequence`` and ``time`` is a feature. Rows are sorted by sequence and time;
        without a column ``sequence`` a client has one sequence, ``0``.

    Raises
    ------
    DataError
        With all problems at once. Rows are numbered as in the file: the first row under the header of a CSV is row 2,
        and blank lines do not count; in Parquet and dataframes the first row is row 0.

    Examples
    --------
    >>> import pandas
    >>> frame = pandas.DataFrame({"client": ["a", "a", "b"], "time": [0, 1, 0], "pulse": [61.0, None, 70.0]})
    >>> read_series(frame)["a"]
    Series(2 rows, 1 sequence, features pulse)
    """
    check_unit(unit)
    report = Report()
    found: dict[str, Series] = {}
    stamped: dict[str, bool] = {}
    for sheet in load(source, report, limit):
        _read_sheet(sheet, client, unit, report, found, stamped)
    agree_on_time(stamped, report)
    report.check()
    _refuse_empty_features(found, report)
    report.check()
    return dict(sorted(found.items()))


def _read_sheet(
    sheet: Sheet, client: str, unit: str, report: Report, found: dict[str, Series], stamped: dict[str, bool]
) -> None:
    features = [name for name in sheet.columns if name not in (client, "sequence", "time")]
    if not features:
        report.add("a series must have at least one column besides client, sequence and time")
    if not sheet.require("time", report) or refuse_no_rows(sheet, report) or not features:
        return
    first = next(iter(found.values()), None)
    if first is not None and set(first.features) == set(features):
        features = list(first.features)  # files may name the same columns in another order
    before = len(report.problems)
    clients = client_keys(sheet, client, report)
    sequences = text_keys(sheet, "sequence", report, clients.name)
    times = to_times(sheet, "time", unit, report, clients.name)
    values = np.column_stack([to_numbers(sheet, name, report, clients.name) for name in features])
    grouped = group_rows(sheet, clients, sequences, times)
    _refuse_repeated_times(grouped, report)
    stamped[sheet.client] = times.stamped
    if len(report.problems) > before:
        return
    names = np.array(sequences.names, dtype=np.str_)[sequences.codes]
    for name, rows, _ in grouped.by_client():
        stamp = unit if times.stamped else ""
        found[name] = Series(tuple(features), names[rows], times.values[rows], values[rows], stamp)


def _refuse_repeated_times(grouped: Grouped, report: Report) -> None:
    time = grouped.sorted_times
    repeated = np.flatnonzero((np.diff(grouped.group) == 0) & (np.diff(time) == 0)) + 1
    twin = dict(zip(grouped.order[repeated].tolist(), grouped.order[repeated - 1].tolist(), strict=True))
    first = grouped.sheet.first_row
    must = "must differ inside a sequence, got the time of row {} again"
    grouped.note(repeated, lambda row: must.format(twin[row] + first), "time", report)


def _refuse_empty_features(found: dict[str, Series], report: Report) -> None:
    """Note features without a single value at any client; missing at some clients is what federations are for."""
    filled: dict[str, bool] = {}
    for table in found.values():
        for feature, values in zip(table.features, table.values.T, strict=True):
            filled[feature] = filled.get(feature, False) or bool(np.isfinite(values).any())
    for feature, some in filled.items():
        if not some:
            report.add("must hold at least one value at some client; drop the column", column=feature)
