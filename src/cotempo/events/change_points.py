r"""A rate that jumps: exact Bayesian inference of multiple change points (Fearnhead, 2006).

Change points come as a Poisson process; each segment has a rate of its own, Gamma with the mean rate of all events, or
exactly zero with a small chance (a dead time). With conjugate segments the evidence and the posterior are sums over
pairs of cells, by one pass forward and one back.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from cotempo.events.record import Floats

Indices = NDArray[np.intp]

SHAPE = 1.0
DEAD = 0.05
EXPECTED = (1.0, 4.0, 16.0, 64.0)
COARSE, KEPT, REFINED = 252, 200, 10


class Segments(NamedTuple):
    """The posterior over segments.

    `cut` are the edges of the cells it knows, as numbers of the cells given, ``(parts + 1,)``; `events` and `watched`
    their counts and exposures from the start; `forward` and `joint` the log weights of all that ends at an edge, and
    of a segment from one edge to another; `evidence` the log likelihood of the data; `mean` the mean rate.
    """

    cut: Indices
    events: Floats
    watched: Floats
    forward: Floats
    joint: Floats
    weight: Floats
    evidence: float
    mean: float

    def average(self, values: Floats) -> Floats:
        """The posterior mean of a function of the segment that holds a cell, ``(parts,)``."""
        weighted = self.weight * values
        return np.cumsum(weighted.sum(axis=1) - weighted.sum(axis=0))[:-1]


def level(count: Floats, exposure: Floats) -> Floats:
    """Return the posterior mean rate of each cell, ``(cells,)``.

    Examples
    --------
    >>> level(np.repeat([20.0, 60.0], [30, 70]), np.ones(100))[[0, 29, 30, 99]].round().tolist()
    [20.0, 20.0, 60.0, 60.0]
    """
    segments = segment(count, exposure)
    return np.repeat(segments.average(posterior_rate(segments)), np.diff(segments.cut))


def segment(count: Floats, exposure: Floats) -> Segments:
    """Learn the change points of equal cells: on coarse cells first, then on fine ones where changes are likely."""
    cells = len(count)
    events, watched = (np.append(0.0, np.cumsum(part)) for part in (count, exposure))
    coarse = np.unique(np.rint(np.linspace(0, cells, min(cells, COARSE) + 1)).astype(np.intp))
    found = _learn(coarse, events, watched)
    if len(coarse) == cells + 1:
        return found
    change = found.weight.sum(axis=1)[1:-1]
    ranked = 1 + np.argsort(-change, kind="stable")
    keep = coarse[np.sort(ranked[:KEPT])]
    # A jump inside a coarse cell shows at either of its edges: look closely on both sides.
    likely = coarse[ranked[: REFINED // 2]]
    step = cells / (len(coarse) - 1)
    close = [np.arange(int(edge - step), int(edge + step) + 1) for edge in likely]
    fine = np.clip(np.concatenate([keep, *close]), 0, cells)
    return _learn(np.unique(np.append(fine, [0, cells])).astype(np.intp), events, watched)


def posterior_rate(segments: Segments) -> Floats:
    """The posterior mean rate of each possible segment, ``(parts + 1, parts + 1)``."""
    seen, length = _pairs(segments.events), _pairs(segments.watched)
    return (1 - dead_share(segments)) * (SHAPE + seen) / (SHAPE / segments.mean + length)


def dead_share(segments: Segments) -> Floats:
    """The posterior chance that the rate of each possible segment is zero."""
    alive = SHAPE * np.log1p(_pairs(segments.watched) * segments.mean / SHAPE)
    return np.where(_pairs(segments.events) > 0, 0.0, DEAD / (DEAD + (1 - DEAD) * np.exp(-alive)))


def segment_evidence(seen: Floats, length: Floats, mean: float) -> Floats:
    """The log likelihood of segments with so many events and such an exposure, their rates integrated out."""
    rate = SHAPE / mean
    alive = gammaln(SHAPE + seen) - gammaln(SHAPE) + SHAPE * np.log(rate) - (SHAPE + seen) * np.log(rate + length)
    both = np.log1p(-DEAD) + alive
    return np.where(seen > 0, both, np.logaddexp(both, np.log(DEAD)))


def draw_level(segments: Segments, draws: int, rng: np.random.Generator) -> Floats:
    """Rates of the cells drawn from the posterior: segments from the last to the first, then the rate of each."""
    size = len(segments.cut)
    with np.errstate(invalid="ignore"):
        chance = np.exp(segments.forward[:, None] + segments.joint - segments.forward)
    before = np.cumsum(np.nan_to_num(chance), axis=0)
    dead = dead_share(segments)
    rates = np.zeros((draws, size - 1))
    at = np.full(draws, size - 1)
    cells = np.arange(size - 1)
    while (active := np.flatnonzero(at > 0)).size:
        end = at[active]
        start = (before[:, end] < rng.uniform(size=len(active)) * before[end - 1, end]).sum(axis=0)
        start = np.minimum(start, end - 1)
        seen = segments.events[end] - segments.events[start]
        length = segments.watched[end] - segments.watched[start]
        rate = rng.gamma(SHAPE + seen) / (SHAPE / segments.mean + length)
        rate[rng.uniform(size=len(active)) < dead[start, end]] = 0.0
        inside = (cells >= start[:, None]) & (cells < end[:, None])
        rates[active] += inside * rate[:, None]
        at[active] = start
    return rates


def _pairs(cumulative: Floats) -> Floats:
    """Differences from each edge to each later one, 0 elsewhere."""
    return np.triu(cumulative - cumulative[:, None], 1)


def _learn(cut: Indices, events: Floats, watched: Floats) -> Segments:
    """Forward and backward passes over the cells between the edges `cut`, with the best of the rates of change."""
    seen, length = events[cut], watched[cut]
    mean = max(seen[-1], 0.5) / length[-1]
    lone = np.where(np.triu(np.ones((len(cut),) * 2, bool), 1), 0.0, -np.inf)
    lone = lone + segment_evidence(_pairs(seen), _pairs(length), mean)
    share = cut / cut[-1]
    passes = []
    for expected in EXPECTED:
        gaps = expected * (share[2:] - share[:-2]) / 2
        stay = np.append(0.0, np.cumsum(-gaps))
        joint = lone + np.append(0.0, stay) - np.append(stay, 0.0)[:, None]
        joint[:, 1:-1] += np.log(-np.expm1(-gaps))
        passes.append((_forward(joint), joint))
    forward, joint = max(passes, key=lambda part: part[0][-1])
    backward = _forward(joint[::-1, ::-1].T)[::-1]
    weight = np.exp(forward[:, None] + joint + backward - forward[-1])
    return Segments(cut, seen, length, forward, joint, weight, float(forward[-1]), mean)


def _forward(joint: Floats) -> Floats:
    """The log weight of all segmentations up to each edge, ``(edges,)``."""
    total = np.zeros(len(joint))
    for edge in range(1, len(joint)):
        paths = total[:edge] + joint[:edge, edge]
        top = paths.max()
        total[edge] = top + np.log(np.exp(paths - top).sum())
    return total
