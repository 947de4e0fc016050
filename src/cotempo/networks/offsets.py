"""Levels of their own: whether clients' means differ by more than one network of all explains.

Laboratories differ in baselines, hospitals in equipment: such offsets make variables that have nothing to do with each
other go up and down together from client to client. But means also differ where a client was perturbed, and then the
difference spreads along the edges and tells of them. So the evidence decides: a network of rows about each client's own
mean, at the price of a mean for each client and variable, against one of rows about the common mean.
"""

from __future__ import annotations

import numpy as np

from cotempo.networks.moments import Gram
from cotempo.typing import Floats

#: Means that differ less than this many times as much as chance lets independent rows, in squares, are not looked at.
SUSPICIOUS = 10.0


def measure_offsets(values: Floats, weights: Floats) -> Floats:
    """Return what a client's mean adds to the sums of squares about the centre, and whether it has any, by variable."""
    seen = ~np.isnan(values)
    counts = weights @ seen
    sums = weights @ np.where(seen, values, 0.0)
    return np.stack([sums**2 / np.where(counts > 0, counts, 1.0), (counts > 0).astype(float)])


def compare_offsets(offsets: Floats, squares: Floats, counts: Floats) -> Floats:
    """Return how far the clients' means differ, in times of what chance lets independent rows, by variable (an F).

    `offsets` are the sums over clients of `measure_offsets`, `squares` and `counts` the sums of squares and rows.
    """
    between, holders = offsets
    freedom = np.maximum(holders - 1.0, 1.0)
    within = np.maximum(squares - between, 0.0) / np.maximum(counts - holders, 1.0)
    return np.where(holders > 1, between / freedom / np.maximum(within, 1e-300), 0.0)


def per_unit(score: float, gram: Gram, variables: int, *, scaled: bool) -> float:
    """Return the evidence of a network in the units of the data, so that networks of other Grams compare."""
    spread = gram.gram.diagonal()[:variables]
    if not scaled:
        return score
    return score - 0.5 * gram.rows * float(np.log(np.where(spread > 0, spread / gram.rows, 1.0)).sum())


def price(offsets: Floats, rows: float) -> float:
    """Return the price of a mean for each client and variable instead of one for all: half a log row each."""
    return 0.5 * float(np.maximum(offsets[1] - 1.0, 0.0).sum()) * float(np.log(max(rows, 1.0)))
