"""`as_if_all_were_seen`: answers of clients that lack columns or cells, made comparable with the others'."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import numpy as np

from cotempo.federation.exchange import Expect
from cotempo.federation.message import Message
from cotempo.typing import Floats

#: What a row contributes is cut to this.
LARGEST = 1e90


def as_if_all_were_seen(messages: Mapping[str, Message], expect: Expect) -> dict[str, Message]:
    """Return answers as their clients would give them if each of their rows held everything.

    A value is what a row that has it contributes, times all rows. The fewer rows have it, the more it varies by chance:
    it is drawn to the median in proportion. A value of no rows lies as far from the median as others usually do, above
    it and below it in turn, so that neither the median nor the usual distance changes.
    """
    if expect.seen is None or expect.rows is None or not messages:
        return dict(messages)
    names = [*messages]
    told = [expect.seen(message) for message in messages.values()]
    sizes = np.array([max(float(expect.rows(message)), 1e-300) for message in messages.values()])
    found = {name: dict(message) for name, message in messages.items()}
    for field in told[0]:
        values = np.stack([np.asarray(messages[name][field], np.float64).ravel() for name in names])
        rows = np.stack([np.asarray(one[field], np.float64).ravel() for one in told])
        for name, whole in zip(names, _completed(values, rows, sizes[:, None]), strict=True):
            found[name][field] = whole.reshape(np.shape(messages[name][field]))
    return {name: Message(fields, weight=messages[name].weight) for name, fields in found.items()}


def _completed(values: Floats, rows: Floats, sizes: Floats) -> Floats:
    """Return sums over `rows`, both ``(clients, values)``, as sums over all `sizes`, ``(clients, 1)``."""
    seen = rows > 0
    each = np.divide(values, rows, out=np.full(values.shape, np.nan), where=seen).clip(-LARGEST, LARGEST)
    shares = np.where(seen, rows / sizes, np.nan)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "All-NaN slice")  # a column that nobody has
        centre = np.nan_to_num(np.nanmedian(each, axis=0))
        usual = np.nan_to_num(np.nanmedian(np.abs(each - centre), axis=0))
        chance = np.sqrt(np.minimum(1.0, shares / np.nanmedian(shares, axis=0)))
    side = np.where(np.cumsum(~seen, axis=0) % 2, 1.0, -1.0)
    return np.asarray(sizes * (centre + np.where(seen, np.nan_to_num((each - centre) * chance), side * usual)))
