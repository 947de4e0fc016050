"""The simple processes by name."""

from collections.abc import Callable

from cotempo.errors import ParameterError, nearest
from cotempo.events.curves.change_points import level
from cotempo.events.curves.smoothers import density, histogram
from cotempo.events.curves.timeline import CELLS
from cotempo.events.processes.base import PointProcess, Poisson, RateProfile
from cotempo.events.processes.hawkes import Hawkes
from cotempo.events.processes.renewal import Renewal
from cotempo.events.records.summary import Summary

PROCESSES = ("poisson", "profile", "histogram", "density", "steps", "hawkes", "hawkes1", "renewal")


def make_process(name: str, summary: Summary, period: float | None = None, cells: int = CELLS) -> PointProcess:
    """Return a process by name: `hawkes1` has one decay, `curve` a rate for each of so many cells of time."""
    span = period or (summary.end - summary.start)
    makers: dict[str, Callable[[], PointProcess]] = {
        "poisson": lambda: Poisson(summary),
        "profile": lambda: RateProfile(summary, span),
        "histogram": lambda: RateProfile(summary, span, cells, histogram),
        "density": lambda: RateProfile(summary, span, cells, density),
        "steps": lambda: RateProfile(summary, span, cells, level),
        "curve": lambda: RateProfile(summary, span, cells),
        "hawkes": lambda: Hawkes(summary),
        "hawkes1": lambda: Hawkes(summary, count=1),
        "renewal": lambda: Renewal(summary),
    }
    if name not in makers:
        raise ParameterError(f"a process must be one of {', '.join(PROCESSES)}, got {name!r}{nearest(name, PROCESSES)}")
    return makers[name]()
