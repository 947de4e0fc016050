"""Scale: every feature to [-1, 1], the common ones by the public data, so that all clients have the same units."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cotempo.series.windows import SeriesRows
from cotempo.typing import Floats


def nearest_correlation(table: Floats, floor: float) -> Floats:
    """Raise the eigenvalues of a symmetric matrix to a floor, and scale its diagonal to 1."""
    values, axes = np.linalg.eigh(table)
    near = (axes * np.maximum(values, floor)) @ axes.T
    scale = np.sqrt(near.diagonal())
    return np.asarray(near / np.outer(scale, scale))


@dataclass(frozen=True)
class Scale:
    r"""What maps each feature to [-1, 1].

    .. math:: z = 2 \frac{x - \mathrm{low}}{\mathrm{high} - \mathrm{low}} - 1

    Attributes
    ----------
    low, high
        Smallest and largest value of each feature, ``(features,)``. A constant feature has both 0.5 off its value.
    centre, spread
        Mean and standard deviation in the new units: the best guess where nothing was seen, and its error.

    Examples
    --------
    >>> scale = Scale.of(np.array([[0.0], [5.0], [10.0]]))
    >>> scale.apply(np.array([[2.5]])).tolist(), scale.undo(np.array([[-0.5]])).tolist()
    ([[-0.5]], [[2.5]])
    """

    low: Floats
    high: Floats
    centre: Floats
    spread: Floats

    @classmethod
    def of(cls, values: Floats) -> Scale:
        """Measure a scale on rows with NaN where missing; a feature never seen gets the scale [-1, 1]."""
        seen = ~np.isnan(values)
        known = seen.any(axis=0)
        low = np.where(known, np.where(seen, values, np.inf).min(axis=0, initial=np.inf), -1.0)
        high = np.where(known, np.where(seen, values, -np.inf).max(axis=0, initial=-np.inf), 1.0)
        flat = high - low <= 1e-12 * np.maximum(np.abs(low), np.abs(high))
        low, high = np.where(flat, low - 0.5, low), np.where(flat, high + 0.5, high)
        bare = cls(low, high, np.zeros(len(low)), np.ones(len(low)))
        scaled = np.where(seen, bare.apply(values), 0.0)
        count = np.maximum(seen.sum(axis=0), 1)
        centre = scaled.sum(axis=0) / count
        spread = np.sqrt((np.where(seen, scaled - centre, 0.0) ** 2).sum(axis=0) / count)
        return cls(low, high, centre, np.where(spread > 1e-6, spread, 1.0))

    def apply(self, values: Floats) -> Floats:
        """Scale to [-1, 1]; values outside the measured range land outside it."""
        return np.asarray(2 * (values - self.low) / (self.high - self.low) - 1)

    def rows(self, rows: SeriesRows) -> SeriesRows:
        """Scale rows."""
        return rows.with_values(self.apply(rows.values))

    def undo(self, values: Floats) -> Floats:
        """Convert back to the units of the data."""
        return np.asarray((np.asarray(values, dtype=np.float64) + 1) / 2 * (self.high - self.low) + self.low)

    def take(self, columns: NDArray[np.intp]) -> Scale:
        """Return the scale of some of the features."""
        return Scale(**{name: part[columns] for name, part in vars(self).items()})

    def replace(self, columns: NDArray[np.intp], other: Scale) -> Scale:
        """Return this scale with another one's in some columns."""
        found = Scale(**{name: part.copy() for name, part in vars(self).items()})
        for name, part in vars(other).items():
            getattr(found, name)[columns] = part
        return found
