"""Window moments: sums of products over windows of a few rows, which add up over pieces, owners and clients.

A window is the row it ends with, told by its step from the row before, the level of that row, and earlier steps:

.. math:: z_t = (x_t - x_{t-1},\\; x_{t-1},\\; x_{t-1} - x_{t-2},\\; \\dots,\\; x_{t-p+1} - x_{t-p})

in units of each feature's usual step, about a common centre; steps before the beginning of a piece are zero, so that
every piece counts, however short. Steps keep their digits where levels wander far: a difference of moments of levels
would not.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cotempo.series.filling.gaps import neighbours
from cotempo.series.windows import SeriesRows
from cotempo.typing import Floats

BATCH = 4096


@dataclass(frozen=True)
class Units:
    """Where each feature lies and how far it usually moves in a row, ``(features,)``."""

    centre: Floats
    step: Floats

    def apply(self, values: Floats) -> Floats:
        """Convert to steps from the centre."""
        return np.asarray((values - self.centre) / self.step)

    def rows(self, rows: SeriesRows) -> SeriesRows:
        """Convert rows to steps from the centre."""
        return rows.with_values(self.apply(rows.values))

    def undo(self, values: Floats) -> Floats:
        """Convert back to the units of the data."""
        return np.asarray(values * self.step + self.centre)

    def take(self, columns: NDArray[np.intp]) -> Units:
        """Return those of some features."""
        return Units(self.centre[columns], self.step[columns])


def sum_units(rows: SeriesRows) -> dict[str, Floats]:
    """Return the sums that determine `Units`: of measurements, and of products of the steps between them.

    Steps of two features count where they lead from the same row to the same; one over several rows counts as a random
    walk's: products are divided by their number.
    """
    seen = ~np.isnan(rows.values)
    before, _ = neighbours(rows, seen)
    pairs = seen & (before >= 0)
    apart = np.where(pairs, np.arange(len(seen))[:, None] - before, 1)
    earlier = rows.values[before, np.arange(seen.shape[1])]
    steps = np.where(pairs, rows.values - earlier, 0.0) / np.sqrt(apart)
    alike = [pairs & pairs[:, k, None] & (before == before[:, k, None]) for k in range(seen.shape[1])]
    return {
        "counts": seen.sum(axis=0).astype(np.float64),
        "sums": np.where(seen, rows.values, 0.0).sum(axis=0),
        "pairs": np.array([same.sum(axis=0) for same in alike], dtype=np.float64),
        "steps": np.array([(steps * steps[:, k, None] * same).sum(axis=0) for k, same in enumerate(alike)]),
    }


def find_units(counts: Floats, sums: Floats, pairs: Floats, steps: Floats) -> Units:
    """Find units from sums; a feature that never moved has the step 1."""
    centre = sums / np.maximum(counts, 1)
    step = np.sqrt(steps.diagonal() / np.maximum(pairs.diagonal(), 1))
    still = step <= 1e-12 * np.maximum(np.abs(centre), 1e-300)
    return Units(centre, np.where(still, 1.0, step))


@dataclass(frozen=True)
class WindowMoments:
    """Sums of :math:`z z^T`, ``(window, features, window, features)``, and counts of windows with both features.

    Of features that some clients lack, `lacked`, `levels` has the products of all levels in windows that have the
    feature, ``(lacked, features, features)``: with those of windows that lack it they would not say what it has to do
    with the others.
    """

    products: Floats
    counts: Floats
    lacked: NDArray[np.intp] = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    levels: Floats = field(default_factory=lambda: np.zeros((0, 0, 0)))

    @classmethod
    def none(cls, window: int, features: int) -> WindowMoments:
        """Return empty sums."""
        return cls(np.zeros((window, features, window, features)), np.zeros((features, features)))

    def __add__(self, other: WindowMoments) -> WindowMoments:
        lacked = self.lacked if len(self.lacked) else other.lacked
        levels = self.levels_with(lacked) + other.levels_with(lacked)
        return WindowMoments(self.products + other.products, self.counts + other.counts, lacked, levels)

    def __mul__(self, weight: float) -> WindowMoments:
        return WindowMoments(weight * self.products, weight * self.counts, self.lacked, weight * self.levels)

    def levels_with(self, lacked: NDArray[np.intp]) -> Floats:
        """Return products of levels in windows that have a feature, for each of some; sums of one client need none."""
        if len(self.lacked) or not len(lacked):
            return self.levels
        return np.asarray((self.counts[lacked, lacked] != 0)[:, None, None] * self.products[1, :, 1])

    def pack(self) -> Floats:
        """Return the upper triangle of the products, row by row: half the bytes."""
        side = self.products.shape[0] * self.products.shape[1]
        return self.products.reshape(side, side)[np.triu_indices(side)]

    @classmethod
    def unpack(
        cls, triangle: Floats, counts: Floats, lacked: NDArray[np.intp] | None = None, levels: Floats | None = None
    ) -> WindowMoments:
        """Undo `pack`."""
        features, side = len(counts), round((np.sqrt(8 * len(triangle) + 1) - 1) / 2)
        table = np.zeros((side, side))
        table[np.triu_indices(side)] = triangle
        table += np.triu(table, 1).T
        products = table.reshape(side // features, features, side // features, features)
        if lacked is None or levels is None or not len(lacked):
            return cls(products, counts)
        return cls(products, counts, lacked, levels)

    def take(self, columns: NDArray[np.intp]) -> WindowMoments:
        """Return those of some features."""
        kept = np.isin(self.lacked, columns)
        lacked = np.array([np.flatnonzero(columns == place)[0] for place in self.lacked[kept]], dtype=np.intp)
        levels = self.levels[kept][:, columns][..., columns] if len(lacked) else np.zeros((0, 0, 0))
        products = self.products[:, columns][..., columns]
        return WindowMoments(products, self.counts[np.ix_(columns, columns)], lacked, levels)

    def embed(self, columns: NDArray[np.intp], features: int) -> WindowMoments:
        """Embed the sums of one client among more features, of which nothing is known."""
        wide = WindowMoments.none(len(self.products), features)
        inside = wide.products[:, columns]
        inside[..., columns] = self.products
        wide.products[:, columns] = inside
        wide.counts[np.ix_(columns, columns)] = self.counts
        return wide


def sum_windows(rows: SeriesRows, window: int) -> WindowMoments:
    """Sum the windows that end with each row but the first of its piece; rows are in `Units` and have no gaps.

    A window counts as much as the row it ends with.
    """
    features = rows.values.shape[1]
    found = np.zeros((window * features, window * features))
    index = reach(rows, window)
    weights = (rows.weights if len(rows.weights) else np.ones(len(rows.values)))[index[:, 0]]
    for first in range(0, len(index), BATCH):
        batch = slice(first, first + BATCH)
        part = to_steps(rows.values[index[batch]]).reshape(-1, window * features)
        found += (part * weights[batch, None]).T @ part
    return WindowMoments(
        found.reshape(window, features, window, features), np.full((features, features), float(weights.sum()))
    )


def sum_spreads(covariance: Floats, first: int, end: int, window: int) -> Floats:
    """Return what the uncertainty of filled cells adds to the products of windows.

    `covariance` is of the cells of a stretch of rows, 0 for those measured, ``(rows, features, rows, features)``;
    windows end with the rows from `first` to `end`. The result is as `WindowMoments.products`.
    """
    features, many = covariance.shape[1], window - 1
    mixed = np.diff(covariance, axis=2, prepend=covariance[:, :, :1])
    steps = np.diff(mixed, axis=0, prepend=mixed[:1])
    none, room = (0, 0), (window, 0)
    mixed, steps = np.pad(mixed, (none, none, room, none)), np.pad(steps, (room, none, room, none))
    sums, levels = np.zeros((many, many, features, features)), np.zeros((many, features, features))
    ends, back = np.arange(first, end), np.arange(many - 1)
    for lag in range(many):
        sums[0, lag] = steps[ends + window, :, ends + window - lag].sum(axis=0)
        levels[lag] = mixed[ends - 1, :, ends + window - lag].sum(axis=0)
    sums[1:, 0] = sums[0, 1:].swapaxes(1, 2)
    for lag in range(many - 1):
        # A row farther back the same windows gain a row in front and lose one at the end.
        gained, lost = (steps[place + window - 1 - lag, :, place + window - 1 - back] for place in (first, end))
        sums[lag + 1, 1:] = sums[lag, :-1] + gained - lost
    found = np.zeros((window, features, window, features))
    place = np.array([0, *range(2, window)])
    for lag, row in enumerate(place):
        found[row][:, place] = sums[lag].swapaxes(0, 1)
    found[1][:, place] = levels.transpose(1, 0, 2)
    found[place, :, 1] = levels.swapaxes(1, 2)
    found[1, :, 1] = covariance[ends - 1, :, ends - 1].sum(axis=0)
    return found


def reach(rows: SeriesRows, window: int) -> NDArray[np.intp]:
    """Return the rows of each window, the last first, ``(windows, window)``; a piece's first row is repeated."""
    parts = [np.maximum(np.arange(first + 1, end)[:, None] - np.arange(window), first) for first, end in rows.bounds]
    return np.concatenate([np.zeros((0, window), dtype=np.intp), *parts]).astype(np.intp)


def to_steps(windows: Floats) -> Floats:
    """Return the coordinates :math:`z` of windows ``(..., window, features)`` with their last row first."""
    last, before, later = windows[..., :1, :], windows[..., 1:2, :], windows[..., 2:, :]
    return np.concatenate([last - before, before, windows[..., 1:-1, :] - later], axis=-2)
