"""Did joining help? Every client keeps its own answer, `Benefit`; only sums over clients cross, `Joining`.

A client compares on rows neither model saw and keeps ``(alone, together, error)`` in its memory, as `compared`; where
the server still has to choose between models, for each choice. What it sends is `tally` of it, which `Joining` adds up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from cotempo.federation.exchange import Spec
from cotempo.typing import Floats

Verdict = Literal["helped", "no difference shown", "harmed", "not tested"]
#: `compared` of a client that has nothing to compare on.
NOT_COMPARED: Floats = np.zeros(0)
NORMAL = 1.96  # standard errors that hold 95 % of chance
_SUMS = 5


@dataclass(frozen=True)
class Benefit:
    """Whether joining helped a client: its metric alone and together, measured on data neither model saw.

    `error` is the standard error of their difference; `None` where the method does not measure it. Without one (or with
    0, that of a single row) nothing is said of a difference.

    Examples
    --------
    >>> Benefit("accuracy", alone=0.8, together=0.82, higher_is_better=True, error=0.03).verdict
    'no difference shown'
    """

    metric: str
    alone: float
    together: float
    higher_is_better: bool
    error: float | None = None

    @property
    def gain(self) -> float:
        """How much better together is; negative if joining hurt."""
        return self.together - self.alone if self.higher_is_better else self.alone - self.together

    @property
    def verdict(self) -> Verdict:
        """What the difference shows: it counts if it is more than two standard errors; untested without an error."""
        if self.error is None or (self.error == 0 and self.gain != 0):
            return "not tested"
        if abs(self.gain) <= 2 * self.error:
            return "no difference shown"
        return "helped" if self.gain > 0 else "harmed"

    @property
    def helped(self) -> bool:
        """Whether together is better than alone, beyond chance."""
        return self.verdict == "helped"


@dataclass(frozen=True)
class Joining:
    """What joining was worth, summed over clients; `choice` is the model that was chosen, where there were several.

    Examples
    --------
    >>> sums = tally(np.array([1.0, 1.5, 0.1])) + tally(np.array([1.0, 1.1, 0.1])) + tally(NOT_COMPARED)
    >>> print(Joining(sums))
    joining helped 1 of 2 clients
    """

    sums: Floats = field(default_factory=lambda: np.zeros(_SUMS))
    choice: tuple[int, ...] = ()

    @property
    def compared(self) -> int:
        """How many clients could compare."""
        return round(float(self.sums[0]))

    @property
    def helped(self) -> int:
        """How many of them joining helped."""
        return round(float(self.sums[1]))

    @property
    def harmed(self) -> int:
        """How many of them joining harmed."""
        return round(float(self.sums[2]))

    @property
    def gain(self) -> float:
        """The mean gain of the clients that compared."""
        return float(self.sums[3]) / max(self.compared, 1)

    @property
    def error(self) -> float | None:
        """The standard error of the mean gain over clients; `None` for fewer than two."""
        if self.compared < 2:
            return None
        squares = float(self.sums[4]) - self.compared * self.gain**2
        return math.sqrt(max(squares, 0.0) / (self.compared - 1) / self.compared)

    def __str__(self) -> str:
        clients = f"{self.compared} client{'' if self.compared == 1 else 's'}"
        harmed = f" and harmed {self.harmed}" if self.harmed else ""
        return f"joining helped {self.helped} of {clients}{harmed}"

    def describe(self, metric: str, higher_is_better: bool) -> str:
        """Return the same as a sentence, with the mean gain and its standard error over clients."""
        if not self.compared:
            return "Whether joining helped was not measured."
        text = str(self)
        error = "" if self.error is None else f" ± {self.error:.2g}"
        better = "higher" if higher_is_better else "lower"
        return f"{text[:1].upper()}{text[1:]}. Mean gain {self.gain:+.2g}{error} ({metric}; {better} is better)."


def tally(compared: Floats, *choices: int, higher_is_better: bool = True) -> Floats:
    """Return what a client adds to `Joining.sums`, ``(*choices, sums)``; zeros where it did not compare.

    `compared` has a client's ``(alone, together, error)`` under each choice, ``(*choices, 3)``; errors may be NaN.
    """
    if not compared.size:
        return np.zeros((*choices, _SUMS))
    alone, together, error = np.moveaxis(compared, -1, 0)
    gain = (together - alone) * (1 if higher_is_better else -1)
    shown = (np.abs(gain) > 2 * error) & (error > 0)  # a NaN, or 0 with a gain, shows nothing
    sums = [np.ones_like(gain), shown & (gain > 0), shown & (gain < 0), gain, gain**2]
    return np.stack([np.asarray(one, dtype=np.float64) for one in sums], axis=-1)


def expect_tally(*choices: int) -> Spec:
    """Expect what `tally` returns."""
    about = "whether joining helped you, by how much, and the square of it, on data neither model saw"
    return Spec((*choices, _SUMS), reported=True, description=about)


def benefit_error(differences: Any) -> float:
    """Return the standard error of a mean difference over held-out rows or parts, widened where they are few.

    Twice it bounds 95 % of chance also then: of two rows it is 6.5 times as wide, of ten 1.15 times. NaN for a single
    one, which tells nothing.
    """
    from scipy.special import stdtrit

    count = len(differences)
    return standard_error(differences) * float(stdtrit(count - 1, 0.975)) / NORMAL if count > 1 else math.nan


def standard_error(differences: Any) -> float:
    """Return the standard error of the mean of differences, one for each held-out row or part; 0 for a single one."""
    count = len(differences)
    return float(np.std(differences, ddof=1) / math.sqrt(count)) if count > 1 else 0.0
