"""Steps of time stamps: which step times were cut down to (`find_step`), and where in it they may have been."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cotempo.data.clock import UNITS, Clock
from cotempo.typing import Floats

# Steps that clocks and people cut times down to, in seconds; plain numbers may also be hours or days.
STEPS = (86400.0, 43200.0, 21600.0, 10800.0, 7200.0, 3600.0, 1800.0, 900.0, 600.0, 300.0, 120.0, 60.0, 30.0, 10.0, 5.0)
PLAIN = (*STEPS, 1.0, 1 / 2, 1 / 4, 1 / 6, 1 / 12, 1 / 60)
NAMES = {86400.0: "day", 3600.0: "hour", 60.0: "minute", 1.0: "second"}
# Fewer times may lie on one grid by chance; of more, so large a share must lie on it, to so small a share of the step.
FEWEST, NEARLY, CLOSE = 10, 0.8, 1e-3
# Times must reach over so many steps; otherwise all lie close to one.
LEAST = 3.0
# Of a single time no longer step is believed (one in 24 full hours is midnight), and no shorter one matters.
ALONE = (60.0, 3600.0)
# Times that are so few different steps apart, and never at once, come from a regular process.
REGULAR = 3


def find_step(times: Floats, sequence: NDArray[Any], clock: Clock) -> float:
    """Return the step that nearly all times were cut down to, in the unit of the clock; 0 where there is none.

    Times are sorted within their sequence. Steps begin by the clock that people read: full hours of India are half
    hours of UTC.

    Examples
    --------
    >>> times, one = np.sort(np.random.default_rng(0).uniform(0, 100, 200)), np.zeros(200)
    >>> find_step(np.floor(times * 12) / 12, one, Clock("h")) * 60
    5.0
    >>> find_step(times, one, Clock("h")), find_step(np.arange(200.0), one, Clock())
    (0.0, 0.0)
    """
    if len(times) < FEWEST:
        return 0.0
    shown = clock.local(times)
    longest = np.ptp(shown) / LEAST
    steps = [step / UNITS[clock.unit] for step in (*STEPS, 1.0)] if clock.dates else PLAIN
    for step in (step for step in steps if step <= longest):
        on = on_grid(shown, step)
        if on.mean() >= NEARLY:
            apart = np.unique(np.rint(np.diff(shown[on])[np.diff(sequence[on]) == 0] / step))
            regular = not len(apart) or (apart[0] > 0 and len(apart) < REGULAR)
            return 0.0 if regular else float(step)
    return 0.0


def on_grid(times: Floats, step: float) -> NDArray[np.bool_]:
    """Return which times lie a whole number of steps from each other, as most do."""
    phase = np.mod(times / step, 1.0)
    usual = np.bincount(np.rint(phase / CLOSE).astype(np.intp)).argmax() * CLOSE
    away = np.abs(phase - usual)
    return np.minimum(away, 1.0 - away) <= CLOSE


def spread_stamps(times: Floats, sequence: NDArray[Any], latest: Floats, clock: Clock) -> Floats:
    """Return times put evenly at random, but always alike, into the steps they were cut down to, up to `latest`.

    Of a Poisson process this makes one again, with the mean rate of each step.
    """
    step = find_step(times, sequence, clock)
    if not step:
        return times
    room = np.clip(latest - times, 0.0, step)
    drawn = np.random.default_rng(0).uniform(size=len(times))
    return np.asarray(np.where(on_grid(clock.local(times), step), times + drawn * room, times))


def step_of_each(times: Floats, clock: Clock) -> Floats:
    """Return the largest step of a minute to an hour that each time lies on, 0 for none: it depends on no other time.

    Times are of the local clock; plain numbers have none.

    Examples
    --------
    >>> step_of_each(np.array([0.0, 1.25, 2 + 1 / 60, np.pi]), Clock("h", "UTC")) * 60
    array([60., 15.,  1.,  0.])
    """
    found = np.zeros(len(times))
    if clock.dates:
        for step in sorted(step / UNITS[clock.unit] for step in STEPS if ALONE[0] <= step <= ALONE[1]):
            phase = np.mod(times / step, 1.0)
            found[np.minimum(phase, 1 - phase) <= CLOSE] = step
    return found


def step_name(step: float, clock: Clock) -> str:
    """Return a step in words.

    Examples
    --------
    >>> step_name(1 / 12, Clock("h")), step_name(1.0, Clock("D")), step_name(0.5, Clock())
    ('5 minutes', '1 day', '0.5')
    """
    if not clock.dates:
        return f"{step:.3g}"
    seconds = round(step * UNITS[clock.unit])
    size = next(size for size in NAMES if seconds >= size)
    return f"{seconds / size:.3g} {NAMES[size]}{'s' if seconds != size else ''}"
