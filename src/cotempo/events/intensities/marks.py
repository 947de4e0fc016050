"""Types of events: histories with types, one intensity per type, and the gain from knowing them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from cotempo.data import Events
from cotempo.errors import DataError, nearest
from cotempo.events.intensities.over_time import Band
from cotempo.events.records.record import Record
from cotempo.typing import Floats

if TYPE_CHECKING:
    from cotempo.events.cox.posterior import Relative


def as_history(history: Floats, start: float, marks: tuple[str, ...], known: tuple[str, ...], times: Floats) -> Record:
    """Return one sequence as a record, watched until after the last of `times`; its types must be known ones.

    Examples
    --------
    >>> as_history(np.array([1.0, 2.0]), 0.0, ("b", "a"), ("a", "b"), np.array([3.0])).types.tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    if known and len(marks) != len(history):
        raise DataError(f"marks must name the type of each event of the history, got {len(marks)} for {len(history)}")
    for mark in marks:
        if mark not in known:
            raise DataError(f"a mark must be one of {', '.join(known) or 'none'}, got {mark!r}{nearest(mark, known)}")
    if len(history) and history[0] < start:
        raise DataError(f"the history must not begin before {start:g}, it begins at {history[0]:g}; pass start=")
    end = max([start, *history[-1:].tolist(), *times.tolist()])
    window = (start, np.nextafter(end, np.inf) if end > start else start + 1.0)
    table = Events.from_arrays([history], window, [list(marks)] if known else None, known or None)
    return Record.of(table, condition=False, marks=bool(known))


def add_types(mean: Floats, centre: Floats, deviation: Floats) -> tuple[Floats, Floats, Floats]:
    """Return mean, log centre and log deviation of a sum of independent intensities, ``(types, rows)`` given."""
    level = np.exp(centre)
    total = level.sum(axis=0)
    return mean.sum(axis=0), np.log(total), np.sqrt(((level / total * deviation) ** 2).sum(axis=0))


def by_type(marks: tuple[str, ...], found: Relative, base: Floats, level: float) -> Mapping[str, Band]:
    """Return a band for each type."""
    if not marks:
        raise DataError("there must be types of events to tell apart, the model was learned without; use marks=True")
    parts = zip(base * found.mean, np.log(base) + found.centre, found.deviation, strict=True)
    return {mark: Band.from_logarithm(*part, level) for mark, part in zip(marks, parts, strict=True)}


def gain_of_marks(seen: Floats, found: Floats, frequency: Floats) -> float:
    """Return log chance of the types given the history, over that by their frequencies in training, in nats per event.

    Parameters
    ----------
    seen, found
        Events and intensities, ``(types, rows)``.
    frequency
        How often each type was seen in training, ``(types,)``.
    """
    usual = (frequency + 0.5) / (frequency + 0.5).sum()
    gained = np.log(found / found.sum(axis=0)) - np.log(usual)[:, None]
    return float((seen * gained).sum() / max(seen.sum(), 1.0))
