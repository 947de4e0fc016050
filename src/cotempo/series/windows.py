"""SeriesRows, contiguous pieces of a series; Cover, windows of them and the way back; and Scale, to [-1, 1]."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cotempo.data import Series, Table, read_series
from cotempo.data.clock import LABELS, UNITS, Clock
from cotempo.data.faults import calm
from cotempo.data.series import GAP
from cotempo.errors import DataError, ParameterError, Problem
from cotempo.typing import Floats

SHORTEST = 4
FEWEST_PIECES = 5
PLACES = 8
MEASURED = "at least one cell must be measured, all are missing; leave the column out"

ROUNDING = 2e-6  # seconds by which the step of times since 1970 may be off, as float64
WHOLE_ROWS = 0.01  # how far a duration may be from whole rows, as a share
EXCERPT = 300  # rows of a series that figures show at most


@dataclass(frozen=True)
class SeriesRows:
    """Rows of a series in contiguous pieces, one after the other, ``(rows, features)``, NaN where missing.

    `lengths` says how many rows each piece has, and `clock` when each row was measured, in seconds since 1970; it is
    empty where time is a plain number. `weights` say how much each row counts; empty where all count once.
    """

    values: Floats
    lengths: tuple[int, ...]
    clock: Floats = field(default_factory=lambda: np.zeros(0))
    weights: Floats = field(default_factory=lambda: np.zeros(0))

    @classmethod
    def of(cls, series: Series) -> SeriesRows:
        """Cut a table into its pieces."""
        pieces = [values for _, values in series.pieces()]
        values = np.concatenate([np.zeros((0, len(series.features))), *pieces])
        clock = UNITS[series.unit] * series.time if series.unit else np.zeros(0)
        return cls(values, tuple(map(len, pieces)), clock, series.weights)

    def with_values(self, values: Floats, copies: int = 1) -> SeriesRows:
        """Return other values in the same rows, or in so many copies of them one after the other."""
        return SeriesRows(values, self.lengths * copies, np.tile(self.clock, copies), np.tile(self.weights, copies))

    def calmed(self) -> SeriesRows:
        """Return rows to learn from, as `calm` leaves them."""
        return self.with_values(calm(self.values, [end for _, end in self.bounds]))

    @property
    def bounds(self) -> list[tuple[int, int]]:
        """Return the first row and the end of each piece."""
        return list(pairwise(np.cumsum((0, *self.lengths)).tolist()))

    def starts(self, length: int) -> NDArray[np.int64]:
        """Return where windows begin, inside one piece each."""
        found = [np.arange(first, end - length + 1) for first, end in self.bounds if end - first >= length]
        return np.concatenate([np.zeros(0, dtype=np.int64), *found]).astype(np.int64)

    def windows(self, length: int) -> Floats:
        """Return the windows themselves, ``(windows, length, features)``."""
        return np.asarray(self.values[self.starts(length)[:, None] + np.arange(length)])

    def split(self, share: float, length: int, every: int = 1) -> tuple[SeriesRows, SeriesRows]:
        """Set apart about `share` of the rows, to judge on what is learned from the others.

        Of a piece whose share is a whole window, its end; of shorter pieces, where there are five or more, whole ones,
        evenly spread; of fewer, the end of those that leave a window to each part. With `every` above 1 only one in so
        many is touched, the first of them at least.
        """
        sizes = np.array(self.lengths, dtype=np.intp)
        long = share * sizes >= length
        cuts = np.where(long, np.round(share * sizes), 0).astype(np.intp)
        short = np.flatnonzero(~long)
        if len(short) >= FEWEST_PIECES:
            count = max(1, round(share * len(short) / every))
            chosen = short[((np.arange(count) + 0.5) * len(short) / count).astype(np.intp)]
            cuts[chosen], short = sizes[chosen], short[:0]
        cuts[short] = np.where(sizes[short] >= 2 * length, length, 0)
        ends = np.flatnonzero((cuts > 0) & (cuts < sizes))
        cuts[ends[np.arange(len(ends)) % every > 0]] = 0
        return self.cut(cuts.tolist())

    def cut(self, counts: Sequence[int]) -> tuple[SeriesRows, SeriesRows]:
        """Return rows without the last ones of each piece, so many as `counts` says, and these last ones."""
        borders = [(first, end - count, end) for (first, end), count in zip(self.bounds, counts, strict=True)]
        return self._joined([part[:2] for part in borders]), self._joined([part[1:] for part in borders])

    def halves(self) -> tuple[SeriesRows, SeriesRows]:
        """Return the first and the second half of the rows; a piece that lies across the middle is cut."""
        middle = len(self.values) // 2
        early = [(first, min(end, middle)) for first, end in self.bounds]
        late = [(max(first, middle), end) for first, end in self.bounds]
        return self._joined(early), self._joined(late)

    def _joined(self, spans: list[tuple[int, int]]) -> SeriesRows:
        """Return the rows of some spans, each a piece; those that end before they begin are left out."""
        spans = [(first, end) for first, end in spans if first < end]
        index = np.concatenate([np.zeros(0, dtype=np.intp), *(np.arange(first, end) for first, end in spans)])
        clock, weights = (each[index] if len(each) else each for each in (self.clock, self.weights))
        return SeriesRows(self.values[index], tuple(end - first for first, end in spans), clock, weights)


@dataclass(frozen=True)
class Timing:
    """How rows learned from were stamped: their clock, and the usual seconds between two; 0 where time is a number."""

    clock: Clock = field(default_factory=Clock)
    step: float = 0.0

    @classmethod
    def of(cls, series: Series) -> Timing:
        """Measure a series."""
        return cls(series.clock, usual_step([time * UNITS.get(series.unit, 0.0) for _, time, _ in series.sequences()]))

    def rows(self, count: int) -> Floats:
        """Return times of rows from 0 on: in the unit of dates, as far apart as those learned from; else numbers."""
        step = self.step / UNITS[self.clock.unit] if self.step and self.clock.dates else 1.0
        return np.asarray(np.arange(count) * step, dtype=np.float64)

    @property
    def label(self) -> str:
        """What `rows` counts in."""
        return LABELS[self.clock.unit] if self.step and self.clock.dates else "row"

    def count_rows(self, horizon: Any) -> int:
        """Return so many rows, or those of a duration such as ``"24h"``; raise `ParameterError` where it is neither."""
        if isinstance(horizon, str | timedelta | np.timedelta64) and self.step and self.clock.dates:
            rows = self.clock.duration(horizon) * UNITS[self.clock.unit] / self.step
            if rows < 0.5 or abs(rows - round(rows)) > WHOLE_ROWS * max(rows, 1.0):
                apart = f"{self.step / 3600:g} h apart"
                raise ParameterError(f"horizon must be one or more whole rows, which are {apart}, got {horizon!r}")
            return round(rows)
        need_count("horizon", horizon)
        return int(horizon)

    def match(self, series: Series) -> None:
        """Raise `DataError` where a series has dates with a zone and this has none, or the reverse, or other steps."""
        self.clock.match(series.clock)
        step = Timing.of(series).step
        if self.step and step and not 1 / GAP < step / self.step < GAP:
            learned, given = (f"{seconds / 3600:g} h" for seconds in (self.step, step))
            must = f"rows must be {learned} apart, as those the model learned from, got {given}"
            mend = f"series.regular('{self.step:g}s') adds the rows between, to be filled" if step > self.step else ""
            raise DataError(
                f"{must}; {mend or 'take means over that time with series.resample'}, or learn from such rows"
            )


def need_count(name: str, value: Any) -> None:
    """Raise `ParameterError` unless a value is a whole number of at least 1."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 1:
        raise ParameterError(f"{name} must be a whole number of rows, at least 1, got {value!r}")


def usual_step(times: Sequence[Floats]) -> float:
    """Return the lower median of the steps between times of one sequence, 0 where there are none."""
    steps = np.concatenate([np.zeros(0), *(np.diff(part) for part in times)])
    return float(np.quantile(steps, 0.5, method="lower")) if len(steps) else 0.0


def whole_step(step: float, unit: str) -> float:
    """Return a step in the unit of dates without the rounding of times since 1970, where it is whole milliseconds."""
    size = UNITS.get(unit, 0.0)
    whole = round(step * size, 3)
    return whole / size if whole and abs(step * size - whole) < ROUNDING else step


def excerpt(rows: SeriesRows) -> Floats:
    """Return times and values of the part of the longest piece with most missing cells, ``(rows, 1 + features)``."""
    if not rows.lengths:
        return np.zeros((0, 0))
    first, end = max(rows.bounds, key=lambda bound: bound[1] - bound[0])
    missing = np.isnan(rows.values[first:end]).sum(axis=1)
    counts = np.convolve(missing, np.ones(min(EXCERPT, end - first)), mode="valid")
    first += int(counts.argmax())
    part = slice(first, min(first + EXCERPT, end))
    clock = rows.clock[part] if len(rows.clock) else np.arange(part.stop - part.start, dtype=np.float64)
    return np.column_stack([clock, rows.values[part]])


def as_series(value: Any) -> Series:
    """Return a table as it is, or read a dataframe or a file of one client."""
    if isinstance(value, Series):
        return value
    must, federated = "a model of one owner takes one series", "or learn from all by FedMoments or FedTDD"
    if isinstance(value, Mapping):
        raise DataError(f"{must}, got a dict of {', '.join(map(str, list(value)[:5]))}; take one of them, {federated}")
    if isinstance(value, Table):
        raise DataError(f"{must}, got a table of {value.kind}")
    if isinstance(value, np.ndarray | list | tuple):
        raise DataError(f"{must}, got {type(value).__name__}; use Series.from_arrays(values, time, features)")
    tables = read_series(value)
    if len(tables) != 1:
        raise DataError(f"{must}, got clients {', '.join(list(tables)[:5])}; take one of them, {federated}")
    return next(iter(tables.values()))


def refuse_unseen(features: Sequence[str], values: Floats, must: str = MEASURED) -> None:
    """Raise `DataError` for features without a single measurement."""
    unseen = np.flatnonzero(np.isnan(values).all(axis=0)).tolist()
    if unseen:
        raise DataError([Problem(must, column=features[k]) for k in unseen])


def need_rows(rows: SeriesRows) -> None:
    """Raise `DataError` unless a piece has the rows of the shortest window."""
    longest = max(rows.lengths, default=0)
    if longest < SHORTEST:
        raise DataError(
            f"a contiguous piece must have at least {SHORTEST} rows, the longest has {longest}; close the gaps in time"
        )


def need_many(rows: SeriesRows, minimum: int) -> None:
    """Raise `DataError` where some rows were measured, but fewer than `minimum`: their sums would tell them."""
    count = int((~np.isnan(rows.values)).any(axis=1).sum())
    if 0 < count < minimum:
        raise DataError(
            f"sums must be over at least {minimum} rows, here over {count}: a few tell themselves; "
            "leave this client out, or give a smaller minimum_rows"
        )


def windows_of(rows: SeriesRows, length: int) -> Floats:
    """Return all windows of a length, ``(windows, length, features)``.

    A piece shorter than that is seen at several places of a window whose other rows are missing.
    """
    return Cover(rows, length, 1, max(1, length // PLACES)).windows(rows.values)


class Cover:
    """Windows that cover every row of some pieces, and the way back.

    Windows are `stride` rows apart, and the last one ends with the piece. Of a piece that is shorter than they are, the
    first ends with it, the last begins with it, and they are `shift` rows apart (`stride` when left out).
    """

    def __init__(self, rows: SeriesRows, length: int, stride: int, shift: int | None = None):
        starts, pieces = [], []
        for piece, (first, end) in enumerate(rows.bounds):
            low, high = sorted((first, end - length))
            step = stride if low == first else shift or stride
            places = [*range(low, high, step), high]
            starts += places
            pieces += [piece] * len(places)
        bounds = np.array(rows.bounds, dtype=np.intp).reshape(-1, 2)
        firsts, ends = bounds[np.array(pieces, dtype=np.intp)].T[..., None]
        reach = np.array(starts, dtype=np.intp).reshape(-1, 1) + np.arange(length)
        self.inside = (reach >= firsts) & (reach < ends)
        self.index = np.clip(reach, firsts, ends - 1)
        ramp = np.minimum(np.arange(1, length + 1), np.arange(length, 0, -1)).astype(np.float64)
        self.weight = np.where(self.inside, ramp, 0.0)
        self.total = np.zeros(len(rows.values))
        np.add.at(self.total, self.index, self.weight)

    def take(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the windows of rows ``(rows, ...)``; beyond a short piece its first and last rows are repeated."""
        return np.asarray(values[self.index])

    def windows(self, values: Floats) -> Floats:
        """Return the same as `take`, with missing rows beyond a short piece."""
        return np.where(self.inside[..., None], self.take(values), np.nan)

    def blend(self, windows: Floats) -> Floats:
        """Blend windows to rows, a cell counting more the farther it is from a window's edge."""
        heavy = (self.weight[..., None] * windows).reshape(self.index.size, -1)
        index, count = self.index.ravel(), len(self.total)
        sums = [np.bincount(index, column, minlength=count) for column in heavy.T]
        return np.asarray(np.stack(sums, axis=-1) / self.total[:, None])


@dataclass(frozen=True)
class Scale:
    r"""What maps each feature to [-1, 1].

    .. math:: z = 2 \frac{x - \mathrm{low}}{\mathrm{high} - \mathrm{low}} - 1

    `low` and `high` are the smallest and largest value of each feature, ``(features,)``, both 0.5 off for a constant
    one; `centre` and `spread` are mean and deviation in the new units: the best guess of what was not seen, its error.

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
