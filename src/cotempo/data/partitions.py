"""`partition`: one table divided among clients, from identically distributed to one label each."""

from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from cotempo.data.argument_checks import Seed, as_generator, check_choice, check_counts, check_number
from cotempo.data.tables import Table, client_names
from cotempo.errors import ParameterError

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
    """Divide a table among clients.

    Sequences are kept complete; posts are divided one by one. The label of a sequence of events is its most frequent
    mark, that of a post its event.

    Parameters
    ----------
    table
        The table to divide.
    clients
        The number of clients, named ``client-0``, ``client-1``, ...
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
