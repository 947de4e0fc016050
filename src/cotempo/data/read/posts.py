"""`read_posts`: ``client, time, text, author, hashtags, mentions, event``, and any further columns."""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from cotempo.data.description import spelling_twins
from cotempo.data.posts import OPTIONAL, Posts, clean_tags
from cotempo.data.problems import quote
from cotempo.data.read.reader import read_sheets
from cotempo.data.read.sheet import LIMIT, Columns, DateFormat, Reading, Sheet
from cotempo.data.read.times import Times, to_times
from cotempo.data.tables import READERS, pluralize
from cotempo.errors import ParameterError, warn

EPOCH = 3e8  # seconds of nine years
SIGNS = {"hashtags": "#", "mentions": "@"}
_WHOLE = re.compile(r"^(-?\d+)\.0+$")


def read_posts(
    source: Any,
    *,
    columns: Columns | None = None,
    unit: str = "s",
    zone: str | Mapping[str, str] = "",
    date_format: DateFormat = "",
    limit: int = LIMIT,
    labels: Mapping[str, str] | None = None,
    ambiguous: str = "",
) -> dict[str, Posts]:
    """Read posts and return one table per client, sorted by the client's name.

    Parameters
    ----------
    source, columns, unit, zone, date_format, limit, ambiguous
        As in `read_events`: files, folders, patterns, dataframes or a mapping of them; what columns are called; unit,
        time zone and format of dates; the most bytes one file may expand to. Errors are as there.
    labels
        What events are called instead of other spellings or words, such as ``{"flood porto": "Flood-Porto"}``; an
        empty name is none, as in ``{"none": ""}``: such posts are unlabelled.

    Returns
    -------
    dict of Posts
        Posts are in the order of the source, so that results can be put beside its rows. ``hashtags`` and ``mentions``
        may be lists, or texts with blanks, commas or the like between; their leading ``#`` and ``@`` are dropped. A
        post without ``event`` is unlabelled, one without text stays with an empty one; labels lose white space around
        them and the ``.0`` of whole numbers. Columns with other names are kept in ``extra``.

    Examples
    --------
    >>> import pandas
    >>> frame = pandas.DataFrame({"text": ["Flood in the old town"], "hashtags": ["#flood"], "language": ["en"]})
    >>> read_posts(frame)["client"].hashtags
    (('flood',),)
    """
    reading = Reading(columns, unit, zone, date_format, limit, ambiguous=ambiguous)
    pairs = labels.items() if isinstance(labels, Mapping) else [("", labels)] if labels else []
    if not all(isinstance(old, str) and old.strip() and isinstance(new, str) for old, new in pairs):
        raise ParameterError(f"labels must map texts to texts, such as {{'flood': 'Flood-Porto'}}, got {labels!r}")
    found = read_sheets(source, reading, _read_sheet)
    reading.finish()
    if labels:
        found = {name: _relabelled(posts, labels) for name, posts in found.items()}
    known = dict.fromkeys(label for posts in found.values() for label in posts.event if label is not None)
    if twins := list(spelling_twins(known)):
        warn(
            f"labels {', and '.join(' and '.join(map(quote, same)) for same in twins)} differ in case, spaces, hyphens "
            f"or underscores only and are taken for different events; to make them one, labels = "
            f"{_as_labels(twins, found)} in [data]"
        )
    return found


READERS["posts"] = read_posts


def _read_sheet(sheet: Sheet) -> dict[str, Posts]:
    sheet.require("text")
    if not any(letter.isalpha() for text in sheet.text("text").to_pylist() for letter in text or ""):
        sheet.note("must hold words, got none in any row; name the right column with columns={'text': ...}", "text")
    clients, texts = sheet.clients, sheet.text("text").to_pylist()
    texts = ["" if text is None else text for text in texts]
    if empty := sum(not text.strip() for text in texts):
        sheet.reading.remark(f"{pluralize(empty, 'post')} without any text, which belong to no event", sheet.client)
    present = tuple(name for name in OPTIONAL if name in sheet.columns)
    times = to_times(sheet, "time", needed=False) if "time" in present else Times(np.full(sheet.rows, np.nan))
    plain = times.values[np.isfinite(times.values)]
    if not times.unit and len(plain) and np.median(plain) > EPOCH:
        since, written = ("milliseconds", "ms") if np.median(plain) > 1000 * EPOCH else ("seconds", "s")
        note = f"times look like {since} since 1970 and are taken for plain numbers; to have dates, read them with"
        sheet.reading.remark(f'{note} date_format="{written}"', sheet.client)
    columns: dict[str, Any] = {name: _tags(sheet, name) for name in SIGNS if name in present}
    if "author" in present:
        columns["author"] = tuple(name or None for name in sheet.text("author").to_pylist())
    if "event" in present:
        columns["event"] = tuple(_label(text) for text in sheet.text("event").to_pylist())
    sheet.problems.raise_any()
    known = {"client", "text", *OPTIONAL}
    extra = {name: tuple(values.to_pylist()) for name, values in sheet.columns.items() if name not in known}
    everyone = Posts(
        times.values, tuple(texts), extra=extra, unit=times.unit, zone=times.zone, present=present, **columns
    )
    return {name: everyone.select(clients.codes == code) for code, name in enumerate(clients.names)}


def _as_labels(twins: Sequence[Sequence[str]], found: Mapping[str, Posts]) -> str:
    """Return TOML that gives spellings the name of the most frequent one."""
    counts = Counter(label for posts in found.values() for label in posts.event)
    best = {label: max(same, key=lambda one: counts[one]) for same in twins for label in same}
    return f"{{{', '.join(f'{json.dumps(one)} = {json.dumps(name)}' for one, name in best.items() if one != name)}}}"


def _relabelled(posts: Posts, labels: Mapping[str, str]) -> Posts:
    """Return the posts with other names for some labels."""
    return replace(posts, event=tuple(label and (labels.get(label, label).strip() or None) for label in posts.event))


def _label(text: str | None) -> str | None:
    """Return a label as other files may write it: 3 for 3.0, as dataframes write whole numbers beside gaps."""
    return _WHOLE.sub(r"\1", text.strip()) or None if text else None


def _tags(sheet: Sheet, name: str) -> tuple[tuple[str, ...], ...]:
    kind = sheet.columns[name].type
    listed = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    values = sheet.columns[name].to_pylist() if listed else sheet.text(name).to_pylist()
    tags = tuple(clean_tags(value, SIGNS[name]) for value in values)
    broken = [row for row, found in enumerate(tags) if any(len(tag.split()) != 1 for tag in found)]
    must = "a tag must hold no white space, got {}"
    sheet.note_rows(np.array(broken, dtype=np.intp), lambda row: must.format(quote(tags[row])), name)
    return tags
