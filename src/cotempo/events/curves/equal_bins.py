"""A histogram as a Bayesian model: equal bins with a Gamma rate each, their number by the evidence."""

from typing import NamedTuple

import numpy as np

from cotempo.events.curves.change_points import SHAPE, dead_chance, inverse_rate, mean_rate, segment_evidence
from cotempo.events.curves.smoothers import akaike, bin_numbers
from cotempo.typing import Floats, Indices


class Bins(NamedTuple):
    """The posterior under one number of bins: their edges in cells, counts, exposures, the mean rate they are
    drawn to, and the evidence."""

    cut: Indices
    seen: Floats
    watched: Floats
    rate: float
    evidence: float

    @property
    def dead(self) -> Floats:
        """The posterior chance that each rate is zero, ``(bins,)``."""
        return dead_chance(self.seen, self.watched, self.rate)

    def mean(self) -> Floats:
        """Return the posterior mean rate of each bin."""
        return np.asarray((1 - self.dead) * (SHAPE + self.seen) / (SHAPE / self.rate + self.watched))

    def inverse(self) -> Floats:
        """Return the posterior mean of one over the rate of each bin that has events."""
        return inverse_rate(self.seen, self.watched, self.rate)

    def fit(self) -> float:
        """Return Akaike's criterion."""
        return akaike(self.seen, self.watched, self.rate)

    def draw(self, draws: int, rng: np.random.Generator) -> Floats:
        """Return rates drawn from the posterior, ``(draws, bins)``."""
        size = (draws, len(self.seen))
        rate = rng.gamma(SHAPE + self.seen, size=size) / (SHAPE / self.rate + self.watched)
        return np.asarray(np.where(rng.uniform(size=size) < self.dead, 0.0, rate))


def make_bins(cut: Indices, seen: Floats, watched: Floats, rate: float) -> Bins:
    """Return the posterior of bins with these counts and exposures, drawn to a mean rate."""
    return Bins(cut, seen, watched, rate, float(segment_evidence(seen, watched, rate).sum()))


def learn_bins(count: Floats, exposure: Floats) -> list[Bins]:
    """Return the posteriors under all numbers of bins."""
    cells, numbers = len(count), bin_numbers(len(count))
    events, watched = (np.append(0.0, np.cumsum(part)) for part in (count, exposure))
    found = []
    for bins in numbers:
        cut = np.rint(np.linspace(0, cells, bins + 1)).astype(np.intp)
        made = make_bins(cut, np.diff(events[cut]), np.diff(watched[cut]), mean_rate(count, exposure))
        found.append(made._replace(evidence=made.evidence - float(np.log(len(numbers)))))
    return found
