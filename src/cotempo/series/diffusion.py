"""SeriesDiffusion: impute and generate one owner's series; CorrectedStage: a network that corrects closed forms."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from cotempo.federation import Rng
from cotempo.progress import Progress
from cotempo.series.filling.calibration import add_imputation_errors, calibrate, imputation_errors
from cotempo.series.filling.factor_models import FactorModels
from cotempo.series.filling.gates import prove, take_best
from cotempo.series.filling.stages import Filler, NetworkStage, in_windows
from cotempo.series.fitted import SeriesModel
from cotempo.series.nn.parameters import NetworkState
from cotempo.series.season import find_season
from cotempo.series.seriesmoments import learn, usual_window
from cotempo.series.settings import SeriesSettings
from cotempo.series.windows import Cover, Scale, SeriesRows, Timing, as_series, need_rows, refuse_unseen, windows_of
from cotempo.typing import Floats

if TYPE_CHECKING:
    from cotempo.privacy.settings import Privacy
    from cotempo.series.nn.training import Task, TrainingWindows

    Data = Callable[[np.random.Generator], TrainingWindows]

HELD_ROWS, LEAST_HELD, MOST_HELD = 2000, 0.05, 0.2
PASSES = 40
CHUNK, PATIENCE = 250, 3
MOST_JUDGED = 1024
STRETCHES = (1, 2, 4)
COSTS = {"correction": 1.0, "imputer": 1.0, "diffusion model": 1.5}  # of a training step, relative, measured


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

    def fit(
        self, series: Any, *, seed: int = 0, progress: bool | None = None, privacy: Privacy | None = None
    ) -> SeriesModel:
        """Learn from a series and return the fitted model.

        Parameters
        ----------
        series
            A table, or a dataframe or file of one client.
        seed
            Of all random numbers.
        progress
            Show a progress bar, or where there is no terminal a line now and then; `False` shows nothing.
        privacy
            With an `epsilon`, learn with noise, so that the model and all it draws may be given away. It needs
            `ranges`, and the `unit` is a row (a time point) or a sequence. Gaps are then filled by noised moments or
            interpolated, by no network, and intervals are not calibrated.
        """
        with Progress(type(self).__name__, progress) as say:
            if privacy is None or privacy.epsilon is None:
                return self._fit(series, seed, say)
            from cotempo.series.private.diffusion import fit_privately

            table = as_series(series)
            rows = SeriesRows.of(table)
            need_rows(rows)
            settings = self.model_copy(update={"window": min(self.window, max(rows.lengths))})
            return fit_privately(settings, table, privacy, Rng(seed, "series"), say)

    def _fit(self, series: Any, seed: int, say: Progress) -> SeriesModel:
        table = as_series(series)
        rows = SeriesRows.of(table)
        need_rows(rows)
        refuse_unseen(table.features, table.values)
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
        work = Work(say, settings.plan(kept, rows))
        correction, own = train_imputers(settings, base, scaled, unseen, factors, rng, work)
        corrected, networks = CorrectedStage(base, factors, correction), NetworkStage(factors, None, own)
        filler, halves = prove(base.followed_by(corrected, networks), held, settings, rng("gates"))
        # What is proven is learned again, from the rows set apart, too.
        latest, _, _ = learn(bare.inner(rows), window)
        corrected = replace(corrected, base=replace(base, stages=(NetworkStage(factors), latest)))
        filler = replace(filler, stages=(corrected, networks))
        missing = np.isnan(rows.values)
        errors = imputation_errors(filler, rows, settings, rng("errors")) if missing.any() else rows.values[:0]
        filled = add_imputation_errors(filler.rows(rows, settings), missing, errors, rng("roughness"))
        weights = train_backbone(settings, whole.rows(rows.with_values(filled)), rng, work.at("diffusion model"))
        calibration = calibrate(settings, tuple(zip(halves[::-1], held.halves(), strict=True)), rng("calibration"))
        order = np.arange(len(table.features))
        known = (table.features, order, settings.window, calibration, Timing.of(table))
        return SeriesModel(*known, settings, filler, weights, whole)

    def plan(self, kept: SeriesRows, rows: SeriesRows) -> dict[str, int]:
        """Return the training steps of each phase, at most; imputers may stop earlier."""
        few = max(1, self.imputer_steps // 6)
        return {
            "correction": passes(few, kept, self),
            "imputer": passes(self.imputer_steps, kept, self),
            "diffusion model": passes(self.steps, rows, self),
        }


@dataclass(frozen=True)
class Work:
    """How far training has come, for a progress display that is called with what is done, the total and the phase."""

    say: Callable[[float, float, str], None]
    plan: Mapping[str, int]

    def at(self, phase: str) -> Callable[[int], None]:
        """Begin a phase: return what to call with its steps done. Steps that an earlier one saved count as done."""
        sizes = {name: COSTS[name] * steps for name, steps in self.plan.items()}
        before = sum(list(sizes.values())[: list(sizes).index(phase)])

        def tick(steps: int) -> None:
            self.say(before + COSTS[phase] * steps, sum(sizes.values()), phase)

        tick(0)
        return tick


def train_backbone(
    settings: SeriesDiffusion, filled: SeriesRows, rng: Rng, tick: Callable[[int], None]
) -> NDArray[Any]:
    """Train a diffusion model on filled rows, scaled."""
    from cotempo.series.nn.training import TrainingWindows, train_one

    task, dataset = settings.denoising(), TrainingWindows.plain(windows_of(filled, settings.window))
    steps = passes(settings.steps, filled, settings)
    learned = NetworkState.fresh(task.specs(dataset.features), rng("backbone"), settings.precision)
    return train_one(task, learned, dataset, steps, settings.schedule(steps), rng, tick)[0].average


@dataclass(frozen=True)
class CorrectedStage:
    """A stage: all fillings of a filler in closed form, and an imputer's correction of what that makes of them.

    What closed forms see reaches farther than the windows of an imputer, so a long gap is filled by a cycle that no
    window shows; the imputer adds what is not linear.
    """

    base: Filler
    factors: FactorModels
    weights: NDArray[Any]

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the filler, and the imputer's."""
        return (*self.base.names, "correction")

    def fill(self, rows: SeriesRows, settings: SeriesSettings) -> Floats:
        """Fill scaled rows, and correct them in windows."""
        from cotempo.series.nn.imputer import fill_windows

        fillings, kinds = self.base.fillings(rows, settings)
        guess = self.base.mix(fillings, kinds)

        def correct(windows: Floats) -> Floats:
            known, start = np.moveaxis(windows.reshape(*windows.shape[:2], -1, 2), -1, 0)
            return fill_windows(settings, known, self.factors, None, self.weights, start)[1:]

        both = np.stack([rows.values, guess], axis=-1).reshape(len(guess), -1)
        return np.concatenate([fillings[1:], in_windows(rows.with_values(both), settings, correct)])


def train_imputers(
    settings: SeriesDiffusion, base: Filler, kept: SeriesRows, held: SeriesRows, factors: FactorModels, rng: Rng,
    work: Work,
) -> tuple[NDArray[Any], NDArray[Any]]:  # fmt: skip
    """Train an imputer that corrects a filler of scaled rows, and one that corrects factors.

    They err in different ways, so that gates gain by mixing them. The first is near the truth from the start and soon
    learns by heart: it is trained for a sixth of the steps, at half the rate.
    """
    from cotempo.series.nn.losses import Correcting, Filling
    from cotempo.series.nn.training import TrainingWindows

    def filled(rows: SeriesRows, draws: int, stream: np.random.Generator) -> TrainingWindows:
        return hide_and_fill(rows, draws, base, factors, settings, stream)

    few, steps = (work.plan[name] for name in ("correction", "imputer"))
    draws, rate = math.ceil(min(CHUNK, few) * settings.batch / len(kept.values)), settings.imputer_rate
    plain, unseen = (TrainingWindows.plain(windows_of(rows, settings.reach), factors) for rows in (kept, held))
    judged, own = filled(held, len(STRETCHES), rng("judged")), Rng(*rng.key, "correction")
    correcting, filling = Correcting(settings.imputer()), Filling(settings.imputer())
    first = Course(few, rate / 2, lambda stream: filled(kept, draws, stream), judged, work.at("correction"))
    correction = _train(settings, correcting, first, own)
    second = Course(steps, rate, lambda _: plain, unseen, work.at("imputer"))
    return correction, _train(settings, filling, second, rng)


class Course(NamedTuple):
    """How an imputer is trained: for how many steps, at which rate, on what, judged on what, and whom to tell."""

    steps: int
    rate: float
    given: Data
    judged: TrainingWindows
    tick: Callable[[int], None]


def _train(settings: SeriesSettings, task: Task, course: Course, rng: Rng) -> NDArray[Any]:
    """Train an imputer until it gains no more on what it is judged on; return its best."""
    from cotempo.series.nn.training import judge, train_one

    judged, schedule = course.judged.thin(MOST_JUDGED), settings.schedule(course.steps, course.rate)
    least, since = np.inf, 0
    learned = best = NetworkState.fresh(task.specs(judged.features), rng("imputer"), settings.precision)
    for first in range(0, course.steps, CHUNK):
        size, part = min(CHUNK, course.steps - first), Rng(*rng.key, first)
        tick = partial(_tick, course, first)
        learned, _ = train_one(task, learned, course.given(part("hidden")), size, schedule, part, tick)
        loss = judge(task, learned, judged, schedule) if len(judged.windows) else -first
        since = 0 if loss < least else since + 1
        best, least = (learned, loss) if loss < least else (best, least)
        if since == PATIENCE:
            break
    return best.average


def _tick(course: Course, first: int, steps: int) -> None:
    course.tick(first + steps)


def hide_and_fill(
    rows: SeriesRows, draws: int, base: Filler, factors: FactorModels, settings: SeriesSettings,
    stream: np.random.Generator,
) -> TrainingWindows:  # fmt: skip
    """Return all windows of scaled rows, `draws` times, each time with other cells hidden and filled."""
    from cotempo.series.nn.training import TrainingWindows

    seen = ~np.isnan(rows.values)
    left = [seen & ~hide(rows, STRETCHES[draw % len(STRETCHES)] * settings.reach, stream) for draw in range(draws)]
    holes = rows.with_values(np.concatenate([np.where(part, rows.values, np.nan) for part in left]), draws)
    cover = Cover(holes, settings.reach, 1, max(1, settings.reach // 8))
    truth, guess = (cover.windows(part) for part in (np.tile(rows.values, (draws, 1)), base.scaled(holes, settings)))
    kept = cover.take(np.concatenate(left)) & cover.inside[..., None]
    whole = np.ones(seen.shape[1], dtype=bool)
    return TrainingWindows(np.nan_to_num(truth), ~np.isnan(truth) & ~kept, factors, whole, np.nan_to_num(guess), kept)


def hide(rows: SeriesRows, length: int, stream: np.random.Generator) -> NDArray[np.bool_]:
    """Draw what to hide of some rows, in stretches of a length, ``(rows, features)``."""
    import torch

    from cotempo.series.nn.losses import draw_masks, hidden

    cover, features = Cover(rows, length, length), rows.values.shape[1]
    seen = torch.tensor(cover.take(~np.isnan(rows.values)))[None]
    generator = torch.Generator().manual_seed(int(stream.integers(2**62)))
    chances = draw_masks(generator, seen.shape[:2], length, features, features)
    whole = torch.ones(1, features, dtype=torch.bool)
    found = np.zeros(rows.values.shape, dtype=bool)
    found[cover.index] = hidden(chances, seen, whole, whole)[0].numpy()
    return found


def passes(steps: int, rows: SeriesRows, settings: SeriesSettings) -> int:
    """Limit training steps so that no row is seen more than about `PASSES` times."""
    return min(steps, math.ceil(PASSES * len(rows.values) / settings.batch))
