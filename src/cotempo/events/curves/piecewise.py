r"""Piecewise constant rates: change points (`Segments`), equal bins (`Bins`, `histogram`) and dead times.

Change points come as a Poisson process, with exact Bayesian inference (Fearnhead, 2006): each segment has a rate of its
own, Gamma with the mean rate of all events, or exactly zero with a small chance (a dead time). With conjugate segments
the evidence and the posterior are sums over pairs of cells, by one pass forward and one back. Equal bins have the same
rates, and their number is averaged by the evidence, or chosen by Akaike's criterion.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, xlogy

from cotempo.typing import Floats, Indices

SHAPE = 1.0
DEAD = 0.05
EXPECTED = (1.0, 4.0, 16.0, 64.0)
COARSE, KEPT, REFINED = 252, 200, 5
# How many events must stand in the stretches of the same length on both sides of a dead time.
NEIGHBOURS = 25


class Segments(NamedTuple):
    """The posterior over segments.

    `cut` are the edges of the cells it knows, as numbers of the cells given, ``(parts + 1,)``; `events` and `watched`
    are cumulative counts and exposures there; `rate` is the mean rate of the prior, `expected` the expected number of
    changes. `joint` has the log weight of each segment from an edge to a later one, `forward` that of all segmentations
    up to an edge, `chance` the posterior probability of each segment; `evidence` is the log likelihood of the data.
    """

    cut: Indices
    events: Floats
    watched: Floats
    rate: float
    expected: float
    joint: Floats
    forward: Floats
    chance: Floats
    evidence: float

    def mean(self) -> Floats:
        """Return the posterior mean rate of the cells, ``(parts,)``."""
        rates = _gamma_mean(_pairs(self.events), _pairs(self.watched), self.rate)
        weighted = self.chance * rates
        mean = np.cumsum(weighted.sum(axis=1) - weighted.sum(axis=0))[:-1]
        # Differences of large sums may end below zero; a mean is no lower than the lowest it is taken of.
        return np.asarray(np.maximum(mean, rates[np.triu_indices(len(rates), 1)].min()))

    def inverse(self) -> Floats:
        """Return the posterior mean of one over the rate, ``(parts,)``, in cells with events."""
        weighted = self.chance * _inverse_rate(_pairs(self.events), _pairs(self.watched), self.rate)
        return np.asarray(np.cumsum(weighted.sum(axis=1) - weighted.sum(axis=0))[:-1])

    def draw(self, draws: int, rng: np.random.Generator) -> Floats:
        """Draw rates of the cells from the posterior: segments from the last to the first, then the rate of each."""
        size = len(self.cut)
        before = np.cumsum(np.exp(self.forward[:, None] + self.joint - self.forward), axis=0)
        # Where a segment that ends at an edge begins: all edges' distributions in one sorted row, edge after edge.
        row = (np.arange(size)[:, None] + np.minimum(before / before[-1].clip(1e-300), 1.0).T).ravel()
        dead = _dead_chance(_pairs(self.events), _pairs(self.watched), self.rate)
        rates = np.zeros((draws, size - 1))
        begin, at = np.zeros((draws, size - 1), dtype=np.intp), np.full(draws, size - 1)
        while (active := np.flatnonzero(at > 0)).size:
            end = at[active]
            start = np.searchsorted(row, end + rng.uniform(size=len(active))) - end * size
            start = np.clip(start, 0, end - 1)
            seen, length = (part[end] - part[start] for part in (self.events, self.watched))
            rate = rng.gamma(SHAPE + seen) / (SHAPE / self.rate + length)
            rate[rng.uniform(size=len(active)) < dead[start, end]] = 0.0
            rates[active, start], begin[active, start] = rate, start
            at[active] = start
        return np.asarray(np.take_along_axis(rates, np.maximum.accumulate(begin, axis=1), axis=1))


def level(count: Floats, exposure: Floats, closed: bool = False) -> Floats:
    """Return the posterior mean rate of each cell, ``(cells,)``."""
    seam = find_seam(count, exposure) if closed else 0
    found = segment(np.roll(count, -seam), np.roll(exposure, -seam))
    return np.roll(np.repeat(found.mean(), np.diff(found.cut)), seam)


def find_seam(count: Floats, exposure: Floats) -> int:
    """Return the cell at which to cut a period open: the likeliest change point.

    Cut there, a rate that changes at all needs no change at the seam that it does not have.
    """
    half = len(count) // 2
    found = segment(np.roll(count, -half), np.roll(exposure, -half))
    begins = found.chance.sum(axis=1)[1:-1]
    return int(found.cut[1 + np.argmax(begins)] + half) % len(count) if len(begins) else 0


def segment(count: Floats, exposure: Floats) -> Segments:
    """Learn the change points of equal cells: on coarse cells first, then on fine ones where changes are likely."""
    cells, rate = len(count), mean_rate(count, exposure)
    events, watched = (np.append(0.0, np.cumsum(part)) for part in (count, exposure))
    coarse = np.unique(np.rint(np.linspace(0, cells, min(cells, COARSE) + 1)).astype(np.intp))
    found = max(
        (_learn(coarse, events[coarse], watched[coarse], rate, expected) for expected in EXPECTED),
        key=lambda learned: learned.evidence,
    )
    if len(coarse) == cells + 1:
        return found
    ranked = 1 + np.argsort(-found.chance.sum(axis=1)[1:-1], kind="stable")
    keep = coarse[ranked[:KEPT]]
    # A jump inside a coarse cell shows at either of its edges: look closely on both sides.
    step = cells / (len(coarse) - 1)
    close = [np.arange(int(edge - step), int(edge + step) + 1) for edge in coarse[ranked[:REFINED]]]
    cut = np.unique(np.clip(np.concatenate([[0, cells], keep, *close]), 0, cells)).astype(np.intp)
    return _learn(cut, events[cut], watched[cut], rate, found.expected)


def mean_rate(count: Floats, exposure: Floats) -> float:
    """Return events over exposure; half an event where there is none."""
    return max(float(count.sum()), 0.5) / float(exposure.sum())


def _segment_evidence(seen: Floats, length: Floats, rate: float) -> Floats:
    """Return the log likelihood of segments with so many events and such an exposure, their rates integrated out."""
    inverse = SHAPE / rate
    alive = gammaln(SHAPE + seen) - gammaln(SHAPE) + SHAPE * np.log(inverse) - (SHAPE + seen) * np.log(inverse + length)
    both = np.log1p(-DEAD) + alive
    return np.asarray(np.where(seen > 0, both, np.logaddexp(both, np.log(DEAD))))


def _dead_chance(seen: Floats, length: Floats, rate: float) -> Floats:
    """Return the posterior chance that the rate of a segment is zero."""
    alive = np.exp(-SHAPE * np.log1p(length * rate / SHAPE))
    return np.asarray(np.where(seen > 0, 0.0, DEAD / (DEAD + (1 - DEAD) * alive)))


def _gamma_mean(seen: Floats, length: Floats, rate: float) -> Floats:
    """Return the posterior mean rate of segments."""
    return np.asarray((1 - _dead_chance(seen, length, rate)) * (SHAPE + seen) / (SHAPE / rate + length))


def _inverse_rate(seen: Floats, length: Floats, rate: float) -> Floats:
    """Return the posterior mean of one over the rate of segments with events; 0 for those without."""
    shape = SHAPE + seen - 1
    return np.asarray(np.where(seen > 0, (SHAPE / rate + length) / np.where(seen > 0, shape, 1.0), 0.0))


def _pairs(cumulative: Floats) -> Floats:
    """Return differences from each edge to each later one, 0 elsewhere."""
    return np.asarray(np.triu(cumulative - cumulative[:, None], 1))


def _learn(cut: Indices, events: Floats, watched: Floats, rate: float, expected: float) -> Segments:
    """Pass forward and back over the cells between the edges `cut`, with so many change points expected."""
    lone = _segment_evidence(_pairs(events), _pairs(watched), rate)
    lone[np.tril_indices(len(cut))] = -np.inf
    share = cut / cut[-1]
    gaps = expected * (share[2:] - share[:-2]) / 2
    stay = np.append(0.0, np.cumsum(-gaps))
    joint = lone + np.append(0.0, stay) - np.append(stay, 0.0)[:, None]
    joint[:, 1:-1] += np.log(-np.expm1(-gaps))
    forward, backward = _forward(joint), _forward(joint[::-1, ::-1].T)[::-1]
    chance = np.exp(forward[:, None] + joint + backward - forward[-1])
    evidence = float(forward[-1] - np.log(len(EXPECTED)))
    return Segments(cut, events, watched, rate, expected, joint, forward, chance, evidence)


def _forward(joint: Floats) -> Floats:
    """Return the log weight of all segmentations up to each edge, ``(edges,)``."""
    total = np.zeros(len(joint))
    for edge in range(1, len(joint)):
        paths = total[:edge] + joint[:edge, edge]
        top = paths.max()
        total[edge] = top + np.log(np.exp(paths - top).sum())
    return total


class Bins(NamedTuple):
    """Equal bins: their edges in cells, counts, exposures, the mean rate of the prior, and the evidence."""

    cut: Indices
    seen: Floats
    watched: Floats
    rate: float
    evidence: float

    def mean(self) -> Floats:
        """Return the posterior mean rate of each bin."""
        return _gamma_mean(self.seen, self.watched, self.rate)

    def inverse(self) -> Floats:
        """Return the posterior mean of one over the rate of each bin that has events."""
        return _inverse_rate(self.seen, self.watched, self.rate)

    def fit(self) -> float:
        """Return Akaike's criterion, halved and more being better: the highest log likelihood less the number of bins.

        An event where nothing was watched, as at a window's end on the edge of a cell, is predicted by the mean rate.
        """
        length = np.where(self.watched > 0, self.watched, self.seen / self.rate)
        return float(xlogy(self.seen, self.seen).sum() - xlogy(self.seen, length).sum()) - len(self.seen)

    def draw(self, draws: int, rng: np.random.Generator) -> Floats:
        """Return rates drawn from the posterior, ``(draws, bins)``."""
        size, dead = (draws, len(self.seen)), _dead_chance(self.seen, self.watched, self.rate)
        rate = rng.gamma(SHAPE + self.seen, size=size) / (SHAPE / self.rate + self.watched)
        return np.asarray(np.where(rng.uniform(size=size) < dead, 0.0, rate))


def make_bins(cut: Indices, seen: Floats, watched: Floats, rate: float) -> Bins:
    """Return the posterior of bins with these counts and exposures."""
    return Bins(cut, seen, watched, rate, float(_segment_evidence(seen, watched, rate).sum()))


def learn_bins(count: Floats, exposure: Floats) -> list[Bins]:
    """Return the posteriors under 1 to 64 bins, then by steps of 4 %, up to one per cell and 512 at most."""
    cells, rate = len(count), mean_rate(count, exposure)
    events, watched = (np.append(0.0, np.cumsum(part)) for part in (count, exposure))
    further = np.rint(64 * 1.04 ** np.arange(1, 60)).astype(int).tolist()
    numbers = [number for number in [*range(1, 65), *further] if number <= min(cells, 512)]
    cuts = [np.rint(np.linspace(0, cells, number + 1)).astype(np.intp) for number in numbers]
    found = [make_bins(cut, np.diff(events[cut]), np.diff(watched[cut]), rate) for cut in cuts]
    return [bins._replace(evidence=bins.evidence - float(np.log(len(numbers)))) for bins in found]


def histogram(count: Floats, exposure: Floats, closed: bool = False) -> Floats:
    """Return the rate of each cell by the equal bins with the best AIC, ``(cells,)``.

    Bins hold whole cells, and are drawn to the mean rate by the weight of half an event.
    """
    seam = find_seam(count, exposure) if closed else 0
    best = max(learn_bins(np.roll(count, -seam), np.roll(exposure, -seam)), key=Bins.fit)
    rate = np.repeat((best.seen + 0.5) / (best.watched + 0.5 / best.rate), np.diff(best.cut))
    return np.asarray(np.roll(rate, seam))


def find_dead_times(count: Floats, exposure: Floats) -> Indices:
    """Return first cell and end of the watched runs of empty cells that chance does not explain, ``(runs, 2)``."""
    cells = len(count)
    events = np.append(0.0, np.cumsum(count))
    empty = np.concatenate([[False], (count == 0) & (exposure > 0), [False]])
    change = np.flatnonzero(np.diff(empty.astype(np.int8)))
    first, end = change[::2], change[1::2]
    before = events[first] - events[np.maximum(2 * first - end, 0)]
    after = events[np.minimum(2 * end - first, cells)] - events[end]
    # A run at an end of the window has a neighbour on one side only.
    before, after = np.where(first == 0, after, before), np.where(end == cells, before, after)
    dead = np.minimum(before, after) >= NEIGHBOURS
    return np.stack([first[dead], end[dead]], axis=1)
