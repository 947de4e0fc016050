"""`read_sheets` and `group_rows`, which all readers share; `detect_kind`: which reader a source needs."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from cotempo.data.problems import Problems, list_names, quote
from cotempo.data.read.sheet import Columns, Keys, Reading, Sheet
from cotempo.data.read.sources import (
    SUFFIXES,
    advise_sheet,
    column_names,
    folders_left_out,
    left_out,
    load,
    source_name,
    split_source,
)
from cotempo.data.read.times import Times, kind_of, to_times
from cotempo.data.tables import KINDS
from cotempo.errors import DataError, nearest
from cotempo.typing import Indices

Part = TypeVar("Part")
#: Names that are at least so much alike are spellings of one another.
MISSPELT = 0.8


def read_sheets(
    source: Any, reading: Reading, read_sheet: Callable[[Sheet], dict[str, Part]], time: str = "time"
) -> dict[str, Part]:
    """Read every sheet of a source and return the parts of all clients, sorted by name.

    `read_sheet` returns the parts of one sheet by client, or raises the problems it noted, so that a bad sheet does
    not hide the problems of the others: all are in ``reading.problems``. `time` is the column named in a complaint
    that sheets hold times of different kinds.
    """
    found: dict[str, Part] = {}
    for name in left_out(source):
        reading.remark(f"left out, a table must end in {', '.join(SUFFIXES)}{advise_sheet(name)}", name)
    for name in folders_left_out(source):
        reading.remark(f"left out, tables of one client must lie in its folder, and end in {', '.join(SUFFIXES)}", name)
    readings: dict[str, Reading] = {}
    named: list[set[str]] = []  # what each sheet may be called in options by client
    try:
        for client, part in split_source(source, reading.problems):
            own = readings.setdefault(source_name(part, client), reading.of(source_name(part, client)))
            with reading.problems.collect(client):
                for sheet in load(part, client, own).by_client(reading):
                    named.append({source_name(part, client), sheet.client})
                    with reading.problems.collect(client):
                        parts = read_sheet(sheet)
                        sheet.problems.raise_any()
                        for name in sorted(set(parts) & set(found)):
                            must = (
                                "must come from one part of the source only; files that are sequences of one client "
                                "belong in a folder of its own, or {client: [files]}"
                            )
                            reading.problems.add(must, client=name)
                        found |= parts
    except OSError as error:
        raise DataError(f"a source must be readable, {quote(str(source))} is not: {error.strerror}") from error
    kinds = {name: kind_of(clock) for name, clock in reading.clocks.items()}
    for name, kind in kinds.items():
        first = next(iter(kinds))
        if kind != kinds[first]:
            must = f"must be of one kind at all clients; {first!r} has {kinds[first]}, this one has {kind}"
            plain = next((each for each in (name, first) if kinds[each] == "plain numbers"), None)
            since = f"; if they count seconds since 1970, pass date_format={{{plain!r}: 's'}}, or 'ms' for milliseconds"
            advice = since if plain is not None else "; pass zone= for those without"
            reading.problems.add(must + advice, client=name, column=time)
    for own_name, own in readings.items() if reading.by_client else ():
        _check_columns(own, own_name)
    everywhere = replace(reading, seen=set[str]().union(reading.seen, *(own.seen for own in readings.values())))
    _check_columns(everywhere, None)
    renamed = {name for named in (reading.named, *reading.by_client.values()) for name in named}
    for name in everywhere.without:
        if name.strip() not in everywhere.seen and name not in renamed:
            must = f"no column is called {name!r}, as without= says{nearest(name, everywhere.seen)}"
            reading.problems.add(f"{must}; the columns are: {', '.join(map(quote, sorted(everywhere.seen)))}")
    if time == "time":  # windows are of some clients, or of all together
        _check_named(reading, named)
    return dict(sorted(found.items()))


def _check_named(reading: Reading, sheets: list[set[str]]) -> None:
    """Note clients in options by client that are not there, if others are there that the option does not name.

    One that is spelt nearly like such another has been misspelt; any other may be missing, and is warned of.
    """
    by_client = {"columns": reading.by_client, "zone": reading.zone, "date_format": reading.date_format}
    for option, given in by_client.items():
        if not isinstance(given, Mapping):
            continue
        named = {name.casefold() for name in given}
        unnamed = [name for names in sheets if not {each.casefold() for each in names} & named for name in names]
        known = sorted(set[str]().union(*sheets))
        there = {name.casefold() for name in known}
        unknown = [name for name in given if name.casefold() not in there] if unnamed else []
        if any(nearest(name, unnamed, MISSPELT) for name in unknown):
            sources, listed = (", ".join(map(quote, names)) for names in (known, unknown))
            reading.problems.add(f"{option}= must name sources that are there ({sources}), got {listed}")
        elif unknown:
            others = f"{option}= names others, which are not there ({list_names(unknown)})"
            reading.remark(f"{others}: these are read as without it", list_names(sorted(unnamed)))


def _check_columns(reading: Reading, client: str | None) -> None:
    """Note names in ``columns=`` that no source has."""
    for name, called in reading.named.items():
        told = any(problem.column == name for problem in reading.problems.found)
        if not told and reading.seen and called not in reading.seen and name not in reading.seen:
            must = f"no column is called {called!r}, as columns= says{nearest(called, reading.seen)}"
            given = ", ".join(map(quote, sorted(reading.seen)))
            reading.problems.add(f"{must}; the columns are: {given}", client=client, column=name)


@dataclass(frozen=True)
class Grouped:
    """The rows of a sheet by client and sequence, in order of time."""

    sheet: Sheet
    sequences: Keys
    times: Times
    order: Indices  # positions of rows in the sheet, sorted by client, sequence and time, (rows,)
    first: Indices  # where each group begins in `order`, (groups,)
    group: Indices  # the group of each row of the sheet, (rows,)

    @property
    def sequence(self) -> NDArray[np.str_]:
        """Name of each row's sequence, in the order of the sheet, ``(rows,)``."""
        return np.array(self.sequences.names, dtype=np.str_)[self.sequences.codes]

    def owner(self, group: int) -> tuple[str, str]:
        """Return the client and the sequence of a group, "" for a client that has no name, which is told already."""
        row = self.order[self.first[group]]
        clients = self.sheet.clients
        name = clients.names[clients.codes[row]] if clients.names else ""
        return name, self.sequences.names[self.sequences.codes[row]]

    def by_client(self) -> Iterator[tuple[str, Indices, range]]:
        """Yield each client's name, sorted rows (positions in the sheet) and groups."""
        clients = self.sheet.clients
        bounds = np.searchsorted(clients.codes[self.order], np.arange(len(clients.names) + 1))
        groups = np.searchsorted(self.first, bounds)
        for code, name in enumerate(clients.names):
            yield name, self.order[bounds[code] : bounds[code + 1]], range(groups[code], groups[code + 1])


def group_rows(sheet: Sheet, deal: Callable[[Keys, Times], Keys] | None = None) -> Grouped:
    """Sort the rows of a sheet by client, sequence and time; `deal` gives each its sequence where no column does."""
    times, clients = to_times(sheet, "time"), sheet.clients
    sequences = deal(clients, times) if deal and "sequence" not in sheet.columns else sheet.keys("sequence")
    order = np.lexsort((times.values, sequences.codes, clients.codes))
    owner, name = clients.codes[order], sequences.codes[order]
    begins = np.ones(len(order), dtype=bool)
    begins[1:] = (owner[1:] != owner[:-1]) | (name[1:] != name[:-1])
    group = np.empty(len(order), dtype=np.intp)
    group[order] = np.cumsum(begins) - 1
    return Grouped(sheet, sequences, times, order, np.flatnonzero(begins), group)


def detect_kind(source: Any, columns: Columns | None = None) -> str:
    """Return the kind of table a source holds, by its columns; `columns` as in the readers.

    Posts have ``text``; events have ``mark``, or nothing but ``client``, ``sequence``, ``time``, ``start`` and ``end``;
    everything else is a series. Parts of different kinds are refused, each named with its columns.

    Examples
    --------
    >>> import pandas
    >>> detect_kind(pandas.DataFrame({"time": [0.0], "mark": ["a"]}))
    'events'
    """
    reading, problems = Reading(columns), Problems()
    each = [reading.of(name).named for name in reading.by_client] or [reading.named]
    new = {old: name for named in each for name, old in named.items()}
    seen: dict[str, list[str]] = {}
    parts = split_source(source, problems)
    problems.raise_any()
    for client, part in parts:
        with problems.collect(client):
            found = column_names(part)
            names = {new.get(name, name) for name in found} - {"client"}
            kind = next((kind for kind, table in KINDS.items() if table.recognizes(names)), "series")
            name = part.name if isinstance(part, Path) else source_name(part, client)
            seen.setdefault(kind, []).append(f"{name} ({list_names(found, most=5)})")
    if not seen:  # a reader tells of a part that cannot be read
        problems.raise_any()
        raise DataError("a source must have at least one part, got an empty list or mapping")
    if len(seen) > 1:
        got = "; ".join(f"like {kind}: {list_names(files)}" for kind, files in seen.items())
        must = "the tables of a source must be of one kind, by their columns"
        raise DataError(f"{must}; got {got}. Keep each kind in a folder of its own, or say the kind or the method")
    return next(iter(seen))
