"""`Clock`: how a table counts time, and the only place that converts between its numbers and dates."""

from __future__ import annotations

import datetime
import zoneinfo
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from cotempo.data.tables import UNITS
from cotempo.errors import DataError
from cotempo.typing import Floats

if TYPE_CHECKING:
    import pandas as pd

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
            found = pd.DatetimeIndex(np.atleast_1d(values) if isinstance(values, np.ndarray) else values)
        except (ValueError, TypeError) as error:
            raise DataError(f"times must be numbers or dates, all with a zone or all without, got {error}") from None
        if not self.dates:
            raise DataError(
                f"times must be numbers, as those of the table were, got the date {found[0]}; "
                "read the table from dates to use dates here"
            )
        if (found.tz is not None) != bool(self.zone):
            wanted = f"have a time zone, as those of the table did ({self.zone})" if self.zone else "have no time zone"
            raise DataError(f"dates must {wanted}, got {found[0]}; use tz_localize or tz_convert(None)")
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
        whole = np.floor(values * UNITS[self.unit])
        rest = np.round((values * UNITS[self.unit] - whole) * 1e6)
        found = pd.DatetimeIndex((whole * 1e6 + rest).astype("int64").astype("datetime64[us]"))
        return found.tz_localize("UTC").tz_convert(self._zone()) if self.zone else found

    def date(self, number: float) -> Any:
        """Return one of this clock's numbers as a date; unchanged where times are plain numbers."""
        return self.dates_of([number])[0] if self.dates else float(number)

    def text(self, number: float) -> str:
        """Return one of this clock's numbers as people write it."""
        return str(self.date(number).round("s")) if self.dates and np.isfinite(number) else f"{number:g}"

    def _zone(self) -> datetime.tzinfo:
        if self.zone[0] in "+-":
            hours, minutes = self.zone[1:].split(":")
            shift = datetime.timedelta(hours=int(hours), minutes=int(minutes))
            return datetime.timezone(-shift if self.zone[0] == "-" else shift)
        return zoneinfo.ZoneInfo(self.zone)


def _is_zoned(times: Any) -> bool:
    return getattr(getattr(times, "dtype", None), "tz", None) is not None or getattr(times, "tz", None) is not None


def _plain(times: Any) -> Any:
    """Return a pandas or polars column as an array; everything else as it is."""
    return times.to_numpy() if hasattr(times, "to_numpy") and not _is_zoned(times) else times
