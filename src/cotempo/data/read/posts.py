"""Reading posts: `client, time, text, author, hashtags, mentions, event`, and whatever else there is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cotempo.data.posts import OPTIONAL, Posts, clean_tags
from cotempo.data.problems import Report, shown
from cotempo.data.read.columns import as_text, client_keys
from cotempo.data.read.sources import LIMIT, Sheet, agree_on_time, load, refuse_no_rows
from cotempo.data.read.times import check_unit, to_times

SIGNS = {"hashtags": "#", "mentions": "@"}


def read_posts(source: Any, *, client: str = "client", unit: str = "s", limit: int = LIMIT) -> dict[str, Posts]:
    """Read posts and return one table per client, sorted by the client's name.

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
    dict of Posts
        Sorted by time, posts without one last, equal times as in the source. ``hashtags`` and ``mentions`` may be
        space-separated text or lists; their leading ``#`` and ``@`` are dropped. A post without ``event`` is
        unlabelled. Columns with other names are kept in ``extra``.

    Raises
    ------
    DataError
        With all problems at once. Rows are numbered as in the file: the first row under the header of a CSV is row 2,
        and blank lines do not count; in Parquet and dataframes the first row is row 0.

    Examples
    --------
    >>> import pandas
    >>> frame = pandas.DataFrame({"text": ["Flood in the old town"], "hashtags": ["#flood"], "language": ["en"]})
    >>> read_posts(frame)["client"].hashtags
    (('flood',),)
    """
    check_unit(unit)
    report = Report()
    found: dict[str, Posts] = {}
    stamped: dict[str, bool] = {}
    for sheet in load(source, report, limit):
        _read_sheet(sheet, client, unit, report, found, stamped)
    agree_on_time(stamped, report)
    report.check()
    return dict(sorted(found.items()))


def _read_sheet(
    sheet: Sheet, client: str, unit: str, report: Report, found: dict[str, Posts], stamped: dict[str, bool]
) -> None:
    if not sheet.require("text", report) or refuse_no_rows(sheet, report):
        return
    before = len(report.problems)
    clients = client_keys(sheet, client, report)
    texts = as_text(sheet, "text", report).to_pylist()
    empty = np.array([text is None or not text.strip() for text in texts])
    report.add_rows(
        np.flatnonzero(empty), lambda _: "must hold some text in every row; drop posts without any",
        column="text", first_row=sheet.first_row, client=clients.name,
    )  # fmt: skip
    time = np.full(sheet.rows, np.nan)
    is_stamp = False
    if "time" in sheet.columns:
        times = to_times(sheet, "time", unit, report, clients.name, needed=False)
        time, is_stamp = times.values, times.stamped
        stamped[sheet.client] = is_stamp
    columns: dict[str, Any] = {"text": tuple(texts)}
    columns |= {name: _labels(sheet, name, report) for name in ("author", "event") if name in sheet.columns}
    columns |= {name: _tags(sheet, name, report) for name in SIGNS if name in sheet.columns}
    if len(report.problems) > before:
        return
    known = {client, "text", *OPTIONAL}
    extra = {name: tuple(values.to_pylist()) for name, values in sheet.columns.items() if name not in known}
    present = tuple(name for name in OPTIONAL if name in sheet.columns)
    everyone = Posts(time=time, extra=extra, unit=unit if is_stamp else "", present=present, **columns)
    for code, name in enumerate(clients.names):
        rows: NDArray[np.intp] = np.flatnonzero(clients.codes == code)
        found[name] = everyone.select(rows[np.argsort(time[rows], kind="stable")])


def _labels(sheet: Sheet, name: str, report: Report) -> tuple[str | None, ...]:
    return tuple(label or None for label in as_text(sheet, name, report).to_pylist())


def _tags(sheet: Sheet, name: str, report: Report) -> tuple[tuple[str, ...], ...]:
    kind = sheet.columns[name].type
    listed = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    values = sheet.columns[name].to_pylist() if listed else as_text(sheet, name, report).to_pylist()
    tags = tuple(clean_tags(value, SIGNS[name]) for value in values)
    broken = [row for row, found in enumerate(tags) if any(len(tag.split()) != 1 for tag in found)]
    report.add_rows(
        np.array(broken, dtype=np.intp), lambda row: f"a tag must hold no white space, got {shown(tags[row])}",
        column=name, first_row=sheet.first_row, client=lambda _: None,
    )  # fmt: skip
    return tags
