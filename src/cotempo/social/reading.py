"""Posts as people hand them in: a table, or any dataframe."""

from __future__ import annotations

from typing import Any

from cotempo.data import Posts, read_posts
from cotempo.errors import DataError


def as_posts(source: Any) -> Posts:
    """Return posts as they are, and read anything else that holds the posts of one client.

    Examples
    --------
    >>> import pandas
    >>> as_posts(pandas.DataFrame({"text": ["flood", "fire"]})).rows
    2
    """
    if isinstance(source, Posts):
        return source
    found = read_posts(source)
    if len(found) != 1:
        raise DataError(f"posts must be those of one client, got {len(found)}: {', '.join(list(found)[:5])}")
    return next(iter(found.values()))
