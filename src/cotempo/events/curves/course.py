r"""LevelCourse: how a client's level of a curve that repeats moved over its windows, and where it goes from their end.

A curve of one period has one level. In blocks of full periods, counted back from the end, the client compares its
events with what that level expects: the logarithm of the ratio is a random walk with steps of deviation :math:`q`, each
block deviates by :math:`e` more, and its count by Poisson's. Both deviations are integrated over a grid on which most
of the prior is at none: where nothing moves, little is lost; where counts grow, those ahead start from the level of
late, and are the less sure the more it has moved. Nothing of this leaves the client.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from cotempo.events.processes.models import RateProfile
from cotempo.events.records.record import Record
from cotempo.typing import Floats, Indices

# Deviations of a step of the walk and of a block, and the prior of none; from fewer blocks nothing is learned.
STEPS, BLOCKS, NONE = (0.0, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32), (0.0, 0.05, 0.1, 0.2, 0.4), 0.7
FEWEST, MOST, EVENTS = 4, 60, 10
# The prior variance of the level; a change is told from this many standard errors and this share on.
VAGUE, SURE, WORTH = 10.0, 3.0, 0.1


@dataclass(frozen=True)
class LevelCourse:
    """The `end` of a client's windows, the `width` of a block, and by block, its events and how many its level expects;
    without blocks where they would be too few."""

    end: float = 0.0
    width: float = 0.0
    events: Floats = field(default_factory=lambda: np.zeros(0))
    expected: Floats = field(default_factory=lambda: np.zeros(0))

    @classmethod
    def of(cls, record: Record, profile: RateProfile, rate: Floats) -> LevelCourse:
        """Compare a record with its rate in the cells of a period."""
        end, period = float(record.end.max()), profile.period
        length = end - float(record.start.min())
        most = min(MOST, record.events / EVENTS, length / period * (1 + 1e-9))
        if most < FEWEST:
            return cls()
        width = float(np.ceil(length * (1 - 1e-9) / most / period) * period)
        edges = end - width * np.arange(np.ceil(length / width * (1 - 1e-9)), -1, -1)
        # Blocks of some hundred thousand windows at once, for the sake of memory.
        expected = np.zeros(len(edges) - 1)
        for first in range(0, len(record.start), 10_000):
            begins, ends = (part[first : first + 10_000, None] for part in (record.start, record.end))
            begins, ends = (np.clip(part, edges[:-1], edges[1:]) for part in (begins, ends))
            inside = profile.between(begins.ravel(), ends.ravel(), rate)
            expected += inside.reshape(begins.shape).sum(axis=0)
        events = np.histogram(record.time, edges, weights=record.count)[0].astype(np.float64)
        return cls(end, width, events, expected) if (expected > 0).sum() >= FEWEST else cls()

    @cached_property
    def cuts(self) -> Floats:
        """Where the blocks ahead begin, as many as there were: the last has no end, ``(blocks,)``."""
        return np.asarray(self.end + self.width * np.arange(len(self.events)))

    @cached_property
    def _seen(self) -> tuple[Floats, Floats, Floats]:
        """Place, logarithm of the ratio and its variance by Poisson, of the blocks that were watched."""
        watched = np.flatnonzero(self.expected > 0)
        events, expected = self.events[watched], self.expected[watched]
        ratio = np.log((events + 0.5) / (expected + 0.5))
        return np.asarray(watched + 0.5, np.float64), ratio, 2 / (events + expected + 1)

    @cached_property
    def _next(self) -> Floats:
        """The logarithm of the next block's level over the mean one: chance, mean and variance for each pair of
        deviations, and the pair, ``(pairs, 5)``."""
        place, ratio, noise = self._seen
        times = np.append(place, len(self.events) + 0.5)
        share = np.append(-self.expected[self.expected > 0] / self.expected.sum(), 1.0)
        found = []
        for step in STEPS:
            walk = VAGUE + step**2 * np.minimum.outer(times, times)
            for block in BLOCKS:
                seen = walk[:-1, :-1] + np.diag(noise + block**2)
                gain = np.linalg.solve(seen, walk[:-1])
                fit = -0.5 * (ratio @ np.linalg.solve(seen, ratio) + np.linalg.slogdet(seen)[1])
                for value, grid in ((step, STEPS), (block, BLOCKS)):
                    fit += np.log(NONE if value == 0 else (1 - NONE) / (len(grid) - 1))
                variance = share @ (walk - walk[:, :-1] @ gain) @ share
                found.append((fit, share @ (gain.T @ ratio), max(float(variance), 0.0), step, block))
        table = np.array(found)
        table[:, 0] = np.exp(table[:, 0] - table[:, 0].max())
        table[:, 0] /= table[:, 0].sum()
        return table

    @cached_property
    def level(self) -> float:
        """The level ahead over the mean one; of a walk the best guess does not move."""
        return float(np.exp(self._next[:, 0] @ self._next[:, 1])) if len(self.events) else 1.0

    def draw(self, count: int) -> Floats:
        """Return draws of the level over the mean one: up to the end, where it is 1, and in the blocks ahead,
        ``(count, 1 + blocks)``."""
        if not len(self.events):
            return np.ones((count, 1))
        stream, blocks = np.random.default_rng(3), len(self.events)
        pair = stream.choice(len(self._next), count, p=self._next[:, 0])
        mean, variance, step, block = self._next[pair, 1:].T
        noise = stream.standard_normal((2, count, blocks))
        noise[0] *= np.column_stack([np.sqrt(variance), np.repeat(step[:, None], blocks - 1, axis=1)])
        ahead = mean[:, None] + np.cumsum(noise[0], axis=1) + block[:, None] * noise[1]
        return np.column_stack([np.ones(count), np.exp(ahead)])

    def block(self, times: Floats) -> Indices:
        """Return which of these levels each time has; without blocks there is one."""
        return np.searchsorted(self.cuts, times, side="left")

    def change(self) -> float:
        """Return by which share counts grew or fell from the first third to the last; 0 if that may be chance.

        How much counts vary beyond Poisson's is seen from block to block, where a trend is small.
        """
        if not len(self.events):
            return 0.0
        _, ratio, noise = self._seen
        beyond = max(1.0, float(np.mean(np.diff(ratio) ** 2 / (noise[1:] + noise[:-1]))))
        first, _, last = np.array_split(np.flatnonzero(self.expected > 0), 3)
        seen, usual = (np.array([part[first].sum(), part[last].sum()]) + 0.5 for part in (self.events, self.expected))
        grown = float(np.diff(np.log(seen / usual))[0])
        change = float(np.expm1(grown))
        return change if abs(grown) > SURE * np.sqrt(beyond * (1 / seen).sum()) and abs(change) > WORTH else 0.0
