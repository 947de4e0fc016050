"""`split_by_time`, `split_by_sequence` and `partition`: tables divided into disjoint parts, or among clients."""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from cotempo.data.argument_checks import Seed, as_generator, check_choice, check_counts, check_number
from cotempo.data.tables import Table, client_names, part_bounds
from cotempo.errors import ParameterError
from cotempo.typing import Floats, Indices

AnyTable = TypeVar("AnyTable", bound=Table)
Data = TypeVar("Data", bound=Table | Mapping[str, Any])
FRACTIONS = (0.6, 0.2, 0.2)
HOW = ("equal", "mark", "dirichlet")


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
    parts: tuple[Data, ...] = _split(data, fractions, lambda table, shares: table.split_by_time(shares))
    return parts


def split_by_sequence(data: Data, fractions: Sequence[float] = FRACTIONS, rng: Seed = 0) -> tuple[Data, ...]:
    """Split tables of events or series by drawing complete sequences at random; `rng` is a generator or a seed.

    The other parameters and the result are as in `split_by_time`.

    Examples
    --------
    >>> from cotempo.data import Events
    >>> events = Events.from_arrays([[1.0], [2.0], [3.0], [4.0]], windows=(0, 5))
    >>> [len(part.names) for part in split_by_sequence(events, (0.75, 0.25), rng=1)]
    [3, 1]
    """
    generator = as_generator(rng)

    def deal(table: Table, shares: Floats) -> tuple[Table, ...]:
        names = table.sequence_names()
        if names is None:
            raise ParameterError(f"a table must have sequences, got {table.kind}; split {table.kind} by time")
        order, bounds = generator.permutation(len(names)), part_bounds(shares, len(names))
        return tuple(table.take(order[first:last]) for first, last in pairwise(bounds))

    parts: tuple[Data, ...] = _split(data, fractions, deal)
    return parts


def partition(
    table: AnyTable,
    clients: int,
    how: Literal["equal", "mark", "dirichlet"] = "equal",
    *,
    alpha: float = 0.5,
    rng: Seed = 0,
) -> dict[str, AnyTable]:
    """Divide a table among clients, ``client-0``, ``client-1``, ...

    Sequences are kept complete; posts are divided one by one. The label of a sequence of events is its most frequent
    mark, that of a post its event.

    Parameters
    ----------
    table, clients
        The table to divide, and the number of clients.
    how
        ``"equal"``: at random, equally many each; a table with fewer sequences than clients is split by time instead.
        ``"mark"``: all sequences or posts of one label go to the same client, the largest labels first, to the client
        that has least. ``"dirichlet"``: the share of each label that a client gets is drawn from a Dirichlet
        distribution; without labels (series, unmarked events) the sizes of the clients are.
    alpha
        Concentration of the Dirichlet distribution: small is uneven, large is even.
    rng
        A random generator or a seed.

    Returns
    -------
    dict
        One table per client; each has at least one sequence or post (a client without any gets one of the largest's).

    Examples
    --------
    >>> from cotempo.data import Events
    >>> events = Events.from_arrays([[1.0], [2.0], [3.0], [4.0]], windows=(0, 5))
    >>> [len(own.names) for own in partition(events, 2).values()]
    [2, 2]
    """
    check_counts(clients=clients)
    check_number("alpha", alpha, 0, open_low=True)
    check_choice("how", how, HOW)
    generator = as_generator(rng)
    names, sequences, labels = client_names(clients), table.sequence_names(), table.labels()
    units = table.rows if sequences is None else len(sequences)
    if units < clients and how == "equal" and sequences is not None:
        return dict(zip(names, table.split_by_time(np.full(clients, 1 / clients)), strict=True))
    if units < clients:
        raise ParameterError(f"clients must be at most {units}, one for each sequence or post, got {clients}")
    if how == "equal":
        owner = generator.permutation(np.arange(units) % clients)
    elif how == "mark":
        owner = _by_label(labels, clients)
    else:
        owner = _dirichlet(np.zeros(units, dtype=np.str_) if labels is None else labels, clients, alpha, generator)
    return {name: table.take(np.flatnonzero(owner == number)) for number, name in enumerate(names)}


def _split(data: Any, fractions: Sequence[float], split: Callable[[Table, Floats], tuple[Table, ...]]) -> Any:
    shares = np.asarray(fractions, dtype=np.float64)
    if shares.ndim != 1 or len(shares) == 0 or not (shares > 0).all() or abs(shares.sum() - 1) > 1e-9:
        raise ParameterError(f"fractions must be positive and sum to 1, got {fractions!r}")
    if isinstance(data, Mapping):
        parts = {name: split(data[name], shares) for name in sorted(data)}
        return tuple(dict(zip(parts, tables, strict=True)) for tables in zip(*parts.values(), strict=True))
    if not isinstance(data, Table):
        raise ParameterError(f"data must be a table or a mapping from client to table, got {type(data).__name__}")
    return split(data, shares)


def _by_label(labels: NDArray[np.str_] | None, clients: int) -> Indices:
    if labels is None:
        raise ParameterError("how='mark' must be given marked events or posts; use 'equal' or 'dirichlet'")
    names, inverse, counts = np.unique(labels, return_inverse=True, return_counts=True)
    if len(names) < clients:
        raise ParameterError(f"clients must be at most {len(names)}, the number of labels, got {clients}")
    held, owner = np.zeros(clients, dtype=np.intp), np.zeros(len(names), dtype=np.intp)
    for label in np.argsort(-counts, kind="stable"):
        owner[label] = np.argmin(held)
        held[owner[label]] += counts[label]
    return owner[inverse]


def _dirichlet(labels: NDArray[np.str_], clients: int, alpha: float, rng: np.random.Generator) -> Indices:
    owner = np.zeros(len(labels), dtype=np.intp)
    for label in np.unique(labels):
        units = rng.permutation(np.flatnonzero(labels == label))
        cuts = np.round(np.cumsum(rng.dirichlet(np.full(clients, alpha)))[:-1] * len(units)).astype(np.intp)
        for client, part in enumerate(np.split(units, cuts)):
            owner[part] = client
    for idle in np.flatnonzero(np.bincount(owner, minlength=clients) == 0):
        largest = int(np.argmax(np.bincount(owner, minlength=clients)))
        owner[rng.choice(np.flatnonzero(owner == largest))] = idle
    return owner
