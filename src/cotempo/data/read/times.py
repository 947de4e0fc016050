"""`to_times`: a column as times; plain numbers stay, dates become float64 since 1970-01-01 UTC."""

import re
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as compute
from numpy.typing import NDArray

from cotempo.data.clock import UNITS, Clock, is_zone
from cotempo.data.problems import quote
from cotempo.data.read.sheet import Sheet, is_text, to_floats
from cotempo.data.read.signs import trimmed
from cotempo.errors import ParameterError
from cotempo.typing import Floats, Indices

PARTS_OF_A_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
TWICE_OR_NEVER = "had once"  # what local times must be
GAP = 1.5  # usual steps; a longer one is a gap
LAST_SECOND = 9.2e9  # nanoseconds since 1970 must fit into 64 bits
TWITTER = "%a %b %d %H:%M:%S %z %Y"  # as platforms' interfaces write dates; pandas does not guess it
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

    @property
    def kind(self) -> str:
        """What these times are; empty if all are missing."""
        return kind_of(self.clock) if np.isfinite(self.values).any() else ""


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
            zone = values.type.tz if is_zone(values.type.tz) else "UTC"
        part = next((style for style in sheet.reading.date_formats if style in PARTS_OF_A_SECOND), "")
        if part and not pa.types.is_temporal(values.type):
            values, zone = _since_1970(sheet, column, to_floats(values), part), "UTC"
        values, zone = _localize(sheet, column, values, zone)
        times = _convert(values, sheet.reading.unit, zone)
    except pa.ArrowException:
        sheet.note(f"must hold numbers or dates, got {values.type}", column)
        return Times(np.full(sheet.rows, np.nan))
    if times.kind == "plain numbers" and sheet.reading.local_zone:
        note = f"times in {column!r} are plain numbers, for which zone= and unit= mean nothing"
        sheet.reading.remark(note, sheet.client)
    if times.kind:
        sheet.reading.clocks.setdefault(sheet.client, times.clock)
    sheet.note_rows(np.flatnonzero(np.isinf(times.values)), "must be finite", column)
    if needed:
        missing = np.setdiff1d(np.flatnonzero(np.isnan(times.values)), bad)
        sheet.note_rows(missing, "must be given in every row", column)
    return times


def _since_1970(sheet: Sheet, column: str, numbers: Floats, part: str) -> pa.ChunkedArray:
    """Return numbers of seconds, or of parts of them, since 1970-01-01 UTC as dates; those that are none are noted."""
    seconds = numbers / PARTS_OF_A_SECOND[part]
    far = np.abs(seconds) > LAST_SECOND
    sheet.note_rows(np.flatnonzero(far), f"must count {part!r} since 1970, and be before 2262", column)
    known = np.isfinite(seconds) & ~far
    whole = np.floor(np.where(known, seconds, 0.0))
    ticks = whole.astype(np.int64) * 10**9 + np.rint(np.where(known, seconds - whole, 0.0) * 1e9).astype(np.int64)
    return pa.chunked_array([pa.array(ticks, pa.timestamp("ns", "UTC"), mask=~known)])


def _localize(sheet: Sheet, column: str, values: pa.ChunkedArray, zone: str) -> tuple[pa.ChunkedArray, str]:
    """Return dates in UTC and the zone to show them in; those without a zone become local times of the wanted one."""
    wanted = sheet.reading.local_zone
    if pa.types.is_date(values.type):
        values = values.cast(pa.timestamp("s"))
    if not pa.types.is_timestamp(values.type) or not wanted:
        return values, zone
    return values if values.type.tz else _assume(sheet, column, values), wanted


def _assume(sheet: Sheet, column: str, local: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return local times of the reading's zone as times in UTC; those that it never had are noted, and those that it
    had twice where nothing says which is meant."""
    zone, chosen = sheet.reading.local_zone, sheet.reading.ambiguous
    first, second, late = (
        compute.assume_timezone(local, zone, ambiguous=hour, nonexistent=gap)
        for hour, gap in (("earliest", "earliest"), ("latest", "earliest"), ("earliest", "latest"))
    )
    twice = (
        "pass ambiguous='first' or 'second' to take all as of that hour, or write offsets, as 2025-10-26T02:30+01:00"
    )
    skipped = compute.not_equal(first, late).fill_null(False).to_numpy()
    twice_there = compute.not_equal(first, second).fill_null(False).to_numpy()
    told, later = np.zeros((2, sheet.rows), dtype=bool)
    if sheet.reading.ordered and twice_there.any():
        ticks, shift = (
            part.cast(pa.int64()).fill_null(0).to_numpy() for part in (local, compute.subtract(second, first))
        )
        told, later = tell_by_order(ticks, np.where(twice_there, shift, 0), _groups(sheet))
        if told.any():
            note = "the hour that clocks repeat in autumn is there twice: told apart by the order of rows"
            sheet.reading.remark(note, sheet.client)
    changed = skipped | (twice_there & ~told & (not chosen))

    def must(row: int) -> str:
        why = "clocks skip the hour: correct it" if skipped[row] else f"clocks repeat the hour: {twice}"
        return f"must be a time that {zone} {TWICE_OR_NEVER}; {why}, got {str(local[row].as_py())[:19]}"

    sheet.note_rows(np.flatnonzero(changed), must, column)
    found = compute.if_else(pa.array(later | (~told & (chosen == "second"))), second, first)
    return found.cast(pa.timestamp(local.type.unit, "UTC"))


def _groups(sheet: Sheet) -> Indices:
    """Return a number for each row, the same for those of one client and sequence."""
    codes = [
        sheet.text(name).combine_chunks().dictionary_encode().indices.fill_null(-1).to_numpy(zero_copy_only=False)
        for name in ("client", "sequence")
        if name in sheet.columns
    ]
    table = np.stack([np.zeros(sheet.rows, dtype=np.int64), *codes])
    return np.unique(table, axis=1, return_inverse=True)[1].ravel().astype(np.intp)


def tell_by_order(ticks: NDArray[np.int64], shift: NDArray[np.int64], groups: Indices) -> NDArray[np.bool_]:
    """Return which rows of a repeated hour their order tells apart, and which of them are the second, ``(2, rows)``.

    Local times `ticks` go back once where the hour begins again, by `shift` less a usual step; `shift` is 0 for times
    that are there once.

    Examples
    --------
    >>> hour, again = [60, 80, 100, 60, 80, 100], [60] * 6
    >>> tell_by_order(np.array([40, *hour, 120]), np.array([0, *again, 0]), np.zeros(8, int))[1].nonzero()[0].tolist()
    [4, 5, 6]
    """
    found = np.zeros((2, len(ticks)), dtype=bool)
    for group in np.unique(groups[shift > 0]):
        rows = np.flatnonzero(groups == group)
        if ticks[rows[0]] > ticks[rows[-1]]:
            rows = rows[::-1]
        steps, twice = np.diff(ticks[rows]), np.flatnonzero(shift[rows] > 0)
        usual = np.median(steps) if len(steps) else 0
        for run in np.split(twice, np.flatnonzero(np.diff(twice) > 1) + 1):
            back = run[:-1][steps[run[:-1]] <= 0]
            if len(back) == 1 and 0 < steps[back[0]] + shift[rows[back[0]]] <= GAP * usual:
                found[0, rows[run]] = True
                found[1, rows[run[run > back[0]]]] = True
    return found


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
    if style := _style_of(sheet, column, compute.unique(texts.drop_null()).to_pylist()):
        return _parse_styled(sheet, column, texts, style)
    try:
        texts.drop_null().slice(0, 1).cast(pa.float64())
    except pa.ArrowException:
        return _parse_dates(sheet, column, texts)
    return *sheet.cast(column, texts, pa.float64(), "must be a number, as the first time in this column"), ""


def _style_of(sheet: Sheet, column: str, texts: list[str]) -> str:
    """Return the format that fits all dates of a column, or else most; none where no format fits any.

    Two that fit all and give different dates are noted: nobody would see which was taken.
    """
    read = {style: _try(texts, style) for style in sheet.reading.date_formats if style not in PARTS_OF_A_SECOND}
    count = {style: int((~dates.isna()).sum()) for style, dates in read.items()}
    best = max(count, key=lambda style: count[style], default="")
    if not best or not count[best]:
        return ""
    for other in (style for style in read if count[style] == len(texts) and not read[style].equals(read[best])):
        place = int((read[other] != read[best]).argmax())
        meant = " or ".join(str(read[style][place])[:10] for style in (best, other))
        must = f"must be written in one way only; {best!r} and {other!r} fit all dates"
        advice = "pass the one that is meant as date_format, by client where they differ"
        sheet.note(f"{must}, {quote(texts[place])} is {meant}; {advice}", column)
        break
    return best


def _parse_dates(sheet: Sheet, column: str, texts: pa.ChunkedArray) -> tuple[pa.ChunkedArray, Indices, str]:
    tidy = compute.replace_substring_regex(texts, r"\s*(UTC|GMT)$", "Z")
    tidy = compute.replace_substring_regex(tidy, r"\s+([+-]\d\d:?\d\d)$", r"\1")
    # Arrow reads a time in UTC only with an offset, and no offset without an hour: add what is missing.
    tidy = compute.replace_substring_regex(tidy, r"^(\d{4}-\d\d-\d\d)$", r"\1T00")
    zones = compute.struct_field(compute.extract_regex(tidy, ZONE), "zone")
    naive = compute.and_(compute.is_null(zones), compute.is_valid(tidy))
    stamps = compute.if_else(naive, compute.replace_substring_regex(tidy, "$", "Z"), tidy)
    rule = "must be an ISO 8601 date between 1678 and 2261"
    dates, bad = sheet.cast(column, stamps, pa.timestamp("ns", tz="UTC"), rule, advise_format)
    rows = np.setdiff1d(np.flatnonzero(naive.to_numpy()), bad)
    offsets = {_offset(text) for text in compute.unique(zones.drop_null()).to_pylist()}
    if len(offsets) > 1 and not sheet.reading.local_zone:
        sheet.reading.remark(f"dates in {column!r} have several offsets and are shown in UTC; pass zone=", sheet.client)
    if len(rows) == 0 and offsets:
        return dates, bad, offsets.pop() if len(offsets) == 1 else "UTC"
    local = dates.cast(pa.timestamp("ns"))
    if not offsets:
        return local, bad, ""
    if sheet.reading.local_zone:
        own = _assume(sheet, column, compute.if_else(naive, local, None))
        return compute.if_else(naive, own, dates), bad, "UTC"
    sheet.note_rows(rows, "must have a time zone, as others in this column have; add it, or pass zone=", column)
    return dates, bad, "UTC"


def _parse_styled(
    sheet: Sheet, column: str, texts: pa.ChunkedArray, style: str
) -> tuple[pa.ChunkedArray, Indices, str]:
    """Return text as dates written in a style."""
    dates = pa.chunked_array([pa.array(_styled(texts.to_pylist(), style))])
    bad = np.flatnonzero(dates.is_null().to_numpy() & texts.is_valid().to_numpy())
    sheet.note_rows(bad, lambda row: f"must be a date like {style!r}, got {quote(texts[row].as_py())}", column)
    return dates, bad, dates.type.tz or ""


def _styled(texts: list[str | None], style: str) -> Any:
    import pandas as pd

    return pd.to_datetime(pd.Index(texts, dtype=object), format=style, errors="coerce", utc="%z" in style)


def fits(texts: list[str], style: str) -> bool:
    """Return whether texts are dates of a style, such as ``"%d.%m.%Y"``."""
    return bool(texts) and not _try(texts, style).isna().any()


def _try(texts: list[str], style: str) -> Any:
    """Return texts as dates of a style, missing where they are none."""
    try:
        return _styled(list(texts), style)
    except ValueError as error:
        raise ParameterError(f"date_format must be a format such as '%d.%m.%Y %H:%M', got {style!r}: {error}") from None


def advise_format(texts: list[str]) -> str:
    """Return the formats that all these texts fit, as advice; nothing if they do not look like dates."""
    from pandas.tseries.api import guess_datetime_format

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pandas says which order it took; here both are tried
        orders = (True,) if re.match(r"\d+\.\d", texts[0]) else (True, False)  # with points the day is always first
        half = re.search(r"(\s*)[AaPp][Mm]$", texts[0])  # pandas guesses no format with AM or PM
        plain = texts[0][: half.start()] if half else texts[0]
        guesses = [guess_datetime_format(plain, dayfirst=first) for first in orders]
        if half:
            guesses = [guess and guess.replace("%H", "%I") + half[1] + "%p" for guess in guesses]
    found = [guess for guess in dict.fromkeys([*guesses, TWITTER]) if guess and fits(texts, guess)]
    if not found and not re.match(r"\d+[./-]\d+[./-]\d", texts[0]):
        return ""
    return f"; pass date_format={' or '.join(map(repr, found)) or 'as they are written'}"


def _offset(text: str) -> str:
    """Return an offset as +HH:MM."""
    digits = text.removeprefix("Z").replace(":", "").ljust(5, "0")
    return "UTC" if digits[1:] == "0000" or text == "Z" else f"{digits[:3]}:{digits[3:]}"
