"""SeriesDiffusion: impute and generate the series of a single owner."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from cotempo.federation import Rng
from cotempo.series.filling.calibration import add_imputation_errors, calibrate, imputation_errors
from cotempo.series.filling.correction_stage import CorrectedStage, passes, train_imputers
from cotempo.series.filling.factor_models import FactorModels
from cotempo.series.filling.gates import prove, take_best
from cotempo.series.filling.stages import Filler, NetworkStage
from cotempo.series.fitted import SeriesModel
from cotempo.series.nn.parameters import NetworkState
from cotempo.series.scale import Scale
from cotempo.series.season import find_season
from cotempo.series.seriesmoments import learn, usual_window
from cotempo.series.settings import SeriesSettings
from cotempo.series.windows import SeriesRows, as_series, need_rows, refuse_unseen, windows_of

HELD_ROWS, LEAST_HELD, MOST_HELD = 2000, 0.05, 0.2


class SeriesDiffusion(SeriesSettings):
    """Fill and generate one owner's series.

    Gaps are filled by a Gaussian process of window moments (`SeriesMoments`), in seconds. Two networks are trained: an
    imputer that goes beyond it where it can, and a diffusion model of windows with a trend, a season and a residual
    (Diffusion-TS). Missing values in the training data are fine, and so are many short sequences; where all are shorter
    than the window, the longest is the window. About 2,000 rows, at most a fifth, are held out. On them the imputer's
    training is stopped, every stage of filling must prove better than the one before, and intervals are calibrated.

    References
    ----------
    Yuan and Qiao, "Diffusion-TS: interpretable diffusion for general time series generation", ICLR 2024.

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

    imputer_steps: int = Field(
        default=3000, ge=1, description="Training steps of the imputer, at most; it stops when 750 bring nothing."
    )
    steps: int = Field(default=1500, ge=1, description="Those of the diffusion model; no row is seen over 40 times.")

    def fit(self, series: Any, *, seed: int = 0) -> SeriesModel:
        """Learn from a table or any dataframe of one client, and return the fitted model."""
        table = as_series(series)
        rows = SeriesRows.of(table)
        need_rows(rows)
        refuse_unseen(table)
        settings = self.model_copy(update={"window": min(self.window, max(rows.lengths))})
        rng, whole = Rng(seed, "series"), Scale.of(rows.values)

        kept, held = rows.split(min(max(HELD_ROWS / len(rows.values), LEAST_HELD), MOST_HELD), settings.window)
        season = find_season(kept, held, settings, rng("season"))
        scale = Scale.of(season.remove(rows).values)
        bare = replace(Filler.closed(scale), season=season)
        scaled, unseen = bare.inner(kept), bare.inner(held)
        factors = FactorModels.of(scaled, scale)
        window = usual_window(len(table.features), 4 * settings.window)
        moments, _, _ = learn(scaled, window)
        base = Filler.closed(scale, (NetworkStage(factors), moments), trusted="moments")
        base = take_best(replace(base, season=season), held, settings, rng("base"))
        correction, own = train_imputers(settings, base, scaled, unseen, factors, rng)
        corrected, networks = CorrectedStage(base, factors, correction), NetworkStage(factors, None, own)
        filler, halves = prove(base.followed_by(corrected, networks), held, settings, rng("gates"))
        # What is proven is learned again, from the rows set apart, too.
        latest, _, _ = learn(bare.inner(rows), window)
        corrected = replace(corrected, base=replace(base, stages=(NetworkStage(factors), latest)))
        filler = replace(filler, stages=(corrected, networks))
        missing = np.isnan(rows.values)
        errors = imputation_errors(filler, rows, settings, rng("errors")) if missing.any() else rows.values[:0]
        filled = add_imputation_errors(filler.rows(rows, settings), missing, errors, rng("roughness"))
        weights = train_backbone(settings, whole.rows(rows.with_values(filled)), rng)
        calibration = calibrate(settings, tuple(zip(halves[::-1], held.halves(), strict=True)), rng("calibration"))
        order = np.arange(len(table.features))
        return SeriesModel(table.features, order, settings.window, calibration, settings, filler, weights, whole)


def train_backbone(settings: SeriesDiffusion, filled: SeriesRows, rng: Rng) -> NDArray[Any]:
    """Train a diffusion model on filled rows, scaled."""
    from cotempo.series.nn.training import TrainingWindows, train_one

    task, dataset = settings.denoising(), TrainingWindows.plain(windows_of(filled, settings.window))
    steps = passes(settings.steps, filled, settings)
    learned = NetworkState.fresh(task.specs(dataset.features), rng("backbone"), settings.precision)
    return train_one(task, learned, dataset, steps, settings.schedule(steps), rng)[0].average
