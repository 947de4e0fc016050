"""`to_times`: a column as times; plain numbers stay, timestamps become float64 since 1970-01-01 UTC."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as compute

from cotempo.data.read.sheet import Sheet, is_text, to_floats, trimmed
from cotempo.data.tables import UNITS
from cotempo.typing import Floats, Indices

PARTS_OF_A_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
ZONE = r"[T ]\d\d.*(Z|[+-]\d\d(:?\d\d)?)$"


@dataclass(frozen=True)
class Times:
    """Times of rows, NaN where missing or wrong, and their unit, empty for plain numbers."""

    values: Floats
    unit: str = ""


def to_times(sheet: Sheet, column: str, *, needed: bool = True) -> Times:
    """Return a column as times.

    Numbers are kept. Timestamps are converted to UTC, each row by its own offset, and counted in the unit of the
    reading; those without a zone are taken as UTC. Rows without a time are noted if `needed`.
    """
    values, bad = sheet.columns[column], np.zeros(0, dtype=np.intp)
    if is_text(values.type):
        values, bad = _parse(sheet, column)
    try:
        times = _convert(values, sheet.reading.unit)
    except pa.ArrowException:
        sheet.note(f"must hold numbers or timestamps, got {values.type}", column)
        return Times(np.full(sheet.rows, np.nan))
    sheet.reading.units.setdefault(sheet.client, times.unit)
    sheet.note_rows(np.flatnonzero(np.isinf(times.values)), "must be finite", column)
    if needed:
        missing = np.setdiff1d(np.flatnonzero(np.isnan(times.values)), bad)
        sheet.note_rows(missing, "must be given in every row", column)
    return times


def _convert(values: pa.ChunkedArray, unit: str) -> Times:
    if pa.types.is_date(values.type):
        values = values.cast(pa.timestamp("s"))
    if not pa.types.is_timestamp(values.type):
        return Times(to_floats(values))
    ticks = values.cast(pa.int64())
    # Whole seconds and the rest apart: nanoseconds since 1970 do not fit into the 53 bits of a float.
    size = PARTS_OF_A_SECOND[values.type.unit]
    whole, rest = np.divmod(ticks.fill_null(0).to_numpy(), size)
    return Times(np.where(ticks.is_null().to_numpy(), np.nan, (whole + rest / size) / UNITS[unit]), unit)


def _parse(sheet: Sheet, column: str) -> tuple[pa.ChunkedArray, Indices]:
    """Return text as numbers or timestamps, as the first one says, and the positions of invalid texts."""
    texts = trimmed(sheet.columns[column])
    try:
        texts.drop_null().slice(0, 1).cast(pa.float64())
    except pa.ArrowException:
        tidy = compute.replace_substring_regex(texts, r"\s*(UTC|GMT)$", "Z")
        tidy = compute.replace_substring_regex(tidy, r"\s+([+-]\d\d:?\d\d)$", r"\1")
        # Arrow reads a time in UTC only with an offset, and no offset without an hour: add what is missing.
        tidy = compute.replace_substring_regex(tidy, r"^(\d{4}-\d\d-\d\d)$", r"\1T00")
        zoned = compute.match_substring_regex(tidy, ZONE)
        stamps = compute.if_else(zoned, tidy, compute.replace_substring_regex(tidy, "$", "Z"))
        rule = "must be an ISO 8601 timestamp between 1678 and 2261, as the first time in this column"
        return sheet.cast(column, stamps, pa.timestamp("ns", tz="UTC"), rule)
    return sheet.cast(column, texts, pa.float64(), "must be a number, as the first time in this column")
