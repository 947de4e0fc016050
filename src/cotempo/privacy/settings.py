"""`Privacy`: what a run does so that messages tell less about single clients."""

from pydantic import Field

from cotempo.settings import Settings


class Privacy(Settings):
    """What a run does so that messages tell less about single clients."""

    secure_sum: bool | None = Field(
        default=None,
        description="Let clients mask what they send in phases that need only a sum, so that the server sees nothing "
        "but the sum. By default on between organisations if at least 3 sites take part, and off on one machine.",
    )
