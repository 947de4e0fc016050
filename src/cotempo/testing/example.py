"""Small data to try a method on."""

from __future__ import annotations

from typing import Any

from cotempo.data import Table, make_events, make_posts, make_series
from cotempo.federation.method import Method


def example(cls: type[Method]) -> tuple[Method, dict[str, Table], Table | None]:
    """A small instance of a method, four small clients and, where the method uses one, a public table.

    A method says by a class method `example` what it wants; by default it is tried as it is on generated data of its
    kind.
    """
    own: Any = getattr(cls, "example", None)
    if own is not None:
        method, clients, public = own()
        return method, clients, public
    makers: dict[str, Any] = {"events": make_events, "series": make_series, "posts": make_posts}
    clients, _ = makers[cls.kind](clients=4, seed=0)
    return cls(), clients, None
