"""Choice of the prior of window moments by errors on hidden measurements, and calibration on the same."""

from collections.abc import Iterator
from dataclasses import replace
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from cotempo.series.filling.ahead import Ahead
from cotempo.series.filling.calibration import Calibration
from cotempo.series.moments.gaussian import CONSTANT_VARIANCE, Gaussian, WalkPrior
from cotempo.series.moments.moments import Units, WindowMoments
from cotempo.series.windows import SeriesRows
from cotempo.typing import Floats

PRIORS: tuple[WalkPrior | None, ...] = (
    None,
    *(WalkPrior(pull, 0.0) for pull in (0.03, 0.1, 0.3, 1.0)),
    *(WalkPrior(pull, 0.2) for pull in (0.03, 0.1, 0.3)),
)
USUAL = 2
HELD_OUT, SHORTEST_END = 0.2, 24
HIDDEN_SHARE = 0.4
GAP_ROWS, GAP_EVERY = 12, 48
MOST_CELLS = 6000
EQUAL_WITHIN, CONSTANT = 1e-9, 2**32


def split(rows: SeriesRows) -> tuple[SeriesRows, SeriesRows]:
    """Split rows into those to learn from and about a fifth to choose on: ends of long pieces, some short ones.

    What is set apart of a piece depends on that piece only, not on its units or on who owns it, so that clients set
    apart, and hide, together what one owner of all would.
    """
    counts = []
    for first, end in rows.bounds:
        count = round(HELD_OUT * (end - first))
        if count < SHORTEST_END:
            count = (end - first) * bool(piece_stream(rows.values[first:end]).random() < HELD_OUT)
        counts.append(count)
    return rows.cut(counts)


def piece_stream(piece: Floats) -> np.random.Generator:
    """Make a random stream that depends only on the shape of the features that move."""
    signs = _signs(piece)
    return np.random.default_rng([len(piece), *sorted(signs[signs < CONSTANT].tolist())])


def _signs(piece: Floats) -> NDArray[np.int64]:
    """Hash the shape of each feature, the ranks of its values and steps; `CONSTANT` where it is constant.

    Ranks know no units; values nearer than their digits tell count as equal.
    """
    low, high = (np.where(np.isnan(piece), far, piece) for far in (np.inf, -np.inf))
    width = EQUAL_WITHIN * np.maximum(high.max(axis=0) - low.min(axis=0), 0.0)
    levels, steps = (_ranks(part, width) for part in (piece, np.diff(piece, axis=0)))
    shapes = np.ascontiguousarray(np.concatenate([levels, steps]).T, dtype="<i8")
    found = np.array([crc32(shape.tobytes()) for shape in shapes], dtype=np.int64)
    return np.where(levels.max(axis=0) > 0, found, CONSTANT)


def _ranks(values: Floats, width: Floats) -> NDArray[np.int64]:
    """Rank each column, values at most `width` apart as equal; -1 where missing."""
    order = np.argsort(values, axis=0, kind="stable")
    apart = np.diff(np.take_along_axis(values, order, axis=0), axis=0) > width
    ranks = np.zeros(values.shape, dtype=np.int64)
    np.put_along_axis(ranks, order[1:], np.cumsum(apart, axis=0), axis=0)
    return np.where(np.isnan(values), -1, ranks)


def hidings(rows: SeriesRows) -> Iterator[NDArray[np.bool_]]:
    """Yield rows, cells and long gaps to hide, ``(rows, features)`` each."""
    masks = np.zeros((3, *rows.values.shape), dtype=bool)
    for first, end in rows.bounds:
        part = rows.values[first:end]
        stream, length = piece_stream(part), end - first
        masks[0, first:end] = stream.random((length, 1)) < HIDDEN_SHARE
        every = min(GAP_EVERY, length)
        gap = min(GAP_ROWS, max(1, every // 4))
        for block in range(first, end, every):
            start = block + int(stream.integers(every - gap + 1))
            masks[2, start : min(start + gap, end)] = True
        # Features are told apart by their shape: the order of columns does not matter.
        rank = np.argsort(np.argsort(_signs(part), kind="stable"))
        masks[1, first:end] = stream.random(part.T.shape)[rank].T < HIDDEN_SHARE
    yield from masks


def shorten(rows: SeriesRows) -> SeriesRows:
    """Return the end of each piece: enough to choose on."""
    most = max(MOST_CELLS // max(rows.values.shape[1], 1), SHORTEST_END)
    return rows.cut([min(length, most) for length in rows.lengths])[1]


def try_priors(moments: WindowMoments, held: SeriesRows) -> dict[str, Floats]:
    """Sum absolute errors of hidden cells, in deviations of levels, ``(priors, hidings)``, and count them.

    None are hidden where there was nothing to learn from.
    """
    errors, counts = np.zeros((len(PRIORS), 3)), np.zeros(3)
    held = shorten(held)
    if len(held.values) and moments.counts.any():
        targets = [mask & ~np.isnan(held.values) for mask in hidings(held)]
        counts = np.array([float(target.sum()) for target in targets])
        for place, prior in enumerate(PRIORS):
            model = Gaussian.of(moments, prior)
            for kind, target in enumerate(targets):
                errors[place, kind] = error_of(model, held, target, spread_of(moments))
    return {"errors": errors, "cells": counts}


def spread_of(moments: WindowMoments) -> Floats:
    """Return deviations of levels, ``(features,)``."""
    counts = np.maximum(moments.counts.diagonal(), 1.0)
    variance = moments.products[1, :, 1].diagonal() / counts
    return np.asarray(np.sqrt(np.where(variance > CONSTANT_VARIANCE, variance, 1.0)))


def error_of(model: Gaussian, rows: SeriesRows, target: NDArray[np.bool_], spread: Floats) -> float:
    """Return the sum of absolute errors on hidden cells."""
    return float(errors_at(model, rows, target, spread)[target].sum())


def errors_at(model: Gaussian, rows: SeriesRows, target: NDArray[np.bool_], spread: Floats) -> Floats:
    """Return absolute errors on hidden cells, ``(rows, features)``; other cells mean nothing."""
    filled = model.fill(SeriesRows(np.where(target, np.nan, rows.values), rows.lengths))
    return np.asarray(np.abs(filled - rows.values) / spread)


def choose(errors: Floats, cells: Floats) -> int:
    """Choose the prior with the smallest error relative to interpolation's; `USUAL` where nothing was tried."""
    some = (cells > 0) & (errors[0] > 0)
    if not some.any():
        return USUAL
    return int(np.argmin((errors[:, some] / errors[0, some]).sum(axis=1)))


def calibrate(model: Gaussian, units: Units, held: SeriesRows, length: int) -> Calibration:
    """Calibrate intervals on hidden cells, in the units of the data."""
    held = shorten(held)
    if not len(held.values):
        return Calibration.none(held.values.shape[1])
    left = [np.where(mask, np.nan, held.values) for mask in hidings(held)]
    hidden = SeriesRows(np.concatenate(left), held.lengths * len(left))
    raw, filled, truth = (
        units.undo(part) for part in (hidden.values, model.fill(hidden), np.tile(held.values, (3, 1)))
    )
    found = Calibration.of(SeriesRows(raw, hidden.lengths), filled, truth, length)
    ahead = Ahead.of([(model.fill, held)], length)
    return replace(found, ahead=replace(ahead, errors=ahead.errors * units.step))
