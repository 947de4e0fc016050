"""How answers are gathered: each by itself, or as one weighted sum."""

from cotempo.reducers.gather import gather_each, gather_sum

__all__ = ["gather_each", "gather_sum"]
