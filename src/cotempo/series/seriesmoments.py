"""SeriesMoments: impute one owner's series in seconds by a Gaussian process fitted to window moments."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from cotempo.federation import Rng
from cotempo.series.diffusion import as_series, refuse_unseen
from cotempo.series.filling.calibration import Calibration
from cotempo.series.fitted import FittedSeries
from cotempo.series.moments.gaussian import Gaussian
from cotempo.series.moments.model_choice import calibrate
from cotempo.series.moments.moments import Units, sum_units
from cotempo.series.moments.stage import learn, usual_window
from cotempo.series.windows import SeriesRows
from cotempo.settings import Settings
from cotempo.typing import Floats

WINDOW = Field(
    default=None,
    ge=4,
    description="Rows of a window; when left out as many as make 680 cells, at least 4 and at most 97.",
)
SWEEPS = Field(
    default=1,
    ge=0,
    description="How often missing training cells are filled by what was learned, in short windows, before "
    "they are summed (expectation-maximisation); none where nothing is missing.",
)


class SeriesMoments(Settings):
    """Fill one owner's series by the conditional mean of a Gaussian process, fitted to sums of window moments.

    The process has the moments of windows of a few rows (`Gaussian`), drawn to a random walk, whose conditional mean
    is linear interpolation. How far it is drawn is chosen on a fifth of the rows, set apart for the purpose, and so
    are the widths of intervals. Missing values in the training data are fine, and so are many short
    sequences.

    Examples
    --------
    >>> from cotempo.data import make_series
    >>> clients, _ = make_series(clients=1, length=60, missing=0.2)
    >>> model = SeriesMoments(window=8).fit(clients["client-0"])
    >>> bool(np.isnan(model.impute(clients["client-0"]).values).any())
    False
    >>> model.sample(3)
    Series(24 rows, 3 sequences, features x0, x1, x2, x3)
    """

    window: int | None = WINDOW
    sweeps: int = SWEEPS

    def fit(self, series: Any, *, seed: int = 0) -> MomentsModel:
        """Learn from a table or any dataframe of one client, and return the fitted model; `seed` changes nothing."""
        table = as_series(series)
        refuse_unseen(table)
        rows = SeriesRows.of(table)
        moving = int(np.count_nonzero(sum_units(rows)["steps"].diagonal()))
        window = self.window or usual_window(max(moving, 1), max(rows.lengths))
        stage, trial, held = learn(rows, window, self.sweeps)
        calibration = calibrate(trial, stage.units, held, window)
        return MomentsModel(
            table.features, np.arange(len(table.features)), stage.units, stage.process, calibration, window
        )


class MomentsModel(FittedSeries):
    """A fitted Gaussian process of an owner's series; `process` is in `units`."""

    def __init__(
        self,
        features: tuple[str, ...],
        order: NDArray[np.intp],
        units: Units,
        process: Gaussian,
        calibration: Calibration,
        window: int,
    ):
        super().__init__(features, order, window)
        self.units = units
        self.process = process
        self.calibration = calibration

    def _impute(self, rows: SeriesRows, draws: int, level: float, seed: int) -> tuple[Floats, ...]:
        inner, missing = self.units.rows(rows), np.isnan(rows.values)

        def back(*parts: Floats) -> tuple[Floats, ...]:
            return tuple(np.where(missing, self.units.undo(part), rows.values) for part in parts)

        if draws == 1:
            return back(self.process.fill(inner))
        filled, deviation = self.process.measure(inner)
        width = self.calibration.widths(rows, deviation * self.units.step, (level,), self.window)[0] / self.units.step
        drawn = self.process.draw(inner, draws, Rng(seed, "impute")("draws"))
        return back(filled, filled - width, filled + width, drawn)

    def _sample(self, count: int, seed: int) -> Floats:
        features, window = len(self.features), self.window
        root = np.linalg.cholesky(self.process.precision(window))
        noise = Rng(seed, "sample")("draws").standard_normal((window * features, count))
        return self.units.undo(np.linalg.solve(root.T, noise).T.reshape(count * window, features))
