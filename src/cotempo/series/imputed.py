"""`Imputed` and `Forecast`: series that a model filled or continued, with intervals."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cotempo.data import Series
from cotempo.data.html import html_table
from cotempo.data.tables import pluralize
from cotempo.typing import Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False, repr=False)
class Imputed(Series):
    """A series with its gaps filled; `to_frame` has columns ``x_low`` and ``x_high`` beside each feature ``x``.

    Attributes
    ----------
    missing
        Which cells were missing, ``(rows, features)``.
    level
        Probability with which an interval holds a missing cell; a tuple where several were asked for.
    low, high
        Bounds of the interval, ``(rows, features)``; with several levels, ``(levels, rows, features)``, and columns
        ``x_low_50``, ``x_high_50``, ``x_low_90``, ...
    draws
        Draws around the filling, ``(draws, rows, features)``; None unless they were asked for.

    Examples
    --------
    >>> series = Series.from_arrays([[0.0], [float("nan")], [1.0]], features=("load",))
    >>> filled = Imputed.of(series, [[0.0], [0.5], [1.0]], 0.9, [[[0.0], [0.2], [1.0]]], [[[0.0], [0.8], [1.0]]])
    >>> filled
    Imputed(3 rows, 1 sequence, features load; 1 cell filled, intervals of 90 %)
    >>> list(filled.to_frame().columns)
    ['sequence', 'time', 'load', 'load_low', 'load_high']
    """

    missing: NDArray[np.bool_] | None = None
    level: float | tuple[float, ...] = ()
    low: Floats | None = None
    high: Floats | None = None
    draws: Floats | None = None

    @classmethod
    def of(
        cls, series: Series, values: ArrayLike, level: float | tuple[float, ...] = (), low: ArrayLike = (),
        high: ArrayLike = (), draws: ArrayLike | None = None, **more: Any,
    ) -> Self:  # fmt: skip
        """Fill a series; `low` and `high` are ``(levels, rows, features)`` also where `level` is a single one."""
        given = {field.name: getattr(series, field.name) for field in fields(Series)}
        bounds = [np.array(part, dtype=np.float64) for part in (low, high)]
        if not isinstance(level, tuple):
            bounds = [part[0] for part in bounds]
        given |= {"values": values, "missing": np.isnan(series.values), "level": level}
        given |= dict(zip(("low", "high"), bounds, strict=True)) if level != () else {}
        return cls(**given, draws=None if draws is None else np.asarray(draws, dtype=np.float64), **more)

    def bounds(self) -> dict[str, tuple[Floats, Floats]]:
        """Return the lower and upper bounds ``(rows, features)`` of each level, by its name in columns, widest last."""
        if self.low is None or self.high is None:
            return {}
        if not isinstance(self.level, tuple):
            return {"": (self.low, self.high)}
        order = np.argsort(self.level)
        return {f"_{100 * self.level[place]:g}": (self.low[place], self.high[place]) for place in order}

    def columns(self) -> dict[str, Any]:
        """Return ``sequence``, ``time``, and each feature with its bounds, by name."""
        found, bounds = super().columns(), self.bounds()
        both = {name: found.pop(name) for name in self.features}
        for index, name in enumerate(self.features):
            found[name] = both[name]
            for level, sides in bounds.items():
                for side, part in zip(("low", "high"), sides, strict=True):
                    found[f"{name}_{side}{level}"] = part[:, index]
        return found

    def _picked(self, rows: ArrayLike) -> dict[str, Any]:
        chosen = np.arange(self.rows)[np.asarray(rows, dtype=None if np.size(rows) else np.intp)]
        parts = {name: getattr(self, name) for name in ("missing", "low", "high", "draws")}
        return super()._picked(rows) | {name: part[..., chosen, :] for name, part in parts.items() if part is not None}

    def plot(self, truth: Series | None = None, *, rows: int = 500) -> Figure:
        """Draw the first sequence around its gaps, at most so many rows, with intervals, and the truth if known."""
        from cotempo.series.plots import plot_gaps

        return plot_gaps(self, truth, rows)

    def _facts(self) -> list[str]:
        levels = self.level if isinstance(self.level, tuple) else (self.level,)
        count = 0 if self.missing is None else int(self.missing.sum())
        found = [f"{pluralize(count, 'cell')} filled"]
        found += [f"intervals of {' and '.join(f'{100 * level:g}' for level in levels)} %"] if levels else []
        return found + ([pluralize(len(self.draws), "draw")] if self.draws is not None else [])

    def __repr__(self) -> str:
        inner = super().__repr__().partition("(")[2].removesuffix(")")
        return f"{type(self).__name__}({inner}; {', '.join(self._facts())})"

    def _repr_html_(self) -> str:
        frame = self.select(np.arange(min(self.rows, 5))).to_frame()
        return html_table(repr(self), frame.to_numpy().tolist(), list(frame.columns))


@dataclass(frozen=True, eq=False, repr=False)
class Forecast(Imputed):
    """Series continued beyond their ends; `past` are the last rows before."""

    past: Series | None = None

    def plot(self, truth: Series | None = None, *, rows: int = 500) -> Figure:
        """Draw the forecast of the first sequence after the last rows before it."""
        from cotempo.series.plots import plot_gaps

        return plot_gaps(self, truth, rows)

    def _facts(self) -> list[str]:
        return [fact.replace("filled", "forecast") for fact in super()._facts()]
