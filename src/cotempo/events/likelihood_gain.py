"""Gains: log-likelihoods of events in nats per event over homogeneous Poisson processes."""

from collections.abc import Mapping

import numpy as np

from cotempo.events.processes.models import PointProcess
from cotempo.events.records.history import Unrolled
from cotempo.federation import Benefit
from cotempo.typing import Floats


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


def benefits(compared: Mapping[str, Floats]) -> dict[str, Benefit]:
    """Return what joining was worth to each client, from its gains alone and together."""
    return {
        name: Benefit("held-out gain in nats per event", float(alone), float(together), higher_is_better=True)
        for name, (alone, together) in compared.items()
    }
