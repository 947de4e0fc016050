"""`Participation`: who takes part in a round."""

from collections.abc import Sequence

from pydantic import Field

from cotempo.federation.rng import Rng
from cotempo.settings import Settings


class Participation(Settings):
    """Draw the cohort of a round.

    Examples
    --------
    >>> len(Participation(size=2).cohort(1, ["a", "b", "c"], seed=0))
    2
    """

    size: int | None = Field(
        default=None, ge=1, description="How many clients take part; `None`, or more than there are, for everyone."
    )
    period: int = Field(
        default=1, ge=1, description="For how many rounds a cohort stays fixed (the straggling period of FedPP)."
    )

    def __init__(self, size: int | None = None, period: int = 1):
        super().__init__(size=size, period=period)

    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    def cohort(self, round: int, names: Sequence[str], seed: int) -> tuple[str, ...]:
        """Return the clients of a round, in name order; rounds count from 1."""
        names = sorted(names)
        if self.size is None or self.size >= len(names):
            return tuple(names)
        stream = Rng(seed, "cohort", (round - 1) // self.period)("participation")
        return tuple(sorted(stream.choice(names, self.size, replace=False).tolist()))


EVERYONE = Participation()
