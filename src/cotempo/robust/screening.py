"""`find_suspects`: clients whose answers differ from all others' far more than these differ among each other."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from cotempo.federation.exchange import Expect
from cotempo.federation.message import Message
from cotempo.robust.per_row import PerRow
from cotempo.typing import Floats

#: Of fewer clients nobody can say who is the odd one.
FEWEST = 5
#: Of one or two numbers, such as counts, clients often have the same, and then any other stands out.
FEWEST_VALUES = 3
#: How many times the median client's distance makes a suspect; more where a field has few values, which vary by chance.
SUSPECT, FEW_VALUES = 5.0, 10.0


def influence(answers: PerRow) -> dict[str, Floats]:
    """Return by field how far each client is from the median of all, in distances of the median client.

    The distance is that of the value that differs most: a forged edge changes few of many. A client of few rows may be
    further away, by chance.
    """
    found = {}
    forgiven = np.minimum(1.0, np.sqrt(answers.sizes / np.median(answers.sizes)))
    for field in answers.fields:
        values = answers.vectors[:, field.place]
        if values.shape[1] < FEWEST_VALUES:
            continue
        away = forgiven * np.abs(values - np.median(values, axis=0)).max(axis=1)
        least = 1e-6 * float(np.abs(values).max())
        found[field.name] = away / (max(float(np.median(away)), least) or 1.0)
    return found


def find_suspects(messages: Mapping[str, Message], expect: Expect) -> dict[str, str]:
    """Return the clients that differ from all others, each with the field that does; none in phases without rows.

    Examples
    --------
    >>> from cotempo.federation import Spec
    >>> told = {name: Message({"sum": 4 * np.full(50, value)}) for name, value in zip("abcdef", [1, 2, 1, 3, 2, 90])}
    >>> find_suspects(told, Expect({"sum": Spec((50,))}, sums=True, rows=lambda message: 4.0))
    {'f': "its 'sum' differs over 6 times as much from all others' as the median client's"}
    """
    if expect.rows is None or len(messages) < FEWEST:
        return {}
    answers = PerRow.of(messages, expect)
    if len(answers.names) < FEWEST:
        return {}
    worst: dict[str, tuple[float, str]] = {}
    for field, ratios in influence(answers).items():
        length = next(one.place.stop - one.place.start for one in answers.fields if one.name == field)
        limit = SUSPECT * (1 + FEW_VALUES / length)
        for name, ratio in zip(answers.names, ratios.tolist(), strict=True):
            if ratio > limit and ratio / limit > worst.get(name, (1.0, ""))[0]:
                worst[name] = ratio / limit, f"its {field!r} differs over {limit:.0f} times as much from all others'"
    most = (len(answers.names) - 1) // 2
    chosen = sorted(worst, key=lambda name: worst[name][0], reverse=True)[:most]
    return {name: f"{worst[name][1]} as the median client's" for name in sorted(chosen)}
