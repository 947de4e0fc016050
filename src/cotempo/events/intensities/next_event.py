"""`NextEvent`: when the next event comes, as `predict_next` tells it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from cotempo.data.clock import Clock
from cotempo.data.html import html_table
from cotempo.data.tables import FrameKind, make_frame
from cotempo.errors import ParameterError, warn
from cotempo.typing import Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = (0.1, 0.5, 0.9)
# A mean is told without a warning where the event comes this surely by the last time looked at.
SURE = 0.99


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
        """Return the mean time of the next event, given that it comes by the last time looked at.

        It warns where that is not sure: what may come later is not in this mean.
        """
        if self.chance() < SURE:
            warn(f"the mean leaves out events after {self._end}; pass a later until=, or ask for a quantile")
        mass = -np.diff(self.survival)
        middles = (self.numbers[1:] + self.numbers[:-1]) / 2
        return self.clock.date(float((mass * middles).sum() / max(mass.sum(), 1e-300)))

    def quantile(self, share: Any) -> Any:
        """Return the time by which it comes with chance `share`, a number or several.

        It is infinite, or no date, and warned of, if that is later than the last time looked at.
        """
        shares = np.asarray(share, dtype=np.float64)
        if not ((shares >= 0) & (shares <= 1)).all():
            raise ParameterError(f"share must lie between 0 and 1, got {share}")
        if (shares > self.chance()).any():
            warn(f"a quantile is not known where it lies after {self._end}; pass a later until=")
        found = np.array([self.number_at(float(one)) for one in shares.ravel()])
        return self.clock.date(found[0]) if shares.ndim == 0 else self.clock.dates_of(found)

    @property
    def _end(self) -> str:
        return f"{self.clock.text(float(self.numbers[-1]))}, by when it comes with chance {self.chance():.3g}"

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
