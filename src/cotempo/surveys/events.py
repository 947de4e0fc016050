"""`SurveyedEvents`: the figures of a client's events, and what could be wrong with them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import combinations

import numpy as np

from cotempo.data import Events
from cotempo.data.clock import UNITS
from cotempo.surveys.calendar import (
    clock_trials,
    daily_keys,
    date_oddities,
    date_trials,
    harmonics,
    time_figures,
    time_keys,
    wall_clock,
)  # fmt: skip
from cotempo.surveys.others import Key, Others
from cotempo.surveys.surveyed import Surveyed, vocabulary_keys
from cotempo.surveys.trials import Correction, Oddity
from cotempo.surveys.units import times
from cotempo.typing import Floats

FEWEST = 20
#: Units of time that are mixed up, in the smaller of two.
TIME_RATIOS = {60.0: "seconds, minutes or hours", 24.0: "hours or days", 1000.0: "seconds or milliseconds",
               3600.0: "seconds or hours", 86400.0: "seconds or days"}  # fmt: skip
NAMES = ("gap", "window", "whole", "repeats")


class SurveyedEvents(Surveyed):
    """One client's events: how often, when, and with which marks."""

    table: Events

    @staticmethod
    def layout(columns: Sequence[str]) -> list[Key]:
        """Return the keys of all figures, for the marks that any client has."""
        shares = [(mark, "share") for mark in columns]
        return [*(("", name) for name in NAMES), *time_keys(), *daily_keys(""), *vocabulary_keys(columns), *shares]

    @cached_property
    def seconds(self) -> Floats:
        """Times as clocks on the wall show them."""
        return wall_clock(self.table)

    @cached_property
    def own(self) -> dict[Key, float]:
        """The figures of this table."""
        table = self.table
        found: dict[Key, float] = {(mark, "has"): float(mark in table.marks) for mark in self.columns}
        if table.rows < FEWEST:
            return found
        same = table.sequence[1:] == table.sequence[:-1]
        scale = UNITS.get(table.unit, 1.0)  # clients may count dates in different units
        gaps, lengths = scale * np.diff(table.time)[same], scale * (table.end - table.start)
        found |= {
            ("", "window"): _log(float(lengths.mean())),
            ("", "whole"): float(np.mean(table.time == np.round(table.time))),
        }
        if len(gaps) >= FEWEST:
            twice = (np.diff(table.time) == 0) & same & (np.diff(table.mark) == 0)
            found |= {
                ("", "gap"): _log(float(gaps.mean())),
                ("", "repeats"): float(twice.sum()) / table.rows,
            }
        counts = np.bincount(table.mark, minlength=len(table.marks)) / table.rows
        shares = dict(zip(table.marks, counts.tolist(), strict=False))
        if table.marks:
            found |= {(mark, "share"): math.asin(math.sqrt(shares.get(mark, 0.0))) for mark in self.columns}
        found |= time_figures(self.seconds)
        waves = harmonics(self.seconds, np.ones(table.rows))
        return found | {("", *wave, "daily"): value for wave, value in waves.items()}

    def trials(self, others: Others) -> Iterator[Correction]:
        """Yield units of time, exchanged marks, and corrections of dates."""
        for ratio, units in TIME_RATIOS.items():
            for factor in (ratio, 1 / ratio):
                known = [key for key in (("", "gap"), ("", "window")) if key in self.own]
                changed: dict[Key, float] = {key: self.own[key] + math.log(factor) for key in known}
                words = f"your times are about {times(factor)} the others': {units}? Read them with unit="
                yield Correction("unit", ("times",), changed, words)
        for one, two in combinations(self.table.marks, 2):
            shares: dict[Key, float] = {
                (one, "share"): self.own.get((two, "share"), math.nan),
                (two, "share"): self.own.get((one, "share"), math.nan),
            }
            words = f"your {one} are as frequent as the others' {two}, and the other way round: exchanged codes?"
            yield Correction("coding", (one, two), shares, words)
        yield from clock_trials(self.own, [""], others, self.table.clock.zone)
        yield from date_trials(self.seconds, self.own)

    def oddities(self) -> Iterator[Oddity]:
        """Yield figures that should not stand out."""
        yield from date_oddities()
        yield Oddity("repeats", "rows", ("", "repeats"), 0.05, "many of your events are there twice: rows given twice?")
        yield Oddity(
            "rounding", "times", ("", "whole"), 0.5, "your times are rounded to whole numbers, the others' are not"
        )


def _log(value: float) -> float:
    return math.log(value) if value > 0 else math.nan
