"""A network that corrects closed forms: it learns from gaps that are hidden in whole rows and filled by them first."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cotempo.federation import Rng
from cotempo.series.filling.stages import Filler, in_windows
from cotempo.series.nn.state import Learned
from cotempo.series.filling.factor_models import Ties
from cotempo.series.windows import Cover, Rows, windows_of

if TYPE_CHECKING:
    from cotempo.series.diffusion import SeriesDiffusion
    from cotempo.series.settings import Sizes
    from cotempo.series.nn.training import Material, Task

Floats = NDArray[np.float64]
PASSES = 40
CHUNK, PATIENCE = 250, 3
MOST_JUDGED = 1024
STRETCHES = (1, 2, 4)


@dataclass(frozen=True)
class Corrected:
    """A stage: all fillings of a filler in closed form, and an imputer's correction of what that makes of them.

    What closed forms see reaches farther than the windows of an imputer, so a long gap is filled by a cycle that no
    window shows; the imputer adds what is not linear.
    """

    base: Filler
    ties: Ties
    weights: NDArray[Any]

    @property
    def names(self) -> tuple[str, ...]:
        """Those of the filler, and the imputer's."""
        return (*self.base.names, "correction")

    def fill(self, rows: Rows, sizes: Sizes) -> Floats:
        """Fill scaled rows, and correct them in windows."""
        fillings, kinds = self.base.fillings(rows, sizes)
        guess = self.base.mix(fillings, kinds)
        both = np.stack([rows.values, guess], axis=-1).reshape(len(guess), -1)
        found = in_windows(rows.with_values(both), sizes, lambda windows: self._correct(windows, sizes))
        return np.concatenate([fillings[1:], found])

    def _correct(self, windows: Floats, sizes: Sizes) -> Floats:
        import torch

        from cotempo.devices import find_device
        from cotempo.series.nn.parameters import views
        from cotempo.series.nn.losses import first_guess
        from cotempo.series.nn.training import load_ties

        place, dtype = find_device(sizes.device), getattr(torch, sizes.precision)
        values, guess = np.moveaxis(windows.reshape(*windows.shape[:2], -1, 2), -1, 0)
        features, seen = values.shape[2], torch.tensor(~np.isnan(values), device=place)[None]
        known, start = (torch.tensor(np.nan_to_num(part), device=place, dtype=dtype)[None] for part in (values, guess))
        ties, imputer = load_ties([self.ties], features, place, dtype), sizes.imputer()
        with torch.no_grad():
            given = replace(first_guess(known, seen, ties["centre"]), guess=start)
            weights = views(torch.tensor(self.weights, device=place)[None], imputer.leaves(features))
            return np.asarray(imputer(weights, given, ties["spread"]).double().cpu().numpy())


def train_imputers(
    sizes: SeriesDiffusion, base: Filler, kept: Rows, held: Rows, ties: Ties, rng: Rng
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Train an imputer that corrects a filler of scaled rows, and one that corrects ties.

    They err in different ways, so that gates gain by mixing them. The first is near the truth from the start and soon
    learns by heart: it is trained for a sixth of the steps, at half the rate.
    """
    from cotempo.series.nn.losses import Correcting, Filling
    from cotempo.series.nn.training import Material

    def filled(rows: Rows, draws: int, stream: np.random.Generator) -> Material:
        return hide_and_fill(rows, draws, lambda holes: base.scaled(holes, sizes), ties, sizes, stream)

    few, steps = (passes(count, kept, sizes) for count in (max(1, sizes.imputer_steps // 6), sizes.imputer_steps))
    draws, rate = math.ceil(min(CHUNK, few) * sizes.batch / len(kept.values)), sizes.imputer_rate
    plain, unseen = (Material.plain(windows_of(rows, sizes.reach), ties) for rows in (kept, held))
    judged, own = filled(held, len(STRETCHES), rng("judged")), Rng(*rng.key, "correction")
    correcting, filling = Correcting(sizes.imputer()), Filling(sizes.imputer())
    return (
        _train(sizes, correcting, few, rate / 2, lambda stream: filled(kept, draws, stream), judged, own),
        _train(sizes, filling, steps, rate, lambda _: plain, unseen, rng),
    )


def _train(
    sizes: Sizes, task: Task, steps: int, rate: float, given: Callable[[np.random.Generator], Material],
    judged: Material, rng: Rng,
) -> NDArray[Any]:  # fmt: skip
    """Train an imputer until it gains no more on what it is judged on; return its best."""
    from cotempo.series.nn.training import judge, train

    judged, schedule, least, since = judged.thin(MOST_JUDGED), sizes.schedule(steps, rate), np.inf, 0
    learned = best = Learned.fresh(task.leaves(judged.features), rng("imputer"), sizes.precision)
    for first in range(0, steps, CHUNK):
        size, part = min(CHUNK, steps - first), Rng(*rng.key, first)
        ((learned,), _) = train(task, [learned], [given(part("hidden"))], size, schedule, [part])
        loss = judge(task, learned, judged, schedule) if len(judged.windows) else -first
        since = 0 if loss < least else since + 1
        best, least = (learned, loss) if loss < least else (best, least)
        if since == PATIENCE:
            break
    return best.average


def hide_and_fill(
    rows: Rows, draws: int, fill: Callable[[Rows], Floats], ties: Ties, sizes: Sizes, stream: np.random.Generator
) -> Material:
    """All windows of scaled rows, as often as asked, each time with other cells hidden and filled."""
    from cotempo.series.nn.training import Material

    seen = ~np.isnan(rows.values)
    left = [seen & ~hide(rows, STRETCHES[draw % len(STRETCHES)] * sizes.reach, stream) for draw in range(draws)]
    holes = rows.with_values(np.concatenate([np.where(part, rows.values, np.nan) for part in left]), draws)
    cover = Cover(holes, sizes.reach, 1, max(1, sizes.reach // 8))
    truth, guess = (cover.windows(part) for part in (np.tile(rows.values, (draws, 1)), fill(holes)))
    kept = cover.take(np.concatenate(left)) & cover.inside[..., None]
    whole = np.ones(seen.shape[1], dtype=bool)
    return Material(np.nan_to_num(truth), ~np.isnan(truth) & ~kept, ties, whole, np.nan_to_num(guess), kept)


def hide(rows: Rows, length: int, stream: np.random.Generator) -> NDArray[np.bool_]:
    """What to hide of some rows, in stretches of a length, each in a way of its own, ``(rows, features)``."""
    import torch

    from cotempo.series.filling.masking import Chances, draw_chances, hidden

    cover, features = Cover(rows, length, length), rows.values.shape[1]
    seen = torch.tensor(cover.take(~np.isnan(rows.values)))[None]
    generator = torch.Generator().manual_seed(int(stream.integers(2**62)))
    chances = draw_chances(generator, seen.shape[:2], length, features, features, torch.float32)
    whole = torch.ones(1, features, dtype=torch.bool)
    found = np.zeros(rows.values.shape, dtype=bool)
    found[cover.index] = hidden(Chances(**chances), seen, whole, whole)[0].numpy()
    return found


def passes(steps: int, rows: Rows, sizes: Sizes) -> int:
    """So many steps, or fewer where rows are so few that they would be gone through too often."""
    return min(steps, math.ceil(PASSES * len(rows.values) / sizes.batch))
