"""Gates: how far each stage of filling is trusted, found on measurements that are hidden for the purpose.

A stage is let in for a feature and a kind of gap only where it is better than what stands before it by more than chance
explains. About half of the cells are missing then, so that gaps are like those to come.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from cotempo.series.filling.gaps import BESIDE, EMPTY, KINDS, LONG_BESIDE, LONG_EMPTY, UNSEEN
from cotempo.series.filling.stages import Filler, blend
from cotempo.series.settings import SeriesSettings
from cotempo.series.windows import SeriesRows
from cotempo.typing import Floats

CHOICES = (1.0, 0.5, 0.0)
LEAST_HIDDEN, USUAL_MISSING = 0.2, 0.5
HIDINGS = 6
ENOUGH_ROWS = 1500
FEWEST_BLOCKS = 10
BLOCK_ROWS = 8
STANDARD_ERRORS = 2.0
RELATED = ((EMPTY, LONG_EMPTY), (BESIDE, LONG_BESIDE), (UNSEEN,))


@dataclass(frozen=True)
class Trial:
    """Hidden cells: truth, fillings ``(1 + fillings, cells)`` as of `Filler`, and where each belongs.

    `half` is which half of the rows the cell lies in; cells of the same `block` err together.
    """

    truth: Floats
    fillings: Floats
    feature: NDArray[np.intp]
    kind: NDArray[np.intp]
    block: NDArray[np.intp]
    half: NDArray[np.intp]

    def errors(self, gates: Floats) -> Floats:
        """Return absolute errors with gates ``(features, kinds, fillings)``."""
        return np.asarray(np.abs(blend(self.fillings, gates[self.feature, self.kind]) - self.truth))

    def take(self, chosen: NDArray[np.bool_]) -> Trial:
        """Return some of the cells."""
        return Trial(*(getattr(self, field.name)[..., chosen] for field in fields(self)))

    def join(self, other: Trial) -> Trial:
        """Join the cells of both, those of the other in blocks of their own."""
        other = replace(other, block=other.block + 1 + self.block.max(initial=-1))
        pairs = ((getattr(self, field.name), getattr(other, field.name)) for field in fields(self))
        return Trial(*(np.concatenate(pair, axis=-1) for pair in pairs))


def try_out(filler: Filler, rows: SeriesRows, settings: SeriesSettings, stream: np.random.Generator) -> Trial:
    """Hide measured cells of some rows, in raw units, and fill them; errors are in scaled units."""
    scaled = filler.inner(rows).values
    seen = ~np.isnan(scaled)
    # Of few rows more draws are taken, so that nearly every measurement is hidden once.
    draws = HIDINGS * min(max(math.ceil(ENOUGH_ROWS / max(len(scaled), 1)), 2), 8)
    targets = [_hide(draw, seen, filler.common, settings, stream) & seen for draw in range(draws)]
    left = np.concatenate([np.where(target, np.nan, scaled) for target in targets])
    fillings, kinds = filler.fillings(rows.with_values(left, draws), settings)
    target = np.concatenate(targets)
    late = (np.arange(len(seen))[:, None] >= len(seen) // 2).astype(np.intp)  # as `SeriesRows.halves`
    feature, block, half = (
        np.tile(np.broadcast_to(part, seen.shape), (draws, 1))[target]
        for part in (np.arange(seen.shape[1]), _blocks(rows), late)
    )
    return Trial(np.tile(scaled, (draws, 1))[target], fillings[:, target], feature, kinds[target], block, half)


def _hide(
    draw: int, seen: NDArray[np.bool_], common: int, settings: SeriesSettings, stream: np.random.Generator
) -> NDArray[np.bool_]:
    """Hide rows, cells, rows of common features, long gaps of all or of some features, or one feature, in turn."""
    share = max(LEAST_HIDDEN, 1 - (1 - USUAL_MISSING) / max(float(seen.mean()), 1e-9))
    (count, features), length = seen.shape, max(1, settings.window // 2)
    place, columns = np.arange(count)[:, None], np.arange(features)
    some = columns < common if common < features else stream.random(features) < 0.5
    rows, cells = stream.random((count, 1)) < share, stream.random(seen.shape) < share
    gap = (place + stream.integers(4 * length)) % (4 * length) < length
    one = (columns == stream.integers(features, size=(count, 1))[place[:, 0] // (8 * length)]) & (features > 1)
    return np.broadcast_to((rows, cells, rows & some, gap, gap & some, one)[draw % HIDINGS], seen.shape)


def _blocks(rows: SeriesRows) -> NDArray[np.intp]:
    """Number every few neighbouring rows of a piece, ``(rows, 1)``."""
    place = np.concatenate([np.zeros(0, dtype=np.intp), *(np.arange(length) for length in rows.lengths)])
    return (np.cumsum(place % BLOCK_ROWS == 0) - 1)[:, None]


def prove(
    filler: Filler, rows: SeriesRows, settings: SeriesSettings, stream: np.random.Generator
) -> tuple[Filler, tuple[Filler, Filler]]:
    """Choose the gates of a filler on rows that its stages did not learn from.

    Two more are returned, with gates chosen on either half of the rows: each may be judged on the other half.
    """
    if not len(rows.values):
        return filler, (filler, filler)
    trial = try_out(filler, rows, settings, stream)
    whole, *parts = (replace(filler, gates=choose_gates(filler, trial, half=half)) for half in (None, 0, 1))
    return whole, (parts[0], parts[1])


def take_best(filler: Filler, rows: SeriesRows, settings: SeriesSettings, stream: np.random.Generator) -> Filler:
    """Open the gates of closed forms to what is best on average; what is trusted stands where too little was tried."""
    if not len(rows.values):
        return filler
    trial = try_out(filler, rows, settings, stream)
    free, bound = (
        choose_gates(replace(filler, gates=gates), trial, sure=0.0) for gates in (0 * filler.gates, filler.gates)
    )
    return replace(filler, gates=np.where(free.any(axis=-1, keepdims=True), free, bound))


def choose_gates(
    filler: Filler,
    owning: Trial,
    teaching: Trial | None = None,
    taught: tuple[str, ...] = (),
    half: int | None = None,
    sure: float = STANDARD_ERRORS,
) -> Floats:
    """Choose gates that surely gain, one filling after the other, for each feature and kind of gap.

    The gates of `filler` stay where no gain is sure, or too few cells were tried. Fillings that learned from the
    owner's data are judged on `owning`, a trial on other rows; those named `taught`, which did not, on `teaching`, for
    common features. `half` restricts both to the cells of one half. A filling must gain by `sure` standard errors; 0
    among closed forms, which cannot have overfitted.
    """
    gates, common = filler.gates, np.arange(len(filler.gates)) < filler.common
    for place, name in enumerate(filler.names):
        for group in (common, ~common):
            trial = owning if teaching is None or name not in taught or group is not common else teaching
            cells = trial.take(group[trial.feature] & ((half is None) | (trial.half == half)))
            gates = _let_in(cells, gates, place, group, sure)
    return gates


def _let_in(trial: Trial, gates: Floats, place: int, group: NDArray[np.bool_], certainty: float) -> Floats:
    """Set one filling's gates for a group of features to what gains most, if that is sure."""
    found, best, before = gates.copy(), np.zeros(gates.shape[:2]), trial.errors(gates)
    for choice in CHOICES:
        changed = gates.copy()
        changed[..., place] = choice
        gains = before - trial.errors(changed)
        for related in RELATED:
            kinds = [kind for kind in related if len(np.unique(trial.block[trial.kind == kind])) >= FEWEST_BLOCKS]
            cells = np.isin(trial.kind, kinds)
            if kinds:
                unit = trial.feature[cells] * KINDS + trial.kind[cells]
                gain, error = weigh(gains[cells], before[cells], unit, trial.block[cells], best.size)
                mean, sure = (part.reshape(best.shape) for part in (gain, gain - certainty * error))
                better = group[:, None] & np.isin(np.arange(KINDS), kinds) & (sure > 0) & (mean > best)
                found[better, place], best[better] = choice, mean[better]
    return found


def weigh(
    gains: Floats, errors: Floats, unit: NDArray[np.intp], block: NDArray[np.intp], units: int
) -> tuple[Floats, Floats]:
    r"""Estimate each unit's mean gain, relative to its mean error before, and its standard error, ``(units,)``.

    Units are features in a kind of gap. An empirical Bayes estimate: they are drawn to the mean of all by as much as
    they agree,

    .. math:: w m_u + (1 - w) \bar m, \qquad w = \tau^2 / (\tau^2 + s_u^2)

    with the variance :math:`\tau^2` between units that the errors :math:`s_u` of their means do not explain. Cells of
    one block err together. A unit that was not tried in enough blocks is taken for any one of them.
    """
    names, places = np.unique(unit, return_inverse=True)
    blocks, index = np.unique(block, return_inverse=True)
    shape, flat = (len(blocks), len(names)), index * len(names) + places
    counts = np.bincount(flat, minlength=shape[0] * shape[1]).reshape(shape)
    size = np.bincount(places, errors) / counts.sum(axis=0)
    sums = np.bincount(flat, gains / np.where(size > 0, size, 1.0)[places], minlength=counts.size).reshape(shape)
    means = sums.sum(axis=0) / counts.sum(axis=0)
    rest = (sums - means * counts) / counts.sum(axis=0)
    law = rest.T @ rest * len(blocks) / (len(blocks) - 1)
    tried = (counts > 0).sum(axis=0) >= FEWEST_BLOCKS
    if not tried.any():
        tried[:] = True
    means, law = means[tried], law[np.ix_(tried, tried)]
    own, common, among = np.diag(law), float(law.mean()), float(means.mean())
    between = 0.0
    if len(means) > 1:
        alike = (law.sum() - own.sum()) / (len(own) * (len(own) - 1))
        between = max(float(means.var(ddof=1) - own.mean() + alike), 0.0)
    share = between / np.maximum(between + own, 1e-300)
    gain, error = np.full(units, among), np.full(units, math.sqrt(between + common))
    gain[names[tried]] = share * means + (1 - share) * among
    error[names[tried]] = np.sqrt(share * own + (1 - share) ** 2 * common)
    return gain, error


def cross_fitted_errors(
    filler: Filler, owning: Trial, teaching: Trial | None = None, taught: tuple[str, ...] = ()
) -> Floats:
    """Return absolute errors, ``(cells,)``, where the gates of one half of the rows were chosen on the other half."""
    gates = [choose_gates(filler, owning, teaching, taught, half=1 - half) for half in (0, 1)]
    return np.concatenate([owning.take(owning.half == half).errors(gates[half]) for half in (0, 1)])
