"""`read_posts`: ``client, time, text, author, hashtags, mentions, event``, and any further columns."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from cotempo.data.posts import OPTIONAL, Posts, clean_tags
from cotempo.data.problems import quote
from cotempo.data.read.reader import read_sheets
from cotempo.data.read.sheet import LIMIT, Columns, DateFormat, Reading, Sheet
from cotempo.data.read.times import Times, to_times
from cotempo.data.tables import READERS

SIGNS = {"hashtags": "#", "mentions": "@"}


def read_posts(
    source: Any,
    *,
    columns: Columns | None = None,
    unit: str = "s",
    zone: str | Mapping[str, str] = "",
    date_format: DateFormat = "",
    limit: int = LIMIT,
) -> dict[str, Posts]:
    """Read posts and return one table per client, sorted by the client's name.

    Parameters
    ----------
    source, columns, unit, zone, date_format, limit
        As in `read_events`: files, folders, patterns, dataframes or a mapping of them; what columns are called; unit,
        time zone and format of dates; the most bytes one file may expand to. Errors are as there.

    Returns
    -------
    dict of Posts
        Sorted by time, posts without one last, equal times as in the source. ``hashtags`` and ``mentions`` may be
        space-separated text or lists; their leading ``#`` and ``@`` are dropped. A post without ``event`` is
        unlabelled. Columns with other names are kept in ``extra``.

    Examples
    --------
    >>> import pandas
    >>> frame = pandas.DataFrame({"text": ["Flood in the old town"], "hashtags": ["#flood"], "language": ["en"]})
    >>> read_posts(frame)["client"].hashtags
    (('flood',),)
    """
    reading = Reading(columns, unit, zone, date_format, limit)
    found = read_sheets(source, reading, _read_sheet)
    reading.finish()
    return found


READERS["posts"] = read_posts


def _read_sheet(sheet: Sheet) -> dict[str, Posts]:
    sheet.require("text")
    if not any(letter.isalpha() for text in sheet.text("text").to_pylist() for letter in text or ""):
        sheet.note("must hold words, got none in any row; name the right column with columns={'text': ...}", "text")
    clients, texts = sheet.clients, sheet.text("text").to_pylist()
    empty = np.array([text is None or not text.strip() for text in texts])
    sheet.note_rows(np.flatnonzero(empty), "must hold some text in every row; drop posts without any", "text")
    present = tuple(name for name in OPTIONAL if name in sheet.columns)
    times = to_times(sheet, "time", needed=False) if "time" in present else Times(np.full(sheet.rows, np.nan))
    columns: dict[str, Any] = {name: _tags(sheet, name) for name in SIGNS if name in present}
    for name in {"author", "event"} & set(present):
        columns[name] = tuple(label or None for label in sheet.text(name).to_pylist())
    sheet.problems.raise_any()
    known = {"client", "text", *OPTIONAL}
    extra = {name: tuple(values.to_pylist()) for name, values in sheet.columns.items() if name not in known}
    everyone = Posts(
        times.values, tuple(texts), extra=extra, unit=times.unit, zone=times.zone, present=present, **columns
    )
    order = np.argsort(times.values, kind="stable")
    return {name: everyone.select(order[clients.codes[order] == code]) for code, name in enumerate(clients.names)}


def _tags(sheet: Sheet, name: str) -> tuple[tuple[str, ...], ...]:
    kind = sheet.columns[name].type
    listed = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    values = sheet.columns[name].to_pylist() if listed else sheet.text(name).to_pylist()
    tags = tuple(clean_tags(value, SIGNS[name]) for value in values)
    broken = [row for row, found in enumerate(tags) if any(len(tag.split()) != 1 for tag in found)]
    must = "a tag must hold no white space, got {}"
    sheet.note_rows(np.array(broken, dtype=np.intp), lambda row: must.format(quote(tags[row])), name)
    return tags
