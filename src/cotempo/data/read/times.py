"""Times of a sheet: plain numbers stay, timestamps become float64 since 1970-01-01 UTC."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as compute
from numpy.typing import NDArray

from cotempo.data.problems import Report, shown
from cotempo.data.read.columns import blank, failing, to_floats, without_missing
from cotempo.data.read.parquet import is_text
from cotempo.data.read.sources import Sheet
from cotempo.data.tables import UNITS
from cotempo.errors import ParameterError

PARTS_OF_A_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
STAMP = pa.timestamp("ns")
ZONED_STAMP = pa.timestamp("ns", tz="UTC")
ZONE = r"[T ]\d\d.*(Z|[+-]\d\d(:?\d\d)?)$"


@dataclass(frozen=True)
class Times:
    """Times of rows, NaN where missing or wrong, and whether the column held timestamps."""

    values: NDArray[np.float64]
    stamped: bool


def check_unit(unit: str) -> None:
    """Raise unless `unit` is ``"s"``, ``"h"`` or ``"D"``."""
    if unit not in UNITS:
        raise ParameterError(f"unit must be 's', 'h' or 'D', got {unit!r}; timestamps are counted in it")


def to_times(
    sheet: Sheet, column: str, unit: str, report: Report, client: Callable[[int], str | None], *, needed: bool = True
) -> Times:
    """Return a column as times.

    A column of numbers is taken as it is. Timestamps are converted to UTC, each row by its own offset; those without
    a zone are taken as UTC. Rows without a time are noted when `needed`.

    Parameters
    ----------
    unit
        What timestamps are counted in: ``"s"``, ``"h"`` or ``"D"``.
    needed
        Whether every row must have a time.
    """
    values = sheet.columns[column]
    bad = np.zeros(0, dtype=np.intp)
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    try:
        if is_text(values.type):
            times, bad = _from_text(sheet, column, values, unit, report, client)
        else:
            times = _typed(values, unit)
    except pa.ArrowException:
        report.add(f"must hold numbers or timestamps, got {values.type}", column=column)
        return Times(np.full(sheet.rows, np.nan), stamped=False)

    def note(places: NDArray[np.intp], must: str) -> None:
        report.add_rows(places, lambda _: must, column=column, first_row=sheet.first_row, client=client)

    note(np.flatnonzero(np.isinf(times.values)), "must be finite")
    if needed:
        note(np.setdiff1d(np.flatnonzero(np.isnan(times.values)), bad), "must be given in every row")
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


def _from_text(
    sheet: Sheet, column: str, values: pa.ChunkedArray, unit: str, report: Report, client: Callable[[int], str | None]
) -> tuple[Times, NDArray[np.intp]]:
    """Return times and the positions of texts that are none; the first text decides between numbers and timestamps."""
    texts = without_missing(values)
    first = texts.drop_null().slice(0, 1)
    if len(first) == 0:
        return Times(np.full(sheet.rows, np.nan), stamped=False), np.zeros(0, dtype=np.intp)
    stamped = bool(len(failing(first, pa.float64())))
    parsed: Any
    if stamped:
        parsed, bad = _stamps(texts)
        rule = "must be an ISO 8601 timestamp between 1678 and 2261, as the first time in this column"
    else:
        bad = failing(texts, pa.float64())
        parsed, rule = blank(texts, bad), "must be a number, as the first time in this column"
    given = texts.to_pylist() if len(bad) else []
    report.add_rows(
        bad, lambda row: f"{rule}, got {shown(given[row])}", column=column, first_row=sheet.first_row, client=client
    )
    return (_typed(parsed, unit) if stamped else Times(to_floats(parsed), stamped=False)), bad


def _stamps(texts: pa.ChunkedArray) -> tuple[pa.ChunkedArray, NDArray[np.intp]]:
    """Return timestamps in UTC and the positions that are none; rows with and without an offset may be mixed."""
    tidy = compute.replace_substring_regex(texts, r"\s*(UTC|GMT)$", "Z")
    tidy = compute.replace_substring_regex(tidy, r"\s+([+-]\d\d:?\d\d)$", r"\1")
    zoned = compute.match_substring_regex(tidy, ZONE)
    local, aware = compute.if_else(zoned, None, tidy), compute.if_else(zoned, tidy, None)
    bad = np.union1d(failing(local, STAMP), failing(aware, ZONED_STAMP))
    plain = blank(local, bad).cast(STAMP)
    shifted = blank(aware, bad).cast(ZONED_STAMP).cast(STAMP)
    return compute.coalesce(plain, shifted), bad
