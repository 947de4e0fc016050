"""Splits into parts that share nothing: by time inside every sequence, or by whole sequences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from cotempo.data.events import Events
from cotempo.data.posts import Posts
from cotempo.data.randomness import Seed, as_generator
from cotempo.data.series import Series
from cotempo.data.tables import Table, stretches
from cotempo.errors import DataError, ParameterError

AnyTable = TypeVar("AnyTable", bound=Table)
FRACTIONS = (0.6, 0.2, 0.2)


@overload
def split_by_time(data: AnyTable, fractions: Sequence[float] = ...) -> tuple[AnyTable, ...]: ...
@overload
def split_by_time(
    data: Mapping[str, AnyTable], fractions: Sequence[float] = ...
) -> tuple[dict[str, AnyTable], ...]: ...
def split_by_time(data: Any, fractions: Sequence[float] = FRACTIONS) -> Any:
    """Split a table, or the tables of clients, into parts that follow each other in time.

    Every sequence is cut. Windows of events are cut at fractions of their length and abut: an event at a cut belongs
    to the later part. Rows of series are cut at fractions of their number, and so are posts, where equal times stay
    together in the later part.

    Parameters
    ----------
    data
        One table, or a mapping from client to table.
    fractions
        Shares of the parts, which sum to 1.

    Returns
    -------
    tuple
        One table, or one mapping, per fraction. A part of a short sequence may be empty.

    Examples
    --------
    >>> early, late = split_by_time(Series.from_arrays([[1.0], [2.0], [3.0], [4.0]]), (0.5, 0.5))
    >>> late.time.tolist()
    [2.0, 3.0]
    """
    shares = _shares(fractions)
    if isinstance(data, Mapping):
        parts = {name: _cut(data[name], shares) for name in sorted(data)}
        return tuple({name: parts[name][index] for name in parts} for index in range(len(shares)))
    return _cut(data, shares)


@overload
def split_by_sequence(data: AnyTable, fractions: Sequence[float] = ..., rng: Seed = ...) -> tuple[AnyTable, ...]: ...
@overload
def split_by_sequence(
    data: Mapping[str, AnyTable], fractions: Sequence[float] = ..., rng: Seed = ...
) -> tuple[dict[str, AnyTable], ...]: ...
def split_by_sequence(data: Any, fractions: Sequence[float] = FRACTIONS, rng: Seed = 0) -> Any:
    """Split a table, or the tables of clients, by dealing out whole sequences at random.

    Parameters
    ----------
    data
        One table of events or series, or a mapping from client to table.
    fractions
        Shares of the parts, which sum to 1.
    rng
        A random generator or a seed.

    Returns
    -------
    tuple
        One table, or one mapping, per fraction.

    Examples
    --------
    >>> events = Events.from_arrays([[1.0], [2.0], [3.0], [4.0]], windows=(0, 5))
    >>> [len(part.names) for part in split_by_sequence(events, (0.75, 0.25), rng=1)]
    [3, 1]
    """
    shares, generator = _shares(fractions), as_generator(rng)
    if isinstance(data, Mapping):
        parts = {name: _deal(data[name], shares, generator) for name in sorted(data)}
        return tuple({name: parts[name][index] for name in parts} for index in range(len(shares)))
    return _deal(data, shares, generator)


def sequence_names(table: Table) -> list[str]:
    """Return the names of a table's sequences, sorted."""
    if isinstance(table, Events):
        return [str(name) for name in table.names]
    if isinstance(table, Series):
        return [name for name, _ in stretches(table.sequence)]
    raise ParameterError(f"only events and series have sequences, got {type(table).__name__}; split posts by time")


def keep_sequences(table: AnyTable, names: Iterable[str]) -> AnyTable:
    """Return a table of events or series with only the named sequences."""
    wanted = np.array(sorted(names), dtype=np.str_)
    if isinstance(table, Series):
        return table.select(np.isin(table.sequence, wanted))
    if not isinstance(table, Events):
        raise ParameterError(f"only events and series have sequences, got {type(table).__name__}; split posts by time")
    rows, kept = np.isin(table.sequence, wanted), np.isin(table.names, wanted)
    columns = (table.sequence[rows], table.time[rows], table.mark[rows], table.marks)
    return type(table)(*columns, table.names[kept], table.start[kept], table.end[kept], table.unit)


def _shares(fractions: Sequence[float]) -> NDArray[np.float64]:
    shares = np.asarray(fractions, dtype=np.float64)
    if shares.ndim != 1 or len(shares) == 0 or not (shares > 0).all() or abs(shares.sum() - 1) > 1e-9:
        raise ParameterError(f"fractions must be positive and sum to 1, got {fractions!r}")
    return shares


def _bounds(shares: NDArray[np.float64], count: int) -> NDArray[np.intp]:
    """Return where the parts of `count` things begin and end, ``(parts + 1,)``."""
    return np.concatenate([[0], np.round(np.cumsum(shares[:-1]) * count), [count]]).astype(np.intp)


def _deal(table: AnyTable, shares: NDArray[np.float64], rng: np.random.Generator) -> tuple[AnyTable, ...]:
    names = rng.permutation(np.array(sequence_names(table), dtype=np.str_))
    bounds = _bounds(shares, len(names))
    return tuple(keep_sequences(table, names[bounds[part] : bounds[part + 1]]) for part in range(len(shares)))


def _cut(table: Any, shares: NDArray[np.float64]) -> tuple[Any, ...]:
    if isinstance(table, Events):
        return _cut_events(table, shares)
    if isinstance(table, Series):
        bounds = [rows.start + _bounds(shares, rows.stop - rows.start) for _, rows in stretches(table.sequence)]
        pieces = [[np.arange(bound[part], bound[part + 1]) for bound in bounds] for part in range(len(shares))]
        return tuple(table.select(np.concatenate([np.zeros(0, dtype=np.intp), *piece])) for piece in pieces)
    if isinstance(table, Posts):
        return _cut_posts(table, shares)
    raise ParameterError(f"data must be a table or a mapping from client to table, got {type(table).__name__}")


def _cut_events(events: Events, shares: NDArray[np.float64]) -> tuple[Events, ...]:
    inner = np.cumsum(shares[:-1])
    length = (events.end - events.start)[:, None]
    cuts = np.column_stack([events.start, events.start[:, None] + length * inner, events.end])
    own = cuts[np.searchsorted(events.names, events.sequence)]
    part_of = (events.time[:, None] >= own[:, 1:-1]).sum(axis=1)
    found = []
    for part in range(len(shares)):
        rows = part_of == part
        columns = (events.sequence[rows], events.time[rows], events.mark[rows], events.marks)
        found.append(Events(*columns, events.names, cuts[:, part], cuts[:, part + 1], events.unit))
    return tuple(found)


def _cut_posts(posts: Posts, shares: NDArray[np.float64]) -> tuple[Posts, ...]:
    if np.isnan(posts.time).any():
        raise DataError("every post must have a time to be split by time; drop those without one")
    order = np.argsort(posts.time, kind="stable")
    time = posts.time[order]
    bounds = _bounds(shares, len(time))
    bounds[1:-1] = [np.searchsorted(time, time[bound]) if bound < len(time) else bound for bound in bounds[1:-1]]
    return tuple(posts.select(order[bounds[part] : bounds[part + 1]]) for part in range(len(shares)))
