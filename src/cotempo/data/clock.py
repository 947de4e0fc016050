"""`Clock`: how a table counts time, and the only place that converts between its numbers and dates."""

from __future__ import annotations

import contextlib
import datetime
import re
import warnings
import zoneinfo
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from cotempo.errors import DataError
from cotempo.typing import Floats

if TYPE_CHECKING:
    import pandas as pd

UNITS = {"s": 1.0, "h": 3600.0, "D": 86400.0}
# Seconds: beyond some eight thousand years a number is no date.
LAST = 2.5e11
# Plain steps of time, in seconds, finest first: from a second to a week.
STEPS = (1, 5, 10, 30, 60, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 604800)
RHYTHMS = {86400.0: "day", 604800.0: "week"}
# Year first, as ISO 8601 has it: of other dates pandas takes the month first, or the day, and says nothing.
ISO = re.compile(r"\s*(\d{4}-\d\d-\d\d|\d{8})(?=[T ]|$)|\d{4}(-\d\d)?$")
TIME_OF_DAY = re.compile(r"[\sT,]*%[HI].*$")
LABELS = {"": "time", "s": "seconds", "h": "hours", "D": "days"}


@dataclass(frozen=True)
class Clock:
    """How a table counts time.

    Parameters
    ----------
    unit
        ``"s"``, ``"h"`` or ``"D"`` since 1970-01-01 UTC where times were dates; empty where they are plain numbers.
    zone
        The time zone dates are shown in, such as ``"Europe/Berlin"`` or ``"+01:00"``; empty where dates came without
        one.

    Examples
    --------
    >>> clock = Clock("h", "Europe/Berlin")
    >>> clock.number("2025-03-05 07:00+01:00"), clock.text(483654.0)
    (483654.0, '2025-03-05 07:00:00+01:00')
    >>> Clock().number(3), Clock().text(3.25)
    (3.0, '3.25')
    """

    unit: str = ""
    zone: str = ""

    def __post_init__(self) -> None:
        if self.unit not in LABELS or not is_zone(self.zone):
            must = "the unit of time must be s, h, D or empty, and the zone one such as Europe/Berlin or +01:00"
            raise DataError(f"{must}, got {self.unit!r} and {self.zone!r}")

    @property
    def dates(self) -> bool:
        """Whether times were given as dates."""
        return bool(self.unit)

    @property
    def label(self) -> str:
        """What the axis of a figure is called."""
        return "time" if self.dates else LABELS[self.unit]

    @property
    def rate_label(self) -> str:
        """What a rate is counted per."""
        return f"per {LABELS[self.unit].removesuffix('s')}" if self.dates else "per unit of time"

    def number(self, when: Any) -> float:
        """Return one time, a number or a date of any kind, as this clock's number."""
        return float(self.numbers(np.atleast_1d(np.asarray(_plain(when))))[0])

    def numbers(self, times: Any) -> Floats:
        """Return times, numbers or dates of any kind, as this clock's numbers.

        Numbers stay as they are. Dates must have a time zone where those of the table had one, and none where they had
        none: an hour more or less is easily lost.
        """
        values = np.asarray(_plain(times)) if not _is_zoned(times) else times
        if isinstance(values, np.ndarray) and values.dtype.kind in "fiub":
            return values.astype(np.float64)
        import pandas as pd

        try:
            found = pd.DatetimeIndex(_in_utc(values) if isinstance(values, np.ndarray) else values)
        except DataError:
            raise
        except (ValueError, TypeError) as error:
            raise DataError(f"times must be numbers or dates, all with a zone or all without, got {error}") from None
        if not self.dates:
            raise DataError(
                f"times must be numbers, as those of the table were, got the date {found[0]}; "
                "read the table from dates to use dates here"
            )
        if (found.tz is not None) != bool(self.zone):
            wanted, mend, shown = "have no time zone", "tz_convert(None)", found[0].tz_localize(None)
            if self.zone:  # of an hour that comes twice, the first
                wanted, mend = f"have a time zone, as those of the table did ({self.zone})", "tz_localize"
                zone, summer = _find_zone(self.zone), np.ones(1, dtype=bool)
                shown = found[:1].tz_localize(zone, ambiguous=summer, nonexistent="shift_forward")[0]
            written = shown.isoformat(" ", "seconds" if shown.second else "minutes")
            raise DataError(f"dates must {wanted}, got {found[0]}; write {written!r}, or use {mend}")
        since = (found.tz_convert(None) if found.tz is not None else found).as_unit("ns").asi8
        whole, rest = np.divmod(since, 10**9)
        return np.asarray((whole + rest / 1e9) / UNITS[self.unit])

    def dates_of(self, numbers: ArrayLike) -> pd.DatetimeIndex | Floats:
        """Return this clock's numbers as dates in its zone; unchanged where times are plain numbers."""
        values = np.asarray(numbers, dtype=np.float64)
        if not self.dates:
            return values
        import pandas as pd

        # Whole seconds and the rest apart, as in reading; microseconds are what a float holds of dates in our time.
        known = np.isfinite(values)
        seconds = np.where(known, values, 0.0) * UNITS[self.unit]
        whole = np.floor(seconds)
        ticks = (whole * 1e6 + np.round((seconds - whole) * 1e6)).astype("int64").astype("datetime64[us]")
        found = pd.DatetimeIndex(np.where(known, ticks, np.datetime64("NaT", "us")))
        return found.tz_localize("UTC").tz_convert(_find_zone(self.zone)) if self.zone else found

    def local(self, numbers: Floats) -> Floats:
        """Return times as the clocks of the zone show them: what they are ahead of UTC is added, more in summer.

        Of an hour that clocks skip nothing is left, one that they repeat is twice the same.

        Examples
        --------
        >>> Clock("h", "Europe/Berlin").local(np.array([483654.0])) - 483654.0
        array([1.])
        """
        if not self.zone:
            return numbers
        import pandas as pd

        dates = pd.DatetimeIndex(self.dates_of(np.asarray(numbers).ravel()))
        ahead = (dates.tz_localize(None) - dates.tz_convert("UTC").tz_localize(None)).total_seconds().to_numpy()
        return np.asarray(numbers + (ahead / UNITS[self.unit]).reshape(np.shape(numbers)))

    def local_parts(self, first: float, last: float) -> list[tuple[float, float]]:
        """Return a stretch of time as the clocks of the zone show it, cut where they are changed.

        Parts overlap where an hour comes twice, and leave out one that is skipped: they are as long as the stretch.

        Examples
        --------
        >>> Clock("h", "Europe/Berlin").local_parts(489286.0, 489311.0)
        [(489288.0, 489291.0), (489290.0, 489312.0)]
        """
        if not self.zone:
            return [(first, last)]
        size = UNITS[self.unit]

        def ahead(numbers: Any) -> Floats:
            """Return by how many seconds the clocks are ahead of UTC."""
            at = np.asarray(numbers, dtype=np.float64)
            return np.round((self.local(at) - at) * size)

        days = np.append(np.arange(first, last, UNITS["D"] / size), last)
        known, parts = ahead(days), []
        for place in np.flatnonzero(np.diff(known)):
            low, high = int(np.floor(days[place] * size)), int(np.ceil(days[place + 1] * size))
            while high - low > 1:  # clocks are changed at full seconds
                middle = (low + high) // 2
                low, high = (middle, high) if ahead(middle / size) == known[place] else (low, middle)
            parts.append((first + known[place] / size, (high + known[place]) / size))
            first = high / size
        return [
            (float(begin), float(end)) for begin, end in [*parts, (first + known[-1] / size, last + known[-1] / size)]
        ]

    def date(self, number: float) -> Any:
        """Return one of this clock's numbers as a date; unchanged where times are plain numbers."""
        return self.dates_of([number])[0] if self.dates else float(number)

    def duration(self, length: Any) -> float:
        """Return a length of time, a number or a duration such as ``"90min"`` or a timedelta, as a number above 0."""
        size = length
        if not isinstance(length, int | float | np.number):
            import pandas as pd

            try:
                size = pd.Timedelta(length).total_seconds() / UNITS[self.unit or "s"]
            except (ValueError, TypeError):
                size = 0.0
        if not size > 0 or (size is not length and not self.dates):
            kinds = "a number above 0 or a duration such as '1h'" if self.dates else "a number above 0"
            raise DataError(f"a length of time must be {kinds}, got {length!r}")
        return float(size)

    def rhythm(self, period: float | None) -> str:
        """Return what a period is to people who read dates: a day, a week, or nothing."""
        return RHYTHMS.get((period or 0.0) * UNITS.get(self.unit, 0.0), "")

    def first_of(self, rhythm: str, number: float) -> float:
        """Return when the first day or week (from Monday on) begins at or after a time."""
        import pandas as pd

        day = self.date(number).ceil("D")
        return self.number(day + pd.DateOffset(days=-day.weekday() % 7 if rhythm == "week" else 0))

    def full_step(self, number: float, size: float) -> float:
        """Return the first time, from `number` on, that is a whole number of steps after midnight; else `number`."""
        if not self.dates:
            return number
        midnight = self.number(self.date(number).floor("D"))
        return float(midnight + size * np.ceil((number - midnight) / size * (1 - 1e-12)))

    def plain_times(self, first: float, last: float, most: int) -> Floats:
        """Return times of a stretch in the finest plain step, such as an hour from midnight on, that makes few enough.

        Plain numbers are `most` in equal steps.
        """
        sizes = [step / UNITS[self.unit or "s"] for step in STEPS]
        size = next((size for size in sizes if (last - first) / size <= most), sizes[-1])
        if not self.dates or last - first < 2 * sizes[0]:
            return np.linspace(first, last, most)
        return self.steps(first, last, size)

    def steps(self, first: float, last: float, size: float) -> Floats:
        """Return the times of a stretch in steps from midnight on, as the clocks of the zone show it all the time.

        Steps of an hour or less count on where clocks are changed.
        """
        begin = self.full_step(first, size)
        count = int((last - begin) / size * (1 + 1e-12)) + 1
        found = np.asarray(begin + size * np.arange(count))
        if not self.zone or size * UNITS[self.unit] <= UNITS["h"] or count < 1:
            return found
        shown = Clock(self.unit).dates_of(self.local(found[:1]) + size * np.arange(count + 1))
        zone, summer = _find_zone(self.zone), np.ones(count + 1, dtype=bool)  # of an hour that comes twice, the first
        told = self.numbers(shown.tz_localize(zone, ambiguous=summer, nonexistent="shift_forward"))  # type: ignore[union-attr]
        return told[told <= last]

    def match(self, other: Clock) -> None:
        """Raise `DataError` if both clocks count dates, and only one has a time zone."""
        if self.dates and other.dates and bool(self.zone) != bool(other.zone):
            wanted = f"have a time zone, as those learned from did ({self.zone})" if self.zone else "have no time zone"
            got, mend = (other.zone, "tz_convert(None)") if other.zone else ("none", f"tz_localize({self.zone!r})")
            raise DataError(f"dates must {wanted}, got {got}; use {mend}, or pass zone= to the reader")

    def text(self, number: float) -> str:
        """Return one of this clock's numbers as people write it."""
        known = self.dates and abs(number) * UNITS[self.unit] < LAST
        return str(self.date(number).round("s")) if known else f"{number:.12g}"


def is_zone(zone: str) -> bool:
    """Return whether this names a time zone: ``"Europe/Berlin"``, ``"+01:00"``; or none."""
    try:
        return not zone or bool(_find_zone(zone))
    except (ValueError, KeyError, OSError):
        return False


def parse_date(text: str, formats: Iterable[str] = ()) -> pd.Timestamp:
    """Return a date written as in ISO 8601, or in one of the formats, with its time of day or without.

    Everything else is refused, even if only one reading is possible: whether 04.05. is in April must not depend on
    whether 13.05. can be.

    Examples
    --------
    >>> parse_date("2025-05-04"), parse_date("04.05.2025", ["%d.%m.%Y %H:%M"])
    (Timestamp('2025-05-04 00:00:00'), Timestamp('2025-05-04 00:00:00'))
    """
    import pandas as pd

    formats = [style for style in formats if "%" in style]  # others say how numbers count
    styles = dict.fromkeys(one for style in formats for one in (style, TIME_OF_DAY.sub("", style)))
    read = [pd.to_datetime(text.strip(), format=style, errors="coerce") for style in styles]
    with contextlib.suppress(ValueError):  # such as February 30
        read += [pd.Timestamp(text)] if ISO.match(text) else []
    found = list(dict.fromkeys(date for date in read if not pd.isna(date)))
    if len(found) == 1:
        return found[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the order that pandas took: both are shown
        guessed = [pd.to_datetime(text, dayfirst=first, errors="coerce") for first in (True, False)]
    meant = dict.fromkeys(str(date).removesuffix(" 00:00:00") for date in found or guessed if not pd.isna(date))
    must = " or ".join(["as in ISO 8601, such as 2025-04-07 08:00", *map(repr, formats)])
    may = f", which could be {' or '.join(meant)}" if meant else ""
    raise DataError(f"times must be numbers or dates written {must}, got {text!r}{may}")


@cache
def _find_zone(zone: str) -> datetime.tzinfo:
    if zone[0] in "+-":
        hours, minutes = zone[1:].split(":")
        shift = datetime.timedelta(hours=int(hours), minutes=int(minutes))
        return datetime.timezone(-shift if zone[0] == "-" else shift)
    return zoneinfo.ZoneInfo(zone)


def _in_utc(values: Any) -> Any:
    """Return an array of dates; those that all have a zone in UTC, because offsets differ in summer and winter."""
    import pandas as pd

    dates = (
        np.atleast_1d(values).ravel()
        if values.dtype.kind == "M"
        else [parse_date(each) if isinstance(each, str) else pd.Timestamp(each) for each in values.ravel().tolist()]
    )
    aware = isinstance(dates, list) and all(date.tz is not None for date in dates)
    return [date.tz_convert("UTC") for date in dates] if aware else dates


def _is_zoned(times: Any) -> bool:
    return getattr(getattr(times, "dtype", None), "tz", None) is not None or getattr(times, "tz", None) is not None


def _plain(times: Any) -> Any:
    """Return a pandas or polars column as an array; everything else as it is."""
    return times.to_numpy() if hasattr(times, "to_numpy") and not _is_zoned(times) else times
