"""`Privacy`: what a run does so that messages tell less about single clients."""

from collections.abc import Mapping
from typing import Literal, Self

from pydantic import Field, model_validator

from cotempo.settings import Settings

Range = tuple[float, float]
SMALLEST, LARGEST = 1e-50, 1e50  # of clip and the width of ranges, whose squares and quotients must stay numbers


class Privacy(Settings):
    """What a run does so that messages tell less about single clients.

    Examples
    --------
    >>> Privacy(epsilon=1, ranges=(-5, 5)).delta
    1e-06
    """

    secure_sum: bool | None = Field(
        default=None,
        description="Let clients mask what they send in phases that need only a sum, so that the server sees nothing "
        "but the sum. By default on between organisations if at least 3 sites take part, and off on one machine.",
    )
    epsilon: float | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description="Add noise to everything that leaves, so that the whole run is (epsilon, delta) differentially "
        "private: about 1 is strong, 3 usual, 8 weak. Without it no noise is added.",
    )
    delta: float = Field(
        default=1e-6, gt=0, lt=1, description="The chance that epsilon does not hold; below one in the rows of all."
    )
    unit: Literal["row", "sequence", "client"] = Field(
        default="row",
        description="What the promise is about: one row (a time point, event or post), one sequence, or all that one "
        "client holds. Each private method names the units it can protect.",
    )
    clip: float | None = Field(
        default=None,
        ge=SMALLEST,
        le=LARGEST,
        description="How much one unit may count; what exceeds it is scaled down or left out. By default the method's.",
    )
    ranges: Range | dict[str, Range] | None = Field(
        default=None,
        description="Between which values columns lie: one pair (low, high) for all, or one by column. They must come "
        "from what is known in public: bounds read from the data tell about its rows.",
    )
    seeded: bool = Field(
        default=False,
        description="For tests: draw the noise from the run's seed. Whoever knows the seed can subtract it, so that "
        "the promise is void, and results say so.",
    )

    @model_validator(mode="after")
    def _agree(self) -> Self:
        pairs = self.ranges.values() if isinstance(self.ranges, Mapping) else [self.ranges] if self.ranges else []
        for low, high in pairs:
            if not -float("inf") < low < high < float("inf"):
                raise ValueError(f"ranges must be pairs of finite numbers, the lower one first, got ({low}, {high})")
            if not SMALLEST <= high - low <= LARGEST:
                raise ValueError(f"ranges must be between {SMALLEST:g} and {LARGEST:g} wide, got ({low}, {high})")
        return self
