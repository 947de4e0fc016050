"""`NextEvent`: when the next event comes, as `predict_next` tells it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from cotempo.data.clock import Clock
from cotempo.data.html import html_table
from cotempo.data.tables import FrameKind, make_frame
from cotempo.errors import ParameterError
from cotempo.typing import Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = (0.1, 0.5, 0.9)


@dataclass(frozen=True, repr=False)
class NextEvent:
    """When the next event comes.

    Parameters
    ----------
    numbers
        Times looked at, in the numbers of the clock, ``(times,)``; `times` has them as dates where there are dates.
    survival
        The chance that no event has come by each of them, ``(times,)``.
    clock
        How time is counted.

    Examples
    --------
    >>> ahead = NextEvent(np.array([0.0, 1.0, 2.0]), np.array([1.0, 0.5, 0.2]))
    >>> ahead.chance(), ahead.chance(by=1), ahead.quantile(0.5)
    (0.8, 0.5, 1.0)
    """

    numbers: Floats
    survival: Floats
    clock: Clock = field(default_factory=Clock)

    @property
    def times(self) -> Any:
        """The times looked at."""
        return self.clock.dates_of(self.numbers)

    def chance(self, by: Any = None) -> float:
        """Return the chance that it comes by a time, by default the last one looked at."""
        first, last = float(self.numbers[0]), float(self.numbers[-1])
        time, text = last if by is None else self.clock.number(by), self.clock.text
        if not first <= time <= last:
            raise ParameterError(f"by must lie in [{text(first)}, {text(last)}], got {text(time)}; pass a later until=")
        return float(1 - np.interp(time, self.numbers, self.survival))

    def mean(self) -> Any:
        """Return the mean time of the next event, given that it comes before the last time looked at."""
        mass = -np.diff(self.survival)
        middles = (self.numbers[1:] + self.numbers[:-1]) / 2
        return self.clock.date(float((mass * middles).sum() / max(mass.sum(), 1e-300)))

    def quantile(self, share: float) -> Any:
        """Return the time by which it comes with chance `share`; infinite, or no date, if it may not come at all."""
        if not 0 <= share <= 1:
            raise ParameterError(f"share must lie between 0 and 1, got {share}")
        return self.clock.date(self.number_at(share))

    def number_at(self, share: float) -> float:
        """Return a quantile in the numbers of the clock."""
        if share > self.chance():
            return float("inf")
        return float(np.interp(-(1 - share), -self.survival, self.numbers))

    def to_frame(self, kind: FrameKind = "pandas") -> Any:
        """Return the columns ``time`` and ``chance``, that it has come by then, as a dataframe."""
        return make_frame({"time": self.numbers, "chance": 1 - self.survival}, kind, {"time": self.clock})

    def plot(self) -> Figure:
        """Draw the chance that it has come."""
        from cotempo.events.plots import plot_next

        return plot_next(self)

    def __repr__(self) -> str:
        return f"NextEvent({', '.join(f'{chance} by {time}' for chance, time in self._facts())})"

    def _repr_html_(self) -> str:
        return html_table(type(self).__name__, self._facts(), ("chance", "that it has come by"))

    def _facts(self) -> list[tuple[str, str]]:
        known = [(share, self.number_at(share)) for share in SHOWN if share <= self.chance()]
        known.append((self.chance(), float(self.numbers[-1])))
        return [(f"{share:.3g}", self.clock.text(time)) for share, time in known]
