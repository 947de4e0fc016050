"""Figures of a table's times: hours of the day, days of the month, and what a wrong clock or date would change."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from cotempo.data import Table
from cotempo.surveys.others import INDEPENDENT_WAVES, Figures, Key, Others
from cotempo.surveys.trials import Correction, Oddity
from cotempo.typing import Array, Floats

DAY, HOUR, YEAR = 86400.0, 3600.0, 365.25 * 86400.0
SEASONS = ("winter", "summer")
HARMONICS = (1, 2)
#: Rows in a season below which hours of the day say nothing, and hours that must occur.
FEWEST, FEWEST_HOURS = 40, 6
#: Below this the hours of the day of all others together tell no shift of an hour.
WEAKEST = 0.1
TIMES = "times"  # what findings on times are about


def wall_clock(table: Table) -> Floats:
    """Return the rows' times in seconds as clocks on the wall show them; NaN where there is no date."""
    if not table.clock.dates:
        return np.full(table.rows, np.nan)
    dates: Any = table.clock.dates_of(table.time)  # an index of dates, as the clock has dates
    naive = dates.tz_localize(None) if dates.tz is not None else dates
    ticks = naive.as_unit("us").asi8.astype(np.float64)
    return np.where(np.isfinite(table.time), ticks / 1e6, np.nan)


def in_summer(seconds: Floats) -> Array:
    """Return which times are in the months April to October."""
    share = np.mod(seconds / YEAR, 1.0)
    return (share > 0.247) & (share < 0.822)


def harmonics(seconds: Floats, weights: Floats) -> dict[tuple[str, str], float]:
    """Return the mean of weighted waves of the hour of the day, by season and wave; none where there are few rows."""
    found = {}
    known = np.isfinite(seconds) & np.isfinite(weights)
    seconds, weights = seconds[known], weights[known]
    if len(np.unique(np.mod(seconds, DAY) // HOUR)) < FEWEST_HOURS:
        return {}
    summer = in_summer(seconds)
    for season, chosen in zip(SEASONS, (~summer, summer), strict=True):
        if chosen.sum() < FEWEST:
            continue
        for order in HARMONICS:
            angle = 2 * np.pi * order * seconds[chosen] / DAY
            found[season, f"cos{order}"] = float(np.mean(weights[chosen] * np.cos(angle)))
            found[season, f"sin{order}"] = float(np.mean(weights[chosen] * np.sin(angle)))
    return found


def daily_keys(subject: str) -> list[Key]:
    """Return the keys of the waves of one subject, a column or the rows themselves."""
    waves = [f"{name}{order}" for order in HARMONICS for name in ("cos", "sin")]
    return [(subject, season, wave, "daily") for season in SEASONS for wave in waves]


def time_keys() -> list[Key]:
    """Return the keys of figures of a table's times."""
    return [("", name) for name in ("span", "middle", "late")]


def time_figures(seconds: Floats) -> dict[Key, float]:
    """Return how long times span, where their middle is in years from 2000, and the share of days after the 12th."""
    seconds = seconds[np.isfinite(seconds)]
    if len(seconds) < FEWEST:
        return {}
    days = np.unique(np.floor(seconds / DAY)).astype("int64").astype("datetime64[D]")
    of_month = (days - days.astype("datetime64[M]")).astype(int) + 1
    span = (seconds.max() - seconds.min()) / DAY
    return {
        ("", "span"): math.log(max(span, 1e-3)),
        ("", "middle"): (seconds.min() + seconds.max()) / 2 / YEAR - 30.0,
        ("", "late"): float(np.mean(of_month > 12)) if len(days) > 12 else math.nan,
    }


def swap_days_and_months(seconds: Floats) -> Floats:
    """Return times whose day and month are exchanged where both could be a month."""
    known = np.isfinite(seconds)
    dates = np.where(known, seconds // DAY, 0).astype("int64").astype("datetime64[D]")
    months = dates.astype("datetime64[M]")
    years = months.astype("datetime64[Y]")
    day, month = (dates - months).astype(int) + 1, (months - years).astype(int) + 1
    swapped = (years.astype("datetime64[M]") + (day - 1)).astype("datetime64[D]") + (month - 1)
    whole = np.where(day <= 12, swapped.astype("int64"), dates.astype("int64"))
    return np.where(known, whole * DAY + np.mod(seconds, DAY), np.nan)


def clock_trials(own: Figures, subjects: list[str], others: Others, zone: str) -> Iterator[Correction]:
    """Yield shifts of the clock by whole hours, the same all year or an hour more in one season."""
    told = [key for subject in subjects for key in daily_keys(subject) if key in own and key in others.found]
    strength = math.sqrt(max((sum(others.mean(key) ** 2 for key in told if key[0] == s) for s in subjects), default=0))
    if strength < WEAKEST:
        return
    for winter in range(-12, 13):
        for more in (0, -1, 1):
            summer = winter + more
            if (winter, summer) == (0, 0) or ({season for _, season, _, _ in told} != {*SEASONS} and more):
                continue
            shifts = {"winter": winter, "summer": summer}
            moved = _rotate(own, told, shifts)
            yield Correction("zone", (TIMES,), moved, _zone_words(winter, summer, zone), INDEPENDENT_WAVES)


def _rotate(own: Figures, told: list[Key], hours: Mapping[str, int]) -> dict[Key, float]:
    moved: dict[Key, float] = {}
    for subject, season, wave, _ in told:
        order = int(wave[3:])
        cos, sin = (own[subject, season, f"{name}{order}", "daily"] for name in ("cos", "sin"))
        turn = 2 * math.pi * order * hours[season] / 24
        new = (
            cos * math.cos(turn) - sin * math.sin(turn)
            if wave[:3] == "cos"
            else sin * math.cos(turn) + cos * math.sin(turn)
        )
        moved[subject, season, wave, "daily"] = new
    return moved


def _zone_words(winter: int, summer: int, zone: str) -> str:
    def late(hours: int) -> str:
        return "agree with" if not hours else f"are {abs(hours)} h {'behind' if hours > 0 else 'ahead of'}"

    read = "Read your dates with zone="
    if zone:  # a day may well be another there
        read = f"Your dates have the zone {zone}: if it is right, your day differs, and nothing is wrong"
    if winter == summer:
        return f"your hours of the day {late(winter)} the others': another time zone? {read}"
    return (
        f"in winter your hours of the day {late(winter)} the others', in summer they {late(summer)} them: UTC against "
        f"local time with summer time? {read}"
    )


def date_trials(seconds: Floats, figures: Figures) -> Iterator[Correction]:
    """Yield the exchange of days and months."""
    if any(key in figures for key in time_keys()):
        yield Correction(
            "dates", (TIMES,), time_figures(swap_days_and_months(seconds)),
            "with day and month exchanged your dates would fit the others': read them with date_format=",
        )  # fmt: skip


def date_oddities() -> Iterator[Oddity]:
    """Yield what is odd about dates."""
    yield Oddity(
        "dates", TIMES, ("", "late"), -0.4,
        "hardly any of your days is after the 12th of a month: day and month exchanged, and other days lost? Read "
        "your dates with date_format=",
    )  # fmt: skip
    for effect, side in ((2.0, "after"), (-2.0, "before")):
        yield Oddity(
            "clock", TIMES, ("", "middle"), effect,
            f"your times lie years {side} the others': a clock that was never set, or another origin of time?",
        )  # fmt: skip
