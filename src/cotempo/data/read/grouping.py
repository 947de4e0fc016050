"""`Grouped`: the rows of a sheet by client and sequence, in order of time."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cotempo.data.read.sheet import Keys, Sheet
from cotempo.data.read.times import Times


@dataclass(frozen=True)
class Grouped:
    """Sorted rows of a sheet, and where each sequence begins among them."""

    sheet: Sheet
    sequences: Keys
    times: Times
    order: NDArray[np.intp]  # positions of rows in the sheet, sorted by client, sequence and time, (rows,)
    first: NDArray[np.intp]  # where each group begins in `order`, (groups,)
    group: NDArray[np.intp]  # the group of each sorted row, (rows,)

    @property
    def sorted_times(self) -> NDArray[np.float64]:
        """Times in sorted order, ``(rows,)``."""
        return self.times.values[self.order]

    @property
    def sequence(self) -> NDArray[np.str_]:
        """Name of each row's sequence, in the order of the sheet, ``(rows,)``."""
        return np.array(self.sequences.names, dtype=np.str_)[self.sequences.codes]

    def owner(self, group: int) -> tuple[str, str]:
        """Return the client and the sequence of a group."""
        row = self.order[self.first[group]]
        clients = self.sheet.clients
        return clients.names[clients.codes[row]], self.sequences.names[self.sequences.codes[row]]

    def by_client(self) -> Iterator[tuple[str, NDArray[np.intp], range]]:
        """Yield each client's name, sorted rows (positions in the sheet) and groups."""
        clients = self.sheet.clients
        bounds = np.searchsorted(clients.codes[self.order], np.arange(len(clients.names) + 1))
        groups = np.searchsorted(self.first, bounds)
        for code, name in enumerate(clients.names):
            yield name, self.order[bounds[code] : bounds[code + 1]], range(groups[code], groups[code + 1])

    def note(self, positions: NDArray[np.intp], must: str | Callable[[int], str], column: str) -> None:
        """Note a problem at sorted rows; `must` is given the position of the row in the sheet."""
        self.sheet.note_rows(np.sort(self.order[positions]), must, column)


def group_rows(sheet: Sheet, sequences: Keys, times: Times) -> Grouped:
    """Sort the rows of a sheet by client, sequence and time."""
    order = np.lexsort((times.values, sequences.codes, sheet.clients.codes))
    owner, name = sheet.clients.codes[order], sequences.codes[order]
    begins = np.ones(len(order), dtype=bool)
    begins[1:] = (owner[1:] != owner[:-1]) | (name[1:] != name[:-1])
    return Grouped(sheet, sequences, times, order, np.flatnonzero(begins), np.cumsum(begins) - 1)
