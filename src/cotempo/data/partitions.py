"""Dealing one table out to clients: alike, each with its own marks, or anything between."""

from __future__ import annotations

from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from cotempo.data.events import Events
from cotempo.data.posts import Posts
from cotempo.data.randomness import Seed, as_generator, check_count, check_number
from cotempo.data.splits import keep_sequences, sequence_names, split_by_time
from cotempo.data.tables import Table, numbered
from cotempo.errors import ParameterError, nearest

AnyTable = TypeVar("AnyTable", bound=Table)
HOW = ("equal", "mark", "dirichlet")


def partition(
    table: AnyTable,
    clients: int,
    how: Literal["equal", "mark", "dirichlet"] = "equal",
    *,
    alpha: float = 0.5,
    rng: Seed = 0,
) -> dict[str, AnyTable]:
    """Deal a table out to clients.

    Whole sequences are dealt, and single posts, so that nothing inside a sequence is torn apart. The label of a
    sequence of events is its most frequent mark, that of a post its event.

    Parameters
    ----------
    table
        What is dealt out.
    clients
        The number of clients, named ``client-0``, ``client-1``, ...
    how
        ``"equal"``: at random, equally many each; a table with fewer sequences than clients is cut by time instead.
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
        One table per client; each has at least one sequence or post (an empty-handed client takes one of the largest).

    Examples
    --------
    >>> events = Events.from_arrays([[1.0], [2.0], [3.0], [4.0]], windows=(0, 5))
    >>> [len(own.names) for own in partition(events, 2).values()]
    [2, 2]
    """
    check_count("clients", clients)
    check_number("alpha", alpha, 0, open_low=True)
    if how not in HOW:
        raise ParameterError(f"how must be one of {', '.join(HOW)}, got {how!r}{nearest(str(how), HOW)}")
    generator = as_generator(rng)
    names = [f"client-{number}" for number in numbered(clients)]
    units = table.rows if isinstance(table, Posts) else len(sequence_names(table))
    if units < clients and how == "equal" and not isinstance(table, Posts):
        return dict(zip(names, split_by_time(table, (1 / clients,) * clients), strict=True))
    if units < clients:
        raise ParameterError(f"clients must be at most {units}, one for each sequence or post, got {clients}")
    if how == "equal":
        owner = generator.permutation(np.arange(units) % clients)
    elif how == "mark":
        owner = _by_label(_labels(table), clients)
    else:
        labels = _labels(table)
        owner = _dirichlet(labels if labels is not None else np.zeros(units, dtype=np.str_), clients, alpha, generator)
    return {name: _give(table, np.flatnonzero(owner == number)) for number, name in enumerate(names)}


def _labels(table: Table) -> NDArray[np.str_] | None:
    """Return the label of each unit, None where a table has no labels."""
    if isinstance(table, Posts):
        return np.array(["" if label is None else label for label in table.event], dtype=np.str_)
    if isinstance(table, Events) and table.marks:
        codes = [np.bincount(mark, minlength=1).argmax() if len(mark) else -1 for _, _, mark, _, _ in table.sequences()]
        return np.array(["" if code < 0 else table.marks[code] for code in codes], dtype=np.str_)
    return None


def _by_label(labels: NDArray[np.str_] | None, clients: int) -> NDArray[np.intp]:
    if labels is None:
        raise ParameterError("how='mark' must be given marked events or posts; use 'equal' or 'dirichlet'")
    names, inverse, counts = np.unique(labels, return_inverse=True, return_counts=True)
    if len(names) < clients:
        raise ParameterError(f"clients must be at most {len(names)}, the number of labels, got {clients}")
    held = np.zeros(clients, dtype=np.intp)
    owner = np.zeros(len(names), dtype=np.intp)
    for label in np.argsort(-counts, kind="stable"):
        owner[label] = np.argmin(held)
        held[owner[label]] += counts[label]
    return owner[inverse]


def _dirichlet(labels: NDArray[np.str_], clients: int, alpha: float, rng: np.random.Generator) -> NDArray[np.intp]:
    owner = np.zeros(len(labels), dtype=np.intp)
    for label in np.unique(labels):
        units = rng.permutation(np.flatnonzero(labels == label))
        cuts = np.round(np.cumsum(rng.dirichlet(np.full(clients, alpha)))[:-1] * len(units)).astype(np.intp)
        for client, part in enumerate(np.split(units, cuts)):
            owner[part] = client
    held = np.bincount(owner, minlength=clients)
    for idle in np.flatnonzero(held == 0):
        largest = int(np.argmax(np.bincount(owner, minlength=clients)))
        owner[rng.choice(np.flatnonzero(owner == largest))] = idle
    return owner


def _give(table: AnyTable, units: NDArray[np.intp]) -> AnyTable:
    if isinstance(table, Posts):
        return table.select(units)
    names = sequence_names(table)
    return keep_sequences(table, [names[unit] for unit in units])
