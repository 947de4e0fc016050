"""What a client remembers between windows: the events it knows, and a bounded sample of posts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cotempo.data import Posts
from cotempo.errors import DataError
from cotempo.social.detector.records import EventRecord, join_records, make_record
from cotempo.social.encoders.characters import LONGEST

SAMPLE = 2000
FOUND = "found-"


@dataclass(frozen=True)
class Sample:
    """Posts kept to group later ones with, and to draw: their vectors, times, events and texts."""

    points: NDArray[np.float64]
    time: NDArray[np.float64]
    event: tuple[str, ...]
    text: tuple[str, ...]


@dataclass(frozen=True)
class EventBook:
    """A client's memory: the events it knows, and a sample of posts.

    Attributes
    ----------
    radius
        Squared distance within which nearly all posts of an event lie; posts beyond it are news.
    window, found
        Windows seen, and ids given so far.
    unlearned
        Posts that came after the encoder was learned.
    """

    events: tuple[EventRecord, ...]
    sample: Sample
    radius: float
    window: int = 0
    found: int = 0
    unlearned: int = 0


def event_name(number: int) -> str:
    """Return the id of the n-th event found without a label."""
    return f"{FOUND}{number:04d}"


def write_book(
    names: NDArray[np.str_], posts: Posts, points: NDArray[np.float64], found: int,
    centres: NDArray[np.float64] | None = None,
) -> EventBook:  # fmt: skip
    """Describe the events of posts whose events are given, ``(posts,)``; centres, by name, are means unless given."""
    if not posts.rows:
        raise DataError("there must be at least one post to learn events from")
    order, codes = np.unique(names, return_inverse=True)
    records = describe(order.tolist(), codes, posts, points, 0, centres)
    middles = np.stack([record.centre for record in records])
    # A post draws its centre towards itself by its share of the event: new posts lie that much farther away.
    size = np.bincount(codes)[codes]
    distance = ((points - middles[codes]) ** 2).sum(axis=1) * (size / np.maximum(size - 1, 1)) ** 2
    sample = extend_sample(Sample(points[:0], posts.time[:0], (), ()), points, posts, names)
    return EventBook(tuple(records), sample, float(np.quantile(distance, 0.99)), found=found)


def extend_sample(sample: Sample, points: NDArray[np.float64], posts: Posts, names: NDArray[np.str_]) -> Sample:
    """Keep the newest posts, at most 2,000 of them, evenly spread."""
    keep = np.linspace(0, max(len(points) - 1, 0), min(len(points), SAMPLE)).astype(np.intp)
    return Sample(
        np.concatenate([sample.points, points[keep]])[-SAMPLE:],
        np.concatenate([sample.time, posts.time[keep]])[-SAMPLE:],
        (*sample.event, *(str(names[row]) for row in keep))[-SAMPLE:],
        (*sample.text, *(posts.text[row][:LONGEST] for row in keep))[-SAMPLE:],
    )


def describe(
    names: list[str], codes: NDArray[np.intp], posts: Posts, points: NDArray[np.float64], window: int,
    centres: NDArray[np.float64] | None = None,
) -> list[EventRecord]:  # fmt: skip
    """Describe events given by code, ``(posts,)``."""
    return [
        make_record(
            name, posts.select(codes == code), points[codes == code], window, None if centres is None else centres[code]
        )
        for code, name in enumerate(names)
    ]


def next_book(book: EventBook, fresh: tuple[EventRecord, ...], sample: Sample, posts: int, found: int) -> EventBook:
    """The book after a window of so many posts: known events are joined with their new posts, new ones follow."""
    known: Mapping[str, EventRecord] = {record.name: record for record in book.events}
    events = {**known, **{new.name: join_records(known[new.name], new) if new.name in known else new for new in fresh}}
    return EventBook(tuple(events.values()), sample, book.radius, book.window + 1, found, book.unlearned + posts)
