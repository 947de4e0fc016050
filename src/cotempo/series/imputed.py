"""What every fitted model of an owner's series has: names of features, and a way to look ahead."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cotempo.data import Series
from cotempo.errors import DataError, ParameterError, Problem, nearest
from cotempo.series.filling.calibration import LEVELS
from cotempo.series.windows import Rows

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class Imputed(Series):
    """A series with its gaps filled, and, where several draws were asked for, how sure that is.

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


class Owner(ABC):
    """A fitted model of one owner's series.

    Attributes
    ----------
    features
        Names of the features, in the order of the owner's table.
    order
        Where the model's features, in its own order, stand among them.
    window
        Rows of a generated window, and how far it can be looked ahead.
    """

    def __init__(self, features: tuple[str, ...], order: NDArray[np.intp], window: int):
        self.features = features
        self.order = order
        self.window = window

    def impute(self, series: Series, draws: int = 1, *, level: float = 0.9, seed: int = 0) -> Imputed:
        """Fill the missing cells.

        Parameters
        ----------
        series
            With this model's features, in any order.
        draws
            With more than one, the filling is accompanied by intervals and by draws around it.
        level
            Probability with which the interval holds a missing cell, at most .995.

        Returns
        -------
        Imputed
            The same table without gaps.
        """
        if draws < 1 or not 0 < level <= LEVELS[-1]:
            raise ParameterError(f"draws must be at least 1 and level in (0, {LEVELS[-1]}], got {draws} and {level}")
        columns = self.columns(series)
        found = self._impute(self.rows(series, columns), draws, level, seed)
        values, *rest = (put_back(part, columns) for part in found)
        return Imputed(series.features, series.sequence, series.time, values, series.unit, *rest)

    @abstractmethod
    def _impute(self, rows: Rows, draws: int, level: float, seed: int) -> tuple[Floats, ...]:
        """Rows filled, and for more than one draw the lower and upper bounds and the draws."""

    def forecast(self, series: Series, horizon: int, draws: int = 1, *, level: float = 0.9, seed: int = 0) -> Imputed:
        """Go on with every sequence for `horizon` rows: gaps at the end, filled as any other."""
        if not 1 <= horizon <= self.window:
            raise ParameterError(f"horizon must lie in [1, {self.window}], the window, got {horizon}")
        parts = list(series.sequences())
        names, times, values, new = [], [], [], []
        for name, time, part in parts:
            step = float(np.median(np.diff(time))) if len(time) > 1 else 1.0
            times.append(np.concatenate([time, time[-1] + step * np.arange(1, horizon + 1)]))
            values.append(np.concatenate([part, np.full((horizon, part.shape[1]), np.nan)]))
            names.append(np.full(len(time) + horizon, name))
            new.append(np.arange(len(time) + horizon) >= len(time))
        longer = replace(
            series, sequence=np.concatenate(names), time=np.concatenate(times), values=np.concatenate(values)
        )
        done, rows = self.impute(longer, draws, level=level, seed=seed), np.concatenate(new)
        low, high = (None if part is None else part[rows] for part in (done.low, done.high))
        every = None if done.draws is None else done.draws[:, rows]
        table = (done.features, done.sequence[rows], done.time[rows], done.values[rows], done.unit)
        return Imputed(*table, low, high, every)

    def columns(self, series: Series) -> NDArray[np.intp]:
        """Where the model's features stand in a table, in the model's own order."""
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

    def rows(self, series: Series, columns: NDArray[np.intp]) -> Rows:
        """A table's pieces, with features in the model's own order."""
        rows = Rows.of(series)
        return rows.with_values(rows.values[:, columns])


def put_back(values: Floats, columns: NDArray[np.intp]) -> Floats:
    """Columns from the model's order to a table's."""
    out = np.empty_like(values)
    out[..., columns] = values
    return out
