"""Gates: how far each stage of filling is trusted, found on measurements that are hidden for the purpose.

Only a fifth of what is left is hidden at a time, so that a gate is judged on gaps like those it will meet.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cotempo.series.filling import Filler, open_gates
from cotempo.series.windows import Cover, Rows

if TYPE_CHECKING:
    from cotempo.series.settings import Sizes

Floats = NDArray[np.float64]
CHOICES = (0.0, 0.5, 1.0)
DRAWS = 6
HIDDEN = 0.2
FEWEST = 40
MARGIN = 0.02


@dataclass(frozen=True)
class Trial:
    """Hidden cells, each with its truth, its three fillings, and where it belongs; all ``(cells,)``.

    `group` is 0 for common and 1 for exclusive features, `pattern` 1 where something else was seen in the row, and
    `half` which half of the rows the cell lies in.
    """

    truth: Floats
    lines: Floats
    taught: Floats
    own: Floats
    group: NDArray[np.intp]
    pattern: NDArray[np.intp]
    half: NDArray[np.intp]

    def errors(self, first: float | Floats, second: float | Floats) -> Floats:
        """Absolute errors with the given gates."""
        filled = self.lines + first * (self.taught - self.lines) + second * (self.own - self.taught)
        return np.abs(filled - self.truth)


def try_out(filler: Filler, rows: Rows, sizes: Sizes, stream: np.random.Generator) -> Trial:
    """Hide measured cells of some rows, in raw units, and fill them; errors are in scaled units."""
    scaled = filler.scale.apply(rows.values)
    seen = ~np.isnan(scaled)
    cover = Cover(rows, sizes.reach, max(1, sizes.reach // 2))
    group = np.broadcast_to(np.arange(scaled.shape[1]) >= filler.common, scaled.shape).astype(np.intp)
    half = np.broadcast_to((np.arange(len(scaled)) >= len(scaled) / 2)[:, None], scaled.shape).astype(np.intp)
    targets = [_hide(draw, seen, filler.common, stream) for draw in range(DRAWS)]
    left = [np.where(target, np.nan, scaled) for target in targets]
    windows = [np.where(cover.inside[..., None], cover.take(part), np.nan) for part in left]
    stages = [np.split(stage, DRAWS) for stage in filler.stages(np.concatenate(windows), sizes)]
    found = []
    for draw, target in enumerate(targets):
        fillings = [cover.blend(stage[draw])[target] for stage in stages]
        pattern = np.broadcast_to((~np.isnan(left[draw])).any(axis=1, keepdims=True), target.shape).astype(np.intp)
        found.append((scaled[target], *fillings, group[target], pattern[target], half[target]))
    return Trial(*(np.concatenate(column) for column in zip(*found, strict=True)))


def _hide(draw: int, seen: NDArray[np.bool_], common: int, stream: np.random.Generator) -> NDArray[np.bool_]:
    """A fifth of the rows, of the cells, or of the common features' rows, in turn."""
    rows = np.broadcast_to(stream.random((len(seen), 1)) < HIDDEN, seen.shape)
    if draw % 3 == 0:
        return rows & seen
    if draw % 3 == 1:
        return (stream.random(seen.shape) < HIDDEN) & seen
    return rows & seen & (np.arange(seen.shape[1]) < common)


def choose_gates(teaching: Trial, owning: Trial, half: int | None = None) -> Floats:
    """Choose the gates with the least error in each group and pattern.

    Parameters
    ----------
    teaching
        What the teacher was tried out on.
    owning
        What the own imputer was tried out on: rows it was not trained on.
    half
        Look only at the cells of this half; at all of them when left out.

    Returns
    -------
    array
        As `Filler.gates`. Where nothing was tried, the teacher is trusted and the own imputer is not. The own imputer
        must be better by two hundredths, and by more than chance explains, to be let in.
    """
    gates = open_gates()
    for group in (0, 1):
        for pattern in (0, 1):
            first = gates[group, pattern, 0]
            if group == 0 and (cells := _pick(teaching, group, pattern, half)) is not None:
                means = {choice: cells.errors(choice, 0.0).mean() for choice in CHOICES}
                first = max(CHOICES, key=lambda choice: (-means[choice], choice))
            second = 0.0
            if (cells := _pick(owning, group, pattern, half)) is not None:
                gains = {choice: _gain(cells, first, choice) for choice in CHOICES}
                second = max(CHOICES, key=lambda choice: (gains[choice], -choice))
            gates[group, pattern] = first, second
    return gates


def _gain(cells: Trial, first: float, choice: float) -> float:
    """How much better a gate for the own imputer surely is than none; 0 where that could be chance."""
    before = cells.errors(first, 0.0)
    better = before - cells.errors(first, choice)
    # Neighbouring cells, and draws that hide the same ones, err alike: a third of them counts as independent.
    chance = 2 * better.std() / np.sqrt(len(better) / 3)
    gain = float(better.mean())
    return gain if gain > max(MARGIN * before.mean(), chance) else min(gain, 0.0)


def _pick(trial: Trial, group: int, pattern: int, half: int | None) -> Trial | None:
    """The cells of a group and pattern, or None if there are hardly any."""
    chosen = (trial.group == group) & (trial.pattern == pattern)
    if half is not None:
        chosen &= trial.half == half
    if chosen.sum() < FEWEST:
        return None
    columns = (getattr(trial, name)[chosen] for name in trial.__dataclass_fields__)
    return Trial(*columns)


def fair_error(teaching: Trial, owning: Trial) -> float:
    """Mean absolute error where the gates of one half of the rows were chosen on the other half."""
    total, count = 0.0, 0
    for half in (0, 1):
        gates = choose_gates(teaching, owning, half=1 - half)
        cells = owning.half == half
        gate = gates[owning.group[cells], owning.pattern[cells]]
        part = replace(owning, **{name: getattr(owning, name)[cells] for name in owning.__dataclass_fields__})
        total += float(part.errors(gate[:, 0], gate[:, 1]).sum())
        count += int(cells.sum())
    return total / max(count, 1)
