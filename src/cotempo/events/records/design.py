"""Features of history: how they are made of a record (`FeatureDesign`), and a client's rows of them (`FeatureRows`)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm, qmc

from cotempo.events.processes.models import Hawkes, PointProcess, make_process
from cotempo.events.records.history import WHOLE, Unrolled, unroll
from cotempo.events.records.record import Record, Summary
from cotempo.typing import Floats

DIMENSIONS = 5
FEATURE_BIN = 0.5
PIECES = 10
FINE = np.unique(np.concatenate([[0.0], np.geomspace(1e-4, 1.0, 24), np.linspace(0.0, 1.0, 41)]))


@dataclass(frozen=True)
class FeatureRows:
    """Rows with equal features joined, ``(rows, ...)``; `held` marks those held out."""

    features: Floats
    events: Floats
    exposure: Floats
    held: NDArray[np.bool_]


@dataclass(frozen=True)
class FeatureDesign:
    """How features are made of a record, the same at all clients.

    `summary` is that of all clients, as an array. `period` is the period of the time feature and of the curve of time,
    0 for the complete span; the curve has `cells` cells. `base` and `parameters` give the base measure. `centre` and
    `whiten` are the mean of the features and the inverse root of their covariance; empty before they are known.
    """

    summary: Floats
    period: float
    cells: int
    base: str
    parameters: Floats
    centre: Floats
    whiten: Floats

    @property
    def repeats(self) -> bool:
        """Whether a period was seen to its end, so that other times than those of the span are known."""
        summary = Summary.from_array(self.summary)
        return 0 < self.period <= summary.end - summary.start

    @property
    def decays(self) -> Floats:
        """Decays of the recencies in unrolled records."""
        return Hawkes(Summary.from_array(self.summary)).decays

    def process(self, name: str) -> PointProcess:
        """Return a process by name."""
        return make_process(name, Summary.from_array(self.summary), self.period or None, self.cells)

    def log_base(self, unrolled: Unrolled) -> Floats:
        """Return log of the base intensity at events."""
        return self.process(self.base).log_rate(unrolled, self.parameters)

    def base_mass(self, unrolled: Unrolled) -> Floats:
        """Return integral of the base intensity over cells."""
        return self.process(self.base).mass(unrolled, self.parameters)

    def raw(self, time: Floats, elapsed: Floats, recency: Floats) -> Floats:
        """Return log elapsed time, log decayed counts and the time of the period, ``(rows, dimensions)``."""
        summary = Summary.from_array(self.summary)
        span = summary.end - summary.start
        since = (time - summary.start) / (self.period or span)
        # Where no period was seen to its end, nothing returns: beyond the span its end goes on.
        reach = min(span / (self.period or span), 1.0)
        phase = np.mod(since, 1.0) if self.period and reach == 1 else np.clip(since, 0.0, reach)
        recent = np.log(recency[:, ::2] + 0.1)
        return np.column_stack([np.log(elapsed + 0.1 * summary.gaps[0]), recent, 3.0 * phase])

    def features(self, time: Floats, elapsed: Floats, recency: Floats) -> Floats:
        """Return whitened features, ``(rows, dimensions)``."""
        return np.asarray((self.raw(time, elapsed, recency) - self.centre) @ self.whiten)


def make_rows(record: Record, design: FeatureDesign) -> FeatureRows:
    """Count a client's record into rows."""
    parts = []
    for held in (False, True):
        unrolled = unroll(record.part(held=held), design.decays, FINE)
        seen = design.features(*unrolled.at_events())
        mass, elapsed, time, recency = even_pieces(unrolled, design.base_mass(unrolled))
        watched = design.features(time, elapsed, recency)
        # Rows whose whitened features agree within half a standard deviation are joined.
        coarse = np.round(np.concatenate([seen, watched]) / FEATURE_BIN).astype(np.int64)
        kept, place = np.unique(coarse, axis=0, return_inverse=True)
        events = np.append(unrolled.count[unrolled.count > 0], np.zeros(len(watched)))
        exposure = np.append(np.zeros(len(seen)), mass)
        sums = [np.bincount(place.ravel(), part, len(kept)).astype(np.float64) for part in (events, exposure)]
        parts.append((kept * FEATURE_BIN, *sums, np.full(len(kept), held)))
    return FeatureRows(*(np.concatenate(part) for part in zip(*parts, strict=True)))


def even_pieces(unrolled: Unrolled, mass: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Cut each gap evenly in time and in base mass at once, so that spikes of the base are resolved.

    Returns mass, elapsed time, time and recency of the pieces, ``(pieces, ...)``.
    """
    size = len(FINE) - 1
    each = mass.reshape(-1, size)
    gaps = len(each)
    if not gaps:
        return np.zeros(0), np.zeros(0), np.zeros(0), np.zeros((0, len(unrolled.decays)))
    total = np.concatenate([np.zeros((gaps, 1)), np.cumsum(each, axis=1)], axis=1)
    mixed = (total / np.maximum(total[:, -1:], 1e-300) + FINE) / 2 + 2.0 * np.arange(gaps)[:, None]
    steps = np.arange(2 * PIECES + 1) / (2 * PIECES) + 2.0 * np.arange(gaps)[:, None]
    share = np.interp(steps[:, 1::2], mixed.ravel(), np.tile(FINE, gaps))
    pieces = np.diff(np.interp(steps[:, ::2], mixed.ravel(), total.ravel()), axis=1)
    lower, upper = unrolled.lower.reshape(-1, size)[:, :1], unrolled.upper.reshape(-1, size)[:, -1:]
    elapsed = (lower + (upper - lower) * share).ravel()
    begin = unrolled.begin.reshape(-1, size)[:, :1] - lower
    recency = np.repeat(unrolled.origin_recency[::size], PIECES, axis=0) * np.exp(-elapsed[:, None] * unrolled.decays)
    return pieces.ravel(), elapsed, (begin + elapsed.reshape(-1, PIECES)).ravel(), recency


def moments(record: Record, design: FeatureDesign) -> Floats:
    """Return sums from which features are whitened: weight, first and second moments of the raw features."""
    unrolled = unroll(record.part(held=False), design.decays)
    raw = np.concatenate([design.raw(*unrolled.at_events()), design.raw(*unrolled.at_middles())])
    weight = np.append(unrolled.count[unrolled.count > 0], design.base_mass(unrolled))
    square = (raw * weight[:, None]).T @ raw
    return np.concatenate([[weight.sum()], weight @ raw, square.ravel()])


def whitening(sums: Floats) -> tuple[Floats, Floats]:
    """Return mean and inverse covariance root from the total of `moments`."""
    size = DIMENSIONS
    weight, first, second = sums[0], sums[1 : 1 + size], sums[1 + size :].reshape(size, size)
    centre = first / max(weight, 1e-12)
    covariance = second / max(weight, 1e-12) - np.outer(centre, centre)
    values, vectors = np.linalg.eigh(covariance)
    # A direction that hardly varies must not be blown up to unit size.
    return centre, vectors / np.sqrt(np.maximum(values, 1e-3 * max(values.max(), 1e-12)))


def place_inducing(count: int, dimensions: int = DIMENSIONS) -> Floats:
    """Return inducing inputs that need no data: spread evenly through a normal."""
    return np.asarray(1.3 * norm.ppf(qmc.Halton(dimensions, scramble=False).random(count + 1)[1:]))


def dispersion(record: Record, process: PointProcess, parameters: Floats) -> Floats:
    """Return sums for the design effect: squared misfit, expected events and degrees of freedom, ``(2, 3)``.

    The first row is of sequences; the second, of a single one, of the folds its blocks are dealt to.
    """
    single = record.single
    parts, size = record.deal() if single else [record], len(record.origin)
    unrolled = [unroll(part, process.decays, WHOLE) for part in parts]
    mass = [process.mass(one, parameters) for one in unrolled]
    if single:
        observed, expected = np.array([part.events for part in parts]), np.array([one.sum() for one in mass])
    else:
        observed = np.bincount(unrolled[0].sequence, weights=unrolled[0].count, minlength=size)
        expected = np.bincount(unrolled[0].cell_sequence, weights=mass[0], minlength=size)
    watched = expected > 0
    count, sums = int(watched.sum()), np.zeros((2, 3))
    if count > 1:
        expected = expected[watched] * max(record.events, 0.5) / expected.sum()
        misfit = ((observed[watched] - expected) ** 2).sum() * count / (count - 1)
        sums[int(single)] = misfit, expected.sum(), count - 1
    return sums
