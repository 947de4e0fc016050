"""Scores of intensities: gains in nats per event over homogeneous Poisson processes, time rescaling and coverage."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from cotempo.errors import DataError
from cotempo.events.processes.models import PointProcess
from cotempo.events.records.history import Unrolled
from cotempo.federation import benefit_error
from cotempo.typing import Floats

if TYPE_CHECKING:
    from cotempo.events.intensities.base import Band
    from cotempo.events.records.record import Record

    Score = Callable[[Record], Mapping[str, float]]

PARTS = 10
# With fewer events held out, their spread says nothing about the error of a difference.
FEWEST_HELD = 5
#: Of `Benefit`, for all methods that learn an intensity.
METRIC = "held-out gain in nats per event"


def seen_likelihood(log_rate: Floats, unrolled: Unrolled) -> float:
    """Sum the log intensity over the events that count."""
    counted = unrolled.count > 0
    return float((unrolled.count * log_rate)[counted].sum())


def process_likelihood(
    process: PointProcess, parameters: Floats, unrolled: Unrolled, level: float
) -> tuple[float, float]:
    """Return log-likelihood of a process at a level, and its expected number of events."""
    mass = level * float(process.mass(unrolled, parameters).sum())
    seen = seen_likelihood(process.log_rate(unrolled, parameters) + np.log(level), unrolled)
    return seen - mass, mass


def gains(
    log_likelihood: float, mass: float, events: float, exposure: float, rates: Mapping[str, tuple[float, float]]
) -> dict[str, float]:
    """Return scores of a model that expected `mass` events where `events` came.

    `rates` has, by name of a gain, the events and the exposure its homogeneous rate is learned from; half an event
    stands for none.

    Examples
    --------
    >>> gains(-10.0, 10.0, 10.0, 10.0, {"gain": (20.0, 20.0)})
    {'gain': 0.0, 'count_ratio': 1.0, 'events': 10.0}
    """
    count = max(events, 1.0)
    found = {}
    for name, (seen, watched) in rates.items():
        rate = max(seen, 0.5) / watched
        found[name] = float((log_likelihood - events * np.log(rate) + rate * exposure) / count)
    return {**found, "count_ratio": float(mass / count), "events": float(events)}


def error_of_gain(held: Record, together: Score, alone: Score) -> float:
    """Return the standard error of the difference in gain per event, by its spread over parts of what was held out."""
    scores = [(together(part), alone(part)) for part in held.deal(PARTS) if part.exposure > 0]
    differences = [(one["gain"] - other["gain"]) * max(one["events"], 1.0) for one, other in scores]
    events = sum(max(one["events"], 1.0) for one, _ in scores)
    return len(scores) * benefit_error(differences) / events if scores else 0.0


class Rescaling(NamedTuple):
    """Kolmogorov-Smirnov test of waiting times on the model's clock against unit exponentials."""

    statistic: float
    p_value: float
    waits: Floats


def rescaling_test(waits: Sequence[ArrayLike]) -> Rescaling:
    """Test the waiting times that `rescale` gave, all sequences together.

    On events the model was fitted to, the p-value is too large: it holds for new events.

    Examples
    --------
    >>> waits = np.random.default_rng(0).exponential(size=(5, 100))
    >>> rescaling_test(list(waits)).p_value > 0.01
    True
    """
    joined = np.sort(np.concatenate([np.zeros(0), *(np.asarray(part, dtype=np.float64) for part in waits)]))
    if not len(joined):
        raise DataError("there must be at least one event to test, there is none")
    test = stats.kstest(joined, "expon")
    return Rescaling(float(test.statistic), float(test.pvalue), joined)


def coverage(band: Band, truth: ArrayLike) -> float:
    """Return the share of true values inside a band.

    Examples
    --------
    >>> from cotempo.events import Band
    >>> coverage(Band(np.ones(2), np.zeros(2), np.full(2, 2.0)), [1.0, 3.0])
    0.5
    """
    true = np.asarray(truth, dtype=np.float64)
    return float(np.mean((band.lower <= true) & (true <= band.upper)))
