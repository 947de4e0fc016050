"""Fitted models of series: `SeriesModel` of one owner, and `FittedFedTDD` of a federation."""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cotempo.data import Series
from cotempo.data.faults import say_unlike
from cotempo.data.html import html_table
from cotempo.data.tables import numbered, pluralize
from cotempo.errors import DataError, ParameterError, Problem, nearest, warn
from cotempo.federation import Fitted, Rng, plus_minus
from cotempo.series.filling.ahead import LEVELS
from cotempo.series.filling.calibration import FEWEST_CELLS, Calibration
from cotempo.series.filling.limits import Limits
from cotempo.series.filling.stages import Fills
from cotempo.series.imputed import Forecast, Imputed
from cotempo.series.settings import SeriesSettings
from cotempo.series.windows import Cover, Scale, SeriesRows, Timing, as_series, need_count, usual_step, whole_step
from cotempo.storage.saved import Saved
from cotempo.typing import Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from cotempo.series.comparison import Comparison
    from cotempo.series.release import Released

ONE_DEVIATION = 0.6827
MOST_SHOWN = 8  # clients in a report
HISTORY = 10  # windows before its end that a forecast looks at
FEWEST_DRAWS = 20


class FilledRows(NamedTuple):
    """Filled rows, half the width of intervals ``(levels, rows, features)``, and draws ``(draws, rows, features)``."""

    values: Floats
    widths: Floats
    draws: Floats | None


@dataclass(frozen=True, eq=False, repr=False)
class FittedSeries(Saved, ABC):
    """A fitted model of one owner's series: it imputes, forecasts and samples.

    Attributes
    ----------
    features
        Names of the features, in the order of the owner's table.
    order
        Position of the model's features, in its own order, among them.
    window
        Rows of a generated window.
    calibration
        Widths of intervals.
    timing
        How the rows learned from were stamped; other tables must be stamped alike.
    """

    features: tuple[str, ...]
    order: NDArray[np.intp]
    window: int
    calibration: Calibration
    timing: Timing

    def impute(
        self,
        series: Any,
        draws: int = 1,
        *,
        level: float | Sequence[float] = 0.9,
        seed: int = 0,
        fill_stuck: bool = False,
    ) -> Imputed:
        """Return the same table without gaps: missing cells are filled, and so are rows missing on a regular grid.

        Values stay within the ends of a range that a feature often reaches and never passes, such as 0 of a flow, and
        one with two values, such as on and off, gets one of them.
        Where a sensor is stuck, which is warned of, its cells tell nothing of the others, as they do not in learning;
        nor does a spike, far from all other values for a few rows, which is kept.

        Parameters
        ----------
        series
            A table, or a dataframe of one client, with this model's features in any order.
        draws
            With more than one, the filling is accompanied by so many draws around it.
        level
            Probability with which an interval holds a missing cell, at most .995; several at once as a list; an empty
            one for no intervals.
        seed
            Of the draws.
        fill_stuck
            Whether cells of a stuck sensor are filled, too, but for the first; else they are kept as they are.
        """
        levels = self._check(draws, level)
        table = self.table(series)
        columns, told = (
            self.columns(table),
            believed(table, "filled" if fill_stuck else "kept; fill_stuck=True fills them"),
        )
        table = told if fill_stuck else table
        warn_of_long_gaps(table, self.window)
        found = self._impute(self.rows(told.without_spikes(), columns), draws, levels, seed)
        kept = ~np.isnan(table.values)
        values = np.where(kept, table.values, put_back(found.values, columns))
        widths = np.where(kept, 0.0, put_back(found.widths, columns))
        drawn = None if found.draws is None else np.where(kept, table.values, put_back(found.draws, columns))
        limits = self.limits_of(table)
        kept_values = np.where(kept, table.values, limits.keep(values))
        low, high = limits.bounds(kept_values, values - widths, values + widths)
        bounds = (np.where(kept, table.values, low), np.where(kept, table.values, high))
        drawn = None if drawn is None else np.where(kept, table.values, limits.keep(drawn))
        return Imputed.of(table, kept_values, levels if np.ndim(level) else levels[0], *bounds, drawn)

    @abstractmethod
    def _impute(self, rows: SeriesRows, draws: int, levels: tuple[float, ...], seed: int) -> FilledRows:
        """Fill rows in the model's own order of features; draws are None unless more than one is asked for."""

    def sample(self, count: int, *, rows: int | None = None, seed: int = 0) -> Series:
        """Draw `count` synthetic sequences of `rows` rows for the owner: `release` draws some to share.

        They have the rows of a window unless `rows` says otherwise, which diffusion models refuse. Time begins with 0
        in each: where the owner's times are dates it counts in their unit, else rows. It is not the time of day: a
        window may begin at any.
        """
        length = self.window if rows is None else rows
        need_count("count", count)
        need_count("rows", length)
        values = put_back(self._sample(count, length, seed), self.order)
        time = np.tile(self.timing.rows(length), count)
        return Series(self.features, np.repeat(numbered(count), length), time, values)

    def release(
        self, series: Any, count: int, *, rows: int | None = None, others: Any = None, seed: int = 0
    ) -> Released:
        """Draw synthetic windows to share: of `count`, those that are not too near to any real window.

        A window is withheld if it is nearer to a real one than nearly all real ones are to each other; where what is
        left still tells which windows were learned from, more are withheld, down to none left.

        Parameters
        ----------
        series
            The table the model learned from.
        count
            Windows to draw.
        rows
            Rows of a window, as in `sample`.
        others
            A table like it that the model did not learn from, such as later rows; with it `membership` is known.
        seed
            Of the draws.
        """
        from cotempo.series.release import Released

        def real(table: Any) -> SeriesRows:
            filled = self.impute(table, level=())
            return self.rows(filled, np.array([filled.features.index(name) for name in self.features]))

        drawn, known = self.sample(count, rows=rows, seed=seed), real(series)
        scale, length = Scale.of(known.values), drawn.rows // count
        trained = scale.rows(known).windows(length)
        unseen = trained[:0] if others is None else scale.rows(real(others)).windows(length)
        if not len(trained):
            raise DataError(f"a piece of the series must have at least {length} rows to compare windows with")
        return Released.of(drawn, scale.apply(drawn.values).reshape(count, length, -1), trained, unseen)

    @abstractmethod
    def _sample(self, count: int, rows: int, seed: int) -> Floats:
        """Return the rows of windows of so many rows, one after the other, in the model's own order of features."""

    def forecast(
        self, series: Any, horizon: int | Any, draws: int = 1, *, level: float | Sequence[float] = 0.9, seed: int = 0
    ) -> Forecast:
        """Continue every sequence for `horizon` rows, any number of them: window by window, on what was forecast.

        Intervals are calibrated on forecasts of rows that were held out. Draws are as wide as these intervals say; what
        happens in one window of a draw does not depend on what happened in the window before.

        Parameters
        ----------
        series, draws, level, seed
            As in `impute`; the last ten windows of each sequence are looked at.
        horizon
            Rows to add to each sequence, or where times are dates how long, such as ``"24h"``.
        """
        levels, horizon = self._check(draws, level), self.timing.count_rows(horizon)
        table, length = self.table(series), HISTORY * self.window
        past, longer = keep_last(table, length), keep_last(believed(table, "not looked at").without_spikes(), length)
        columns, count, found = self.columns(past), len(past.sequence_names()), []
        for first in range(0, horizon, self.window):
            steps = min(self.window, horizon - first)
            longer, new = lengthen(longer, steps)
            block = self._impute(self.rows(longer, columns), draws, (ONE_DEVIATION, *levels), seed + first)
            parts = (part for part in (block.values[None], block.widths, block.draws) if part is not None)
            found.append([part[:, new].reshape(len(part), count, steps, -1) for part in parts])
            longer = replace(longer, values=put_back(block.values, columns))
        values, widths, *drawn = (np.concatenate(part, axis=2) for part in zip(*found, strict=True))
        calibrated = self.calibration.ahead.widths(horizon, (ONE_DEVIATION, *levels))[:, None]
        least = np.maximum(
            widths, widths[:, :, : self.window][:, :, -1:] * (np.arange(horizon) >= self.window)[:, None]
        )
        wider = np.where(calibrated > 0, calibrated, least)
        drawn = [values + (part - values) * wider[0] / np.where(widths[0] > 0, widths[0], 1.0) for part in drawn]
        flat = [part.reshape(len(part), -1, part.shape[-1]) for part in (values, wider[1:], *drawn)]
        middle, width, *every = (put_back(part, columns) for part in flat)
        longer, new = lengthen(past, horizon)
        limits = self.limits_of(past)
        value = limits.keep(middle[0])
        bounds = (*limits.bounds(value, middle - width, middle + width), limits.keep(every[0]) if every else None)
        return Forecast.of(longer.select(new), value, levels if np.ndim(level) else levels[0], *bounds, past=past)

    def compare(
        self, series: Any, horizon: int | Any = None, *, gap: int = 6, period: int | None = None, seed: int = 0
    ) -> Comparison:
        """Compare with the simplest baselines, on a series the model has not learned from.

        Without `horizon`, gaps are hidden and filled by the model, by linear interpolation, by the last value, by the
        same time a season ago and by the mean at that time of the season. With it, up to 30 forecasts are made from
        places spread over the series, beside the same but the line; the mean is over the rows a forecast looks at.

        Parameters
        ----------
        series
            A table, or a dataframe of one client, to hide measurements of.
        horizon
            Rows to forecast, or how long, as in `forecast`; by default gaps are filled instead.
        gap
            Rows of a hidden gap; half of the gaps are in all features, the others in about half of them.
        period
            Rows of a season; by default a day, or a week where a row is a day, and none where time is a plain number.
        seed
            Chooses what is hidden.
        """
        from cotempo.series.comparison import compare_filling, compare_forecasts

        table = self.table(series)
        if horizon is None:
            return compare_filling(self, table, gap, period, seed)
        return compare_forecasts(self, table, self.timing.count_rows(horizon), period)

    def plot(self, series: Any = None, **options: Any) -> Figure:
        """Draw a series with its gaps filled, as `Imputed.plot` does; without one, synthetic windows."""
        from cotempo.series.plots import plot_samples

        if series is None:
            return plot_samples(self.sample(20), label=self.timing.label)
        return self.impute(series).plot(**options)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(features {', '.join(self.features)}; windows of {self.window} rows)"

    def _repr_html_(self) -> str:
        rows = [("features", ", ".join(self.features)), ("rows of a window", self.window)]
        return html_table(type(self).__name__, rows, notes=["impute, forecast, sample, release, compare, plot"])

    def _check(self, draws: int, level: float | Sequence[float]) -> tuple[float, ...]:
        """Return the levels as a tuple, or raise `ParameterError`."""
        levels: tuple[Any, ...] = tuple(np.atleast_1d(np.asarray(level, dtype=object)).tolist())
        numbers = all(isinstance(each, int | float) for each in levels)
        if draws < 1 or not numbers or not all(0 < each <= LEVELS[-1] for each in levels):
            raise ParameterError(f"draws must be at least 1 and level in (0, {LEVELS[-1]}], got {draws} and {level}")
        return levels

    def table(self, series: Any) -> Series:
        """Return a table, dataframe or file as a series on its grid; refuse one stamped unlike those learned from."""
        found = as_series(series)
        self.timing.match(found)
        self.warn_of_units(found)
        return on_grid(self._completed(found))

    def _completed(self, series: Series) -> Series:
        """Return a series with columns of missing values for features that it lacks, of a table that has others."""
        lacking = tuple(name for name in self.features if name not in series.features)
        if not lacking or len(lacking) == len(self.features) or {*series.features} - {*self.features}:
            return series  # which `columns` accepts or refuses
        warn(f"not measured here, taken as missing in all rows: {', '.join(map(repr, lacking))}")
        values = np.concatenate([series.values, np.full((series.rows, len(lacking)), np.nan)], axis=1)
        whole = replace(series, features=(*series.features, *lacking), values=values)
        order = [whole.features.index(name) for name in self.features]
        return replace(whole, features=self.features, values=values[:, order])

    def known_ranges(self) -> Floats:
        """Return the 5 and 95 % quantile of each feature learned from, ``(2, features)``; none where unknown."""
        return np.zeros((2, 0))

    def known_limits(self) -> Limits:
        """Return the hard ends of the features' ranges; none where unknown."""
        return Limits.none(len(self.features))

    def limits_of(self, table: Series) -> Limits:
        """Return the limits of a table's features, wide enough for what was measured in it."""
        order = np.array([self.features.index(name) for name in table.features], dtype=np.intp)
        return self.known_limits().take(order).widen(table.values)

    def warn_of_units(self, series: Series) -> None:
        """Warn of features whose level or spread is far from what was learned, as in another unit."""
        low, high = self.known_ranges()
        for name, least, most in zip([self.features[k] for k in self.order], low, high, strict=False):
            values = series.values[:, series.features.index(name)] if name in series.features else np.zeros(0)
            if unlike := say_unlike(values, least, most):
                warn(f"{name!r} {unlike} What is filled may mean nothing")

    def columns(self, series: Series) -> NDArray[np.intp]:
        """Return where the model's features stand in a table, in the model's own order."""
        problems = [
            Problem(f"the model knows no such feature{nearest(name, self.features)}", column=name)
            for name in series.features
            if name not in self.features
        ]
        problems += [
            Problem("this feature must be there; give a column of missing values if it was not measured", column=name)
            for name in self.features
            if name not in series.features
        ]
        if problems:
            raise DataError(problems)
        inner = [self.features[place] for place in self.order]
        return np.array([series.features.index(name) for name in inner], dtype=np.intp)

    def rows(self, series: Series, columns: NDArray[np.intp]) -> SeriesRows:
        """Return a table's pieces, with features in the model's own order."""
        rows = SeriesRows.of(series)
        return rows.with_values(rows.values[:, columns])


def on_grid(series: Series) -> Series:
    """Return a series with the rows that are missing on its grid; as it is, with a warning, where it has none."""
    try:
        return series.regular()
    except DataError as error:
        if len(series.pieces()) > len(series.sequence_names()):
            warnings.warn(f"rows missing in time stay missing: {error}", stacklevel=4)
        return series


def warn_of_long_gaps(series: Series, window: int) -> None:
    """Warn of the longest gap between two measurements of a feature that has more rows than a window."""
    longest: tuple[int, int, str] = (window, 0, "")
    first = 0
    for _, values in series.pieces():
        for name, part in zip(series.features, values.T, strict=True):
            seen = np.flatnonzero(~np.isnan(part))
            if len(seen) > 1 and (most := int(np.diff(seen).max()) - 1) > longest[0]:
                longest = (most, first + int(seen[np.diff(seen).argmax()]) + 1, name)
        first += len(values)
    if longest[2]:
        count, row, name = longest
        begin, end = (
            each if isinstance(each, str) else f"{each:.12g}"
            for each in series.span(series.time[row], series.time[row + count - 1])
        )
        warn(
            f"{name!r} is missing in {count:,} rows, from {begin} to {end}, more than a window of {window} shows: they "
            "are filled as if all went on as usual; if the plant stood still then, make a sequence before and one after"
        )


def believed(series: Series, done: str) -> Series:
    """Return a series without what stuck sensors repeat, with a warning that says what is `done` with such cells."""
    words = [each for some in series.say_stuck().values() for each in some]
    for each in words:
        warn(f"{each} Its cells tell nothing of others, and are {done}")
    return series.without_stuck() if words else series


def keep_last(series: Series, count: int) -> Series:
    """Return the last rows of each sequence, so many at most."""
    lengths = [len(time) for _, time, _ in series.sequences()]
    return series.select(np.arange(series.rows) >= np.repeat(np.cumsum(lengths), lengths) - count)


def lengthen(series: Series, steps: int) -> tuple[Series, NDArray[np.bool_]]:
    """Return a series with so many missing rows after each sequence, and which rows these are."""
    parts = []
    for name, time, values in series.sequences():
        step = whole_step(float(np.median(np.diff(time))), series.unit) if len(time) > 1 else 1.0
        longer = np.concatenate([time, time[-1] + step * np.arange(1, steps + 1)])
        empty = np.concatenate([values, np.full((steps, values.shape[1]), np.nan)])
        parts.append((np.full(len(longer), name), longer, empty, np.arange(len(longer)) >= len(time)))
    names, times, values, new = (np.concatenate(each) for each in zip(*parts, strict=True))
    return replace(series, sequence=names, time=times, values=values), new


def put_back(values: Floats, columns: NDArray[np.intp]) -> Floats:
    """Move columns from the model's order to a table's."""
    out = np.empty_like(values)
    out[..., columns] = values
    return out


@dataclass(frozen=True, eq=False, repr=False)
class SeriesModel(FittedSeries):
    """A fitted filler and diffusion model of one owner's series; `weights` and `scale` are the diffusion model's.

    `privacy` says what was promised, where it was learned with noise.
    """

    settings: SeriesSettings
    filler: Fills
    weights: NDArray[Any]
    scale: Scale
    privacy: Mapping[str, Any] = field(default_factory=dict)

    def release(
        self, series: Any, count: int, *, rows: int | None = None, others: Any = None, seed: int = 0
    ) -> Released:
        """Draw synthetic windows to share, as others do; a model learned with noise needs no gate, and has none."""
        if self.privacy:
            raise ParameterError(
                "release must not choose windows by the rows of a private model, which would break its promise; "
                "what sample() draws may be shared as it is"
            )
        return super().release(series, count, rows=rows, others=others, seed=seed)

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}{self._promise()})"

    def _repr_html_(self) -> str:
        return (
            f"{super()._repr_html_()}<p>{self._promise().removeprefix('; ')}</p>"
            if self.privacy
            else super()._repr_html_()
        )

    def _promise(self) -> str:
        if not self.privacy:
            return ""
        void = ", void: its noise was seeded" if self.privacy["void"] else ""
        return f"; epsilon {self.privacy['epsilon']:g} for a {self.privacy['unit']}{void}"

    def _impute(self, rows: SeriesRows, draws: int, levels: tuple[float, ...], seed: int) -> FilledRows:
        filled, missing = self.filler.seeded(seed).rows(rows, self.settings), np.isnan(rows.values)
        known = self.calibration.knows(rows)
        believed = None if known else self.filler.deviation(rows, filled)
        needed = FEWEST_DRAWS if levels and not known and believed is None else 1
        if max(draws, needed) == 1:
            width = self.calibration.widths(rows, 0 * filled if believed is None else believed, levels, self.window)
            return FilledRows(filled, width, None)
        cover, half = Cover(rows, self.window, self.window), (self.scale.high - self.scale.low) / 2
        given = (cover.take(self.scale.apply(filled)), cover.take(~missing) & cover.inside[..., None])
        count = needed if draws == 1 else draws
        drawn = self.settings.impute_windows(self.weights, *given, count, Rng(seed, "impute"))
        found = np.stack([cover.blend(windows) for windows in drawn]) * half
        apart, deviation = found - found.mean(axis=0), found.std(axis=0, ddof=1)
        # Draws of the diffusion model around the filling, as wide as calibration says.
        unknown = deviation if believed is None else believed
        usual, *widths = self.calibration.widths(rows, unknown, (ONE_DEVIATION, *levels), self.window)
        found = np.where(missing, filled + apart * usual / np.maximum(deviation, 1e-9 * half), filled)
        return FilledRows(filled, np.array(widths).reshape(-1, *filled.shape), found if draws > 1 else None)

    def _sample(self, count: int, rows: int, seed: int) -> Floats:
        if rows != self.window:
            raise ParameterError(f"rows must be those of a window, {self.window}, got {rows}; SeriesMoments draws more")
        drawn = self.settings.sample_windows(self.weights, len(self.features), count, Rng(seed))
        return np.concatenate(self.scale.undo(drawn))

    def known_ranges(self) -> Floats:
        """Return about the quantiles that the mean and the deviation learned from have."""
        middle = self.scale.undo(self.scale.centre)
        half = 1.6 * self.scale.spread * (self.scale.high - self.scale.low) / 2
        return np.stack([middle - half, middle + half])

    def decompose(self, series: Series) -> dict[str, Series]:
        """Decompose a series: ``trend``, ``season`` and ``residual`` add up to it, with its gaps filled."""
        columns = self.columns(series)
        rows = self.rows(series, columns)
        filled = self.scale.apply(self.filler.rows(rows, self.settings))
        cover = Cover(rows, self.window, max(1, self.window // 2))
        parts = self.settings.decompose_windows(self.weights, cover.take(filled))
        half = (self.scale.high - self.scale.low) / 2
        trend, season = (cover.blend(part) for part in parts)
        trend, season = self.scale.undo(trend), season * half
        rest = self.scale.undo(filled) - trend - season
        return {
            name: replace(series, values=put_back(part, columns))
            for name, part in (("trend", trend), ("season", season), ("residual", rest))
        }


class FittedOwners(Fitted):
    """The result of many owners of series: each has a model, and an error of filling hidden cells."""

    measured_in: ClassVar[str] = ""
    most_sampled: ClassVar[int] = 1  # clients whose synthetic windows are drawn in a report

    def answer(self) -> str:
        """Return the error of filling hidden cells with its uncertainty."""
        benefit = list(self.benefit.values())
        if not benefit:
            return super().answer()
        together, alone = (np.mean([getattr(item, name) for item in benefit]) for name in ("together", "alone"))
        gain = plus_minus([item.gain for item in benefit])
        lines = [getattr(self.outcome.memories[name], "lines", math.nan) for name in self.benefit]
        beside = "" if np.isnan(lines).any() else f", by linear interpolation {np.mean(lines):.3g}"
        over = f"{benefit[0].metric}{self.measured_in}, mean over {pluralize(len(benefit), 'client')}"
        if all(item.gain == 0 for item in benefit):
            same = "joining changed nothing, each client follows its own rows"
            return f"Hidden cells are filled with an error of {together:.3g}{beside}: {same} ({over})."
        errors = f"{together:.3g}, alone {alone:.3g}{beside}"
        return f"Hidden cells are filled with an error of {errors}: a gain of {gain} ({over})."

    def shown_features(self, client: str) -> tuple[str, ...]:
        """Return the features of a client's excerpt, in its order."""
        return self.outcome.schemas[client].columns

    def figures(self, truth: Any = None) -> Mapping[str, Figure]:
        """Draw filled gaps and synthetic windows of the first clients."""
        from cotempo.series.plots import plot_samples

        found, known = {}, [name for name in self.names if name in self.outcome.memories][:MOST_SHOWN]
        for name in known:
            model, excerpt = self[name], self.outcome.memories[name].excerpt
            if np.isnan(excerpt).any():
                schema, rows = self.outcome.schemas[name], np.full(len(excerpt), "0")
                dates = ("s" if schema.unit else "", schema.zone)
                series = Series(self.shown_features(name), rows, excerpt[:, 0], excerpt[:, 1:], *dates)
                found[f"Gaps of {name}, filled"] = model.plot(series)
        for name in known[: self.most_sampled]:
            model, excerpt = self[name], self.outcome.memories[name].excerpt
            order = [self.shown_features(name).index(feature) for feature in model.features]
            known_rows = SeriesRows(excerpt[:, 1:][:, order], (len(excerpt),)) if excerpt.size else None
            real = known_rows.windows(model.window)[:: max(1, model.window // 2)] if known_rows else None
            found[f"Synthetic windows of {name}"] = plot_samples(model.sample(20), real=real, label=model.timing.label)
        return found


class FittedFedTDD(FittedOwners):
    """The result of FedTDD: ``fitted[client]`` imputes, samples, forecasts and decomposes that client's series."""

    def __getitem__(self, client: str) -> SeriesModel:
        """Return the model of one client, which is in the client's memory."""
        super().__getitem__(client)
        memory = self.outcome.memories.get(client)
        if memory is None or memory.teacher is None:
            must = "its model must be in this process to be used; it is at the client, or the client never answered"
            raise DataError([Problem(must, client=client)])
        features = self.outcome.schemas[client].columns
        method: Any = self.method
        order = np.array([features.index(name) for name in method.inner_order(features)], dtype=np.intp)
        filler, weights = method.strategy.filler(memory, Rng("fitted")), memory.local_imputer.average
        model = (method, filler, weights, memory.generator_scale)
        clock = self.outcome.schemas[client].clock
        timing = Timing(clock, usual_step([memory.excerpt[:, 0]]) if clock.dates and memory.excerpt.size else 0.0)
        return SeriesModel(features, order, method.window, memory.calibration, timing, *model)

    def figures(self, truth: Any = None) -> Mapping[str, Figure]:
        """Draw the same; nothing in a private run, because networks that draw windows learned without noise."""
        return {} if self.privacy.get("epsilon") else super().figures(truth)

    def advice(self) -> list[str]:
        """Return what all results say, and whose intervals are not calibrated."""
        kinds = {name: memory.calibration.errors.any(axis=1) for name, memory in self.outcome.memories.items()}
        if not (unsure := [name for name, known in kinds.items() if not known.all()]):
            return super().advice()
        why = f"for some kinds of gaps fewer than {FEWEST_CELLS} measurements could be held out to calibrate them"
        doubt = "they may hold more or less of the truth than they say"
        return [*super().advice(), f"intervals of {', '.join(unsure)} come from the model: {why}; {doubt}"]

    @property
    def withheld(self) -> Mapping[str, int]:
        """Return how many synthetic windows each client kept back because they were too near to real ones."""
        return dict(self.state.withheld)

    @property
    def membership(self) -> Mapping[str, float]:
        """Return how well each client's released windows tell who was trained on; 0.5 is not at all."""
        return dict(self.state.membership)

    def summary(self, truth: Any = None) -> dict[str, Any]:
        """Return what the report says, with what was released where anything was."""
        found = super().summary(truth)
        if self.membership:
            told = {"synthetic windows withheld": sum(self.withheld.values())}
            found["scores"] |= {**told, "membership score, highest": max(self.membership.values())}
        return found

    def shown_features(self, client: str) -> tuple[str, ...]:
        """Return the features of a client's excerpt, the common ones first."""
        method: Any = self.method
        return tuple(method.inner_order(self.outcome.schemas[client].columns))
