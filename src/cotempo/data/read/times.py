"""`to_times`: a column as times; plain numbers stay, dates become float64 since 1970-01-01 UTC."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as compute

from cotempo.data.clock import UNITS, Clock
from cotempo.data.read.sheet import Sheet, is_text, to_floats, trimmed
from cotempo.typing import Floats, Indices

PARTS_OF_A_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
ZONE = r"[T ]\d\d.*?(?P<zone>Z|[+-]\d\d(?::?\d\d)?)$"


@dataclass(frozen=True)
class Times:
    """Times of rows, NaN where missing or wrong, their unit, empty for plain numbers, and the zone of dates."""

    values: Floats
    unit: str = ""
    zone: str = ""

    @property
    def clock(self) -> Clock:
        """How these times are counted."""
        return Clock(self.unit, self.zone)


def kind_of(clock: Clock) -> str:
    """Return what times are, as errors say it: those of two kinds cannot be compared."""
    return ("dates with a time zone" if clock.zone else "dates without a time zone") if clock.dates else "plain numbers"


def to_times(sheet: Sheet, column: str, *, needed: bool = True) -> Times:
    """Return a column as times.

    Numbers are kept. Dates are converted to UTC, each row by its own offset, and counted in the unit of the reading;
    those without a zone are local times of the reading's zone, if it has one. Rows without a time are noted if
    `needed`.
    """
    values, bad, zone = sheet.columns[column], np.zeros(0, dtype=np.intp), ""
    try:
        if is_text(values.type):
            values, bad, zone = _parse(sheet, column)
        elif pa.types.is_timestamp(values.type) and values.type.tz:
            zone = values.type.tz
        values, zone = _localize(values, zone, sheet.reading.zone)
        times = _convert(values, sheet.reading.unit, zone)
    except pa.ArrowInvalid as error:
        sheet.note(f"must be numbers or clear dates; {str(error).splitlines()[0]}", column)
        return Times(np.full(sheet.rows, np.nan))
    except pa.ArrowException:
        sheet.note(f"must hold numbers or dates, got {values.type}", column)
        return Times(np.full(sheet.rows, np.nan))
    sheet.reading.clocks.setdefault(sheet.client, times.clock)
    sheet.note_rows(np.flatnonzero(np.isinf(times.values)), "must be finite", column)
    if needed:
        missing = np.setdiff1d(np.flatnonzero(np.isnan(times.values)), bad)
        sheet.note_rows(missing, "must be given in every row", column)
    return times


def _localize(values: pa.ChunkedArray, zone: str, wanted: str) -> tuple[pa.ChunkedArray, str]:
    """Return dates in UTC and the zone to show them in; those without a zone become local times of the wanted one."""
    if pa.types.is_date(values.type):
        values = values.cast(pa.timestamp("s"))
    if not pa.types.is_timestamp(values.type) or not wanted:
        return values, zone
    return values if values.type.tz else compute.assume_timezone(values, wanted), wanted


def _convert(values: pa.ChunkedArray, unit: str, zone: str) -> Times:
    if not pa.types.is_timestamp(values.type):
        return Times(to_floats(values))
    ticks = values.cast(pa.int64())
    # Whole seconds and the rest apart: nanoseconds since 1970 do not fit into the 53 bits of a float.
    size = PARTS_OF_A_SECOND[values.type.unit]
    whole, rest = np.divmod(ticks.fill_null(0).to_numpy(), size)
    return Times(np.where(ticks.is_null().to_numpy(), np.nan, (whole + rest / size) / UNITS[unit]), unit, zone)


def _parse(sheet: Sheet, column: str) -> tuple[pa.ChunkedArray, Indices, str]:
    """Return text as numbers or dates, as the first one says, the positions of invalid texts, and the zone of dates."""
    texts = trimmed(sheet.columns[column])
    try:
        texts.drop_null().slice(0, 1).cast(pa.float64())
    except pa.ArrowException:
        return _parse_dates(sheet, column, texts)
    return *sheet.cast(column, texts, pa.float64(), "must be a number, as the first time in this column"), ""


def _parse_dates(sheet: Sheet, column: str, texts: pa.ChunkedArray) -> tuple[pa.ChunkedArray, Indices, str]:
    tidy = compute.replace_substring_regex(texts, r"\s*(UTC|GMT)$", "Z")
    tidy = compute.replace_substring_regex(tidy, r"\s+([+-]\d\d:?\d\d)$", r"\1")
    # Arrow reads a time in UTC only with an offset, and no offset without an hour: add what is missing.
    tidy = compute.replace_substring_regex(tidy, r"^(\d{4}-\d\d-\d\d)$", r"\1T00")
    zones = compute.struct_field(compute.extract_regex(tidy, ZONE), "zone")
    naive = compute.and_(compute.is_null(zones), compute.is_valid(tidy))
    stamps = compute.if_else(naive, compute.replace_substring_regex(tidy, "$", "Z"), tidy)
    rule = "must be an ISO 8601 date between 1678 and 2261, such as 2025-03-05 07:00"
    dates, bad = sheet.cast(column, stamps, pa.timestamp("ns", tz="UTC"), rule)
    rows = np.setdiff1d(np.flatnonzero(naive.to_numpy()), bad)
    offsets = {_offset(text) for text in compute.unique(zones.drop_null()).to_pylist()}
    if len(rows) == 0 and offsets:
        return dates, bad, offsets.pop() if len(offsets) == 1 else "UTC"
    local = dates.cast(pa.timestamp("ns"))
    if not offsets:
        return local, bad, ""
    if sheet.reading.zone:
        local = compute.assume_timezone(local, sheet.reading.zone).cast(dates.type)
        return compute.if_else(naive, local, dates), bad, "UTC"
    sheet.note_rows(rows, "must have a time zone, as others in this column have; add it, or pass zone=", column)
    return dates, bad, "UTC"


def _offset(text: str) -> str:
    """Return an offset as +HH:MM."""
    digits = text.removeprefix("Z").replace(":", "").ljust(5, "0")
    return "UTC" if digits[1:] == "0000" or text == "Z" else f"{digits[:3]}:{digits[3:]}"
