"""`find_silences`: stretches without any event in which a sequence would have had many by its own rhythm."""

from __future__ import annotations

import numpy as np

from cotempo.data.clock import UNITS, Clock
from cotempo.typing import Floats

# Sequences with fewer events say too little. A stretch is a silence if its chance, times how many there are, is less.
FEWEST, CHANCE = 100, 1e-6
# Rhythms that are looked for, by their parts, and how many times they must have been seen.
RHYTHMS, SEEN = ((604800.0, 168), (86400.0, 24)), 3
# The most silences of a sequence, and how many times the longest usual stretch they are.
MOST, JUMP = 10, 3.0
# The share of stretches that tells how much longer than at random they are, where events come in bursts.
USUAL = 0.99


def find_silences(times: Floats, start: float, end: float, clock: Clock) -> list[tuple[float, float, float]]:
    """Return when silences begin and end, and how many events were usual in them.

    By a rate of each hour of the week, or of the day, on the clocks of the zone, the events expected between one and
    the next are exponential, or longer by a factor that most of them tell.

    Examples
    --------
    >>> hours = np.array([*np.arange(0.5, 200.0), *np.arange(300.5, 500.0)])
    >>> [(first, last, round(usual)) for first, last, usual in find_silences(hours, 0.0, 500.0, Clock())]
    [(199.5, 300.5, 81)]
    """
    if len(times) < FEWEST:
        return []
    edges = np.concatenate([[start], times, [end]])
    expected = np.diff(_expected(clock.local(edges), clock))
    longer = max(1.0, float(np.quantile(expected, USUAL)) / -np.log(1 - USUAL))
    # Where stretches have no usual length at all, such as bursts within bursts, the longest follow on each other.
    longest = np.sort(expected)[-1 - MOST :]
    apart = np.flatnonzero(longest[1:] > JUMP * longest[:-1])
    least = longest[1 + apart[0]] if len(apart) else np.inf
    found = np.flatnonzero(expected >= max(longer * np.log(len(expected) / CHANCE), least))
    return [(float(edges[place]), float(edges[place + 1]), float(expected[place])) for place in found]


def _expected(edges: Floats, clock: Clock) -> Floats:
    """Return the events expected until each time, from the first to the last one, by the rhythm of those between."""
    first, length = float(edges[0]), float(edges[-1] - edges[0])
    size = UNITS[clock.unit] if clock.dates else 0.0
    period, parts = next(((p / size, n) for p, n in RHYTHMS if clock.dates and length * size >= SEEN * p), (length, 1))
    if not length > 0:
        return np.zeros(len(edges))
    steps = np.arange(parts + 1) / parts
    whole, rest = np.divmod(length / period, 1.0)
    phase = (edges - first) / period
    place = np.minimum(phase[1:-1] % 1.0 * parts, parts - 1).astype(np.intp)
    watched = (whole + np.diff(np.minimum(steps, rest)) * parts) * period / parts
    rate = np.bincount(place, minlength=parts) / watched
    told = np.append(0.0, np.cumsum(rate) * period / parts)
    return np.asarray(np.floor(phase) * told[-1] + np.interp(phase % 1.0, steps, told))
