"""Who takes part in a round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cotempo.errors import ParameterError
from cotempo.federation.rng import Rng


@dataclass(frozen=True)
class Participation:
    """Draw the cohort of a round.

    Parameters
    ----------
    size
        How many clients take part; `None` for everyone. With fewer clients than that, all of them do.
    period
        For how many rounds a cohort stays fixed before another is drawn (the straggling period of FedPP).

    Examples
    --------
    >>> len(Participation(size=2).cohort(1, ["a", "b", "c"], seed=0))
    2
    """

    size: int | None = None
    period: int = 1

    def __post_init__(self) -> None:
        if self.size is not None and self.size < 1:
            raise ParameterError(f"a cohort's size must be at least 1, got {self.size}")
        if self.period < 1:
            raise ParameterError(f"a cohort's period must be at least 1 round, got {self.period}")

    def cohort(self, round: int, names: Sequence[str], seed: int) -> tuple[str, ...]:
        """Return the clients of a round, in name order; rounds count from 1."""
        names = sorted(names)
        if self.size is None or self.size >= len(names):
            return tuple(names)
        stream = Rng(seed, "cohort", (round - 1) // self.period)("participation")
        return tuple(sorted(stream.choice(names, self.size, replace=False).tolist()))
