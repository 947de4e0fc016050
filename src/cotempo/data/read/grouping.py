"""Rows of a sheet grouped by client and sequence, in order of time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cotempo.data.problems import Report
from cotempo.data.read.columns import Keys
from cotempo.data.read.sources import Sheet
from cotempo.data.read.times import Times


@dataclass(frozen=True)
class Grouped:
    """Sorted rows of a sheet, and where each sequence begins among them.

    Attributes
    ----------
    order
        Positions of rows in the sheet, sorted by client, sequence and time, ``(rows,)``.
    first
        Where each group begins in `order`, ``(groups,)``.
    group
        The group of each sorted row, ``(rows,)``.
    """

    sheet: Sheet
    clients: Keys
    sequences: Keys
    times: Times
    order: NDArray[np.intp]
    first: NDArray[np.intp]
    group: NDArray[np.intp]

    @property
    def sorted_times(self) -> NDArray[np.float64]:
        """Times in sorted order, ``(rows,)``."""
        return self.times.values[self.order]

    def owner(self, group: int) -> tuple[str, str]:
        """Return the client and the sequence of a group."""
        row = self.order[self.first[group]]
        return self.clients.names[self.clients.codes[row]], self.sequences.names[self.sequences.codes[row]]

    def by_client(self) -> Iterator[tuple[str, NDArray[np.intp], range]]:
        """Yield each client's name, sorted rows (positions in the sheet) and groups."""
        owners = self.clients.codes[self.order]
        bounds = np.searchsorted(owners, np.arange(len(self.clients.names) + 1))
        groups = np.searchsorted(self.first, bounds)
        for code, name in enumerate(self.clients.names):
            yield name, self.order[bounds[code] : bounds[code + 1]], range(groups[code], groups[code + 1])

    def note(self, places: NDArray[np.intp], must: Callable[[int], str], column: str, report: Report) -> None:
        """Note a problem at sorted rows; `must` is given the position of the row in the sheet."""
        rows = np.sort(self.order[places])
        report.add_rows(rows, must, column=column, first_row=self.sheet.first_row, client=self.clients.name)


def group_rows(sheet: Sheet, clients: Keys, sequences: Keys, times: Times) -> Grouped:
    """Sort the rows of a sheet by client, sequence and time."""
    order = np.lexsort((times.values, sequences.codes, clients.codes))
    owner, name = clients.codes[order], sequences.codes[order]
    begins = np.ones(len(order), dtype=bool)
    begins[1:] = (owner[1:] != owner[:-1]) | (name[1:] != name[:-1])
    return Grouped(sheet, clients, sequences, times, order, np.flatnonzero(begins), np.cumsum(begins) - 1)
