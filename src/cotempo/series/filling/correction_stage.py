"""CorrectedStage: a network that corrects closed forms, trained on gaps that these filled first."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cotempo.federation import Rng
from cotempo.series.filling.factor_models import FactorModels
from cotempo.series.filling.stages import Filler, in_windows
from cotempo.series.nn.parameters import NetworkState
from cotempo.series.settings import SeriesSettings
from cotempo.series.windows import Cover, SeriesRows, windows_of
from cotempo.typing import Floats

if TYPE_CHECKING:
    from cotempo.series.diffusion import SeriesDiffusion
    from cotempo.series.nn.training import Task, TrainingWindows

    Data = Callable[[np.random.Generator], TrainingWindows]

PASSES = 40
CHUNK, PATIENCE = 250, 3
MOST_JUDGED = 1024
STRETCHES = (1, 2, 4)


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
        from cotempo.series.nn.teacher import correct_windows

        fillings, kinds = self.base.fillings(rows, settings)
        guess = self.base.mix(fillings, kinds)

        def correct(windows: Floats) -> Floats:
            known, start = np.moveaxis(windows.reshape(*windows.shape[:2], -1, 2), -1, 0)
            return correct_windows(settings, known, start, self.factors, self.weights)

        both = np.stack([rows.values, guess], axis=-1).reshape(len(guess), -1)
        return np.concatenate([fillings[1:], in_windows(rows.with_values(both), settings, correct)])


def train_imputers(
    settings: SeriesDiffusion, base: Filler, kept: SeriesRows, held: SeriesRows, factors: FactorModels, rng: Rng
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Train an imputer that corrects a filler of scaled rows, and one that corrects factors.

    They err in different ways, so that gates gain by mixing them. The first is near the truth from the start and soon
    learns by heart: it is trained for a sixth of the steps, at half the rate.
    """
    from cotempo.series.nn.losses import Correcting, Filling
    from cotempo.series.nn.training import TrainingWindows

    def filled(rows: SeriesRows, draws: int, stream: np.random.Generator) -> TrainingWindows:
        return hide_and_fill(rows, draws, lambda holes: base.scaled(holes, settings), factors, settings, stream)

    few, steps = (
        passes(count, kept, settings) for count in (max(1, settings.imputer_steps // 6), settings.imputer_steps)
    )
    draws, rate = math.ceil(min(CHUNK, few) * settings.batch / len(kept.values)), settings.imputer_rate
    plain, unseen = (TrainingWindows.plain(windows_of(rows, settings.reach), factors) for rows in (kept, held))
    judged, own = filled(held, len(STRETCHES), rng("judged")), Rng(*rng.key, "correction")
    correcting, filling = Correcting(settings.imputer()), Filling(settings.imputer())
    return (
        _train(settings, correcting, few, rate / 2, lambda stream: filled(kept, draws, stream), judged, own),
        _train(settings, filling, steps, rate, lambda _: plain, unseen, rng),
    )


def _train(
    settings: SeriesSettings, task: Task, steps: int, rate: float, given: Data, judged: TrainingWindows, rng: Rng
) -> NDArray[Any]:
    """Train an imputer until it gains no more on what it is judged on; return its best."""
    from cotempo.series.nn.training import judge, train_one

    judged, schedule, least, since = judged.thin(MOST_JUDGED), settings.schedule(steps, rate), np.inf, 0
    learned = best = NetworkState.fresh(task.specs(judged.features), rng("imputer"), settings.precision)
    for first in range(0, steps, CHUNK):
        size, part = min(CHUNK, steps - first), Rng(*rng.key, first)
        learned, _ = train_one(task, learned, given(part("hidden")), size, schedule, part)
        loss = judge(task, learned, judged, schedule) if len(judged.windows) else -first
        since = 0 if loss < least else since + 1
        best, least = (learned, loss) if loss < least else (best, least)
        if since == PATIENCE:
            break
    return best.average


def hide_and_fill(
    rows: SeriesRows,
    draws: int,
    fill: Callable[[SeriesRows], Floats],
    factors: FactorModels,
    settings: SeriesSettings,
    stream: np.random.Generator,
) -> TrainingWindows:
    """Return all windows of scaled rows, `draws` times, each time with other cells hidden and filled."""
    from cotempo.series.nn.training import TrainingWindows

    seen = ~np.isnan(rows.values)
    left = [seen & ~hide(rows, STRETCHES[draw % len(STRETCHES)] * settings.reach, stream) for draw in range(draws)]
    holes = rows.with_values(np.concatenate([np.where(part, rows.values, np.nan) for part in left]), draws)
    cover = Cover(holes, settings.reach, 1, max(1, settings.reach // 8))
    truth, guess = (cover.windows(part) for part in (np.tile(rows.values, (draws, 1)), fill(holes)))
    kept = cover.take(np.concatenate(left)) & cover.inside[..., None]
    whole = np.ones(seen.shape[1], dtype=bool)
    return TrainingWindows(np.nan_to_num(truth), ~np.isnan(truth) & ~kept, factors, whole, np.nan_to_num(guess), kept)


def hide(rows: SeriesRows, length: int, stream: np.random.Generator) -> NDArray[np.bool_]:
    """Draw what to hide of some rows, in stretches of a length, ``(rows, features)``."""
    import torch

    from cotempo.series.filling.masking import draw_masks, hidden

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
