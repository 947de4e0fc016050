"""`Sheet`: the columns of one file or dataframe, converted on request; what does not convert is noted with its row."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as compute
from numpy.typing import NDArray

from cotempo.data.argument_checks import check_choice
from cotempo.data.problems import Problems, client_name_error, quote
from cotempo.data.read.columns import decoded, is_text, null_at, null_if_missing_word, to_floats, uncastable_rows
from cotempo.data.tables import UNITS
from cotempo.errors import nearest

LIMIT = 8 * 1024**3
MOST_ROWS_PER_RULE = 1000


@dataclass(frozen=True)
class Reading:
    """One call of a reader: its options, and the problems found so far."""

    client: str = "client"  # name of the column that holds the client
    unit: str = "s"  # of timestamps
    limit: int = LIMIT  # the most bytes one file may expand to
    problems: Problems = field(default_factory=Problems)

    def __post_init__(self) -> None:
        check_choice("unit", self.unit, UNITS)


@dataclass(frozen=True)
class Keys:
    """Sorted names, and the position of each row's name among them; -1 where it is missing."""

    names: tuple[str, ...]
    codes: NDArray[np.intp]

    def name(self, row: int) -> str | None:
        """Return the name of a row, None where it is missing."""
        code = int(self.codes[row])
        return self.names[code] if code >= 0 else None


@dataclass(frozen=True)
class Sheet:
    """The columns of one file or dataframe."""

    reading: Reading
    columns: dict[str, pa.ChunkedArray]
    rows: int
    first_row: int  # as people count: 2 in a CSV (the header is row 1, blank lines do not count), else 0
    client: str  # whose rows these are, if no column says so
    one_client_file: bool = False  # a file in a folder: all rows belong to the client it is named after

    def note(self, must: str, column: str | None = None, row: int | None = None) -> None:
        """Note a problem of the sheet."""
        owner = self.client if self.one_client_file else None
        self.reading.problems.add(must, client=owner, column=column, row=row)

    def note_rows(self, rows: NDArray[np.intp], must: str | Callable[[int], str], column: str) -> None:
        """Note a problem of each row, with the row's client; `must` is given the position of the row."""
        # A rule can be broken in millions of rows: list the first and count the rest, to bound the memory.
        for row in rows[:MOST_ROWS_PER_RULE].tolist():
            # The column of clients itself cannot name the client.
            client = self.clients.name(row) if column != self.reading.client else None
            text = must if isinstance(must, str) else must(row)
            self.reading.problems.add(text, client=client, column=column, row=row + self.first_row)
        if len(rows) > MOST_ROWS_PER_RULE:
            self.note(f"{len(rows) - MOST_ROWS_PER_RULE} more rows break the same rule", column)

    def require(self, name: str) -> bool:
        """Return whether a column exists; note a problem, with the nearest name, if it does not."""
        if name in self.columns:
            return True
        given = ", ".join(quote(column) for column in list(self.columns)[:10])
        self.note(f"a column {name!r} must be there{nearest(name, self.columns)}; the columns are: {given}", name)
        return False

    def require_rows(self) -> bool:
        """Return whether there are rows; note a problem if not."""
        if self.rows == 0:
            self.note("a table must have at least one row")
        return self.rows > 0

    @cached_property
    def clients(self) -> Keys:
        """The client of each row; invalid names are noted."""
        column = self.reading.client
        keys = self.keys(column) if column in self.columns else Keys((self.client,), np.zeros(self.rows, np.intp))
        for code, name in enumerate(keys.names):
            if self.one_client_file and name != self.client:
                wrong: str | None = f"every row of this file must belong to client {self.client!r}, got {quote(name)}"
            else:
                wrong = client_name_error(name)
            if wrong:
                rows = np.flatnonzero(keys.codes == code)[:1]
                row = int(rows[0]) + self.first_row if len(rows) and column in self.columns else None
                # The text holds the name escaped: raw, it could write on a terminal.
                self.note(wrong, column, row)
        return keys

    def keys(self, column: str) -> Keys:
        """Return a column of names as keys; every row must have one. Without the column all rows are named ``0``."""
        if column not in self.columns:
            return Keys(("0",), np.zeros(self.rows, dtype=np.intp))
        encoded = self.text(column).combine_chunks().dictionary_encode()
        names = [str(name) for name in encoded.dictionary.to_pylist()]
        found = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.intp)
        order = sorted(range(len(names)), key=names.__getitem__)
        rank = np.full(len(names) + 1, -1, dtype=np.intp)
        rank[order] = np.arange(len(names))
        codes = rank[found]  # a missing name has the code -1, which is the last entry of rank
        self.note_rows(np.flatnonzero(codes < 0), "must be given in every row", column)
        return Keys(tuple(names[position] for position in order), codes)

    def text(self, column: str) -> pa.ChunkedArray:
        """Return a column as text; whole numbers lose their ``.0``, so that 3 and 3.0 are one name."""
        values = decoded(self.columns[column])
        kind = values.type
        try:
            if pa.types.is_floating(kind):
                values = compute.if_else(compute.is_nan(values), None, values)
                if compute.all(compute.equal(compute.floor(values), values)).as_py() is not False:
                    values = values.cast(pa.int64())
            return values.cast(pa.large_string())
        except pa.ArrowException:
            self.note(f"must hold names or numbers, got {kind}", column)
            return pa.chunked_array([pa.nulls(self.rows, pa.large_string())])

    def numbers(self, column: str) -> NDArray[np.float64]:
        """Return a column as float64, NaN where missing; text that is not a number and infinite values are noted."""
        values = decoded(self.columns[column])
        if is_text(values.type):
            values = null_if_missing_word(values)
            bad = uncastable_rows(values, pa.float64())
            texts = values.to_pylist() if len(bad) else []
            self.note_rows(bad, lambda row: f"must be a number or empty, got {quote(texts[row])}", column)
            values = null_at(values, bad)
        try:
            numbers = to_floats(values)
        except pa.ArrowException:
            self.note(f"must hold numbers, got {values.type}", column)
            return np.full(self.rows, np.nan)
        self.note_rows(np.flatnonzero(np.isinf(numbers)), "must be finite; leave missing values empty", column)
        return numbers
