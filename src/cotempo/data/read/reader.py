"""`read_sheets` and `group_rows`, which all readers share; `detect_kind`: which reader a source needs."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from cotempo.data.problems import quote
from cotempo.data.read.sheet import Keys, Reading, Sheet
from cotempo.data.read.sources import column_names, load, split_source
from cotempo.data.read.times import Times, to_times
from cotempo.data.tables import KINDS
from cotempo.errors import DataError
from cotempo.typing import Indices

Part = TypeVar("Part")


def read_sheets(
    source: Any, reading: Reading, read_sheet: Callable[[Sheet], dict[str, Part]], time: str = "time"
) -> dict[str, Part]:
    """Read every sheet of a source and return the parts of all clients, sorted by name.

    `read_sheet` returns the parts of one sheet by client, or raises the problems it noted, so that a bad sheet does
    not hide the problems of the others: all are in ``reading.problems``. `time` is the column named in a complaint
    that some sheets hold timestamps and others plain numbers.
    """
    found: dict[str, Part] = {}
    try:
        for client, part in split_source(source, reading.problems):
            with reading.problems.collect(client):
                sheet = load(part, client, reading)
                parts = read_sheet(sheet)
                sheet.problems.raise_any()
                found |= parts
    except OSError as error:
        raise DataError(f"a source must be readable, {quote(str(source))} is not: {error.strerror}") from error
    plain = [name for name, unit in reading.units.items() if not unit]
    for name in reading.units if plain else ():
        if reading.units[name]:
            must = f"must be plain numbers or timestamps at all clients; {plain[0]!r} has numbers, this one timestamps"
            reading.problems.add(must, client=name, column=time)
    return dict(sorted(found.items()))


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
        """Return the client and the sequence of a group."""
        row = self.order[self.first[group]]
        clients = self.sheet.clients
        return clients.names[clients.codes[row]], self.sequences.names[self.sequences.codes[row]]

    def by_client(self) -> Iterator[tuple[str, Indices, range]]:
        """Yield each client's name, sorted rows (positions in the sheet) and groups."""
        clients = self.sheet.clients
        bounds = np.searchsorted(clients.codes[self.order], np.arange(len(clients.names) + 1))
        groups = np.searchsorted(self.first, bounds)
        for code, name in enumerate(clients.names):
            yield name, self.order[bounds[code] : bounds[code + 1]], range(groups[code], groups[code + 1])


def group_rows(sheet: Sheet) -> Grouped:
    """Sort the rows of a sheet by client, sequence and time."""
    sequences, times, clients = sheet.keys("sequence"), to_times(sheet, "time"), sheet.clients
    order = np.lexsort((times.values, sequences.codes, clients.codes))
    owner, name = clients.codes[order], sequences.codes[order]
    begins = np.ones(len(order), dtype=bool)
    begins[1:] = (owner[1:] != owner[:-1]) | (name[1:] != name[:-1])
    group = np.empty(len(order), dtype=np.intp)
    group[order] = np.cumsum(begins) - 1
    return Grouped(sheet, sequences, times, order, np.flatnonzero(begins), group)


def detect_kind(source: Any) -> str:
    """Return the kind of table a source holds, by its columns.

    Posts have ``text``; events have nothing but ``client``, ``sequence``, ``time``, ``mark``, ``start`` and ``end``;
    everything else is a series.

    Examples
    --------
    >>> import pandas
    >>> detect_kind(pandas.DataFrame({"time": [0.0], "mark": ["a"]}))
    'events'
    """
    names = set(column_names(source)) - {"client"}
    return next((kind for kind, table in KINDS.items() if table.recognizes(names)), "series")
