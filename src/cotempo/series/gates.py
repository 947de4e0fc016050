"""Gates: how far each stage of filling is trusted, found on measurements that are hidden for the purpose.

Only a fifth of what is left is hidden at a time, so that a gate is judged on gaps like those it will meet. A stage is
let in only where it is better than the one before by more than chance explains.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cotempo.series.filling import Filler, open_gates
from cotempo.series.windows import Rows

if TYPE_CHECKING:
    from cotempo.series.settings import Sizes

Floats = NDArray[np.float64]
CHOICES = (1.0, 0.5)
HIDDEN = 0.2
ENOUGH = 1500
FEWEST = 10
NEAR = 4
SURE = 2.0


@dataclass(frozen=True)
class Trial:
    """Hidden cells, each with its truth, its fillings, and where it belongs.

    `stages` is ``(4, cells)``, as `Filler.stages`; the others are ``(cells,)``. `group` is 0 for common and 1 for
    exclusive features, `pattern` as in `patterns`, and `half` which half of the rows the cell lies in.
    """

    truth: Floats
    stages: Floats
    group: NDArray[np.intp]
    pattern: NDArray[np.intp]
    row: NDArray[np.intp]
    half: NDArray[np.intp]

    def errors(self, gates: Floats) -> Floats:
        """Absolute errors with gates ``(3,)`` or ``(cells, 3)``."""
        filled = self.stages[0] + (np.diff(self.stages, axis=0).T * gates).sum(axis=1)
        return np.asarray(np.abs(filled - self.truth))

    def take(self, chosen: NDArray[np.bool_]) -> Trial:
        """Some of the cells."""
        columns = (self.group, self.pattern, self.row, self.half)
        return Trial(self.truth[chosen], self.stages[:, chosen], *(column[chosen] for column in columns))


def try_out(filler: Filler, rows: Rows, sizes: Sizes, stream: np.random.Generator) -> Trial:
    """Hide measured cells of some rows, in raw units, and fill them; errors are in scaled units."""
    scaled = filler.scale.apply(rows.values)
    seen = ~np.isnan(scaled)
    places = np.broadcast_to(np.arange(len(scaled))[:, None], scaled.shape)
    group = np.broadcast_to(np.arange(scaled.shape[1]) >= filler.common, scaled.shape).astype(np.intp)
    # Of few rows more draws are taken, so that nearly every measurement is hidden once.
    draws = 3 * min(max(math.ceil(ENOUGH / max(len(scaled), 1)), 2), 8)
    targets = [_hide(draw, seen, filler.common, stream) for draw in range(draws)]
    left = np.concatenate([np.where(target, np.nan, scaled) for target in targets])
    stages, known = filler.stages(Rows(left, rows.lengths * draws), sizes)
    target = np.concatenate(targets)
    groups, row = (np.tile(part, (draws, 1))[target] for part in (group, places))
    half = (row >= len(scaled) / 2).astype(np.intp)
    return Trial(np.tile(scaled, (draws, 1))[target], stages[:, target], groups, known[target], row, half)


def _hide(draw: int, seen: NDArray[np.bool_], common: int, stream: np.random.Generator) -> NDArray[np.bool_]:
    """A fifth of the rows, of the cells, or of the common features' rows, in turn."""
    rows = np.broadcast_to(stream.random((len(seen), 1)) < HIDDEN, seen.shape)
    if draw % 3 == 0:
        return rows & seen
    if draw % 3 == 1:
        return (stream.random(seen.shape) < HIDDEN) & seen
    return rows & seen & (np.arange(seen.shape[1]) < common)


def choose_gates(teaching: Trial, owning: Trial, half: int | None = None) -> Floats:
    """Choose gates that surely gain, for each group and pattern, one stage after the other.

    Parameters
    ----------
    teaching
        What the teacher was tried out on: it owes nothing to the owner.
    owning
        What ties and the own imputer were tried out on: rows they do not stem from.
    half
        Look only at the cells of this half; at all of them when left out.

    Returns
    -------
    array
        As `Filler.gates`. Where too few cells were tried, interpolation stands; a feature never seen in a window, about
        which interpolation has nothing to say, is left to the teacher.
    """
    gates = open_gates()
    gates[:, :2] = 0.0
    for group in (0, 1):
        for pattern in (0, 1):
            for stage in range(3):
                trial = teaching if group == 0 and stage < 2 else owning
                cells = _pick(trial, group, pattern, half)
                if len(np.unique(cells.row // NEAR)) >= FEWEST:
                    gates[group, pattern, stage] = _choose(cells, gates[group, pattern], stage)
    return gates


def _choose(cells: Trial, gates: Floats, stage: int) -> float:
    """The widest gate that surely gains."""
    before = cells.errors(gates)
    for choice in CHOICES:
        changed = gates.copy()
        changed[stage] = choice
        if sure_gain(before - cells.errors(changed), cells.row // NEAR) > 0:
            return choice
    return 0.0


def sure_gain(gains: Floats, block: NDArray[np.intp]) -> float:
    """The mean gain less two of its standard errors."""
    return float(gains.mean() - SURE * standard_error(gains, block))


def standard_error(gains: Floats, block: NDArray[np.intp]) -> float:
    """Of the mean gain, with cells of one block erring together."""
    _, index = np.unique(block, return_inverse=True)
    sums, counts = np.bincount(index, gains), np.bincount(index)
    spread = np.sqrt(((sums - gains.mean() * counts) ** 2).sum() * len(sums) / max(len(sums) - 1, 1))
    return float(spread / counts.sum())


def _pick(trial: Trial, group: int, pattern: int, half: int | None) -> Trial:
    """The cells of a group and pattern."""
    chosen = (trial.group == group) & (trial.pattern == pattern)
    return trial.take(chosen if half is None else chosen & (trial.half == half))


def fair_error(teaching: Trial, owning: Trial) -> float:
    """Mean absolute error where the gates of one half of the rows were chosen on the other half."""
    total = 0.0
    for half in (0, 1):
        gates = choose_gates(teaching, owning, half=1 - half)
        part = owning.take(owning.half == half)
        total += float(part.errors(gates[part.group, part.pattern]).sum())
    return total / max(len(owning.truth), 1)
