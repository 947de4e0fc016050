"""Normal values behind an owner's, and the correlations of these: what synthetic rows are drawn from."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from cotempo.federation import Rng
from cotempo.series.moments.gaussian import Gaussian
from cotempo.series.moments.moments import Units
from cotempo.series.windows import SeriesRows
from cotempo.typing import Floats

#: Deviations of a normal value at whose probabilities quantiles are kept.
DEVIATIONS = np.linspace(-4, 4, 201)
#: A column has two sides where no value lies in so large a share of its range, and a hundredth of all on either side.
EMPTY_SHARE, INNER_DEVIATIONS = 0.25, 2.3
PAIRS = 20_000


def find_jump(quantiles: Floats) -> int:
    """Return after which of a column's quantiles its range is empty, as between on and off; -1 where it is nowhere."""
    inner = np.flatnonzero(np.abs(DEVIATIONS) <= INNER_DEVIATIONS)
    place = int(inner[np.diff(quantiles[inner]).argmax()])
    return place if quantiles[place + 1] - quantiles[place] > EMPTY_SHARE * (quantiles[-1] - quantiles[0]) else -1


def find_sides(values: Floats, quantiles: Floats) -> NDArray[np.bool_] | None:
    """Return which values lie above the middle of the empty part of their column's range; None where there is none."""
    place = find_jump(quantiles)
    return None if place < 0 else np.asarray(values > quantiles[place : place + 2].mean())


def join_pieces(rows: SeriesRows, process: Gaussian, units: Units, window: int) -> Floats:
    """Return one long piece: gaps are drawn from the process, and so are half a window of rows between two pieces.

    A mean would be smoother than what was measured, and an end that is cut off rougher.
    """
    between = np.full((window // 2, rows.values.shape[1]), np.nan)
    parts = [part for first, end in rows.bounds for part in (rows.values[first:end], between)][:-1]
    whole = np.concatenate(parts)
    inner = units.rows(SeriesRows(whole, (len(whole),)))
    drawn = process.draw(inner, 1, Rng(0, "join pieces")("draws"))[0]
    return np.where(np.isnan(whole), units.undo(drawn), whole)


def normal_values(values: Floats, quantiles: Floats, window: int) -> Floats:
    """Return about normal values behind one long piece, ``(rows, features)``, whose steps give the steps of the values.

    Each feature's are its values, their ranks, or the ranks of its sides where it has two, and equal values ordered by
    those around them: of these the form from which steps come out most as they are.
    """
    found = np.empty_like(values)
    for column, (own, known) in enumerate(zip(values.T, quantiles, strict=True)):
        sides = find_sides(own, known)
        levels = own if sides is None else sides.astype(np.float64)
        forms = [_standard(own), _standard(_ranks(own, own)), _standard(_ranks(levels, _around(levels, window)))]
        wanted = _next_correlation(forms[0])
        made = [_made_correlation(known, _next_correlation(form)) for form in forms]
        best = int(np.argmin([abs(np.log((1 - each) / (1 - wanted))) for each in made]))
        found[:, column] = forms[best]
    return found


def smooth_lags(values: Floats, window: int) -> Floats:
    """Return correlations with so many rows before, ``(window, features, features)``, of one long piece.

    They fit together, as those of a process do: they are of the piece with nothing before and after it, towards which
    its ends fade, so that no step is larger than those measured.
    """
    length = len(values)
    fade = np.minimum(
        np.minimum(np.arange(length) + 0.5, length - np.arange(length) - 0.5) / min(window, length / 2), 1
    )
    faded = values * np.sin(np.pi / 2 * fade)[:, None] ** 2
    lags = np.zeros((window, values.shape[1], values.shape[1]))
    for lag in range(min(window, length)):
        lags[lag] = faded[lag:].T @ faded[: length - lag]
    size = np.sqrt(lags[0].diagonal())
    size = np.where(size > 0, size, 1.0)
    return np.asarray(lags / np.outer(size, size))


def _standard(values: Floats) -> Floats:
    spread = values.std()
    return np.asarray((values - values.mean()) / (spread if spread > 0 else 1.0))


def _ranks(values: Floats, then: Floats) -> Floats:
    """Return the normal scores of values, equal ones ordered by something else."""
    order = np.lexsort((then, values))
    found = np.empty(len(values))
    found[order] = norm.ppf((np.arange(len(values)) + 0.5) / len(values))
    return found


def _around(values: Floats, window: int) -> Floats:
    """Return the mean of the values around each, those a row away counting twice as much as those three rows away."""
    weights = 1 / (1.0 + np.abs(np.arange(-window, window + 1)))
    near, count = (np.convolve(part, weights)[window:-window] for part in (values, np.ones(len(values))))
    return np.asarray(near / count)


def _next_correlation(values: Floats) -> float:
    """Return the correlation of standardised values with the row before, by their steps."""
    moved = float((np.diff(values) ** 2).mean()) if len(values) > 1 else 0.0
    return float(np.clip(1 - moved / 2, -1.0, 1 - 1e-9))


def _made_correlation(quantiles: Floats, related: float) -> float:
    """Return how values with these quantiles are correlated if the normal values behind them are so."""
    one, other = np.random.default_rng(0).standard_normal((2, PAIRS))
    both = np.interp([one, related * one + np.sqrt(1 - related**2) * other], DEVIATIONS, quantiles)
    spread = both.std(axis=1).prod()
    found = float(np.prod(both - both.mean(axis=1, keepdims=True), axis=0).mean() / spread) if spread > 0 else 0.0
    return min(found, 1 - 1e-9)


def find_leaders(values: Floats, quantiles: Floats) -> NDArray[np.int64]:
    """Return which column each column with two sides follows, ``(features,)``, plus 1, and 0 where it follows none.

    A flow follows a pump that is on or off if they always change sides together; where they are on opposite sides, the
    number is negative. Of several columns that go together all follow the one with fewest different values.
    """
    each = {k: find_sides(values[:, k], known) for k, known in enumerate(quantiles)}
    sides = {k: side for k, side in each.items() if side is not None}
    found = np.zeros(len(quantiles), dtype=np.int64)
    order = sorted(sides, key=lambda k: len(np.unique(values[~np.isnan(values[:, k]), k])))
    for place, one in enumerate(order):
        for other in order[:place]:
            both = ~np.isnan(values[:, [one, other]]).any(axis=1)
            same = sides[one][both] == sides[other][both]
            if not found[other] and len(same) and (same.all() or not same.any()):
                found[one] = (other + 1) * (1 if same.all() else -1)
                break
    return found
