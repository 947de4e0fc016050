"""`Detector`: what one client uses to tell the events of posts apart, and to follow them through a stream."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cotempo.data import Posts
from cotempo.data.tables import FrameKind, make_frame
from cotempo.errors import DataError
from cotempo.social.clustering import group_known, group_unknown
from cotempo.social.lens import Lens, softmax
from cotempo.social.records import EventRecord, join_records, keywords, make_record

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Codes = NDArray[np.intp]
SAMPLE = 2000
FOUND = "found-"


class Detection(NamedTuple):
    """The event of every post, and how sure that is.

    Attributes
    ----------
    event
        One id per post, ``(posts,)``.
    confidence
        Its probability among the events in question, ``(posts,)``.
    """

    event: NDArray[np.str_]
    confidence: NDArray[np.float64]


@dataclass(frozen=True)
class Sample:
    """Posts kept to draw: their vectors, times and events."""

    points: NDArray[np.float64]
    time: NDArray[np.float64]
    event: tuple[str, ...]


@dataclass(frozen=True)
class EventBook:
    """A client's memory: the events it knows, and a sample of posts.

    Attributes
    ----------
    radius
        Squared distance within which nearly all posts of an event lie; posts beyond it are news.
    window, found
        Windows seen, and ids given so far.
    """

    events: tuple[EventRecord, ...]
    sample: Sample
    radius: float
    window: int = 0
    found: int = 0


class Detector:
    """Tells the events of posts apart.

    Parameters
    ----------
    lens
        How posts are looked at.
    book
        The events known so far.
    patience
        Windows without a post after which an event retires.
    smallest
        The fewest posts that make a new event.
    """

    def __init__(self, lens: Lens, book: EventBook, *, patience: int = 7, smallest: int = 5):
        self.lens = lens
        self.book = book
        self.patience = patience
        self.smallest = smallest

    def __repr__(self) -> str:
        return f"Detector({len(self.book.events)} events, {len(self.active)} active, window {self.book.window})"

    @property
    def active(self) -> tuple[EventRecord, ...]:
        """The events that have not retired."""
        oldest = self.book.window - self.patience
        return tuple(record for record in self.book.events if record.window >= oldest)

    def detect(self, posts: Posts, events: int | None = None) -> Detection:
        """Return the event and the confidence of every post.

        Parameters
        ----------
        events
            Group the posts into this many events of their own, for posts that tell of none of the known ones; by
            default every post is given to one of the known, active events.
        """
        points = self.lens.look(posts)
        if events is not None:
            codes = group_known(self.lens.places(points, posts.time), events)
            records = _describe([f"group-{code}" for code in range(events)], codes, posts, points, 0)
            sure = softmax(self.lens.scores(points, posts.time, records))
            return Detection(np.array([f"group-{code}" for code in codes]), sure[np.arange(len(codes)), codes])
        if not posts.rows:
            return Detection(np.zeros(0, np.str_), np.zeros(0))
        records = list(self.active or self.book.events)
        sure = softmax(self.lens.scores(points, posts.time, records))
        best = sure.argmax(axis=1)
        return Detection(np.array([records[code].name for code in best]), sure[np.arange(len(best)), best])

    def partial_fit(self, posts: Posts) -> Detector:
        """Take in the next window of a stream, and return this detector.

        Old events keep their ids and move with their posts; events without posts for `patience` windows retire.
        Labelled posts go to the event they name, new or old. Of the others, those near a labelled event are its;
        the rest are grouped together with a bounded sample of earlier posts, and a group without any of them is new.
        """
        window = self.book.window + 1
        if not posts.rows:
            self.book = _next(self.book, (), self.book.sample, window, self.book.found)
            return self
        points = self.lens.look(posts)
        names, found = self._name(posts, points)
        fresh = {
            name: make_record(name, posts.select(names == name), points[names == name], window)
            for name in dict.fromkeys(names.tolist())
        }
        sample = extend_sample(self.book.sample, points, posts.time, names.tolist())
        self.book = _next(self.book, tuple(fresh.values()), sample, window, found)
        return self

    def _name(self, posts: Posts, points: NDArray[np.float64]) -> tuple[NDArray[np.str_], int]:
        """The event of each post of a window: its label, a known event, or a new one."""
        names = np.array([label or "" for label in posts.event], dtype=object)
        found = self.book.found
        open_rows = np.flatnonzero(names == "")
        active = self.active
        novel = open_rows
        if active and len(open_rows):
            scores = self.lens.scores(points[open_rows], posts.time[open_rows], active)
            names[open_rows] = [active[code].name for code in scores.argmax(axis=1)]
            novel = open_rows[-2 * scores.max(axis=1) > self.book.radius] if self.is_labelled else open_rows
        if len(novel) >= self.smallest or not active:
            found = self._regroup(names, novel, points, posts.time, found)
        return names.astype(np.str_), found

    @property
    def is_labelled(self) -> bool:
        """Whether any event was given by labels, and not found."""
        return any(not record.name.startswith(FOUND) for record in self.book.events)

    def _regroup(
        self, names: NDArray[Any], rows: NDArray[np.intp], points: NDArray[np.float64], times: NDArray[np.float64],
        found: int,
    ) -> int:  # fmt: skip
        """Group posts together with the kept sample of found events; a group is the event most of its sample is of."""
        sample = self.book.sample
        active = {record.name for record in self.active if record.name.startswith(FOUND)}
        old = np.flatnonzero([event in active for event in sample.event])
        pool = np.concatenate([sample.points[old], points[rows]])
        when = np.concatenate([sample.time[old], times[rows]])
        codes = group_unknown(self.lens.places(pool, when), smallest=self.smallest)
        votes = Counter(zip(codes[: len(old)].tolist(), (sample.event[row] for row in old), strict=True))
        taken: dict[int, str] = {}
        for (code, name), _ in sorted(votes.items(), key=lambda item: (-item[1], item[0])):
            if code not in taken and name not in taken.values():
                taken[code] = name
        for code in dict.fromkeys(codes[len(old) :].tolist()):
            if code not in taken:
                taken[code], found = event_name(found), found + 1
            names[rows[codes[len(old) :] == code]] = taken[code]
        return found

    def events(self, kind: FrameKind = "pandas") -> Any:
        """Return a table of all events: size, start and end, keywords, central posts, languages, whether active."""
        records = self.book.events
        active = {record.name for record in self.active}
        return make_frame(
            {
                "event": [record.name for record in records],
                "size": [int(record.size) for record in records],
                "start": [record.start for record in records],
                "end": [record.end for record in records],
                "keywords": [", ".join(words) for words in keywords(records)],
                "posts": [list(record.posts) for record in records],
                "languages": [", ".join(record.languages) for record in records],
                "active": [record.name in active for record in records],
            },
            kind,
        )

    def plot(self) -> Figure:
        """Draw a 2-D map of posts and a timeline of events."""
        from cotempo.social.detector_plot import draw_detector

        return draw_detector(self)


def event_name(number: int) -> str:
    """Return the id of the n-th event found without a label."""
    return f"{FOUND}{number:04d}"


def write_book(names: NDArray[np.str_], posts: Posts, points: NDArray[np.float64], found: int) -> EventBook:
    """Describe the events of posts whose events are given, ``(posts,)``."""
    if not posts.rows:
        raise DataError("there must be at least one post to learn events from")
    order = list(dict.fromkeys(sorted(names.tolist())))
    codes = np.searchsorted(np.array(order), names)
    records = _describe(order, codes, posts, points, 0)
    centres = np.stack([record.centre for record in records])
    distance = ((points - centres[codes]) ** 2).sum(axis=1)
    sample = extend_sample(Sample(points[:0], posts.time[:0], ()), points, posts.time, names.tolist())
    return EventBook(tuple(records), sample, float(np.quantile(distance, 0.99)), found=found)


def extend_sample(sample: Sample, points: NDArray[np.float64], time: NDArray[np.float64], names: list[str]) -> Sample:
    """Keep the newest posts, at most 2,000 of them, evenly spread."""
    keep = np.linspace(0, max(len(points) - 1, 0), min(len(points), SAMPLE)).astype(np.intp)
    joined = np.concatenate([sample.points, points[keep]])[-SAMPLE:]
    times = np.concatenate([sample.time, time[keep]])[-SAMPLE:]
    return Sample(joined, times, (*sample.event, *(names[row] for row in keep))[-SAMPLE:])


def _describe(
    names: list[str], codes: Codes, posts: Posts, points: NDArray[np.float64], window: int
) -> list[EventRecord]:
    return [
        make_record(name, posts.select(codes == code), points[codes == code], window) for code, name in enumerate(names)
    ]


def _next(book: EventBook, fresh: tuple[EventRecord, ...], sample: Sample, window: int, found: int) -> EventBook:
    """The book after a window: known events are joined with their new posts, new ones follow."""
    known: Mapping[str, EventRecord] = {record.name: record for record in book.events}
    events = {**known, **{new.name: join_records(known[new.name], new) if new.name in known else new for new in fresh}}
    return EventBook(tuple(events.values()), sample, book.radius, window, found)
