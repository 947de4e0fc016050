"""`to_times`: a column as times; plain numbers stay, timestamps become float64 since 1970-01-01 UTC."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as compute
from numpy.typing import NDArray

from cotempo.data.problems import quote
from cotempo.data.read.columns import decoded, is_text, null_at, null_if_missing_word, to_floats, uncastable_rows
from cotempo.data.read.sheet import Sheet
from cotempo.data.tables import UNITS

PARTS_OF_A_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
STAMP = pa.timestamp("ns")
ZONED_STAMP = pa.timestamp("ns", tz="UTC")
ZONE = r"[T ]\d\d.*(Z|[+-]\d\d(:?\d\d)?)$"


@dataclass(frozen=True)
class Times:
    """Times of rows, NaN where missing or wrong, and whether the column held timestamps."""

    values: NDArray[np.float64]
    stamped: bool


def to_times(sheet: Sheet, column: str, *, needed: bool = True) -> Times:
    """Return a column as times.

    Numbers are kept. Timestamps are converted to UTC, each row by its own offset, and counted in the unit of the
    reading; those without a zone are taken as UTC. Rows without a time are noted if `needed`.
    """
    values = decoded(sheet.columns[column])
    bad = np.zeros(0, dtype=np.intp)
    try:
        if is_text(values.type):
            times, bad = _from_text(sheet, column, values)
        else:
            times = _typed(values, sheet.reading.unit)
    except pa.ArrowException:
        sheet.note(f"must hold numbers or timestamps, got {values.type}", column)
        return Times(np.full(sheet.rows, np.nan), stamped=False)
    sheet.note_rows(np.flatnonzero(np.isinf(times.values)), "must be finite", column)
    if needed:
        missing = np.setdiff1d(np.flatnonzero(np.isnan(times.values)), bad)
        sheet.note_rows(missing, "must be given in every row", column)
    return times


def _typed(values: pa.ChunkedArray, unit: str) -> Times:
    kind = values.type
    if pa.types.is_date(kind):
        values, kind = values.cast(pa.timestamp("s")), pa.timestamp("s")
    if not pa.types.is_timestamp(kind):
        return Times(to_floats(values), stamped=False)
    ticks = values.cast(pa.int64())
    count = np.asarray(ticks.fill_null(0).to_numpy())
    whole, rest = np.divmod(count, PARTS_OF_A_SECOND[kind.unit])
    # Whole seconds and the rest apart: nanoseconds since 1970 do not fit into the 53 bits of a float.
    seconds = whole + rest / PARTS_OF_A_SECOND[kind.unit]
    missing = ticks.is_null().to_numpy()
    return Times(np.where(missing, np.nan, seconds / UNITS[unit]), stamped=True)


def _from_text(sheet: Sheet, column: str, values: pa.ChunkedArray) -> tuple[Times, NDArray[np.intp]]:
    """Return times and the positions of invalid texts; the first text decides between numbers and timestamps."""
    texts = null_if_missing_word(values)
    first = texts.drop_null().slice(0, 1)
    if len(first) == 0:
        return Times(np.full(sheet.rows, np.nan), stamped=False), np.zeros(0, dtype=np.intp)
    if len(uncastable_rows(first, pa.float64())):
        stamps, bad = _stamps(texts)
        times = _typed(stamps, sheet.reading.unit)
        rule = "must be an ISO 8601 timestamp between 1678 and 2261, as the first time in this column"
    else:
        bad = uncastable_rows(texts, pa.float64())
        times = Times(to_floats(null_at(texts, bad)), stamped=False)
        rule = "must be a number, as the first time in this column"
    given = texts.to_pylist() if len(bad) else []
    sheet.note_rows(bad, lambda row: f"{rule}, got {quote(given[row])}", column)
    return times, bad


def _stamps(texts: pa.ChunkedArray) -> tuple[pa.ChunkedArray, NDArray[np.intp]]:
    """Return timestamps in UTC and the positions of invalid texts; rows with and without an offset may be mixed."""
    tidy = compute.replace_substring_regex(texts, r"\s*(UTC|GMT)$", "Z")
    tidy = compute.replace_substring_regex(tidy, r"\s+([+-]\d\d:?\d\d)$", r"\1")
    zoned = compute.match_substring_regex(tidy, ZONE)
    local, aware = compute.if_else(zoned, None, tidy), compute.if_else(zoned, tidy, None)
    bad = np.union1d(uncastable_rows(local, STAMP), uncastable_rows(aware, ZONED_STAMP))
    plain = null_at(local, bad).cast(STAMP)
    shifted = null_at(aware, bad).cast(ZONED_STAMP).cast(STAMP)
    return compute.coalesce(plain, shifted), bad
