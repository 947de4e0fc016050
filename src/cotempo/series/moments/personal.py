"""Personal processes: how far an owner's process follows the others' window moments, judged on its own hidden cells."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cotempo.series.filling.gaps import interpolate_rows
from cotempo.series.moments.gaussian import CONSTANT_VARIANCE, Gaussian
from cotempo.series.moments.model_choice import PRIORS, hidings, piece_stream
from cotempo.series.moments.moments import Units, WindowMoments, find_units, sum_units
from cotempo.series.seriesmoments import learn, own_sums
from cotempo.series.windows import SeriesRows
from cotempo.typing import Floats

SHARES = (0.0, 0.03, 0.1, 0.3, 1.0)
MOST_HIDDEN, MOST_SHIFTS = 0.2, 8
FEWEST_HIDDEN, FEWEST_BLOCKS, BLOCK_ROWS = 30, 3, 12
GOLDEN = 0.6180339887  # of a piece: gaps that come at regular times fall on others
KIND_EVERY = 9  # of so many blocks one has hidden rows, one hidden cells and one is hidden


class PooledSums(NamedTuple):
    """The totals over clients, and what this one added to them, both of its features."""

    total: WindowMoments
    sent: WindowMoments
    prior: int


@dataclass(frozen=True)
class Choice:
    r"""How far an owner follows the others.

    .. math:: M = (1 - s) M_{\mathrm{own}} + s M_{\mathrm{all}}

    are the moments it fills with, `share` is :math:`s` and `prior` one of `PRIORS`. `alone` and `together` are sums of
    absolute errors on hidden cells in each block of rows, in the owner's deviations, ``(blocks,)``; `cells` says how
    many were hidden. `lines` is the sum of errors of linear interpolation there, and `pooled` that of :math:`s = 1`.
    `sensors` has the mean error of the chosen filling and of the line for each feature, in its unit, ``(2, features)``.

    Alone is what `SeriesMoments` learns from the owner's rows, in the owner's own units: nothing that others have or do
    can change it.
    """

    share: float
    prior: int
    alone: Floats
    together: Floats
    cells: int
    lines: float = 0.0
    pooled: float = 0.0
    sensors: Floats = field(default_factory=lambda: np.zeros((2, 0)))

    def process(self, own: WindowMoments, total: WindowMoments) -> Gaussian:
        """Return the process for an owner's moments and those of all."""
        return Gaussian.of(own * (1 - self.share) + total * self.share, PRIORS[self.prior])


def follow(rows: SeriesRows, units: Units, sums: PooledSums, window: int) -> Choice:
    """Choose how far to follow the others: hide cells, learn from the rest, alone and with shares of others' sums.

    Gaps hidden are like those the rows have. With too few cells to hide, an owner follows the others fully. `window` is
    that of the owner's own model.
    """
    mine = find_units(**sum_units(rows))
    target = hide_alike(mine.rows(rows))
    blocks = np.arange(len(target)) // BLOCK_ROWS
    left = SeriesRows(np.where(target, np.nan, rows.values), rows.lengths)
    if target.sum() < FEWEST_HIDDEN or len(np.unique(blocks[target.any(axis=1)])) < FEWEST_BLOCKS:
        return Choice(1.0, sums.prior, np.zeros(0), np.zeros(0), 0)
    spread, cells = mine.step * np.sqrt(_variances(mine.rows(rows))), int(target.sum())

    def errors_of(filled: Floats) -> Floats:
        errors = np.abs(filled - rows.values) / spread
        return np.asarray(np.bincount(blocks, np.where(target, errors, 0.0).sum(axis=1)), dtype=np.float64)

    def by_sensor(filled: Floats) -> Floats:
        sums = np.where(target, np.abs(filled - rows.values), 0.0).sum(axis=0)
        return np.where(target.any(axis=0), sums / np.maximum(target.sum(axis=0), 1), np.nan)

    line = interpolate_rows(left, np.zeros(left.values.shape[1]))
    lines = float(errors_of(line).sum())
    model, _, _ = learn(left, window)
    filled = [model.measure(left)[0]]
    alone = errors_of(filled[0])
    others = sums.total + sums.sent * -1.0
    if not others.counts.any():
        each = np.stack([by_sensor(filled[0]), by_sensor(line)])
        return Choice(0.0, model.prior, alone, alone, cells, lines, sensors=each)
    own, inner = own_sums(left, units, len(sums.total.products)), units.rows(left)

    tried = [(0.0, model.prior), *((share, model.prior) for share in SHARES[1:-1]), (1.0, sums.prior)]
    for share, prior in tried[1:]:
        filled.append(units.undo(Gaussian.of(own + others * share, PRIORS[prior]).fill(inner)))
    errors = np.array([errors_of(each) for each in filled])
    best, odd = int(errors.sum(axis=1).argmin()), np.arange(errors.shape[1]) % 2 == 1
    # Blocks in turn: what is chosen on one half is judged on the other; an owner that follows nobody gains nothing.
    halves = (errors[errors[:, other].sum(axis=1).argmin()] for other in (~odd, odd))
    together = np.where(odd, *halves) if best else errors[0]
    each = np.stack([by_sensor(filled[best]), by_sensor(line)])
    return Choice(*tried[best], errors[0], together, cells, lines, float(errors[-1].sum()), each)


def hide_alike(rows: SeriesRows) -> NDArray[np.bool_]:
    """Return cells to hide, ``(rows, features)``, in gaps like those the rows have: the same, moved inside each piece.

    At most about a fifth of each feature's measurements are hidden, and none of a constant feature. Where there are
    too few gaps, some rows, cells and long gaps are hidden.
    """
    gone = np.isnan(rows.values)
    place = np.concatenate([np.zeros(0, dtype=np.intp), *(np.arange(length) for length in rows.lengths)])
    usable = ~gone & (_variances(rows, 0.0) > 0)
    shifts = int(np.clip(MOST_HIDDEN / max(gone.mean(), 1e-9), 1, MOST_SHIFTS)) if gone.size else 1
    found = np.zeros_like(gone)
    for first, end in rows.bounds:
        for shift in range(1, shifts + 1):
            found[first:end] |= np.roll(gone[first:end], round(shift * GOLDEN * (end - first)), axis=0)
    found &= usable
    if found.sum() < FEWEST_HIDDEN:
        turn = place // BLOCK_ROWS
        for first, end in rows.bounds:
            turn[first:end] += int(piece_stream(rows.values[first:end]).integers(KIND_EVERY))
        hidden_rows, cells, _ = hidings(rows)
        kinds = (turn % KIND_EVERY)[:, None]
        found = usable & ((kinds == 0) & hidden_rows | (kinds == 3) & cells | (kinds == 6))
    much = np.ceil(found.sum(axis=0) / np.maximum(usable.sum(axis=0), 1) / MOST_HIDDEN).astype(np.intp)
    return np.asarray(found & ((place // BLOCK_ROWS)[:, None] % np.maximum(much, 1) == 0))


def _variances(rows: SeriesRows, constant: float = 1.0) -> Floats:
    """Return the variance of each feature's measurements, `constant` where it does not move."""
    seen = ~np.isnan(rows.values)
    count = np.maximum(seen.sum(axis=0), 1)
    centre = np.where(seen, rows.values, 0.0).sum(axis=0) / count
    found = np.where(seen, (rows.values - centre) ** 2, 0.0).sum(axis=0) / count
    return np.where(found > CONSTANT_VARIANCE, found, constant)
