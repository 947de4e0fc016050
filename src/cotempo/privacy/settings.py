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

    def resolved(self, *, is_remote: bool, clients: int) -> "Privacy":
        """Return the settings with every default decided."""
        if self.secure_sum is not None:
            return self
        return self.model_copy(update={"secure_sum": is_remote and clients >= 3})
