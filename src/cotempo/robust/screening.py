"""`find_suspects`: clients whose answers differ from all others' far more than these differ among each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from cotempo.federation.exchange import Expect
from cotempo.federation.message import Message
from cotempo.robust.per_row import PerRow, decides
from cotempo.robust.seen import as_if_all_were_seen
from cotempo.typing import Floats

#: Of fewer clients nobody can say who is the odd one.
FEWEST = 5
#: Of one or two numbers, such as counts, clients often have the same, and then any other stands out.
FEWEST_VALUES = 3
#: How many times the median client's distance makes a suspect; more where there are few values, which vary by chance.
SUSPECT, FEW_VALUES = 5.0, 10.0
#: The same of what clients are alike in whatever their size and scale: there honest ones vary less.
SUSPECT_ALIKE, FEW_ALIKE = 4.0, 1.5
#: The same of a single number, such as a scale.
SINGLE = 5.0
#: An answer that has sums is of at least so many rows, which may have weights.
LEAST_ROWS = 1e-3
#: Differences of less than a row, and of less than this share, are none.
MOST_ROUNDED = 0.01
#: From so many values on, the scale of each can be told.
MANY = 12
#: Where that and no chance is known, fields themselves may differ so many times as much: scales of honest clients do.
FORGIVEN = 2.0
#: So many standard deviations of its own chance say nothing against a client; fewer where clients are alike.
CHANCE, CHANCE_ALIKE = 4.0, 1.0
#: Who differs from the median by a smaller share of its chance follows what it was sent: in 200 runs the median honest
#: client that counted differed by .3 of it at least, those whose times are dates by .03 at most.
AGREED = 0.1


class Distances(NamedTuple):
    """How far clients are from the median of all in one respect: times the median client's distance, and the limit."""

    name: str
    times: Floats
    limit: float


def find_suspects(messages: Mapping[str, Message], expect: Expect) -> dict[str, str]:
    """Return the clients that differ from all others, each with the field that does; none in phases without rows.

    Examples
    --------
    >>> from cotempo.federation import Spec
    >>> told = {name: Message({"sum": 4 * np.full(50, value)}) for name, value in zip("abcdef", [1, 2, 1, 3, 2, 90])}
    >>> find_suspects(told, Expect({"sum": Spec((50,))}, sums=True, rows=lambda message: 4.0))
    {'f': "its 'sum' differs over 6 times as much from all others' as the median client's"}
    """
    if expect.rows is None:
        return {}
    baseless = {name: detail for name, message in messages.items() if (detail := _is_baseless(message, expect))}
    messages = {name: message for name, message in messages.items() if name not in baseless}
    messages = as_if_all_were_seen(messages, expect)
    answers = PerRow.of(messages, expect)
    if len(answers.names) < FEWEST:
        return baseless
    worst: dict[str, tuple[float, str]] = {}
    for field, times, limit in _all_distances(answers, messages, expect):
        for name, excess in zip(answers.names, (times / limit).tolist(), strict=True):
            if excess > worst.get(name, (1.0, ""))[0]:
                worst[name] = excess, f"its {field!r} differs over {limit:.0f} times as much from all others'"
    most = (len(answers.names) - 1) // 2
    chosen = sorted(worst, key=lambda name: worst[name][0], reverse=True)[:most]
    return {**baseless, **{name: f"{worst[name][1]} as the median client's" for name in sorted(chosen)}}


def _is_baseless(message: Message, expect: Expect) -> str:
    """Return what is wrong with an answer that sums over no rows, and yet has sums of some."""
    if not expect.sums or not message.weight > 0:
        return ""
    seen = {} if expect.seen is None else expect.seen(message)
    named = (name for name, rows in seen.items() if np.any((rows <= 0) & (message[name] != 0)))
    if expect.size_of(message) < LEAST_ROWS * message.weight:
        named = (name for name, spec in expect.fields.items() if decides(spec) and np.any(message[name]))
    return next((f"it is of no rows, and yet its {name!r} is not zero" for name in named), "")


def _all_distances(answers: PerRow, messages: Mapping[str, Message], expect: Expect) -> Iterator[Distances]:
    """Yield distances in every respect; a client of few rows may be further away, by chance."""
    forgiven = np.minimum(1.0, np.sqrt(answers.sizes / np.median(answers.sizes)))
    by_chance = _by_chance(answers, messages, expect)
    for field in answers.fields:
        values = answers.vectors[:, field.place]
        if values.shape[1] >= FEWEST_VALUES:
            # The value that differs most: a forged edge changes few of many.
            away = np.abs(values - np.median(values, axis=0))
            excess = away - by_chance.get(field.name, 0.0) * (answers.weights / answers.sizes)[:, None] / field.scale
            # Ends of sequences cost a row or so: where clients agree exactly, as in counts, that is no difference.
            common = float(np.median(np.abs(values).max(axis=1)))
            least = min(1 / float(np.median(answers.sizes)), MOST_ROUNDED) * common
            distance, beyond = (forgiven * part.max(axis=1) for part in (away, excess))
            most = SUSPECT if expect.alike is None or field.name in by_chance else FORGIVEN * SUSPECT
            yield Distances(field.name, _in_medians(distance, least, beyond), most * (1 + FEW_VALUES / values.shape[1]))
    for name, values in _alike(answers, messages, expect):
        away = np.abs(values - np.median(values, axis=0))
        usual = np.median(away, axis=0)
        least = max(float(np.median(usual[usual > 0])) if usual.any() else 0.0, 1e-6 * float(np.abs(values).max()))
        # Of many values each has its own scale: where honest clients agree, little is much.
        scale = np.maximum(usual, least or 1.0) if len(usual) >= MANY else least or 1.0
        few = SINGLE if values.shape[1] < FEWEST_VALUES else FEW_ALIKE
        limit, small, by_size = SUSPECT_ALIKE * (1 + few / values.shape[1]), forgiven, np.zeros((1, 1))
        told = by_chance.get(f"alike {name}")
        if told is not None and values.shape[1] < FEWEST_VALUES:
            # A logarithm whose usual range is told: with fewer rows it may be as many times further off, and no more.
            limit, small = SUSPECT_ALIKE, np.ones_like(forgiven)
            by_size = -2.0 * np.log(forgiven)[:, None]
        excess = np.maximum(away - (0.0 if told is None else told) - by_size, 0.0)
        for size in (_largest, _mean_size):
            distance, beyond = (small * size(part / scale) for part in (away, excess))
            # Where most tell nothing of their own they agree, and others within chance only.
            chance = 0.0 if told is None or values.shape[1] < MANY else float(np.median(size(told / scale)))
            agree = np.median(distance) < AGREED * chance
            yield Distances(name, _in_medians(distance, chance if agree else 1e-6, beyond), limit)


def _by_chance(answers: PerRow, messages: Mapping[str, Message], expect: Expect) -> dict[str, Floats]:
    """Return how far off each value of each client may be by chance, ``(clients, values)`` by name."""
    if expect.scatter is None:
        return {}
    with np.errstate(all="ignore"):
        told = [expect.scatter(messages[name]) for name in answers.names]
    found = {name: np.stack([np.asarray(one[name], np.float64).ravel() for one in told]) for name in told[0]}
    return {
        name: (CHANCE_ALIKE if name.startswith("alike ") else CHANCE) * np.nan_to_num(value, posinf=0.0)
        for name, value in found.items()
    }


def _largest(values: Floats) -> Floats:
    return np.asarray(values.max(axis=1))


def _mean_size(values: Floats) -> Floats:
    return np.asarray(np.sqrt(np.square(values).mean(axis=1)))


def _alike(answers: PerRow, messages: Mapping[str, Message], expect: Expect) -> Iterator[tuple[str, Floats]]:
    """Yield what a method says honest clients are alike in, ``(clients, values)``."""
    if expect.alike is not None:
        with np.errstate(all="ignore"):
            told = [expect.alike(messages[name]) for name in answers.names]
        for name in told[0]:
            values = np.stack([np.asarray(one[name], np.float64).ravel() for one in told])
            yield name, np.nan_to_num(values, nan=0.0, posinf=1e9, neginf=-1e9).clip(-1e9, 1e9)


def _in_medians(away: Floats, least: float, beyond: Floats) -> Floats:
    """Return what of the distances is `beyond` chance, in multiples of the median client's distance."""
    return np.asarray(beyond / (max(float(np.median(away)), least) or 1.0))
