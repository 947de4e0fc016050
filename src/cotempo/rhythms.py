"""Rhythms of dates: the hour of the day and the day of the week, and how probable a wave of them is by chance."""

from __future__ import annotations

import numpy as np
from scipy.stats import f

from cotempo.typing import Floats

DAY = 86400.0
#: Rhythms that are looked for: seconds, what is followed, and how to group rows by it with pandas.
RHYTHMS = ((DAY, "the hour of the day", "dt.hour"), (7 * DAY, "the day of the week", "dt.day_of_week"))
#: Waves in a period, from one on.
WAVES = 3
#: Fewer periods tell nothing.
FEWEST = 4


def regular_chance(waves: Floats) -> Floats:
    """Return the chance of means this far from zero, of waves `(periods, 2, waves, columns)`, by column."""
    count, mean = len(waves), waves.mean(axis=0)
    spread = np.square(waves - mean).sum(axis=(0, 1)) / (count - 1)
    far = count * np.square(mean).sum(axis=0) / np.where(spread > 0, spread, np.inf)
    return np.asarray(np.minimum(f.sf(far, 2, 2 * (count - 1)).min(axis=0) * len(mean[0]), 1.0))
