"""What a source holds, in plain words and as plain data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from cotempo.data.events import Events
from cotempo.data.posts import Posts
from cotempo.data.read.sources import column_names
from cotempo.data.series import Series, gaps
from cotempo.data.tables import Table, counted
from cotempo.errors import DataError


@dataclass(frozen=True)
class ClientDescription:
    """What one client holds; entries that make no sense for its kind are None."""

    client: str
    rows: int
    sequences: int | None = None
    start: float | None = None
    end: float | None = None
    gaps: int | None = None
    missing: float | None = None
    marks: dict[str, int] | None = None
    labels: int | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Description:
    """What all clients hold together.

    Attributes
    ----------
    kind, columns, unit
        As in `Schema`, of the first client.
    rows
        Rows of all clients.
    clients
        One entry per client.
    warnings
        What is allowed but worth a look, clients that disagree first.
    """

    kind: str
    columns: tuple[str, ...]
    unit: str
    rows: int
    clients: tuple[ClientDescription, ...]
    warnings: tuple[str, ...]

    def lines(self) -> list[str]:
        """Return the description in plain words, one line per fact."""
        column = {"events": "marks", "series": "features", "posts": "columns"}[self.kind]
        unit = f"time in {self.unit} since 1970-01-01 UTC" if self.unit else "time as plain numbers"
        listed = ", ".join(self.columns) or "none"
        lines = [f"{self.kind}: {counted(len(self.clients), 'client')}, {counted(self.rows, 'row')}, {unit}"]
        lines.append(f"{column}: {listed}")
        lines += [_line(client) for client in self.clients]
        lines += [f"warning: {warning}" for warning in self.warnings]
        return lines

    def to_dict(self) -> dict[str, Any]:
        """Return the description as plain data that JSON can hold."""
        plain = asdict(self)
        plain["columns"], plain["warnings"] = list(self.columns), list(self.warnings)
        plain["clients"] = [{**asdict(client), "warnings": list(client.warnings)} for client in self.clients]
        return plain


def describe(clients: Mapping[str, Table]) -> Description:
    """Describe what clients hold and what is worth a look before learning from it.

    Examples
    --------
    >>> series = Series.from_arrays([[1.0, 5.0], [2.0, 5.0]], features=("pulse", "ward"))
    >>> print("\\n".join(describe({"a": series}).lines()))
    series: 1 client, 2 rows, time as plain numbers
    features: pulse, ward
    a: 2 rows, 1 sequence, time 0 to 1, 0 gaps, 0.0 % missing
    warning: a: column 'ward' is constant
    """
    if not clients:
        raise DataError("there must be at least one client to describe")
    found = tuple(_describe(name, clients[name]) for name in sorted(clients))
    schema = clients[found[0].client].schema
    warnings = [
        f"{name}: columns or unit differ from those of {found[0].client}"
        for name in sorted(clients)
        if clients[name].schema != schema
    ]
    warnings += [f"{client.client}: {warning}" for client in found for warning in client.warnings]
    rows = sum(client.rows for client in found)
    return Description(schema.kind, schema.columns, schema.unit, rows, found, tuple(warnings))


def detect_kind(source: Any, *, client: str = "client") -> Literal["events", "series", "posts"]:
    """Return the kind of table a source holds, told by its columns.

    Posts have ``text``; events have nothing but ``client``, ``sequence``, ``time``, ``mark``, ``start`` and ``end``;
    everything else is a series.

    Examples
    --------
    >>> import pandas
    >>> detect_kind(pandas.DataFrame({"time": [0.0], "mark": ["a"]}))
    'events'
    """
    names = set(column_names(source))
    if "text" in names:
        return "posts"
    return "events" if names <= {client, "sequence", "time", "mark", "start", "end"} else "series"


def _describe(name: str, table: Table) -> ClientDescription:
    if isinstance(table, Series):
        return _describe_series(name, table)
    if isinstance(table, Events):
        return _describe_events(name, table)
    if isinstance(table, Posts):
        return _describe_posts(name, table)
    raise DataError(f"client {name!r} must hold Events, Series or Posts, got {type(table).__name__}")


def _describe_series(name: str, table: Series) -> ClientDescription:
    parts = list(table.sequences())
    single = sum(len(time) == 1 for _, time, _ in parts)
    warnings = [f"{counted(single, 'sequence')} of one row"] if single else []
    for feature, values in zip(table.features, table.values.T, strict=True):
        known = values[np.isfinite(values)]
        if len(known) == 0:
            warnings.append(f"column {feature!r} is missing in all rows")
        elif table.rows > 1 and known.min() == known.max():
            warnings.append(f"column {feature!r} is constant")
    start, end = (float(table.time.min()), float(table.time.max())) if table.rows else (None, None)
    missing = float(np.isnan(table.values).mean()) if table.rows else None
    breaks = sum(len(gaps(time)) for _, time, _ in parts)
    return ClientDescription(name, table.rows, len(parts), start, end, breaks, missing, warnings=tuple(warnings))


def _describe_events(name: str, table: Events) -> ClientDescription:
    parts = list(table.sequences())
    silent = sum(len(times) == 0 for _, times, *_ in parts)
    tied = sum(int((np.diff(times) == 0).sum()) for _, times, *_ in parts)
    warnings = [f"{counted(silent, 'sequence')} without events"] if silent else []
    if tied:
        warnings.append(f"{counted(tied, 'event')} at the very time of another in the sequence")
    counts = {mark: int((table.mark == code).sum()) for code, mark in enumerate(table.marks)}
    warnings += [f"mark {mark!r} never occurs" for mark, count in counts.items() if count == 0]
    start, end = (float(table.start.min()), float(table.end.max())) if parts else (None, None)
    marks = counts if table.marks else None
    return ClientDescription(name, table.rows, len(parts), start, end, marks=marks, warnings=tuple(warnings))


def _describe_posts(name: str, table: Posts) -> ClientDescription:
    again = sum(count - 1 for count in Counter(table.text).values())
    unlabelled = sum(label is None for label in table.event)
    timeless = int(np.isnan(table.time).sum())
    warnings = []
    for count, word in (
        (again, "with the text of another"),
        (unlabelled, "without a label"),
        (timeless, "without a time"),
    ):
        if count:
            warnings.append(f"{counted(count, 'post')} {word}")
    labels = len({label for label in table.event if label is not None})
    known = table.time[np.isfinite(table.time)]
    start, end = (float(known.min()), float(known.max())) if len(known) else (None, None)
    return ClientDescription(name, table.rows, start=start, end=end, labels=labels, warnings=tuple(warnings))


def _line(client: ClientDescription) -> str:
    parts = [counted(client.rows, "row")]
    if client.sequences is not None:
        parts.append(counted(client.sequences, "sequence"))
    if client.start is not None and client.end is not None:
        parts.append(f"time {client.start:.12g} to {client.end:.12g}")
    if client.gaps is not None:
        parts.append(counted(client.gaps, "gap"))
    if client.missing is not None:
        parts.append(f"{client.missing:.1%} missing".replace("%", " %"))
    if client.marks is not None:
        parts.append("marks " + ", ".join(f"{mark} {count:,}" for mark, count in client.marks.items()))
    if client.labels is not None:
        parts.append(counted(client.labels, "labelled event"))
    return f"{client.client}: {', '.join(parts)}"
