"""SeriesDiffusion: one owner's series, filled and generated without anybody else."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError

from cotempo.data import Series, read_series
from cotempo.errors import DataError, ParameterError, Problem
from cotempo.federation.method import explain
from cotempo.federation.rng import Rng
from cotempo.series.calibration import calibrate
from cotempo.series.filling import Filler, Taught, open_gates
from cotempo.series.learned import Learned
from cotempo.series.owner import SeriesModel
from cotempo.series.roughness import find_errors, roughen
from cotempo.series.scale import Scale
from cotempo.series.settings import Sizes
from cotempo.series.ties import Ties
from cotempo.series.windows import Rows, need_window

HELD = 0.05


class SeriesDiffusion(Sizes):
    """Fill and generate one owner's series.

    Two networks are trained: an imputer that corrects linear interpolation, and a diffusion model of windows with a
    trend, a season and a rest (Diffusion-TS). Missing values in the training data are fine. The last twentieth of every
    piece is set apart to calibrate intervals on.

    Parameters
    ----------
    imputer_steps, steps
        Training steps of the imputer and of the diffusion model.

    Other parameters are those of `Sizes`.

    Examples
    --------
    >>> from cotempo.data import make_series
    >>> clients, _ = make_series(clients=1, length=60, missing=0.2)
    >>> model = SeriesDiffusion(window=8, width=8, imputer_width=8, imputer_steps=2, steps=2).fit(clients["client-0"])
    >>> bool(np.isnan(model.impute(clients["client-0"]).values).any())
    False
    >>> model.sample(3)
    Series(24 rows, 3 sequences, features x0, x1, x2, x3)
    """

    imputer_steps: int = Field(3000, ge=1)
    steps: int = Field(1500, ge=1)

    def __init__(self, **parameters: Any):
        try:
            super().__init__(**parameters)
        except ValidationError as error:
            raise ParameterError(explain(error, type(self).__name__, type(self).model_fields)) from None

    def fit(self, series: Any, *, seed: int = 0) -> SeriesModel:
        """Learn from a table or any dataframe of one client, and return the fitted model."""
        table = as_series(series)
        rows = Rows.of(table)
        need_window(rows, self.window)
        refuse_unseen(table)
        scale = Scale.of(rows.values)
        kept, held = rows.split(HELD, self.window)
        scaled = Rows(scale.apply(kept.values), kept.lengths)
        ties, rng = Ties.of(scaled, scale), Rng(seed, "series")
        teacher = Taught(train_imputer(self, scaled, ties, self.imputer_steps, rng).average, ties)
        filler = Filler(scale, ties, teacher, None, open_gates(), len(table.features))
        errors = find_errors(filler, rows, self, rng("errors"))
        filled = roughen(filler.rows(rows, self), np.isnan(rows.values), errors, rng("roughness"))
        weights = train_backbone(self, Rows(scale.apply(filled), rows.lengths), self.steps, rng).average
        calibration = calibrate(self, filler, held, rng("calibration"))
        order = np.arange(len(table.features))
        return SeriesModel(self, table.features, order, filler, weights, scale, calibration)


def as_series(value: Any) -> Series:
    """A table as it is, or a dataframe of one client read."""
    if isinstance(value, Series):
        return value
    tables = read_series(value)
    if len(tables) != 1:
        raise DataError(f"the dataframe must hold one client, it holds {len(tables)}; choose one of them")
    return next(iter(tables.values()))


def refuse_unseen(table: Series) -> None:
    """Raise `DataError` for features without a single measurement."""
    unseen = np.isnan(table.values).all(axis=0)
    if unseen.any():
        must = "at least one cell must be measured, all are missing; leave the column out"
        raise DataError([Problem(must, column=table.features[k]) for k in np.flatnonzero(unseen)])


def windows_of(rows: Rows, length: int) -> NDArray[np.float64]:
    """All windows of a length; of pieces that are all too short, each padded with missing rows."""
    if max(rows.lengths) >= length:
        return rows.windows(length)
    padded = [np.full((length, rows.values.shape[1]), np.nan) for _ in rows.lengths]
    for window, (first, end) in zip(padded, rows.bounds, strict=True):
        window[: end - first] = rows.values[first:end]
    return np.stack(padded)


def train_imputer(sizes: Sizes, scaled: Rows, ties: Ties, steps: int, rng: Rng) -> Learned:
    """Train an imputer over all features of some scaled rows."""
    from cotempo.series.tasks import Filling
    from cotempo.series.training import Material, train

    task = Filling(sizes.imputer())
    windows = windows_of(scaled, sizes.reach)
    features = windows.shape[2]
    learned = Learned.fresh(task.leaves(features), rng("imputer"), sizes.precision)
    whole = np.ones(features, dtype=bool)
    material = Material(np.nan_to_num(windows), ~np.isnan(windows), len(windows), ties, whole)
    return train(task, [learned], [material], steps, sizes.schedule(steps, sizes.imputer_rate), [rng])[0][0]


def train_backbone(sizes: Sizes, filled: Rows, steps: int, rng: Rng) -> Learned:
    """Train a diffusion model on filled rows, scaled."""
    from cotempo.series.noise import Noise
    from cotempo.series.tasks import Denoising
    from cotempo.series.training import Material, train

    task = Denoising(sizes.backbone(), Noise(sizes.diffusion_steps))
    material = Material.plain(filled.windows(sizes.window))
    learned = Learned.fresh(task.leaves(material.features), rng("backbone"), sizes.precision)
    return train(task, [learned], [material], steps, sizes.schedule(steps), [rng])[0][0]
