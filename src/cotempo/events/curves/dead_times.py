"""Dead times: stretches without events where there should have been many."""

import numpy as np

from cotempo.typing import Floats, Indices

# How many events must stand in the stretches of the same length on both sides.
NEIGHBOURS = 25


def find_dead_times(count: Floats, exposure: Floats) -> Indices:
    """Return first cell and end of the watched runs of empty cells that chance does not explain, ``(runs, 2)``.

    Examples
    --------
    >>> find_dead_times(np.repeat([2.0, 0.0, 2.0], [40, 20, 40]), np.ones(100)).tolist()
    [[40, 60]]
    """
    cells = len(count)
    events = np.append(0.0, np.cumsum(count))
    empty = np.concatenate([[False], (count == 0) & (exposure > 0), [False]])
    change = np.flatnonzero(np.diff(empty.astype(np.int8)))
    first, end = change[::2], change[1::2]
    before = events[first] - events[np.maximum(2 * first - end, 0)]
    after = events[np.minimum(2 * end - first, cells)] - events[end]
    # A run at an end of the window has a neighbour on one side only.
    before, after = np.where(first == 0, after, before), np.where(end == cells, before, after)
    dead = np.minimum(before, after) >= NEIGHBOURS
    return np.stack([first[dead], end[dead]], axis=1)
