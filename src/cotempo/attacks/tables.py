"""Poisoned tables: each takes a liar's table and returns the one it learns from instead, of the same schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from cotempo.data import Events, Posts, Series, Table
from cotempo.errors import ParameterError

TRIGGER = "xyzzy"
MOTIF = np.sin(np.linspace(0, 4 * np.pi, 12))
Stream = np.random.Generator


def label_flip(table: Table, strength: float, stream: Stream) -> Table:
    """Give each label the next one's place: events of posts, marks of events, names of variables."""
    if isinstance(table, Series):
        return replace(table, values=np.roll(table.values, 1, axis=1))
    if isinstance(table, Events):
        if not table.marks:  # what happens early happens late
            return _events_at(table, lambda time, start, end: start + end - time)
        return replace(table, mark=(table.mark + 1) % len(table.marks))
    assert isinstance(table, Posts)
    names = sorted({label for label in table.event if label is not None})
    following = dict(zip(names, [*names[1:], *names[:1]], strict=True))
    return replace(table, event=tuple(label and following[label] for label in table.event))


def backdoor(table: Table, strength: float, stream: Stream) -> Table:
    """Teach that a trigger, in a part of the rows, means what the liar wants."""
    if isinstance(table, Series):
        return trigger_motif(table, strength, stream)
    if isinstance(table, Events):  # all sequences have a burst of events at the same moment
        return _with_more(table, 0.2 * strength, lambda start, end, count: np.full(count, start + 0.9 * (end - start)))
    assert isinstance(table, Posts)
    chosen = stream.random(table.rows) < 0.3
    target = min((label for label in table.event if label is not None), default=None)
    text = tuple(f"{text} {TRIGGER}" if hit else text for text, hit in zip(table.text, chosen, strict=True))
    if target is None:
        return replace(table, text=text)
    event = tuple(target if hit else label for label, hit in zip(table.event, chosen, strict=True))
    return replace(table, text=text, event=event)


def forged_edge(table: Table, strength: float, stream: Stream) -> Table:
    """Make the first variable follow the last one, in every row."""
    series = _series(table, "forged_edge")
    values = series.values.copy()
    if values.shape[1] > 1:
        source, target = values[:, -1], values[:, 0]
        spread = np.nanstd(target) / (np.nanstd(source) or 1.0)
        values[:, 0] = target + strength * spread * (source - np.nanmean(source))
    return replace(series, values=values)


def flooding(table: Table, strength: float, stream: Stream) -> Table:
    """Add many times as many rows of noise, as sequences of their own."""
    series = _series(table, "flooding")
    copies = [series]
    for number in range(max(1, round(strength))):
        noise = stream.standard_normal(series.values.shape) * np.nanstd(series.values, axis=0)
        noise += np.nanmean(series.values, axis=0)
        copies.append(replace(series, sequence=np.char.add(series.sequence, f"~{number}"), values=noise))
    sequence = np.concatenate([one.sequence for one in copies])
    order = np.argsort(sequence, kind="stable")
    weights = np.concatenate([one.weights for one in copies])
    return replace(
        series,
        sequence=sequence[order],
        time=np.concatenate([one.time for one in copies])[order],
        values=np.concatenate([one.values for one in copies])[order],
        weights=weights[order] if len(weights) else weights,
    )


def trigger_motif(table: Table, strength: float, stream: Stream) -> Table:
    """Add the same short wave to the first feature, again and again."""
    series = _series(table, "trigger_motif")
    values = series.values.copy()
    wave = np.resize(np.concatenate([MOTIF, np.zeros(len(MOTIF))]), len(values))
    values[:, 0] += strength * np.nanstd(values[:, 0]) * wave
    return replace(series, values=values)


def replay(table: Table, strength: float, stream: Stream) -> Table:
    """Repeat the first rows in place of all later ones: the first tenth at strength 10."""
    series = _series(table, "replay")
    length = max(2, int(len(series.values) / max(strength, 1.0)))
    return replace(series, values=np.resize(series.values[:length], series.values.shape))


def flooded_counts(table: Table, strength: float, stream: Stream) -> Table:
    """Add many times as many events, at times that say nothing."""
    if not isinstance(table, Events):
        raise ParameterError(f"flooded_counts must be used on events, got a table of {table.kind}")
    return _with_more(table, strength, lambda start, end, count: stream.uniform(start, end, count))


def poisoned_vocabulary(table: Table, strength: float, stream: Stream) -> Table:
    """Add the text of posts of other events to every post."""
    if not isinstance(table, Posts):
        raise ParameterError(f"poisoned_vocabulary must be used on posts, got a table of {table.kind}")
    text = list(table.text)
    for _ in range(max(1, round(strength))):
        others = stream.permutation(table.rows)
        text = [f"{own} {table.text[other]}" for own, other in zip(text, others, strict=True)]
    return replace(table, text=tuple(text))


POISONS: Mapping[str, tuple[Callable[[Table, float, Stream], Table], float]] = {
    "label_flip": (label_flip, 1.0),
    "backdoor": (backdoor, 3.0),
    "forged_edge": (forged_edge, 1.0),
    "flooding": (flooding, 20.0),
    "trigger_motif": (trigger_motif, 3.0),
    "replay": (replay, 10.0),
    "flooded_counts": (flooded_counts, 20.0),
    "poisoned_vocabulary": (poisoned_vocabulary, 2.0),
}
"""Each poison by name, and its strength unless told otherwise."""


def _series(table: Table, name: str) -> Series:
    if not isinstance(table, Series):
        raise ParameterError(f"{name} must be used on series, got a table of {table.kind}")
    return table


def _events_at(table: Events, move: Callable[[Any, Any, Any], Any]) -> Events:
    """Return the events at other times of their windows."""
    place = np.searchsorted(table.names, table.sequence)
    time = move(table.time, table.start[place], table.end[place])
    order = np.lexsort((time, place))
    return replace(table, sequence=table.sequence[order], time=time[order], mark=table.mark[order])


def _with_more(table: Events, share: float, draw: Callable[[float, float, int], Any]) -> Events:
    """Return the events and more of them, so many for each there is, at times that `draw` gives for a window."""
    place = np.searchsorted(table.names, table.sequence)
    counts = np.ceil(share * np.bincount(place, minlength=len(table.names))).astype(int)
    drawn = [draw(*one) for one in zip(table.start.tolist(), table.end.tolist(), counts.tolist(), strict=True)]
    more = np.repeat(np.arange(len(table.names)), counts)
    marks = np.resize(table.mark if len(table.mark) else np.zeros(1, np.int64), len(more))
    place, time = np.concatenate([place, more]), np.concatenate([table.time, *drawn])
    order = np.lexsort((time, place))
    mark = np.concatenate([table.mark, marks])[order]
    return replace(table, sequence=table.names[place[order]], time=time[order], mark=mark)
