"""Point processes of few parameters: a constant rate, a rate over time, Hawkes and renewal processes (`make_process`).

A `PointProcess` has four verbs on unrolled records: `statistics` (sums a client sends), `update` (what the server makes
of their total), `log_rate` (at events) and `mass` (the intensity's integral over cells).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr, logsumexp

from cotempo.errors import ParameterError, nearest
from cotempo.events.curves.density import density
from cotempo.events.curves.piecewise import histogram, level
from cotempo.events.curves.timeline import CELLS, PARTS, profile
from cotempo.events.records.history import Unrolled
from cotempo.events.records.record import Record, Summary
from cotempo.typing import Floats, Indices

PROCESSES = ("poisson", "profile", "histogram", "density", "steps", "hawkes", "hawkes1", "renewal")
# Screening: logarithms of the time that honest sites watch for an event may be so far apart, ten times.
USUAL_RATES = 2.3
# And shares of what events excite that falls into their windows: these may be short.
USUAL_SHARES = 0.5
# Below 1, over-relaxed expectation-maximisation still converges (Salakhutdinov and Roweis, 2003).
RELAXATION = 0.8
# Steps so many times shorter than a period blur its curve by less than 3 %: those of hours of a day were no better.
SHORT = 8


@dataclass(frozen=True)
class PointProcess(ABC):
    """A point process with few parameters."""

    summary: Summary

    @property
    def decays(self) -> Floats:
        """Decays of the recencies the process needs; none by default."""
        return np.zeros(0)

    @abstractmethod
    def start(self) -> Floats:
        """Return the first parameters."""

    @abstractmethod
    def statistics(self, unrolled: Unrolled, record: Record, parameters: Floats) -> Floats:
        """Return what a client adds to the sums."""

    @abstractmethod
    def update(self, parameters: Floats, sums: Floats) -> Floats:
        """Return better parameters, from the total of `statistics`."""

    def scatter(self, sums: Floats) -> Floats:
        """Return how much a client's statistics vary by chance: counts, then exposures of sites of any rate."""
        counts, exposures = np.split(np.abs(sums), 2)
        return np.concatenate([np.sqrt(counts + 1.0), exposures])

    def alike(self, sums: Floats) -> dict[str, tuple[Floats, Floats]]:
        """Return what clients of one process are alike in whatever their size, each with how much it varies by chance.

        By default, how long they watch for an event.
        """
        counts, exposures = np.split(np.abs(sums), 2)
        return {"exposure": (time_for_an_event(counts.sum(), exposures.sum()), np.array([USUAL_RATES]))}

    @abstractmethod
    def log_rate(self, unrolled: Unrolled, parameters: Floats) -> Floats:
        """Return log intensity just before each event, ``(events,)``."""

    @abstractmethod
    def mass(self, unrolled: Unrolled, parameters: Floats) -> Floats:
        """Return integral of the intensity over each cell, ``(cells,)``."""


@dataclass(frozen=True)
class Poisson(PointProcess):
    """One constant rate."""

    def start(self) -> Floats:
        """Return the pooled rate."""
        return np.array([self.summary.rate])

    def statistics(self, unrolled: Unrolled, record: Record, parameters: Floats) -> Floats:
        """Return events and exposure."""
        return np.array([record.events, record.exposure])

    def update(self, parameters: Floats, sums: Floats) -> Floats:
        """Return events over exposure."""
        return np.array([max(sums[0], 0.5) / sums[1]])

    def log_rate(self, unrolled: Unrolled, parameters: Floats) -> Floats:
        """Return the same rate everywhere."""
        return np.full(len(unrolled.time), np.log(parameters[0]))

    def mass(self, unrolled: Unrolled, parameters: Floats) -> Floats:
        """Return rate times length."""
        return np.asarray(parameters[0] * (unrolled.upper - unrolled.lower))


@dataclass(frozen=True)
class RateProfile(PointProcess):
    """A rate for each part of a period: the time of day, or the complete span where no period is given.

    `smoother` makes rates of the events and exposures of the parts. Where a complete period was seen it is `closed`:
    its end is its start, and it knows all times.
    """

    period: float
    parts: int
    smoother: Callable[[Floats, Floats, bool], Floats] = profile
    closed: bool = False

    def start(self) -> Floats:
        """Return a flat profile."""
        return np.full(self.parts, self.summary.rate)

    def _phase(self, times: Floats) -> tuple[Floats, Indices, Floats]:
        """Return full periods since the span's start, the part each time falls into, and how far it lies into it.

        The very end of a period belongs to its last part. Where no period is closed nothing returns: what lies
        outside belongs to the nearest part.
        """
        since = (times - self.summary.start) / self.period
        whole = np.where(since == 0, 0.0, np.ceil(since) - 1) if self.closed else np.zeros(len(times))
        rest = (since - whole) * self.parts
        place = np.clip(rest, 0, self.parts - 1).astype(np.intp)
        return whole, place, rest - place

    def place(self, times: Floats) -> Indices:
        """Return the part each time falls into."""
        return self._phase(times)[1]

    def share(self, times: Floats) -> Floats:
        """Return where in the period each time lies, from 0 to 1."""
        _, place, into = self._phase(times)
        return np.clip((place + into) / self.parts, 0.0, 1.0)

    def steps(self, step: float) -> Indices:
        """Return which step of the period each part lies in, ``(parts,)``: its own where they are short.

        Steps begin at midnight, as those of dates do.
        """
        number = round(self.period / step) if step else 0
        shorter, longer = abs(number * step - self.period), np.mod(step, self.period)
        if not self.closed or SHORT * step < self.period or min(shorter, longer) > 1e-6 * self.period:
            return np.arange(self.parts)
        middles = self.summary.start + self.period * (np.arange(self.parts) + 0.5) / self.parts
        return np.mod(np.floor(middles / step), max(number, 1)).astype(np.intp)

    def statistics(self, unrolled: Unrolled, record: Record, parameters: Floats) -> Floats:
        """Return events and exposure of each part, ``(2 * parts,)``."""
        events = np.bincount(self.place(record.time), weights=record.count, minlength=self.parts)
        return np.asarray(np.concatenate([events, self.exposure(record.start, record.end)]), dtype=np.float64)

    def exposure(self, first: Floats, last: Floats) -> Floats:
        """Return how long windows are in each part, ``(parts,)``."""
        watched = np.zeros(self.parts)
        for sign, times in ((1, last), (-1, first)):
            whole, place, into = self._phase(times)
            beyond = len(times) - np.cumsum(np.bincount(place, minlength=self.parts))
            watched += sign * (whole.sum() + beyond + np.bincount(place, into, self.parts))
        # Differences of sums leave rounding behind where nothing was watched.
        watched[watched < 1e-12 * len(first) * self.parts] = 0.0
        return watched * self.period / self.parts

    def update(self, parameters: Floats, sums: Floats) -> Floats:
        """Return rates of the parts from their events and exposure."""
        return self.smoother(sums[: self.parts], sums[self.parts :], self.closed)

    def log_rate(self, unrolled: Unrolled, parameters: Floats) -> Floats:
        """Return the rate of the part an event falls into."""
        return np.asarray(np.log(parameters[self.place(unrolled.time)]))

    def mass(self, unrolled: Unrolled, parameters: Floats) -> Floats:
        """Return differences of the cumulative profile."""
        return self.between(unrolled.begin, unrolled.begin + (unrolled.upper - unrolled.lower), parameters)

    def between(self, first: Floats, last: Floats, parameters: Floats) -> Floats:
        """Return the integral of the rate from each time to another."""
        cumulative = np.append(0.0, np.cumsum(parameters))
        ends = []
        for times in (first, last):
            whole, place, into = self._phase(times)
            ends.append(whole * cumulative[-1] + cumulative[place] + into * parameters[place])
        return np.asarray(np.maximum(ends[1] - ends[0], 0.0) * self.period / self.parts)


@dataclass(frozen=True)
class Hawkes(PointProcess):
    r"""Self-excitation with fixed decays: :math:`\lambda(t) = \mu + \sum_k \alpha_k \beta_k R_k(t)`.

    Expectation-maximisation from sums (Veen and Schoenberg, 2008): which part of the intensity an event came from,
    and how many children a unit of each excitation would have had.
    """

    count: int = 5

    @property
    def decays(self) -> Floats:
        """Decays between the long and the short gaps between events."""
        if self.count == 1:
            return np.array([1 / self.summary.gaps[1]])
        return np.geomspace(0.5 / self.summary.gaps[-1], 1 / self.summary.gaps[0], self.count)

    def start(self) -> Floats:
        """Start with half the events spontaneous."""
        return np.append(0.5 * self.summary.rate, np.full(self.count, 0.5 / self.count))

    def _parts(self, unrolled: Unrolled, parameters: Floats) -> Floats:
        excited = parameters[1:] * self.decays * unrolled.recency
        return np.column_stack([np.full(len(excited), parameters[0]), excited])

    def statistics(self, unrolled: Unrolled, record: Record, parameters: Floats) -> Floats:
        """Return expected origins of the events, and the masses of unit parameters, ``(2 * (decays + 1),)``."""
        parts = self._parts(unrolled, parameters)
        origins = (unrolled.count[:, None] * parts / parts.sum(axis=1, keepdims=True)).sum(axis=0)
        return np.concatenate([origins, [record.exposure], self._unit_mass(unrolled).sum(axis=0)])

    def scatter(self, sums: Floats) -> Floats:
        """Return how much origins and masses vary by chance: all but the exposure are counts of events."""
        varies = np.sqrt(np.abs(sums) + 1.0)
        exposure = len(sums) // 2
        varies[exposure] = abs(sums[exposure])
        return np.asarray(varies)

    def alike(self, sums: Floats) -> dict[str, tuple[Floats, Floats]]:
        """Return how much of what events excite falls into windows, and how long clients watch for an event."""
        origins, (exposure, *masses) = np.split(np.abs(sums), 2)
        number = origins.sum() + 1.0
        return {
            "masses": (np.minimum(masses / number, 1.0), np.full(self.count, USUAL_SHARES)),
            "exposure": (time_for_an_event(origins.sum(), exposure), np.array([USUAL_RATES])),
        }

    def _unit_mass(self, unrolled: Unrolled) -> Floats:
        fall = np.exp(-unrolled.lower[:, None] * self.decays) - np.exp(-unrolled.upper[:, None] * self.decays)
        return np.asarray(unrolled.origin_recency * fall)

    def update(self, parameters: Floats, sums: Floats) -> Floats:
        """Return origins over unit masses, and some of the way further: the plain step converges slowly."""
        half = len(sums) // 2
        origins, masses = sums[:half], sums[half:]
        floor = 1e-6 * self.start()
        plain = np.maximum(origins / np.maximum(masses, 1e-12), floor)
        return np.maximum(plain * (plain / parameters) ** RELAXATION, floor)

    def log_rate(self, unrolled: Unrolled, parameters: Floats) -> Floats:
        """Return log of the sum of parts."""
        return np.asarray(np.log(self._parts(unrolled, parameters).sum(axis=1)))

    def mass(self, unrolled: Unrolled, parameters: Floats) -> Floats:
        """Integrate in closed form."""
        return np.asarray(
            parameters[0] * (unrolled.upper - unrolled.lower) + self._unit_mass(unrolled) @ parameters[1:]
        )


@dataclass(frozen=True)
class Renewal(PointProcess):
    """Gaps between events are independent draws of a mixture of log-normals.

    Expectation-maximisation from sums; a gap that the window's end cuts off counts with its expected logarithm.
    Parameters are log weights, means and log deviations of the logarithm, ``(3 * components,)``.
    """

    def start(self) -> Floats:
        """Return one component around each known quantile of the gaps."""
        centres = np.log(self.summary.gaps)
        width = max((centres[-1] - centres[0]) / len(centres), 0.3)
        size = len(centres)
        return np.concatenate([np.full(size, -np.log(size)), centres, np.full(size, np.log(width))])

    def _standard(self, elapsed: Floats, parameters: Floats) -> tuple[Floats, Floats, Floats]:
        weight, mean, log_deviation = parameters.reshape(3, -1)
        with np.errstate(divide="ignore"):
            log_elapsed = np.log(np.maximum(elapsed, 0.0))[:, None]
        return (log_elapsed - mean) / np.exp(log_deviation), weight, log_deviation

    def _log_density(self, elapsed: Floats, parameters: Floats) -> Floats:
        score, weight, log_deviation = self._standard(np.maximum(elapsed, 1e-12), parameters)
        jacobian = np.log(np.maximum(elapsed, 1e-12))[:, None]
        return np.asarray(weight - log_deviation - 0.5 * score**2 - 0.5 * np.log(2 * np.pi) - jacobian)

    def statistics(self, unrolled: Unrolled, record: Record, parameters: Floats) -> Floats:
        """Return per component: expected number of gaps, and sums of their logarithm and its square."""
        counted = (unrolled.count > 0) & (unrolled.elapsed > 0)
        joint = self._log_density(unrolled.elapsed[counted], parameters)
        share = unrolled.count[counted, None] * np.exp(joint - logsumexp(joint, axis=1, keepdims=True))
        logs = np.log(unrolled.elapsed[counted])[:, None]
        sums = np.stack([share.sum(axis=0), (share * logs).sum(axis=0), (share * logs**2).sum(axis=0)])
        waiting = unrolled.open[unrolled.open > 0]
        score, weight, log_deviation = self._standard(waiting, parameters)
        mean, deviation = parameters.reshape(3, -1)[1], np.exp(log_deviation)
        joint = weight + log_ndtr(-score)
        share = np.exp(joint - logsumexp(joint, axis=1, keepdims=True))
        hazard = np.exp(-0.5 * score**2 - 0.5 * np.log(2 * np.pi) - log_ndtr(-score))
        first = mean + deviation * hazard
        second = mean**2 + 2 * mean * deviation * hazard + deviation**2 * (1 + score * hazard)
        waited = np.stack([share.sum(axis=0), (share * first).sum(axis=0), (share * second).sum(axis=0)])
        return np.asarray((sums + waited).ravel())

    def scatter(self, sums: Floats) -> Floats:
        """Return how much sums of few gaps vary by chance: each as the root of the sum of squares of its terms."""
        number, _, square = np.abs(sums).reshape(3, -1)
        return np.concatenate([np.sqrt(number + 1.0), np.sqrt(square + 1.0), (square + 1.0) / np.sqrt(number + 1.0)])

    def alike(self, sums: Floats) -> dict[str, tuple[Floats, Floats]]:
        """Return nothing: the mean gap of a client is a sum for an event already."""
        return {}

    def update(self, parameters: Floats, sums: Floats) -> Floats:
        """Return weighted moments; two pseudo-gaps per component hold it where it was."""
        number, first, second = sums.reshape(3, -1)
        _, old_mean, old_log_deviation = parameters.reshape(3, -1)
        total = number + 2
        mean = (first + 2 * old_mean) / total
        square = (second + 2 * (np.exp(2 * old_log_deviation) + old_mean**2)) / total
        # Tied and rounded gaps would make a component collapse onto one value.
        deviation = np.sqrt(np.maximum(square - mean**2, 0.02**2))
        return np.concatenate([np.log(total / total.sum()), mean, np.log(deviation)])

    def log_rate(self, unrolled: Unrolled, parameters: Floats) -> Floats:
        """Return log of density over survival."""
        density = logsumexp(self._log_density(unrolled.elapsed, parameters), axis=1)
        return np.asarray(density - self._log_survival(unrolled.elapsed, parameters))

    def _log_survival(self, elapsed: Floats, parameters: Floats) -> Floats:
        score, weight, _ = self._standard(elapsed, parameters)
        return np.asarray(logsumexp(weight + log_ndtr(-score), axis=1))

    def mass(self, unrolled: Unrolled, parameters: Floats) -> Floats:
        """Return differences of the cumulative hazard."""
        gone = self._log_survival(unrolled.lower, parameters) - self._log_survival(unrolled.upper, parameters)
        return np.maximum(gone, 0.0)


def time_for_an_event(events: float, exposure: float) -> Floats:
    """Return the logarithm of how long a client watches for an event, ``(1,)``."""
    return np.asarray(np.log(np.maximum([exposure / (events + 1.0)], 1e-30)))


def make_process(name: str, summary: Summary, period: float | None = None, cells: int = CELLS) -> PointProcess:
    """Return a process by name: `hawkes1` has one decay, `curve` a rate for each of so many cells of time."""
    span = period or (summary.end - summary.start)
    closed = period is not None and period <= summary.end - summary.start
    makers: dict[str, Callable[[], PointProcess]] = {
        "poisson": lambda: Poisson(summary),
        "profile": lambda: RateProfile(summary, span, PARTS, closed=closed),
        "histogram": lambda: RateProfile(summary, span, cells, histogram, closed),
        "density": lambda: RateProfile(summary, span, cells, density, closed),
        "steps": lambda: RateProfile(summary, span, cells, level, closed),
        "curve": lambda: RateProfile(summary, span, cells, closed=closed),
        "hawkes": lambda: Hawkes(summary),
        "hawkes1": lambda: Hawkes(summary, count=1),
        "renewal": lambda: Renewal(summary),
    }
    if name not in makers:
        raise ParameterError(f"a process must be one of {', '.join(PROCESSES)}, got {name!r}{nearest(name, PROCESSES)}")
    return makers[name]()
