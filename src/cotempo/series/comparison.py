"""Comparison of a fitted model with the simplest baselines: the last value, a season ago, a straight line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cotempo.data import Series
from cotempo.data.clock import UNITS
from cotempo.data.html import html_table
from cotempo.data.tables import FrameKind, make_frame, numbered
from cotempo.errors import DataError, ParameterError
from cotempo.series.filling.ahead import cut_origins, last_rows
from cotempo.series.filling.gaps import interpolate_rows, neighbours
from cotempo.series.windows import SeriesRows
from cotempo.typing import Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from cotempo.series.fitted import FittedSeries

LEVEL = 0.9
ORIGINS = 30
SPACING = 4  # a gap in so many of its lengths
DAY, WEEK = 86400.0, 7
MODEL, NO_DIFFERENCE = "model", "no difference shown"


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Mean absolute errors of a model and of baselines on hidden measurements, feature by feature.

    Attributes
    ----------
    features
        Names of the features.
    errors
        By name, ``"model"`` first, the mean absolute error in each hidden gap or forecast, ``(blocks, features)``, NaN
        where nothing was measured.
    inside
        Share of hidden cells inside the model's intervals of 90 %, ``(features,)``.
    task
        What was compared, in words.
    """

    features: tuple[str, ...]
    errors: Mapping[str, Floats]
    inside: Floats
    task: str

    def columns(self) -> dict[str, Any]:
        """Return a row for each feature.

        The error of the model and of each baseline, the ``best_baseline``, by how many percent the model's error
        differs from it (``change``) with the standard error of that over gaps or forecasts, the percentage of cells
        ``inside`` intervals of 90 %, and what is ``better``: the model, the best baseline, or no difference shown at
        two standard errors.
        """
        means = {name: np.nanmean(part, axis=0) for name, part in self.errors.items()}
        found = {"feature": list(self.features), **means}
        rows: dict[str, list[Any]] = {name: [] for name in ("best_baseline", "change", "error", "inside", "better")}
        for column, inside in enumerate(self.inside):
            best = min((name for name in means if name != MODEL), key=lambda name: means[name][column])
            apart = (self.errors[MODEL] - self.errors[best])[:, column]
            apart = apart[~np.isnan(apart)]
            change, error = apart.mean(), apart.std(ddof=1) / np.sqrt(len(apart)) if len(apart) > 1 else np.inf
            better = NO_DIFFERENCE if abs(change) <= 2 * error else MODEL if change < 0 else best
            usual = 100 / max(float(means[best][column]), 1e-300)
            cells = (best, round(change * usual, 1), round(error * usual, 1), round(100 * inside, 1), better)
            for name, cell in zip(rows, cells, strict=True):
                rows[name].append(cell)
        return found | rows

    def to_frame(self, kind: FrameKind = "pandas") -> Any:
        """Return these rows as a dataframe."""
        return make_frame(self.columns(), kind)

    @property
    def verdict(self) -> str:
        """Say in words for which features the model is better, and for which to use a baseline instead."""
        better = dict(zip(self.features, self.columns()["better"], strict=True))
        groups = {kind: [name for name in better if better[name] == kind] for kind in dict.fromkeys(better.values())}
        words = {MODEL: "the model is better for {}", NO_DIFFERENCE: "no difference shown for {}"}
        parts = [
            words.get(kind, f"{kind} is better, use it, for {{}}").format(", ".join(names))
            for kind, names in groups.items()
        ]
        return f"{self.task}: {'; '.join(parts)}"

    def __repr__(self) -> str:
        return f"{self.verdict}\n{self.to_frame().round(4).to_string(index=False)}"

    def _repr_html_(self) -> str:
        columns = self.columns()
        return html_table(self.verdict, list(zip(*columns.values(), strict=True)), list(columns))

    def plot(self) -> Figure:
        """Draw errors in percent of the best baseline's, a group of bars for each feature."""
        from cotempo.series.plots import plot_errors

        return plot_errors(self)


def compare_filling(model: FittedSeries, series: Series, gap: int, period: int | None, seed: int) -> Comparison:
    """Hide gaps of `gap` rows and fill them."""
    if not 1 <= gap < series.rows // SPACING:
        raise ParameterError(f"gap must be at least 1 and below a quarter of the rows, {series.rows}, got {gap}")
    stream, shape = np.random.default_rng(seed), series.values.shape
    hidden, block = np.zeros(shape, dtype=bool), np.zeros(shape[0], dtype=np.intp)
    for number, start in enumerate(range(0, shape[0] - SPACING * gap + 1, SPACING * gap)):
        first = start + int(stream.integers((SPACING - 1) * gap + 1))  # not always at the same time of a day
        hidden[first : first + gap] = stream.random(shape[1]) < 0.5 if number % 2 else True
        block[first : first + gap] = number
    hidden &= ~np.isnan(series.values)
    left = Series(
        series.features, series.sequence, series.time, np.where(hidden, np.nan, series.values), series.unit, series.zone
    )
    found = model.impute(left, level=LEVEL)
    rows = SeriesRows.of(left)
    fillings = {MODEL: found.values, **_baselines(rows, _season(series, period))}
    truth = np.where(hidden, series.values, np.nan)
    index = [np.flatnonzero((block == number) & hidden.any(axis=1)) for number in range(block.max() + 1)]
    errors = {
        name: np.array([_mean(np.abs(filled - truth)[rows]) for rows in index if len(rows)])
        for name, filled in fillings.items()
    }
    assert found.low is not None
    assert found.high is not None
    inside = _mean(np.where(np.isnan(truth), np.nan, (found.low <= truth) & (truth <= found.high)))
    return Comparison(series.features, errors, inside, f"Filling gaps of {gap} rows")


def compare_forecasts(model: FittedSeries, series: Series, horizon: int, period: int | None) -> Comparison:
    """Forecast from places spread over the series."""
    if horizon < 1:
        raise ParameterError(f"horizon must be at least 1, got {horizon}")
    season = _season(series, period)
    history = max(10 * model.window, 2 * horizon, 2 * (season or 0))
    place = SeriesRows(np.column_stack([series.values, series.time]), SeriesRows.of(series).lengths)
    ends, truth = cut_origins(place, horizon, (horizon, history), ORIGINS)
    if len(truth) < 2:
        longest = max(place.lengths, default=0)
        raise DataError(
            f"a contiguous piece must have more than two horizons, {2 * horizon} rows, the longest has {longest}; "
            "give a longer series or a shorter horizon"
        )
    known = ~np.isnan(ends.values[:, -1])
    names = np.repeat(numbered(len(truth)), ends.lengths)[known]
    past = Series(series.features, names, ends.values[known, -1], ends.values[known, :-1], series.unit, series.zone)
    found = model.forecast(past, horizon, level=LEVEL)
    rows, truth = ends.with_values(ends.values[:, :-1]), truth[..., :-1]
    simple = _baselines(rows, season)
    del simple["linear interpolation"]  # after the last measurement it is the last value
    forecasts = {MODEL: found.values.reshape(truth.shape)}
    forecasts |= {name: last_rows(filled, rows, horizon) for name, filled in simple.items()}
    errors = {name: np.array([_mean(part) for part in np.abs(values - truth)]) for name, values in forecasts.items()}
    assert found.low is not None
    assert found.high is not None
    low, high = (part.reshape(truth.shape) for part in (found.low, found.high))
    cells = np.where(np.isnan(truth), np.nan, (low <= truth) & (truth <= high))
    return Comparison(
        series.features, errors, _mean(cells.reshape(-1, cells.shape[-1])), f"Forecasts of {horizon} rows"
    )


def _season(series: Series, period: int | None) -> int | None:
    """Return the rows of a season: of a day, or of a week where rows are days."""
    if period is not None and period < 1:
        raise ParameterError(f"period must be at least 1, got {period}")
    if period is not None or not series.unit or series.rows < 2:
        return period
    step = float(np.median(np.diff(series.time))) * UNITS[series.unit]
    return round(DAY / step) if 2 * step <= DAY else WEEK if round(step / DAY) == 1 else None


def _baselines(rows: SeriesRows, period: int | None) -> dict[str, Floats]:
    """Fill rows in the simplest ways, by name."""
    centre = _mean(rows.values)
    found = {"linear interpolation": interpolate_rows(rows, centre), "last value": fill_last(rows, centre)}
    if period is not None:
        # The last value among rows at the same place of the season.
        order = [first + np.arange(k, end - first, period) for first, end in rows.bounds for k in range(period)]
        order = [part for part in order if len(part)]
        index: NDArray[np.intp] = np.concatenate(order)
        filled = np.empty_like(rows.values)
        filled[index] = fill_last(SeriesRows(rows.values[index], tuple(map(len, order))), np.nan * centre)
        found[f"{period} rows before"] = np.where(np.isnan(filled), found["last value"], filled)
        means = np.concatenate([np.broadcast_to(_mean(rows.values[part]), (len(part), len(centre))) for part in order])
        usual = rows.values.copy()
        usual[index] = np.where(np.isnan(rows.values[index]), means, rows.values[index])
        found[f"mean of every {period}th row"] = np.where(np.isnan(usual), found["last value"], usual)
    return found


def fill_last(rows: SeriesRows, centre: Floats) -> Floats:
    """Repeat the last measurement of a piece, before its first one that, and `centre` where there is none.

    Examples
    --------
    >>> fill_last(SeriesRows(np.array([[np.nan], [2.0], [np.nan]]), (3,)), np.zeros(1)).ravel().tolist()
    [2.0, 2.0, 2.0]
    """
    before, after = neighbours(rows, ~np.isnan(rows.values))
    place = np.where(before >= 0, before, after)
    found = np.where(place >= 0, rows.values[place, np.arange(rows.values.shape[1])], centre)
    return np.where(np.isnan(rows.values), found, rows.values)


def _mean(values: Floats) -> Floats:
    """Return the mean of each column's finite cells, NaN where there are none."""
    seen = ~np.isnan(values)
    return np.asarray(np.where(seen, values, 0.0).sum(axis=0) / np.where(seen.any(axis=0), seen.sum(axis=0), np.nan))
