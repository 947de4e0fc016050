"""Season: a cycle by the clock that is removed before filling and added back after it."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cotempo.errors import DataError
from cotempo.series.filling.gaps import BESIDE, EMPTY, interpolate_rows
from cotempo.series.filling.gates import prove
from cotempo.series.filling.stages import Filler
from cotempo.series.settings import SeriesSettings
from cotempo.series.windows import Scale, SeriesRows
from cotempo.typing import Floats

LONGEST_PERIOD, FEWEST_CYCLES = 400, 20
LEAST_EXPLAINED, NEARLY_MOST = 0.02, 0.95
PRIOR_ROWS = 5
OUTLIER = 5.0
MOST_STEPS = 20_000


@dataclass(frozen=True)
class Season:
    """The deviation of each feature from its mean at each place of a cycle.

    `levels` are ``(period, features)``, in the units of the data; a single row of zeros where there is no cycle. `step`
    is the time between rows, and `origin` the time of a first place: rows may be stamped anywhere in a step.
    """

    step: float
    levels: Floats
    origin: float = 0.0

    def at(self, clock: Floats) -> Floats:
        """Return the cycle at some times, ``(rows, features)``; `DataError` where time is a plain number."""
        if not len(clock) and self.levels.any():
            raise DataError("time must have a unit, as the series had that was learned from: it has a season")
        if not len(clock):
            return self.levels[:1]
        return np.asarray(self.levels[_places(clock, self.step, self.origin) % len(self.levels)])

    def remove(self, rows: SeriesRows) -> SeriesRows:
        """Remove the cycle from rows."""
        return rows.with_values(rows.values - self.at(rows.clock))


def find_season(kept: SeriesRows, held: SeriesRows, settings: SeriesSettings, stream: np.random.Generator) -> Season:
    """Find the cycle that explains most of the steps from row to row, for the features where held-out rows prove it.

    Steps, as trends would look like long cycles. Adjusted shares of variance are compared, of all lengths up to 400
    rows that were gone through twenty times. Where time is a plain number, it may begin anywhere, and there is none.
    """
    season = _fit(kept, stream)
    if len(season.levels) == 1 or not len(held.values):
        return replace(season, levels=0 * season.levels[:1])
    scale = Scale.of(kept.values)
    # Lines through what was measured, beside lines through what the season leaves of it.
    filler, _ = prove(Filler.closed(scale, (_Lines(season, scale),)), held, settings, stream)
    proven = filler.gates[:, [EMPTY, BESIDE], 0].any(axis=1)
    return replace(season, levels=season.levels * proven)


def _fit(rows: SeriesRows, stream: np.random.Generator) -> Season:
    """Fit the shortest cycle with nearly the largest adjusted share of explained variance."""
    none = Season(1.0, np.zeros((1, rows.values.shape[1])))
    if not len(rows.clock):
        return none
    before, after = (np.concatenate([np.arange(a + k, b - 1 + k) for a, b in rows.bounds]) for k in (0, 1))
    if len(before) < 2 * FEWEST_CYCLES:
        return none
    step = float(np.median(rows.clock[after] - rows.clock[before]))
    turns = np.exp(2j * np.pi * (rows.clock / step % 1))
    origin = step * float(np.angle(turns.mean())) / (2 * np.pi)
    place, moves = _places(rows.clock[before], step, origin), rows.values[after] - rows.values[before]
    seen = ~np.isnan(moves)
    size = np.sqrt(np.nansum(moves**2, axis=0) / np.maximum(seen.sum(axis=0), 1))
    clipped = np.where(seen, np.clip(np.nan_to_num(moves) / np.where(size > 0, size, 1.0), -OUTLIER, OUTLIER), 0.0)
    clipped = np.where(seen, clipped - clipped.sum(axis=0) / np.maximum(seen.sum(axis=0), 1), 0.0)
    chosen = np.sort(stream.permutation(len(clipped))[:MOST_STEPS])
    shares = {
        period: _explained(place[chosen] % period, clipped[chosen], seen[chosen], period)
        for period in range(2, min(LONGEST_PERIOD, len(chosen) // FEWEST_CYCLES) + 1)
    }
    most = max(shares.values(), default=0.0)
    if most < LEAST_EXPLAINED:
        return none
    # Multiples of a period explain as much.
    best = min(period for period, share in shares.items() if share >= NEARLY_MOST * most)
    sums, counts = _by_phase(place % best, clipped, best), _by_phase(place % best, seen.astype(float), best)
    means = sums / (counts + PRIOR_ROWS)
    levels = np.cumsum(means - means.mean(axis=0), axis=0)
    levels = np.concatenate([levels[-1:], levels[:-1]])
    return Season(step, (levels - levels.mean(axis=0)) * size, origin)


def _places(clock: Floats, step: float, origin: float) -> NDArray[np.int64]:
    """Return steps since the origin, halves upwards: neighbours never share a place."""
    return np.floor((clock - origin) / step + 0.5).astype(np.int64)


def _explained(phase: NDArray[np.int64], moves: Floats, seen: NDArray[np.bool_], period: int) -> float:
    """Return the adjusted share of the variance of steps that means by phase explain, averaged over features."""
    sums, counts = _by_phase(phase, moves, period), _by_phase(phase, seen.astype(float), period)
    total, count = (moves**2).sum(axis=0), seen.sum(axis=0)
    left = total - (sums**2 / np.maximum(counts, 1)).sum(axis=0)
    free = np.maximum(count - (counts > 0).sum(axis=0), 1)
    return float(
        np.where(total > 0, 1 - left / free * np.maximum(count - 1, 1) / np.where(total > 0, total, 1), 0).mean()
    )


def _by_phase(phase: NDArray[np.int64], values: Floats, period: int) -> Floats:
    return np.stack([np.bincount(phase, column, minlength=period) for column in values.T], axis=1)


@dataclass(frozen=True)
class _Lines:
    """A stage: interpolation of what a season leaves."""

    season: Season
    scale: Scale
    names: tuple[str, ...] = ("season",)

    def fill(self, rows: SeriesRows, settings: SeriesSettings) -> Floats:
        """Interpolate scaled rows."""
        level = 2 * self.season.at(rows.clock) / (self.scale.high - self.scale.low)
        return (interpolate_rows(rows.with_values(rows.values - level), self.scale.centre) + level)[None]
