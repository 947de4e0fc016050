"""Splits into disjoint parts: by time inside every sequence, or by complete sequences."""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from cotempo.data.argument_checks import Seed, as_generator
from cotempo.data.tables import Table, part_bounds
from cotempo.errors import ParameterError

Data = TypeVar("Data", bound=Table | Mapping[str, Any])
FRACTIONS = (0.6, 0.2, 0.2)


def split_by_time(data: Data, fractions: Sequence[float] = FRACTIONS) -> tuple[Data, ...]:
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
    >>> from cotempo.data import Series
    >>> early, late = split_by_time(Series.from_arrays([[1.0], [2.0], [3.0], [4.0]]), (0.5, 0.5))
    >>> late.time.tolist()
    [2.0, 3.0]
    """
    shares = _check_fractions(fractions)
    parts: tuple[Data, ...] = _split(data, lambda table: table.split_by_time(shares))
    return parts


def split_by_sequence(data: Data, fractions: Sequence[float] = FRACTIONS, rng: Seed = 0) -> tuple[Data, ...]:
    """Split a table, or the tables of clients, by drawing complete sequences at random.

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
    >>> from cotempo.data import Events
    >>> events = Events.from_arrays([[1.0], [2.0], [3.0], [4.0]], windows=(0, 5))
    >>> [len(part.names) for part in split_by_sequence(events, (0.75, 0.25), rng=1)]
    [3, 1]
    """
    shares, generator = _check_fractions(fractions), as_generator(rng)

    def deal(table: Table) -> tuple[Table, ...]:
        names = table.sequence_names()
        if names is None:
            raise ParameterError(f"a table must have sequences, got {table.kind}; split {table.kind} by time")
        order, bounds = generator.permutation(len(names)), part_bounds(shares, len(names))
        return tuple(table.take(order[first:last]) for first, last in pairwise(bounds))

    parts: tuple[Data, ...] = _split(data, deal)
    return parts


def _split(data: Any, split: Callable[[Table], tuple[Table, ...]]) -> Any:
    if isinstance(data, Mapping):
        parts = {name: split(data[name]) for name in sorted(data)}
        return tuple(dict(zip(parts, tables, strict=True)) for tables in zip(*parts.values(), strict=True))
    if not isinstance(data, Table):
        raise ParameterError(f"data must be a table or a mapping from client to table, got {type(data).__name__}")
    return split(data)


def _check_fractions(fractions: Sequence[float]) -> NDArray[np.float64]:
    shares = np.asarray(fractions, dtype=np.float64)
    if shares.ndim != 1 or len(shares) == 0 or not (shares > 0).all() or abs(shares.sum() - 1) > 1e-9:
        raise ParameterError(f"fractions must be positive and sum to 1, got {fractions!r}")
    return shares
