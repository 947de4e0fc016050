"""`Series`: values of several features over time, with missing cells."""

import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cotempo.data.clock import UNITS, Clock
from cotempo.data.description import ClientDescription, step_text
from cotempo.data.faults import find_stuck, say_counter, say_far_off, spikes, stuck_cells
from cotempo.data.problems import Problems, duplicates
from cotempo.data.tables import Schema, Table, numbered, part_bounds, pluralize, runs_of
from cotempo.errors import DataError, nearest
from cotempo.typing import Floats, Indices

GAP = 1.5
SPREAD = 0.5
OFF_GRID = 0.25
MOST_ROWS_PER_ROW = 1000
#: Steps below this share of the usual one make a series uneven if so many of all are.
SHORT_STEP, MANY_SHORT = 0.6, 0.1
FEWEST_STEPS = 10
MONTHS = "jan|feb|mar|mrz|apr|may|mai|jun|jul|aug|sep|sept|oct|okt|nov|dec|dez"
#: What a spreadsheet makes of MARCH1 and SEPT1.
DATE_AS_NAME = re.compile(
    rf"\d{{1,2}}[-. ]+({MONTHS})[a-z]*\.?|({MONTHS})[a-z]*[-. ]+\d{{1,4}}|\d{{4}}-\d\d-\d\d([ T].*)?", re.IGNORECASE
)
OUTSIDE = "Set from outside, such as a gene knocked out? Then empty these cells."

Some = TypeVar("Some", bound="Series")


@dataclass(frozen=True, eq=False, repr=False)
class Series(Table):
    """One client's series, sorted by sequence and time.

    Parameters
    ----------
    features
        Names of the columns of `values`.
    sequence
        Name of each row's sequence, ``(rows,)``.
    time
        Time of each row, strictly increasing inside a sequence, ``(rows,)``.
    values
        Measurements, NaN where missing, ``(rows, features)``.
    unit
        ``"s"``, ``"h"`` or ``"D"`` since 1970-01-01 UTC; empty where time is a plain number.
    zone
        The time zone of the dates, such as ``"Europe/Berlin"`` or ``"+01:00"``; empty where they came without one.
    weights
        How much each row counts in sums of products, ``(rows,)``; empty where all count once. See `weigh_rows`.

    Examples
    --------
    >>> series = Series.from_arrays([[1.0, 2.0], [1.5, float("nan")]], features=("pulse", "pressure"))
    >>> series
    Series(2 rows, 1 sequence, features pulse, pressure)
    """

    features: tuple[str, ...]
    sequence: NDArray[np.str_]
    time: Floats
    values: Floats
    unit: str = ""
    zone: str = ""
    weights: Floats = field(default_factory=lambda: np.zeros(0))
    kind: ClassVar[str] = "series"
    columns_are: ClassVar[str] = "features"
    row_fields: ClassVar[tuple[str, ...]] = ("sequence", "time", "values")

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", tuple(map(str, self.features)))
        self._own(sequence=np.str_, time=np.float64, values=np.float64, weights=np.float64)
        _check(self)

    @classmethod
    def from_arrays(
        cls,
        values: ArrayLike | Sequence[ArrayLike],
        time: ArrayLike | Sequence[ArrayLike] | None = None,
        features: Sequence[str] | None = None,
        unit: str = "",
        zone: str = "",
    ) -> Self:
        """Build a table from one ``(rows, features)`` array, or from a list of them: several sequences.

        Parameters
        ----------
        values
            One array, or a list of two-dimensional arrays.
        time
            Times of the rows, numbers or dates, one array or one per sequence, increasing; by default 0, 1, 2, ...
        features
            Names of the columns; by default ``x0``, ``x1``, ...
        unit, zone
            The unit of `time`, and the zone its dates are shown in.
        """
        several = isinstance(values, list | tuple) and len(values) > 0 and all(np.ndim(part) == 2 for part in values)
        parts = [np.asarray(part, dtype=np.float64) for part in (values if several else [values])]  # type: ignore[union-attr]
        if parts[0].ndim != 2:
            got = f"{parts[0].ndim} dimensions; pass values[:, None] for one feature"
            raise DataError(f"values must be (rows, features), got {got}")
        if time is None:
            times = [np.arange(len(part), dtype=np.float64) for part in parts]
        else:
            times = [Clock(unit, zone).numbers(part) for part in (time if several else [time])]  # type: ignore[union-attr]
        if [len(part) for part in parts] != [len(part) for part in times]:
            raise DataError("time must have one entry for each row of values, in every sequence")
        if len({part.shape[1] for part in parts}) != 1:
            raise DataError("all sequences must have the same features; pass arrays with equally many columns")
        names = np.repeat(numbered(len(parts)), [len(part) for part in parts])
        labels = features if features is not None else [f"x{index}" for index in range(parts[0].shape[1])]
        return cls(tuple(labels), names, np.concatenate(times), np.concatenate(parts), unit, zone)

    @property
    def schema(self) -> Schema:
        """Kind, features, unit and zone."""
        return Schema(self.kind, self.features, self.unit, self.zone)

    @cached_property
    def _runs(self) -> list[tuple[str, slice]]:
        """The name and the rows of each sequence."""
        return list(runs_of(self.sequence))

    @property
    def row_weights(self) -> Floats:
        """How much each row counts, ``(rows,)``."""
        return self.weights if len(self.weights) else np.ones(len(self.time))

    def weigh_rows(self, stream: np.random.Generator) -> Self:
        """Return the series with random weights of its rows, for an owner who keeps the stream secret.

        Sums of products at two lags differ by products of the first and last rows of a piece, which gives these rows
        back exactly. With weights that nobody else knows they differ by a mixture of all rows. Weights lie between a
        half and one and a half and are one on average, so that sums stay unbiased; they are worth 12 of 13 rows.

        Examples
        --------
        >>> series = Series.from_arrays(np.zeros((3, 1))).weigh_rows(np.random.default_rng(0))
        >>> bool((np.abs(series.weights - 1) <= 0.5).all())
        True
        """
        return replace(self, weights=1.0 + SPREAD * stream.uniform(-1.0, 1.0, self.rows))

    def sequences(self) -> Iterator[tuple[str, Floats, Floats]]:
        """Yield ``(name, time, values)`` of each sequence."""
        for name, rows in self._runs:
            yield name, self.time[rows], self.values[rows]

    def pieces(self) -> list[tuple[Floats, Floats]]:
        """Return ``(time, values)`` of contiguous pieces.

        A piece ends with its sequence and at a gap: a step longer than 1.5 times the median step of the sequence.

        Examples
        --------
        >>> series = Series.from_arrays([[1.0], [2.0], [3.0], [4.0]], time=[0, 1, 2, 9])
        >>> [len(time) for time, _ in series.pieces()]
        [3, 1]
        """
        found = []
        for _, time, values in self.sequences():
            cuts = gaps(time)
            found += list(zip(np.split(time, cuts), np.split(values, cuts), strict=True))
        return found

    @property
    def step(self) -> float:
        """The usual seconds between two rows of a sequence, the lower median; 0 where time is a plain number."""
        return self.usual_step * UNITS.get(self.unit, 0.0)

    @property
    def usual_step(self) -> float:
        """The usual time between two rows of a sequence in the table's unit, the lower median; 0 without two rows."""
        steps = np.concatenate([np.zeros(0), *(np.diff(time) for _, time, _ in self.sequences())])
        return float(np.quantile(steps, 0.5, method="lower")) if len(steps) else 0.0

    def regular(self, step: Any = None) -> Self:
        """Return the series on a regular grid: rows that are missing inside a sequence are added, without values.

        Parameters
        ----------
        step
            Time between two rows, a number in the table's unit or, where times are dates, a duration such as ``"1h"``;
            by default the median step of each sequence.

        Examples
        --------
        >>> Series.from_arrays([[1.0], [2.0], [5.0]], time=[0, 1, 4]).regular().values.ravel().tolist()
        [1.0, 2.0, nan, nan, 5.0]
        """
        size = None if step is None else self.clock.duration(step)
        found = [_fill(name, time, values, size) for name, time, values in self.sequences()]
        if not found:
            return self
        names = np.repeat([name for name, _, _ in self.sequences()], [len(time) for time, _ in found])
        times, values = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return replace(self, sequence=names, time=times, values=values, weights=np.zeros(0))

    def resample(self, step: Any) -> Self:
        """Return means over bins of time, one row for each, stamped with its beginning; missing where a bin is empty.

        Bins begin at multiples of `step` since 1970-01-01 UTC, or since 0 where time is a plain number.

        Parameters
        ----------
        step
            Length of a bin, a number in the table's unit or, where times are dates, a duration such as ``"1h"``.

        Examples
        --------
        >>> Series.from_arrays([[1.0], [3.0], [5.0]], time=[0, 1, 4]).resample(2).values.ravel().tolist()
        [2.0, nan, 5.0]
        """
        table = bin_means(self, step)
        columns = zip(self.features, self.values.T, table.values.T, strict=True)
        shares = [name for name, values, means in columns if _mixed(values, means)]
        if shares:
            warnings.warn(
                f"means of columns that hold 0 and 1 only are shares, and no on/off: {', '.join(shares)}; "
                "round them if they must stay so",
                stacklevel=2,
            )
        return table

    def _picked(self, rows: ArrayLike) -> dict[str, Any]:
        weights = {"weights": self.row_weights[np.asarray(rows)]} if len(self.weights) else {}
        return super()._picked(rows) | weights

    def columns(self) -> dict[str, Any]:
        """Return ``sequence``, ``time`` and the features, by name."""
        parts = {name: self.values[:, index] for index, name in enumerate(self.features)}
        return {"sequence": self.sequence, "time": self.time, **parts}

    def select(self, rows: ArrayLike | None = None, *, features: Sequence[str] | None = None) -> Self:
        """Return the chosen rows (a mask, or positions in rising order), or all, of the named features, or all.

        Examples
        --------
        >>> series = Series.from_arrays([[1.0, 2.0], [1.5, 3.0]], features=("pulse", "pressure"))
        >>> series.select([1], features=["pressure"]).values.tolist()
        [[3.0]]
        """
        chosen = np.arange(self.rows) if rows is None else np.asarray(rows, dtype=None if np.size(rows) else np.intp)
        if chosen.dtype.kind not in "iub":
            raise DataError(f"rows must be a mask or positions, got {rows!r}; choose columns by features=")
        table = super().select(chosen)
        if features is None:
            return table
        for name in features:
            if name not in self.features:
                raise DataError(f"the series must have the feature {name!r}{nearest(name, self.features)}")
        places = [self.features.index(name) for name in features]
        return replace(table, features=tuple(features), values=table.values[:, places])

    def split_by_time(self, shares: Floats) -> tuple[Self, ...]:
        """Cut every sequence at fractions of its number of rows."""
        bounds = [rows.start + part_bounds(shares, rows.stop - rows.start) for _, rows in self._runs]
        pieces = [[np.arange(bound[part], bound[part + 1]) for bound in bounds] for part in range(len(shares))]
        return tuple(self.select(np.concatenate([np.zeros(0, dtype=np.intp), *piece])) for piece in pieces)

    def sequence_names(self) -> list[str]:
        """Return the names of the sequences, sorted."""
        return [name for name, _ in self._runs]

    def take(self, units: ArrayLike) -> Self:
        """Return the sequences at these positions, in the order of the table."""
        names = np.array(self.sequence_names(), dtype=np.str_)[np.asarray(units, dtype=np.intp)]
        return self.select(np.isin(self.sequence, names))

    def describe(self, client: str = "client") -> ClientDescription:
        """Return sizes, time, gaps and missing cells, with a warning for odd sequences and features."""
        parts = list(self.sequences())
        single = sum(len(time) == 1 for _, time, _ in parts)
        warnings = [f"{pluralize(single, 'sequence')} of one row"] if single else []
        warnings += self.faults()
        warnings += [
            f"column {name!r} is a date: did a spreadsheet change a name such as MARCH1 or SEPT1? "
            f"rename it, columns={{'SEPT1': {name!r}}}"
            for name in self.features
            if DATE_AS_NAME.fullmatch(name.strip())
        ]
        empty = np.flatnonzero(np.isnan(self.values).all(axis=0)).tolist()
        warnings += [f"column {self.features[place]!r} is missing in all rows" for place in empty]
        start, end = self.span(self.time.min(), self.time.max()) if self.rows else (None, None)
        missing = float(np.isnan(self.values).mean()) if self.rows else None
        breaks = sum(len(gaps(time)) for _, time, _ in parts)
        return ClientDescription(
            client, self.rows, len(parts), start, end, breaks, missing, warnings=tuple(warnings), step=self.step or None
        )

    def faults(self) -> list[str]:
        """Return in words where steps are uneven, columns constant, stuck or counters, or values far off."""
        stuck, found = self.say_stuck(), self._say_uneven()
        for feature, values in zip(self.features, self.values.T, strict=True):
            found += [f"column {feature!r} is {words}" for words in (*_say_constant(values), *say_far_off(values))]
            found += [f"{each} {OUTSIDE}" for each in stuck.get(feature, ())]
            if grows := say_counter(values, self._ends):
                mend = "what is filled or forecast of it means nothing, nor do means over a reset"
                found.append(f"column {feature!r} {grows}: a counter? {mend}; leave it out, or give differences")
        return found

    def _say_uneven(self) -> list[str]:
        """Return in words that many steps are far shorter than the usual one; longer ones are gaps, and cut."""
        steps = np.concatenate([np.zeros(0), *(np.diff(time) for _, time, _ in self.sequences())])
        if len(steps) < FEWEST_STEPS:
            return []
        usual = float(np.median(steps))
        short = steps[steps < SHORT_STEP * usual]
        if len(short) < MANY_SHORT * len(steps):
            return []
        least, share = float(np.quantile(short, 0.5, method="lower")), len(short) / len(steps)
        few, many = (self._length_text(step) for step in (least, usual))
        mend = f"means over equal times, resample={many[1]} in reading"
        if not len(_off_grid(steps, least)):
            mend = f"table.regular(step={few[1]}), or resample={few[1]} in reading"
        about = f"{share:.0%} of the steps are about {few[0]}, where {many[0]} is usual"
        return [f"{about}: rows are taken for equally far apart; pass {mend}"]

    def _length_text(self, length: float) -> tuple[str, str]:
        """Return a length of time in words, and as an argument."""
        text = step_text(length * UNITS[self.unit]) if self.unit else f"{length:g}"
        return text, f'"{text.replace(" ", "")}"' if self.unit else text

    def say_stuck(self) -> dict[str, list[str]]:
        """Return in words, by feature, where a column repeats one value for long."""
        found: dict[str, list[str]] = {}
        for feature, values in zip(self.features, self.values.T, strict=True):
            for stuck in find_stuck(values, self._ends):
                first, last = (
                    part if isinstance(part, str) else f"{part:.12g}"
                    for part in self.span(self.time[stuck.first], self.time[stuck.last])
                )
                same = f"the same {stuck.value:g} in {stuck.rows:,} rows, from {first} to {last}"
                found.setdefault(feature, []).append(f"column {feature!r} is {same}: a stuck sensor?")
        return found

    def without_stuck(self) -> Self:
        """Return the table with the cells in which a column repeats one value for long missing, but for the first."""
        return replace(self, values=np.where(stuck_cells(self.values, self._ends), np.nan, self.values))

    def without_spikes(self) -> Self:
        """Return the table with values that are far from all others, for a few rows, missing."""
        return replace(self, values=np.where(spikes(self.values, self._ends), np.nan, self.values))

    @property
    def _ends(self) -> list[int]:
        """Return the row after the last of each sequence."""
        return [rows.stop for _, rows in self._runs]

    def with_markers(self, number: int) -> tuple[Self, list[float | str]]:
        """Return the table with many-digit numbers in three rows, and all numbers of over six decimals in it.

        They are the first, the middle and the last row; the numbers lie inside the range of each feature.
        """
        values = self.values.copy()
        low, high = np.nanmin(values, axis=0), np.nanmax(values, axis=0)
        for place, row in enumerate({0, len(values) // 2, len(values) - 1}):
            values[row] = low + (high - low) * (0.412356789123457 + 0.01 * number + 0.1 * place)
        found = np.concatenate([values[np.isfinite(values)], self.time])
        return replace(self, values=values), found[np.round(found, 6) != found].tolist()

    def __repr__(self) -> str:
        unit = f", unit {self.unit}" if self.unit else ""
        size = f"{pluralize(self.rows, 'row')}, {pluralize(len(self.sequence_names()), 'sequence')}"
        return f"Series({size}, features {', '.join(self.features)}{unit})"


def gaps(time: Floats) -> Indices:
    """Return the positions that follow a gap: a step over 1.5 times the median step."""
    steps = np.diff(time)
    return np.flatnonzero(steps > GAP * np.median(steps)) + 1 if len(steps) else np.zeros(0, dtype=np.intp)


def bin_means(series: Some, step: Any) -> Some:
    """Return means over bins of time, as `Series.resample` does."""
    size, parts = series.clock.duration(step), []
    for name, time, values in series.sequences():
        place = np.floor(time / size * (1 + 1e-12)).astype(np.int64)
        bins = np.arange(place[0], place[-1] + 1) if len(place) else place
        if len(bins) > MOST_ROWS_PER_ROW * max(len(time), 1):
            got = f"{len(bins):,} for {pluralize(len(time), 'row')} of {name!r}"
            raise DataError(f"bins must be at most {MOST_ROWS_PER_ROW:,} times as many as rows, got {got}")
        sums, counts = np.zeros((2, len(bins), len(series.features)))
        np.add.at(sums, place - bins[0], np.nan_to_num(values))
        np.add.at(counts, place - bins[0], ~np.isnan(values))
        means = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
        parts.append((np.full(len(bins), name), bins * size, means))
    if not parts:
        return series
    names, times, found = (np.concatenate(each) for each in zip(*parts, strict=True))
    return replace(series, sequence=names, time=times, values=found, weights=np.zeros(0))


def _mixed(values: Floats, means: Floats) -> bool:
    """Return whether values are 0 and 1 only, and their means others as well."""
    return bool((np.isin(values, (0, 1)) | np.isnan(values)).all() and ((means > 0) & (means < 1)).any())


def _fill(name: str, time: Floats, values: Floats, step: float | None) -> tuple[Floats, Floats]:
    """Return times and values of a sequence with its missing rows; known rows keep their times."""
    if len(time) < 2:
        return time, values
    steps = np.diff(time)
    # The lower median: of a step and a gap it is the step.
    usual = float(np.quantile(steps, 0.5, method="lower")) if step is None else step
    counts = np.round(steps / usual).astype(np.intp)
    if odd := len(_off_grid(steps, usual)):
        must = f"steps of time must be multiples of {usual:g}, or near them, got {pluralize(odd, 'other')} in {name!r}"
        raise DataError(f"{must}; round or resample the times first, or pass another step=")
    rows = np.append(0, np.cumsum(counts))
    if rows[-1] > MOST_ROWS_PER_ROW * len(time):
        got = f"{rows[-1] + 1:,} for {pluralize(len(time), 'row')} of {name!r}"
        raise DataError(f"a grid must have at most {MOST_ROWS_PER_ROW:,} times as many rows, got {got}; pass step=")
    times = np.interp(np.arange(rows[-1] + 1), rows, time)
    filled = np.full((len(times), values.shape[1]), np.nan)
    filled[rows] = values
    return times, filled


def _say_constant(values: Floats) -> list[str]:
    known = values[~np.isnan(values)]
    return ["constant"] if len(values) > 1 and len(known) and known.min() == known.max() else []


def _off_grid(steps: Floats, usual: float) -> Floats:
    """Return the steps that are no multiples of a usual one, nor near them."""
    counts = np.round(steps / usual)
    return np.asarray(steps[(np.abs(steps / usual - counts) > OFF_GRID) | (counts < 1)])


def _check(series: Series) -> None:
    problems = Problems()
    rows, features = len(series.time), len(series.features)
    if series.values.shape != (rows, features) or series.sequence.shape != (rows,):
        got = f"{series.values.shape} and {series.sequence.shape}"
        raise DataError(f"values must be (rows, features) = ({rows}, {features}) and sequence ({rows},), got {got}")
    if series.weights.shape not in ((0,), (rows,)):
        raise DataError(f"weights must be one for each of the {rows} rows, or none, got shape {series.weights.shape}")
    for name in duplicates(series.features):
        problems.add("feature names must differ; rename one of them", column=name)
    if features == 0:
        problems.add("a series must have at least one feature")
    if not np.isfinite(series.time).all():
        problems.add("time must be finite in every row", column="time")
    if np.isinf(series.values).any():
        problems.add("values must be finite, or NaN where they are missing")
    names = series.sequence_names()
    if len(set(names)) != len(names) or names != sorted(names):
        problems.add("rows must be sorted by the name of their sequence", column="sequence")
    for name, part in series._runs:
        if (np.diff(series.time[part]) <= 0).any():
            problems.add(f"time must increase strictly inside sequence {name!r}; sort the rows", column="time")
    problems.raise_any()
