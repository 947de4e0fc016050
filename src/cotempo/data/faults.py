"""`Faults`: values that a sensor can hardly have measured, far from all others or repeated for too long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cotempo.typing import Floats

#: How far from the others a value lies, in times their range, and the share of values that are surely among them.
FAR_OFF, MIDDLE = 3.0, 0.3
#: Values of which nothing can be said about the rest.
FEWEST_VALUES, FEWEST_DIFFERENT = 20, 10
#: Rows of the same value that are a stuck sensor: at least so many, and so many times the longest of usual repeats.
SHORTEST_STUCK, TIMES_USUAL, USUAL = 12, 8, 0.99
FEWEST_RUNS = 20
#: New values are unlike those learned from if their usual range is so many times as wide, or so far from the learned
#: range, in its widths. Seasons move a range, hardly ever by more than half of its width, and do not make it wider:
#: where ranges do not meet, less is enough. Of few values only the larger limits count.
FAR_WIDER, FAR_AWAY, AWAY, WIDER = 8.0, 2.0, 0.75, 1.5
FEW_NEW, MANY_NEW = 10, 50


#: A counter moves in at least so many rows, a fifth of all, and goes back in at most so large a share of its moves.
FEWEST_MOVES, SHARE_MOVING, SHARE_BACK = 100, 0.2, 0.05


@dataclass(frozen=True)
class Stuck:
    """Rows, from the first to the last, in which a column has one value."""

    first: int
    last: int
    rows: int
    value: float


def usual_range(values: Floats) -> tuple[float, float]:
    """Return the least and greatest of a column's values that are not far off; infinite where none is.

    A value is far off with an empty gap between it and the others that is three times as wide as they range, at most
    the lowest and the highest third of all. Columns of a few different values, such as on and off, have none.

    Examples
    --------
    >>> usual_range(np.array([*np.arange(30.0), 1e6]))
    (-inf, 29.0)
    """
    known = np.sort(values[np.isfinite(values)])
    count = len(known)
    if count < FEWEST_VALUES:
        return -np.inf, np.inf
    first, last = int(count * (0.5 - MIDDLE / 2)), int(count * (0.5 + MIDDLE / 2))
    above, below = known[last:] - known[first], known[last] - known[: first + 1]
    jumps_up = np.flatnonzero(np.diff(known[last:]) > FAR_OFF * above[:-1])
    jumps_down = np.flatnonzero(np.diff(known[: first + 1]) > FAR_OFF * below[1:])
    high = last + int(jumps_up[0]) if len(jumps_up) else count - 1
    low = int(jumps_down[-1]) + 1 if len(jumps_down) else 0
    if len(np.unique(known[low : high + 1])) < FEWEST_DIFFERENT:
        return -np.inf, np.inf
    return (float(known[low]) if low else -np.inf), (float(known[high]) if high < count - 1 else np.inf)


def find_stuck(values: Floats, ends: Sequence[int]) -> list[Stuck]:
    """Return where a column that otherwise varies repeats a value for longer than it can be chance.

    Missing cells between are passed over; `ends` are the ends of pieces. Values that repeat elsewhere, too, such as 0
    where nothing flows, are not suspicious.

    Examples
    --------
    >>> find_stuck(np.array([*np.arange(40.0), *np.full(15, 7.5), *np.arange(40.0)]), [95])
    [Stuck(first=40, last=54, rows=15, value=7.5)]
    """
    known = np.flatnonzero(np.isfinite(values))
    if len(known) < FEWEST_RUNS + SHORTEST_STUCK:
        return []
    piece = np.searchsorted(np.asarray(ends), known, side="right")
    new = np.flatnonzero((np.diff(values[known]) != 0) | (np.diff(piece) != 0)) + 1
    firsts = np.concatenate([[0], new])
    sizes, level = np.diff(firsts, append=len(known)), values[known[firsts]]
    short = sizes[sizes < SHORTEST_STUCK]
    if len(short) < FEWEST_RUNS:
        return []
    least = max(SHORTEST_STUCK, TIMES_USUAL * float(np.quantile(short, USUAL)))
    found = []
    for place in np.flatnonzero(sizes >= least).tolist():
        if ((level == level[place]) & (sizes > 2)).sum() == 1:
            first, last = known[firsts[place]], known[firsts[place] + sizes[place] - 1]
            found.append(Stuck(int(first), int(last), int(sizes[place]), float(level[place])))
    return found


def say_counter(values: Floats, ends: Sequence[int]) -> str:
    """Return in words that a column only grows, but for some resets, as a counter does; "" where it does not.

    A reset goes back by more than nearly all moves go on; `ends` are the ends of pieces.

    Examples
    --------
    >>> say_counter(np.arange(300.0) % 140, [300])
    'only grows, but for 2 resets'
    """
    known = np.flatnonzero(np.isfinite(values))
    piece = np.searchsorted(np.asarray(ends), known, side="right")
    moves = np.diff(values[known])[np.diff(piece) == 0]
    on, back = moves[moves > 0], -moves[moves < 0]
    if len(on) < max(FEWEST_MOVES, SHARE_MOVING * len(moves)) or len(back) > SHARE_BACK * len(on):
        return ""
    if len(back) and back.min() <= np.quantile(on, USUAL):
        return ""
    resets = f"{len(back):,} reset{'s' * (len(back) > 1)}"
    return f"only grows, but for {resets}" if len(back) else "only grows"


def stuck_cells(values: Floats, ends: Sequence[int]) -> NDArray[np.bool_]:
    """Return the cells ``(rows, features)`` of stuck columns, but for the first of each stretch."""
    found = np.zeros(values.shape, dtype=bool)
    for column, part in enumerate(values.T):
        for stuck in find_stuck(part, ends):
            found[stuck.first + 1 : stuck.last + 1, column] = True
    return found & ~np.isnan(values)


def calm(values: Floats, ends: Sequence[int]) -> Floats:
    """Return values to learn from: stuck stretches, but for their first row, and far-off values are missing."""
    found = np.where(stuck_cells(values, ends), np.nan, values)
    ranges = np.array([usual_range(part) for part in found.T]).reshape(-1, 2).T
    return np.where((found < ranges[0]) | (found > ranges[1]), np.nan, found)


def spikes(values: Floats, ends: Sequence[int]) -> NDArray[np.bool_]:
    """Return cells ``(rows, features)`` that are far off for fewer rows than a stuck sensor is: no state of a plant.

    Examples
    --------
    >>> np.flatnonzero(spikes(np.array([*np.arange(90.0), 1e6, 1e6, *np.full(20, -1e6)])[:, None], [112])).tolist()
    [90, 91]
    """
    found = np.zeros(values.shape, dtype=bool)
    for column, part in enumerate(values.T):
        low, high = usual_range(part)
        far = np.flatnonzero((part < low) | (part > high))
        piece, side = np.searchsorted(np.asarray(ends), far, side="right"), part[far] > high
        for run in np.split(far, np.flatnonzero((np.diff(far) > 1) | (np.diff(piece) > 0) | np.diff(side)) + 1):
            found[run, column] = len(run) < SHORTEST_STUCK
    return found


def say_far_off(values: Floats) -> list[str]:
    """Return in words which values of a column are far from all others."""
    low, high = usual_range(values)
    found = []
    for far in (values[values < low], values[values > high]):
        if len(far):
            least, most = far.min(), far.max()
            which = f"{least:g}" if least == most else f"{least:g} to {most:g}"
            mend = f"pass missing=[{least:g}] if that means missing" if least == most else "is that measured?"
            found.append(f"{which} in {len(far):,} row{'s' * (len(far) > 1)}, far from all others: {mend}")
    return found


def say_unlike(values: Floats, least: float, most: float, where: str = "") -> str:
    """Return in words how values are unlike those learned from, of which 90 % lay between two; "" where they are not.

    Examples
    --------
    >>> say_unlike(np.linspace(118.0, 176.0, 60), 48.0, 80.0)
    'is mostly 120.9 to 173.1 here, 48 to 80 where the model learned: another unit or sensor?'
    """
    values = values[np.isfinite(values)]
    if len(values) < FEW_NEW or not most > least:
        return ""
    first, last = np.quantile(values, [0.05, 0.95])
    away = max(first - most, least - last, 0.0) / (most - least)
    wider = (last - first) / (most - least)
    apart = len(values) >= MANY_NEW and (away > AWAY or (away > 0 and wider > WIDER))
    if away <= FAR_AWAY and wider <= FAR_WIDER and not apart:
        return ""
    got = f"{first:.4g} to {last:.4g} here, {least:.4g} to {most:.4g} where the model learned"
    return f"is mostly {got}{where}: another unit or sensor?"
