"""Fitted models of series: `SeriesModel` of one owner, `FittedFedTDD` of a federation, and their result `Imputed`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cotempo.data import Series
from cotempo.data.tables import numbered
from cotempo.errors import DataError, ParameterError, Problem, nearest
from cotempo.federation import Fitted, Rng
from cotempo.series.filling.calibration import LEVELS, Calibration
from cotempo.series.filling.stages import Fills
from cotempo.series.settings import SeriesSettings
from cotempo.series.windows import Cover, Scale, SeriesRows
from cotempo.typing import Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ONE_DEVIATION = 0.6827


@dataclass(frozen=True, eq=False, repr=False)
class Imputed(Series):
    """A series with its gaps filled, with intervals where several draws were asked for.

    Attributes
    ----------
    low, high
        Bounds that hold a missing cell with the asked probability, ``(rows, features)``; None for a single draw.
    draws
        All draws, ``(draws, rows, features)``; None for a single draw.
    """

    low: Floats | None = None
    high: Floats | None = None
    draws: Floats | None = None

    def plot(self, series: Series, truth: Series | None = None) -> Figure:
        """Draw the first sequence of the series that was filled, with intervals, and the truth where it is known."""
        from cotempo.series.plots import plot_gaps

        return plot_gaps(series, self, truth)


@dataclass(frozen=True, eq=False, repr=False)
class FittedSeries(ABC):
    """A fitted model of one owner's series: it imputes, forecasts and samples.

    Attributes
    ----------
    features
        Names of the features, in the order of the owner's table.
    order
        Position of the model's features, in its own order, among them.
    window
        Rows of a generated window, and the longest horizon of a forecast.
    calibration
        Widths of intervals.
    """

    features: tuple[str, ...]
    order: NDArray[np.intp]
    window: int
    calibration: Calibration

    def impute(self, series: Series, draws: int = 1, *, level: float = 0.9, seed: int = 0) -> Imputed:
        """Return the same table without gaps.

        Parameters
        ----------
        series
            With this model's features, in any order.
        draws
            With more than one, the filling is accompanied by intervals and by draws around it.
        level
            Probability with which the interval holds a missing cell, at most .995.
        """
        if draws < 1 or not 0 < level <= LEVELS[-1]:
            raise ParameterError(f"draws must be at least 1 and level in (0, {LEVELS[-1]}], got {draws} and {level}")
        columns = self.columns(series)
        found = self._impute(self.rows(series, columns), draws, level, seed)
        values, *rest = (put_back(part, columns) for part in found)
        return Imputed(series.features, series.sequence, series.time, values, series.unit, *rest)

    @abstractmethod
    def _impute(self, rows: SeriesRows, draws: int, level: float, seed: int) -> tuple[Floats, ...]:
        """Return filled rows, and for more than one draw the lower and upper bounds and the draws."""

    def sample(self, count: int, *, seed: int = 0) -> Series:
        """Draw `count` synthetic windows; each is a sequence of its own."""
        if count < 1:
            raise ParameterError(f"count must be at least 1, got {count}")
        values = put_back(self._sample(count, seed), self.order)
        time = np.tile(np.arange(self.window, dtype=np.float64), count)
        return Series(self.features, np.repeat(numbered(count), self.window), time, values)

    @abstractmethod
    def _sample(self, count: int, seed: int) -> Floats:
        """Return the rows of windows, one after the other, in the model's own order of features."""

    def forecast(self, series: Series, horizon: int, draws: int = 1, *, level: float = 0.9, seed: int = 0) -> Imputed:
        """Continue every sequence for `horizon` rows: gaps at the end, filled as any other."""
        if not 1 <= horizon <= self.window:
            raise ParameterError(f"horizon must lie in [1, {self.window}], the window, got {horizon}")
        parts = []
        for name, time, part in series.sequences():
            step = float(np.median(np.diff(time))) if len(time) > 1 else 1.0
            longer = np.concatenate([time, time[-1] + step * np.arange(1, horizon + 1)])
            values = np.concatenate([part, np.full((horizon, part.shape[1]), np.nan)])
            parts.append((np.full(len(longer), name), longer, values, np.arange(len(longer)) >= len(time)))
        names, times, values, rows = (np.concatenate(each) for each in zip(*parts, strict=True))
        done = self.impute(replace(series, sequence=names, time=times, values=values), draws, level=level, seed=seed)
        low, high = (None if part is None else part[rows] for part in (done.low, done.high))
        every = None if done.draws is None else done.draws[:, rows]
        return Imputed(done.features, names[rows], times[rows], done.values[rows], done.unit, low, high, every)

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


def put_back(values: Floats, columns: NDArray[np.intp]) -> Floats:
    """Move columns from the model's order to a table's."""
    out = np.empty_like(values)
    out[..., columns] = values
    return out


@dataclass(frozen=True, eq=False, repr=False)
class SeriesModel(FittedSeries):
    """A fitted filler and diffusion model of one owner's series; `weights` and `scale` are the diffusion model's."""

    settings: SeriesSettings
    filler: Fills
    weights: NDArray[Any]
    scale: Scale

    def _impute(self, rows: SeriesRows, draws: int, level: float, seed: int) -> tuple[Floats, ...]:
        from cotempo.series.nn.samplers import draw_around

        filled, missing = self.filler.seeded(seed).rows(rows, self.settings), np.isnan(rows.values)
        if draws == 1:
            return (filled,)
        cover, half = Cover(rows, self.window, self.window), (self.scale.high - self.scale.low) / 2
        given = (cover.take(self.scale.apply(filled)), cover.take(~missing) & cover.inside[..., None])
        drawn = draw_around(self.settings, self.weights, *given, draws, Rng(seed, "impute"))
        found = np.stack([cover.blend(windows) for windows in drawn]) * half
        apart, deviation = found - found.mean(axis=0), found.std(axis=0, ddof=1)
        # Draws of the diffusion model around the filling, as wide as calibration says.
        usual, width = self.calibration.widths(rows, deviation, (ONE_DEVIATION, level), self.window)
        found = np.where(missing, filled + apart * usual / np.maximum(deviation, 1e-9 * half), filled)
        return filled, filled - width, filled + width, found

    def _sample(self, count: int, seed: int) -> Floats:
        from cotempo.series.nn.samplers import draw_windows

        drawn = draw_windows(self.settings, self.weights, len(self.features), count, Rng(seed))
        return np.concatenate(self.scale.undo(drawn))

    def decompose(self, series: Series) -> dict[str, Series]:
        """Decompose a series: ``trend``, ``season`` and ``residual`` add up to it, with its gaps filled."""
        from cotempo.series.nn.samplers import decompose_windows

        columns = self.columns(series)
        rows = self.rows(series, columns)
        filled = self.scale.apply(self.filler.rows(rows, self.settings))
        cover = Cover(rows, self.window, max(1, self.window // 2))
        parts = decompose_windows(self.settings, self.weights, cover.take(filled))
        half = (self.scale.high - self.scale.low) / 2
        trend, season = (cover.blend(part) for part in parts)
        trend, season = self.scale.undo(trend), season * half
        rest = self.scale.undo(filled) - trend - season
        return {
            name: replace(series, values=put_back(part, columns))
            for name, part in (("trend", trend), ("season", season), ("residual", rest))
        }


class FittedFedTDD(Fitted):
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
        return SeriesModel(features, order, method.window, memory.calibration, *model)

    @property
    def withheld(self) -> Mapping[str, int]:
        """Return how many synthetic windows each client kept back because they were too near to real ones."""
        return dict(self.state.withheld)

    @property
    def membership(self) -> Mapping[str, float]:
        """Return how well each client's released windows tell who was trained on; 0.5 is not at all."""
        return dict(self.state.membership)

    def figures(self, truth: Any = None) -> Mapping[str, Figure]:
        """Draw synthetic windows of the first clients."""
        from cotempo.series.plots import plot_samples

        names = [name for name in self.names if name in self.outcome.memories][:3]
        return {f"Synthetic windows of {name}": plot_samples(self[name].sample(20)) for name in names}
