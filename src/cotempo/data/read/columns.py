"""Columns of a sheet as numbers, text and keys; what does not convert is noted with its row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as compute
from numpy.typing import NDArray

from cotempo.data.problems import Report, name_problem, shown
from cotempo.data.read.parquet import is_text
from cotempo.data.read.sources import Sheet

MISSING = pa.array(["", "na", "n/a", "nan", "null", "none"])


@dataclass(frozen=True)
class Keys:
    """Sorted names, and the position of each row's name among them; -1 where it is missing."""

    names: tuple[str, ...]
    codes: NDArray[np.intp]

    def name(self, row: int) -> str | None:
        """Return the name of a row, None where it is missing."""
        code = int(self.codes[row])
        return self.names[code] if code >= 0 else None


def client_keys(sheet: Sheet, column: str, report: Report) -> Keys:
    """Return the client of each row; bad names are noted."""
    if column not in sheet.columns:
        keys = Keys((sheet.client,), np.zeros(sheet.rows, dtype=np.intp))
    else:
        keys = text_keys(sheet, column, report, lambda row: None)
    for code, name in enumerate(keys.names):
        if sheet.alone and name != sheet.client:
            wrong: str | None = f"every row of this file must belong to client {sheet.client!r}, got {shown(name)}"
        else:
            wrong = name_problem(name)
        if wrong:
            rows = np.flatnonzero(keys.codes == code)[:1]
            row = int(rows[0]) + sheet.first_row if len(rows) and column in sheet.columns else None
            # The name itself stands escaped in the text: raw, it could write on a terminal.
            report.add(wrong, client=sheet.client if sheet.alone else None, column=column, row=row)
    return keys


def text_keys(sheet: Sheet, column: str, report: Report, client: Callable[[int], str | None]) -> Keys:
    """Return a column of names as keys; every row must have one. Without the column all rows are named ``0``."""
    if column not in sheet.columns:
        return Keys(("0",), np.zeros(sheet.rows, dtype=np.intp))
    encoded = as_text(sheet, column, report).combine_chunks().dictionary_encode()
    names = [str(name) for name in encoded.dictionary.to_pylist()]
    found = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.intp)
    order = sorted(range(len(names)), key=names.__getitem__)
    rank = np.full(len(names) + 1, -1, dtype=np.intp)
    rank[order] = np.arange(len(names))
    codes = rank[found]  # a missing name has the code -1, which is the last entry of rank
    missing = np.flatnonzero(codes < 0)
    report.add_rows(
        missing, lambda _: "must be given in every row", column=column, first_row=sheet.first_row, client=client
    )
    return Keys(tuple(names[place] for place in order), codes)


def as_text(sheet: Sheet, column: str, report: Report) -> pa.ChunkedArray:
    """Return a column as text; whole numbers lose their ``.0``, so that 3 and 3.0 are one name."""
    values = sheet.columns[column]
    kind = values.type
    if pa.types.is_dictionary(kind):
        values = values.cast(kind.value_type)
        kind = values.type
    try:
        if pa.types.is_floating(kind):
            values = compute.if_else(compute.is_nan(values), None, values)
            if compute.all(compute.equal(compute.floor(values), values)).as_py() is not False:
                values = values.cast(pa.int64())
        return values.cast(pa.large_string())
    except pa.ArrowException:
        report.add(f"must hold names or numbers, got {kind}", column=column)
        return pa.chunked_array([pa.nulls(sheet.rows, pa.large_string())])


def to_numbers(sheet: Sheet, column: str, report: Report, client: Callable[[int], str | None]) -> NDArray[np.float64]:
    """Return a column as float64, NaN where missing; text that is no number and infinite values are noted."""
    values = sheet.columns[column]
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if is_text(values.type):
        values = without_missing(values)
        bad = failing(values, pa.float64())
        texts = values.to_pylist() if len(bad) else []
        must: Callable[[int], str] = lambda row: f"must be a number or empty, got {shown(texts[row])}"  # noqa: E731
        report.add_rows(bad, must, column=column, first_row=sheet.first_row, client=client)
        values = blank(values, bad)
    try:
        numbers = to_floats(values)
    except pa.ArrowException:
        report.add(f"must hold numbers, got {values.type}", column=column, client=sheet.client if sheet.alone else None)
        return np.full(sheet.rows, np.nan)
    infinite = np.flatnonzero(np.isinf(numbers))
    report.add_rows(
        infinite, lambda _: "must be finite; leave missing values empty", column=column,
        first_row=sheet.first_row, client=client,
    )  # fmt: skip
    return numbers


def to_floats(values: pa.ChunkedArray) -> NDArray[np.float64]:
    """Return numbers, booleans, or text known to hold numbers as float64, NaN where null."""
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.int8())
    if pa.types.is_temporal(values.type):
        raise pa.ArrowInvalid("times are not numbers")
    # Whole numbers beyond 2**53 are rounded to the nearest float, as everywhere in numerical work.
    floats = values.cast(pa.float64(), safe=False)
    return np.array(floats.fill_null(np.nan).to_numpy(), dtype=np.float64)


def without_missing(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return trimmed text, null where it is one of the usual words for a missing value."""
    trimmed = compute.utf8_trim_whitespace(values.cast(pa.large_string()))
    missing = compute.is_in(compute.utf8_lower(trimmed), value_set=MISSING.cast(pa.large_string()))
    return compute.if_else(missing, None, trimmed)


def failing(values: pa.ChunkedArray, kind: pa.DataType) -> NDArray[np.intp]:
    """Return the positions of texts that cannot be cast to a type; Arrow itself only says that there is one."""
    if _casts(values, kind):
        return np.zeros(0, dtype=np.intp)
    distinct = compute.unique(values.drop_null())
    bad = [text for text in distinct.to_pylist() if not _casts(pa.array([text], distinct.type), kind)]
    found = compute.is_in(values, value_set=pa.array(bad, distinct.type))
    return np.flatnonzero(found.to_numpy())


def blank(values: pa.ChunkedArray, places: NDArray[np.intp]) -> pa.ChunkedArray:
    """Return values with nulls at the given positions."""
    if len(places) == 0:
        return values
    mask = np.zeros(len(values), dtype=bool)
    mask[places] = True
    return compute.if_else(pa.array(mask), None, values)


def _casts(values: Any, kind: pa.DataType) -> bool:
    try:
        values.cast(kind)
    except pa.ArrowException:
        return False
    return True
