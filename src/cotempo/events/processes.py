"""The simple processes by name."""

from __future__ import annotations

from collections.abc import Callable

from cotempo.errors import ParameterError, nearest
from cotempo.events.excitation import Hawkes
from cotempo.events.process import Poisson, Process, Profile
from cotempo.events.renewal import Renewal
from cotempo.events.summary import Summary

PROCESSES = ("poisson", "profile", "density", "hawkes", "hawkes1", "renewal")


def make_process(name: str, summary: Summary, period: float | None = None) -> Process:
    """Return a process by name; `hawkes1` has one decay, `density` is the smooth profile."""
    span = period or (summary.end - summary.start)
    makers: dict[str, Callable[[], Process]] = {
        "poisson": lambda: Poisson(summary),
        "profile": lambda: Profile(summary, span),
        "density": lambda: Profile(summary, span, parts=400, smooth=True),
        "hawkes": lambda: Hawkes(summary),
        "hawkes1": lambda: Hawkes(summary, count=1),
        "renewal": lambda: Renewal(summary),
    }
    if name not in makers:
        raise ParameterError(f"a process must be one of {', '.join(PROCESSES)}, got {name!r}{nearest(name, PROCESSES)}")
    return makers[name]()
