"""`Levels`: what is subtracted from rows before a network is learned, decided by the evidence.

Laboratories differ in baselines, replicates in their start, and cultures drift: such levels make variables that have
nothing to do with each other go up and down together. But means also differ where a client was perturbed, and then the
difference spreads along the edges and tells of them. So the evidence decides: a network of what is left of the rows, at
the price of each number that was fitted, against one of rows about the common mean. Each client fits and subtracts by
itself; only sums of what is left leave it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from scipy.stats import f

from cotempo.data import Series, Table
from cotempo.typing import Floats

if TYPE_CHECKING:
    from cotempo.networks.moments import Gram

Levels = Literal["common", "own", "sequence", "drift", "trend"]


class Level(NamedTuple):
    """A level: whether each sequence has one or the client, the degree in time, what it refines, and words for it."""

    by_sequence: bool
    degree: int
    refines: Levels
    description: str


#: From the simplest on. Time is since a sequence began.
LEVELS: dict[Levels, Level] = {
    "own": Level(False, 0, "common", "clients have levels of their own (baselines, equipment, populations)"),
    "sequence": Level(True, 0, "own", "sequences have levels of their own (replicates, batches, subjects)"),
    "drift": Level(False, 1, "own", "variables drift with the time since a sequence began"),
    "trend": Level(True, 1, "sequence", "sequences have levels and trends over time of their own"),
}
NAMES: tuple[Levels, ...] = ("common", *LEVELS)
SUBTRACTED: dict[Levels, str] = {
    "own": "each client's own mean",
    "sequence": "each sequence's own mean",
    "drift": "each client's own line over time",
    "trend": "each sequence's own line over time",
}
#: Levels that differ as much by chance, with this probability or more, are not looked at.
SUSPICIOUS = 1e-3
#: Of an F over a client's sequences: generated rows without levels make it 8 at most, levels of one standard deviation
#: 12 to 60 in sequences of 25 rows; these halve how many edges of PFDBNL are right.
TELLING_LEVELS = 10.0


class Baseline(NamedTuple):
    """What levels expect at each row, `(rows, features)`, and how many numbers were fitted for it, `(features,)`."""

    values: Floats
    fitted: Floats

    @classmethod
    def of(cls, table: Series, levels: Levels, weights: Floats, until: int | None = None) -> Baseline:
        """Fit levels to a table; those of the client to the rows before `until`, those of a sequence on both sides."""
        since = np.concatenate([np.zeros(0), *(time - time[0] for _, time, _ in table.sequences())])
        values, fitted = np.zeros(table.values.shape), np.zeros(len(table.features))
        for rows, told in _groups(table, levels, until):
            design = powers(since[rows], since[told], LEVELS[levels].degree)
            inside = design[told.start - rows.start : told.stop - rows.start]
            slopes, numbers = fit_powers(inside, table.values[told], weights[told])
            values[rows] = design @ slopes
            fitted += numbers
        return cls(values, fitted)


def powers(time: Floats, told: Floats, degree: int) -> Floats:
    """Return the powers of time, between -1 and 1 over the times `told`, `(times, degree + 1)`."""
    low, high = told.min(initial=np.inf), told.max(initial=-np.inf)
    return np.vander((2 * time - low - high) / (high - low) if high > low else 0 * time, degree + 1, increasing=True)


def fit_powers(design: Floats, values: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Return what explains each column best, `(powers, columns)`, and how many numbers that took; NaN is left out."""
    seen = ~np.isnan(values)
    slopes, numbers = np.zeros((design.shape[1], values.shape[1])), np.zeros(values.shape[1])
    patterns, which = np.unique(seen, axis=1, return_inverse=True)
    for number, pattern in enumerate(patterns.T):
        places, weight = np.flatnonzero(which.ravel() == number), np.sqrt(weights * pattern)[:, None]
        known = np.where(seen[:, places], values[:, places], 0.0)
        slopes[:, places], _, rank, _ = np.linalg.lstsq(weight * design, weight * known, rcond=1e-10)
        numbers[places] = rank
    return slopes, numbers


def _groups(table: Series, levels: Levels, until: int | None) -> Iterator[tuple[slice, slice]]:
    """Yield the rows that share a level, and those of them that it is fitted to."""
    end = table.rows if until is None else until
    if not LEVELS[levels].by_sequence:
        yield slice(0, table.rows), slice(0, end)
        return
    start = 0
    for _, time, _ in table.sequences():
        cuts = sorted({start, min(max(start, end), start + len(time)), start + len(time)})
        for first, last in pairwise(cuts):
            yield slice(first, last), slice(first, last)
        start += len(time)


def measure_levels(table: Series, weights: Floats, centre: Floats, lags: int) -> Floats:
    """Return what is left of squares without the centre or each of `LEVELS`, and by how many numbers.

    That is `(1 + levels, 2, features)`. Left is what a variable's own past, the row before, does not tell either: else
    what lasts would look like a level.
    """
    follows = np.zeros(table.rows, dtype=np.bool_)
    follows[1:] = table.sequence[1:] == table.sequence[:-1]
    rows = np.flatnonzero(follows) if lags else np.arange(table.rows)
    past = table.values[rows - 1] if lags else np.zeros(table.values.shape)
    unseen = np.isnan(table.values[rows]) | np.isnan(past)
    tables = [replace(table.select(rows), values=np.where(unseen, np.nan, v)) for v in (table.values[rows], past)]
    found = []
    common = Baseline(centre, np.zeros(len(centre)))
    for levels in NAMES:
        fits = [Baseline.of(one, levels, weights[rows]) if levels in LEVELS else common for one in tables]
        now, before = (np.where(unseen, 0.0, one.values - fit.values) for one, fit in zip(tables, fits, strict=True))
        squares, mixed, own = (weights[rows] @ (a * b) for a, b in ((now, now), (now, before), (before, before)))
        told = mixed**2 / np.where(own > 0, own, 1.0) if lags else 0.0
        found.append([np.maximum(squares - told, 0.0), fits[0].fitted])
    return np.array(found)


def suspicious_levels(left: Floats, fitted: Floats, rows: Floats) -> list[Levels]:
    """Return the levels without which less is left than chance allows, against those they refine, in any variable.

    `left` and `fitted`, `(1 + levels, variables)`, are sums over clients of `measure_levels`.
    """
    found: list[Levels] = []
    for levels, level in LEVELS.items():
        plain, fine = NAMES.index(level.refines), NAMES.index(levels)
        more, free = fitted[fine] - np.maximum(fitted[plain], 1.0), np.maximum(rows - fitted[fine], 1.0)
        chance = f.sf(compare_levels(left[plain], left[fine], more, free), np.maximum(more, 1.0), free)
        if (chance < SUSPICIOUS).any():
            found.append(levels)
    return found


def compare_levels(plain: Floats, fine: Floats, more: Floats, free: Floats) -> Floats:
    """Return how much less is left without finer levels, in times of what chance lets independent rows (an F).

    `plain` and `fine` are the sums of squares left, `more` how many more numbers the finer ones fit, and `free` how
    many rows less numbers there are.
    """
    gain = np.maximum(plain - fine, 0.0) / np.maximum(more, 1.0)
    return np.where(more > 0.5, gain * free / np.maximum(fine, 1e-300), 0.0)


def per_unit(score: float, gram: Gram, variables: int, *, scaled: bool) -> float:
    """Return the evidence of a network in the units of the data, so that networks of other Grams compare."""
    spread = gram.gram.diagonal()[:variables]
    if not scaled:
        return score
    return score - 0.5 * gram.rows * float(np.log(np.where(spread > 0, spread / gram.rows, 1.0)).sum())


def price(fitted: Floats, rows: float) -> float:
    """Return the price of the numbers that levels fit instead of one mean for all: half the log of the rows of each."""
    return 0.5 * float((np.maximum(fitted - 1.0, 0.0) * np.log(np.maximum(rows / np.maximum(fitted, 1.0), 1.0))).sum())


def say_sequence_levels(table: Table, lags: int) -> list[str]:
    """Return in words that levels of a client's sequences differ by far more than chance lets them."""
    assert isinstance(table, Series)  # `check` saw the schema
    centre = np.zeros(len(table.features))  # what is left about it is not looked at
    left, fitted = measure_levels(table, table.row_weights, centre, lags).swapaxes(0, 1)
    plain, fine = NAMES.index("own"), NAMES.index("sequence")
    free = table.rows - lags * len(table.sequence_names()) - fitted[fine]
    apart = compare_levels(left[plain], left[fine], fitted[fine] - fitted[plain], np.maximum(free, 1.0))
    if not (apart > TELLING_LEVELS).any():
        return []
    return [
        "levels of sequences differ far more than chance lets them: where that is a matter of replicates or batches, "
        "false edges come of it; subtract each sequence's mean first, or take OneRound, which finds out"
    ]
