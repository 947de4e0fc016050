"""`say_rhythms`: columns that follow the hour of the day or the day of the week, which a network takes for edges."""

from __future__ import annotations

import numpy as np

from cotempo.data import Series, Table
from cotempo.data.clock import UNITS
from cotempo.data.description import shorten
from cotempo.data.series import bin_means
from cotempo.rhythms import DAY, FEWEST, RHYTHMS, WAVES, regular_chance
from cotempo.typing import Floats

#: Periods in which so large a share of rows was seen are looked at. Each wave needs two rows, beside the two of a line
#: and one more.
SEEN = 0.75
#: The chance of an alarm for each column and rhythm.
CHANCE = 1e-4


def say_rhythms(table: Table) -> list[str]:
    """Return in words which columns follow the hour of the day or the day of the week, where times are dates.

    Of such columns the present is told by the clock: what a network finds among them are detours through it.
    """
    assert isinstance(table, Series)  # `check` saw the schema
    found = []
    for seconds, followed, parts in RHYTHMS if table.unit and table.step else ():
        chances = rhythm_chances(table, seconds)
        which = [name for name, chance in zip(table.features, chances, strict=True) if chance < CHANCE]
        if which:
            verb = "follow" if len(which) > 1 else "follows"
            found.append(
                f"{shorten(which)} {verb} {followed}, which makes false edges, also sure ones: subtract its means "
                f"first, frame[columns] -= frame.groupby(frame.time.{parts})[columns].transform('mean')"
            )
    return found


def rhythm_chances(table: Series, seconds: float) -> Floats:
    """Return how probable as regular a wave in every period is by chance, by column; 1 where that cannot be told.

    Waves are fitted to each period by itself, beside a line. By chance their coefficients are as often of one sign as
    of the other, however slowly values move.
    """
    if table.step < DAY < seconds:  # means of days, so that no day looks like a part of a week
        table = bin_means(table, DAY / UNITS[table.unit])
    period, least = seconds / UNITS[table.unit], seconds / table.step
    waves = int(min(WAVES, (least - 3) // 2))
    fitted = []
    for _, time, values in table.sequences() if waves >= 1 else ():
        local = table.clock.local(time) / period
        filled = np.column_stack([_interpolated(column) for column in values.T])
        for rows in np.split(np.arange(len(time)), np.flatnonzero(np.diff(np.floor(local))) + 1):
            angles = 2 * np.pi * local[rows, None] * np.arange(1, waves + 1)
            if len(rows) < max(SEEN * least, 2 * waves + 3):
                continue
            line = np.vander(local[rows] - local[rows].mean(), 2)
            design = np.column_stack([line, np.cos(angles), np.sin(angles)])
            fitted.append(np.linalg.lstsq(design, filled[rows], rcond=None)[0][2:])
    if len(fitted) < FEWEST:
        return np.ones(len(table.features))
    return regular_chance(np.array(fitted).reshape(len(fitted), 2, waves, -1))


def _interpolated(column: Floats) -> Floats:
    known = np.flatnonzero(~np.isnan(column))
    return np.interp(np.arange(len(column)), known, column[known]) if len(known) else np.zeros(len(column))
