"""`Description`: what clients hold, in plain words, as plain data, and as a dataframe."""

import json
import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from cotempo.data.clock import LABELS, UNITS
from cotempo.data.html import html_table
from cotempo.data.problems import list_names
from cotempo.data.tables import KINDS, Framed, FrameKind, Schema, Table, make_frame, pluralize
from cotempo.errors import DataError

_SEPARATORS = re.compile(r"[\s_\-\u2010-\u2015]+")
UNEQUAL, MOST_MULTIPLE = 1.05, 4  # times as long: another step; at most so many of the longest are a common one
MOST_NAMES = 8
COUNTED = {"rows": "row", "sequences": "sequence", "gaps": "gap", "labels": "labelled event"}


@dataclass(frozen=True)
class ClientDescription:
    """What one client holds; entries that make no sense for its kind of table are None."""

    client: str
    rows: int
    sequences: int | None = None
    start: float | str | None = None
    end: float | str | None = None
    gaps: int | None = None
    missing: float | None = None
    marks: dict[str, int] | None = None
    labels: int | None = None
    warnings: tuple[str, ...] = ()
    step: float | None = None  # the usual seconds between two rows, where times are dates

    def facts(self) -> dict[str, Any]:
        """Return the entries that are not None, without the client and the warnings."""
        entries = {**vars(self), "client": None, "warnings": None}
        return {name: value for name, value in entries.items() if value is not None}

    def line(self) -> str:
        """Return the description as one line of plain words."""
        parts = []
        for name, value in self.facts().items():
            if name in COUNTED:
                parts.append(pluralize(value, COUNTED[name]))
            elif name == "end":
                first, last = (v if isinstance(v, str) else f"{v:.12g}" for v in (self.start, value))
                parts.append(f"time {first} to {last}")
            elif name == "step":
                parts.append(f"a row every {step_text(value)}")
            elif name == "missing":
                parts.append(f"{100 * value:.1f} % missing")
            elif name == "marks":
                parts.append("marks " + ", ".join(f"{mark} {count:,}" for mark, count in value.items()))
        return f"{self.client}: {', '.join(parts)}"


@dataclass(frozen=True)
class Description(Framed):
    """What all clients hold together; kind and unit are those of the first, columns those all clients have.

    `partial` are the columns that only some have. Zones are those of the clients' dates. Warnings name what is allowed
    but worth a look, clients that disagree first.
    """

    kind: str
    columns: tuple[str, ...]
    unit: str
    zones: tuple[str, ...]
    rows: int
    clients: tuple[ClientDescription, ...]
    warnings: tuple[str, ...]
    partial: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """Return the description in plain words, one line per fact."""
        zones = f"in {', '.join(self.zones)}" if self.zones else "without a time zone"
        unit = f"dates {zones}, counted in {LABELS[self.unit]}" if self.unit else "time as plain numbers"
        some = f"; at some clients only: {shorten(self.partial)}" if self.partial else ""
        return [
            f"{self.kind}: {pluralize(len(self.clients), 'client')}, {pluralize(self.rows, 'row')}, {unit}",
            f"{KINDS[self.kind].columns_are}: {', '.join(self.columns) or 'none'}{some}",
            *(client.line() for client in self.clients),
            *(f"warning: {warning}" for warning in self.warnings),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the description as plain data that JSON can hold."""
        return dict(json.loads(json.dumps(asdict(self))))

    def to_frame(self, kind: FrameKind = "pandas") -> Any:
        """Return one row per client, with the entries that its kind of table has."""
        names = dict.fromkeys(name for client in self.clients for name in client.facts() if name != "marks")
        return make_frame(
            {name: [getattr(client, name) for client in self.clients] for name in ["client", *names]}, kind
        )

    def _repr_html_(self) -> str:
        rows = list(self)
        title, columns, *_ = self.lines()
        return html_table(title, [list(row.values()) for row in rows], list(rows[0]), [columns, *self.warnings])


def describe(clients: Mapping[str, Table], *, also: Callable[[Table], list[str]] | None = None) -> Description:
    """Describe what clients hold and what is worth a look before learning from it.

    `also` says more of each table, such as a method's `misled_by`.

    Examples
    --------
    >>> from cotempo.data import Series
    >>> series = Series.from_arrays([[1.0, 5.0], [2.0, 5.0]], features=("pulse", "ward"))
    >>> print("\\n".join(describe({"a": series}).lines()))
    series: 1 client, 2 rows, time as plain numbers
    features: pulse, ward
    a: 2 rows, 1 sequence, time 0 to 1, 0 gaps, 0.0 % missing
    warning: a: column 'ward' is constant
    """
    if not clients:
        raise DataError("there must be at least one client to describe")
    for name, table in clients.items():
        if not isinstance(table, Table):
            known = ", ".join(kind.__name__ for kind in KINDS.values())
            raise DataError(f"client {name!r} must hold a table ({known}), got {type(table).__name__}")
    first, *_ = names = sorted(clients)
    found = tuple(clients[name].describe(name) for name in names)
    schemas = {name: clients[name].schema for name in names}
    everything = list(dict.fromkeys(column for schema in schemas.values() for column in schema.columns))
    common = tuple(column for column in everything if all(column in schema.columns for schema in schemas.values()))
    schema, zones = schemas[first], tuple(dict.fromkeys(other.zone for other in schemas.values() if other.zone))
    warnings = [f"{' and '.join(map(repr, same))} differ in case only: one column?" for same in case_twins(everything)]
    who_lacks: dict[tuple[str, ...], list[str]] = {}
    for name, other in schemas.items():
        if lacking := tuple(column for column in everything if column not in other.columns):
            who_lacks.setdefault(lacking, []).append(name)
    warnings += [
        f"{list_names(who)}: {shorten([*map(repr, lacking)])} missing, which other clients have"
        for lacking, who in who_lacks.items()
    ]
    for name, other in schemas.items():
        if (other.kind, other.unit) != (schema.kind, schema.unit):
            warnings.append(f"{name}: {_kind(other)}, where {first} has {_kind(schema)}")
        elif bool(other.zone) != bool(schema.zone):
            warnings.append(f"{name}: dates must have a time zone at all clients or at none; pass zone= in reading")
    if schema.kind == "events" and len(zones) > 1:
        utc = "; is UTC the clock of the site, or of the export? pass zone=" if "UTC" in zones else ""
        warnings.append(f"zones differ ({list_names(zones)}): periods are those of each client's own clock{utc}")
    same: dict[str, list[str]] = {}
    for client in found:
        for warning in (*client.warnings, *(also(clients[client.client]) if also else ())):
            same.setdefault(warning, []).append(client.client)
    warnings += [f"{list_names(own)}: {warning}" for warning, own in same.items()]
    several = [client.client for client in found if (client.sequences or 0) > 1 and _at_once(clients[client.client])]
    single = [client.client for client in found if client.sequences == 1]
    if schema.kind == "events" and several and single:
        both = f"{list_names(several)} with several sequences beside {list_names(single)} with one"
        warnings.append(f"{both}: rates and counts are those of one sequence, and clients' are no longer comparable")
    steps = {name: getattr(clients[name], "step" if schema.unit else "usual_step", 0.0) for name in names}
    if apart := unequal_steps(steps, dated=bool(schema.unit)):
        warnings.append(apart)
    rows = sum(client.rows for client in found)
    partial = tuple(column for column in everything if column not in common)
    return Description(schema.kind, common, schema.unit, zones, rows, found, tuple(warnings), partial)


def _at_once(table: Table) -> bool:
    """Return whether sequences were watched at the same time: windows one after the other are those of one place."""
    start, end = (np.asarray(getattr(table, name, ())) for name in ("start", "end"))
    order = np.argsort(start)
    return bool((start[order][1:] < end[order][:-1]).any())


def unequal_steps(steps: Mapping[str, float], *, dated: bool = True) -> str:
    """Return in words that usual steps differ, in seconds or, if not `dated`, in plain numbers; 0 is unknown.

    Examples
    --------
    >>> unequal_steps({"berlin": 3600.0, "chennai": 1800.0})
    'rows are 1 h apart at berlin, 0.5 h apart at chennai: a row is no common step; take means first, resample="1h"'
    >>> unequal_steps({"graz": 900.0, "ulm": 600.0})[-33:]
    'take means first, resample="0.5h"'
    >>> unequal_steps({"graz": 1.0, "ulm": 4.0}, dated=False)[-28:]
    'take means first, resample=4'
    """
    known = {name: step for name, step in steps.items() if step}
    if not known or max(known.values()) < UNEQUAL * min(known.values()):
        return ""
    alike: dict[str, list[str]] = {}
    for name, step in known.items():
        alike.setdefault(step_text(step) if dated else f"{step:g}", []).append(name)
    each = ", ".join(f"{text} apart at {list_names(names)}" for text, names in alike.items())
    if not dated:
        mend = f"if all count the same unit, take means first, resample={max(known.values()):g}"
        return f"rows are {each}: a row is no common step; {mend}"
    longest, common = max(known.values()), math.lcm(*(max(round(step), 1) for step in known.values()))
    common_step = common if common <= MOST_MULTIPLE * longest else longest
    mend = f'take means first, resample="{step_text(common_step).replace(" ", "")}"'
    return f"rows are {each}: a row is no common step; {mend}"


def shorten(names: Sequence[str]) -> str:
    """Return names as text, of many the first two and the last.

    Examples
    --------
    >>> shorten([f"p{number}" for number in range(1, 31)])
    '30 columns (p1, p2, ..., p30)'
    """
    if len(names) <= MOST_NAMES:
        return ", ".join(names)
    return f"{len(names)} columns ({names[0]}, {names[1]}, ..., {names[-1]})"


def step_text(seconds: float) -> str:
    """Return a step of time in seconds, hours or days."""
    unit = next((unit for unit in ("D", "h") if seconds >= UNITS[unit] / 2), "s")
    return f"{seconds / UNITS[unit]:.4g} {unit}"


def case_twins(names: Iterable[str]) -> list[list[str]]:
    """Return the names that differ in upper and lower case only, or in white space, together."""
    alike: dict[str, list[str]] = {}
    for name in names:
        alike.setdefault(name.strip().casefold(), []).append(name)
    return [group for group in alike.values() if len(group) > 1]


def spelling(label: str) -> str:
    """Return what labels have in common that differ in case, white space, hyphens and underscores only."""
    return _SEPARATORS.sub("", unicodedata.normalize("NFKC", label)).casefold()


def spelling_twins(labels: Iterable[str]) -> list[list[str]]:
    """Return the labels that are probably spellings of the same one, together."""
    alike: dict[str, list[str]] = {}
    for label in labels:
        alike.setdefault(spelling(label), []).append(label)
    return [group for group in alike.values() if len(group) > 1]


def _kind(schema: Schema) -> str:
    return f"{schema.kind} with time in {LABELS[schema.unit]}" if schema.unit else f"{schema.kind} with plain numbers"
