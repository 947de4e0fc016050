"""Ahead: conformal intervals of forecasts, from forecasts of measurements that were held out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cotempo.series.windows import SeriesRows
from cotempo.typing import Floats

LEVELS = np.arange(1, 200) / 200
MOST_ORIGINS, FEWEST_ORIGINS = 60, 8
HISTORY = 4  # windows before an origin, at most
FASTEST_GROWTH = 0.5  # that of a random walk


@dataclass(frozen=True)
class Ahead:
    r"""Conformal intervals of forecasts.

    .. math:: \hat x_h \pm r_p \, e_h, \qquad e_h = e_H (h / H)^g \text{ for } h > H

    with the mean error :math:`e_h` of forecasts `h` steps ahead, measured up to :math:`H`, and the quantile :math:`r_p`
    of errors in these units. The growth :math:`g`, 0 to .5, is that of the last three quarters of the measured steps.

    `errors` has :math:`e`, ``(steps, features)``, without steps where too little could be tried and 0 for features that
    never moved; `ratios` has :math:`r` for `LEVELS`, ``(features, levels)``.
    """

    errors: Floats
    ratios: Floats

    @classmethod
    def none(cls, features: int) -> Ahead:
        """Return intervals that know nothing."""
        return cls(np.zeros((0, features)), np.zeros((features, len(LEVELS))))

    def embed(self, columns: NDArray[np.intp], features: int) -> Ahead:
        """Embed among more features, of which nothing is known."""
        found = Ahead(np.zeros((len(self.errors), features)), Ahead.none(features).ratios)
        found.errors[:, columns], found.ratios[columns] = self.errors, self.ratios
        return found

    @classmethod
    def of(cls, tried: Sequence[tuple[Callable[[SeriesRows], Floats], SeriesRows]], window: int) -> Ahead:
        """Measure what fills the ends of rows that were held out; of several parts each has a filler of its own."""
        features = tried[0][1].values.shape[1]
        # Less than a window before an origin would not show a cycle, and errors would be too large.
        steps = max(0, min([window, *((max(rows.lengths, default=0) - window) // 2 for _, rows in tried)]))
        found = [np.zeros((0, steps, features))]
        for fill, rows in tried if steps else ():
            ends, truth = cut_origins(rows, steps, (window, HISTORY * window), MOST_ORIGINS)
            if len(truth):
                found.append(np.abs(last_rows(fill(ends), ends, steps) - truth))
        errors = np.concatenate(found)
        seen = ~np.isnan(errors)
        if len(errors) < FEWEST_ORIGINS:
            return cls.none(features)
        means = np.where(seen, errors, 0.0).sum(axis=0) / np.maximum(seen.sum(axis=0), 1)
        means = np.maximum.accumulate(means, axis=0)
        ratios = np.zeros((features, len(LEVELS)))
        for column in range(features):
            known = seen[..., column] & (means[:, column] > 0)
            if known.sum() >= FEWEST_ORIGINS:
                relative = errors[..., column] / np.where(means[:, column] > 0, means[:, column], 1.0)
                ratios[column] = quantiles(relative[known])
        return cls(means * (ratios[:, -1] > 0), ratios)

    def widths(self, horizon: int, levels: Sequence[float]) -> Floats:
        """Return half the width of intervals, ``(levels, horizon, features)``; 0 for features nothing is known of."""
        steps, features = self.errors.shape
        if not steps:
            return np.zeros((len(levels), horizon, features))
        early, late = self.errors[(steps - 1) // 4], self.errors[-1]
        span = np.log(steps / ((steps - 1) // 4 + 1)) or 1.0
        growth = np.log(np.where(early > 0, late / np.where(early > 0, early, 1.0), 1.0)) / span
        beyond = np.arange(steps + 1, horizon + 1)[:, None] / steps
        errors = np.concatenate([self.errors[:horizon], late * beyond ** growth.clip(0, FASTEST_GROWTH)])
        return np.stack([at_level(self.ratios, level) * errors for level in levels])


def cut_origins(rows: SeriesRows, steps: int, history: tuple[int, int], most: int) -> tuple[SeriesRows, Floats]:
    """Cut rows before evenly spread origins, at most so many, each followed by `steps` missing rows.

    `history` is how many rows there are before an origin, at least and at most. Return them, a piece for each origin,
    and what was measured there, ``(origins, steps, features)``.
    """
    free = [max(0, end - first - history[0] - steps + 1) for first, end in rows.bounds]
    every = max(1, steps // 2, -(-sum(free) // most))
    spans = [
        (max(first, origin - history[1]), origin + steps)
        for (first, end) in rows.bounds
        for origin in range(end - steps, first + history[0] - 1, -every)[::-1]
    ]
    index = np.concatenate([np.zeros(0, dtype=np.intp), *(np.arange(*span) for span in spans)])
    ends = [np.arange(end - start) >= end - start - steps for start, end in spans]
    hidden = np.concatenate([np.zeros(0, dtype=bool), *ends])
    truth = rows.values[index[hidden]].reshape(len(spans), steps, rows.values.shape[1])
    clock = rows.clock[index] if len(rows.clock) else rows.clock
    values = np.where(hidden[:, None], np.nan, rows.values[index])
    return SeriesRows(values, tuple(end - start for start, end in spans), clock), truth


def last_rows(values: Floats, rows: SeriesRows, steps: int) -> Floats:
    """Return the last rows of each piece, ``(pieces, steps, features)``."""
    ends = np.cumsum(rows.lengths)
    return np.asarray(values[ends[:, None] - steps + np.arange(steps)])


def quantiles(ratios: Floats) -> Floats:
    """Return conformal quantiles at `LEVELS`."""
    # One hidden cell more than there are makes the quantile cover at least its level.
    ranks = np.minimum(LEVELS * (len(ratios) + 1) / len(ratios), 1.0)
    return np.quantile(ratios, ranks, method="higher")


def at_level(ratios: Floats, level: float) -> Floats:
    """Interpolate quantiles ``(..., levels)`` at one level."""
    place = np.clip(level * (len(LEVELS) + 1) - 1, 0, len(LEVELS) - 1)
    low, share = int(place), place - int(place)
    return np.asarray((1 - share) * ratios[..., low] + share * ratios[..., min(low + 1, len(LEVELS) - 1)])
