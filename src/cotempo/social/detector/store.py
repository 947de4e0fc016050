"""`EventStore`: the events a client knows, one `EventRecord` each, and a bounded sample of its posts."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cotempo.data import Posts
from cotempo.social.clustering import centres_of
from cotempo.social.detector.detection import OUTLIER
from cotempo.social.detector.words import count_words, language_of, most_common, words_of
from cotempo.social.encoders.characters import LONGEST
from cotempo.typing import Bools, Floats

MOST_KEPT = 2000
WORDS_KEPT = 200
POSTS_KEPT = 3
OUTLIERS_KEPT = 200
STRAY = 0.05
MOST_AWAY = 10.0
FOUND = "found-"


@dataclass(frozen=True)
class EventRecord:
    """One event, as its owner knows it.

    Of its `size` posts, with mean vector `centre`, ``(dimension,)``, `labelled` came with its name and
    `posts_with_time` had a time: from `start` to
    `end` (of a found event, those of the middle nine tenths of its posts: a stray post must not stretch it over
    months), with median `middle` and mean distance from it `mean_time_distance`, NaN if none had. `words` and
    `languages` count posts, `posts` are the most central ones and `nearness` their squared distances from the centre,
    nearest first. The event was last seen in `window`.
    """

    name: str
    size: float
    centre: Floats
    middle: float
    mean_time_distance: float
    posts_with_time: float
    start: float
    end: float
    words: Mapping[str, int]
    languages: Mapping[str, int]
    posts: tuple[str, ...]
    nearness: Floats
    labelled: float = 0.0
    window: int = 0

    @classmethod
    def of(
        cls,
        name: str,
        posts: Posts,
        points: Floats,
        window: int = 0,
        centre: Floats | None = None,
        known: EventRecord | None = None,
    ) -> EventRecord:
        """Describe an event by its posts and their vectors, ``(posts, dimension)``.

        Where it is `known`, its central posts are those near the centre it has: a single new one is its own centre.
        """
        centre = points.mean(axis=0) if centre is None else centre
        times = posts.time[np.isfinite(posts.time)]
        stray = STRAY if name.startswith(FOUND) else 0.0
        middle, mean_time_distance = middle_of(times)
        distance = ((points - (known.centre if known else centre)) ** 2).sum(axis=1)
        nearest = _nearest(distance, posts.text)
        return cls(
            name=name,
            size=float(posts.rows),
            centre=centre,
            middle=middle,
            mean_time_distance=mean_time_distance,
            posts_with_time=float(len(times)),
            # Times of posts: between a stray one and the others there may be years without any.
            start=float(np.quantile(times, stray, method="higher")) if len(times) else np.nan,
            end=float(np.quantile(times, 1 - stray, method="lower")) if len(times) else np.nan,
            words=most_common(count_words(map(html.unescape, posts.text)), WORDS_KEPT),
            languages=most_common(Counter(language_of(posts, row) for row in range(posts.rows)), WORDS_KEPT),
            posts=tuple(html.unescape(posts.text[row]) for row in nearest),  # interfaces write &amp; for &
            nearness=distance[nearest],
            labelled=float(sum(label is not None for label in posts.event)),
            window=window,
        )

    def joined(self, new: EventRecord) -> EventRecord:
        """Return the record with the event's later posts; the name stays."""
        size = self.size + new.size
        nearness, texts = np.concatenate([self.nearness, new.nearness]), (*self.posts, *new.posts)
        order = _nearest(nearness, texts)
        posts_with_time = self.posts_with_time + new.posts_with_time
        share = new.posts_with_time / posts_with_time if posts_with_time else 0.0
        return replace(
            self,
            size=size,
            centre=(self.centre * self.size + new.centre * new.size) / size,
            middle=_blend(self.middle, new.middle, share),
            mean_time_distance=_blend(self.mean_time_distance, new.mean_time_distance, share),
            posts_with_time=posts_with_time,
            start=float(np.fmin(self.start, new.start)),
            end=float(np.fmax(self.end, new.end)),
            words=most_common(Counter(self.words) + Counter(new.words), WORDS_KEPT),
            languages=most_common(Counter(self.languages) + Counter(new.languages), WORDS_KEPT),
            posts=tuple(texts[place] for place in order),
            nearness=nearness[order],
            labelled=self.labelled + new.labelled,
            window=max(self.window, new.window),
        )


@dataclass(frozen=True)
class Sample:
    """Posts kept to group later ones with, and to draw: their vectors, times, events and texts.

    `given` says whose event is a label or a group found; of the others it was detected.
    """

    points: Floats
    time: Floats
    event: tuple[str, ...]
    text: tuple[str, ...]
    given: tuple[bool, ...]

    @classmethod
    def empty(cls, points: Floats) -> Sample:
        """Return no posts in the space of these vectors."""
        return cls(points[:0], np.zeros(0), (), (), ())

    def extended(self, points: Floats, posts: Posts, names: NDArray[np.str_]) -> Sample:
        """Return the newest posts, at most 2,000 of them, evenly spread."""
        keep = np.linspace(0, max(len(points) - 1, 0), min(len(points), MOST_KEPT)).astype(np.intp)
        return Sample(
            np.concatenate([self.points, points[keep]])[-MOST_KEPT:],
            np.concatenate([self.time, posts.time[keep]])[-MOST_KEPT:],
            (*self.event, *(str(names[row]) for row in keep))[-MOST_KEPT:],
            (*self.text, *(posts.text[row][:LONGEST] for row in keep))[-MOST_KEPT:],
            (*self.given, *(bool(posts.event[row]) or str(names[row]).startswith(FOUND) for row in keep))[-MOST_KEPT:],
        )

    def of(self, event: str) -> Sample:
        """Return the posts of an event."""
        return self.select(np.array([name == event for name in self.event], dtype=bool))

    def select(self, rows: Bools) -> Sample:
        """Return some of the posts."""
        places = np.flatnonzero(rows)
        event, text = (tuple(values[place] for place in places) for values in (self.event, self.text))
        return Sample(self.points[rows], self.time[rows], event, text, tuple(self.given[place] for place in places))


@dataclass(frozen=True)
class EventStore:
    """The events a client knows, and a sample of posts, outliers among them.

    `window` counts windows, `found` events found without a label, whose names begin with `prefix`; `nameless` counts
    posts that belong to no event, and `misdated` those with dates that are years away from all others.
    """

    events: tuple[EventRecord, ...]
    sample: Sample
    window: int = 0
    found: int = 0
    prefix: str = FOUND
    nameless: int = 0
    misdated: int = 0

    def owned_by(self, client: str) -> EventStore:
        """Return the store with the client in the names of found events: those of two clients are different ones."""
        prefix = f"{FOUND}{client}-"
        events = tuple(replace(record, name=_owned(record.name, prefix)) for record in self.events)
        sample = replace(self.sample, event=tuple(_owned(name, prefix) for name in self.sample.event))
        return replace(self, events=events, sample=sample, prefix=prefix)

    @property
    def client(self) -> str:
        """The client whose name those of found events have; empty where a detector was learned alone."""
        return self.prefix.removeprefix(FOUND).removesuffix("-")

    def next_name(self, found: int) -> str:
        """Return the id of the event after `found` others that were found without a label."""
        return event_name(found, self.prefix)

    def after_window(self, names: NDArray[np.str_], posts: Posts, points: Floats, found: int) -> EventStore:
        """Return the store after a window of posts about the events `names`, some known, joined with the new posts."""
        window = self.window + 1
        events = {record.name: record for record in self.events}
        for name in [name for name in dict.fromkeys(names.tolist()) if name != OUTLIER]:
            old = events.get(name)
            new = EventRecord.of(name, posts.select(names == name), points[names == name], window, known=old)
            events[name] = old.joined(new) if old else new
        sample = self.sample.extended(points, posts, names)
        store = replace(self, events=tuple(events.values()), sample=sample, window=window, found=found)
        return store.retimed(set(names.tolist()))

    def retimed(self, names: Set[str]) -> EventStore:
        """Return the store with the times of these events as their kept posts have them."""
        kept = np.array(self.sample.event, dtype=np.str_)
        events = []
        for record in self.events:
            if record.name in names:
                times = self.sample.time[kept == record.name]
                middle, away = middle_of(times[np.isfinite(times)])
                if np.isfinite(middle):
                    record = replace(record, middle=middle, mean_time_distance=away)
            events.append(record)
        return replace(self, events=tuple(events))

    def counting(self, names: NDArray[np.str_], posts: Posts, points: Floats) -> EventStore:
        """Return the store with unlabelled posts counted for the events `names`; what the labelled ones say of each
        event's centre and middle in time stays.
        """
        events = []
        for old in self.events:
            own = names == old.name
            if own.any():
                said = {name: getattr(old, name) for name in ("centre", "middle", "mean_time_distance")}
                old = replace(old.joined(EventRecord.of(old.name, posts.select(own), points[own], known=old)), **said)
            events.append(old)
        return replace(self, events=tuple(events))


def middle_of(times: Floats) -> tuple[float, float]:
    """Return the median of times and the mean distance from it, NaN for both without any.

    A distance counts as at most ten times the median one: a few wrong dates must not make an event last for years.
    """
    if not len(times):
        return np.nan, np.nan
    middle = float(np.median(times))
    away = np.abs(times - middle)
    typical = float(np.median(away))
    return middle, float((np.minimum(away, MOST_AWAY * typical) if typical else away).mean())


def _nearest(distance: Floats, texts: Sequence[str]) -> list[int]:
    """Return the places of the nearest few posts, of those with the same words the first only."""
    found: dict[str, int] = {}
    for place in np.argsort(distance, kind="stable").tolist():
        found.setdefault(" ".join(sorted(words_of(texts[place]))) or texts[place], place)
        if len(found) == POSTS_KEPT:
            break
    return list(found.values())


def event_name(number: int, prefix: str = FOUND) -> str:
    """Return the id of the n-th event found without a label."""
    return f"{prefix}{number:04d}"


def _owned(name: str, prefix: str) -> str:
    return prefix + name.removeprefix(FOUND) if name.startswith(FOUND) else name


def make_store(
    names: NDArray[np.str_], posts: Posts, points: Floats, found: int, centres: Floats | None = None
) -> EventStore:
    """Describe the events of at least one post, named in `names`, ``(posts,)``; centres are means unless given."""
    order, codes = np.unique(names, return_inverse=True)
    middles = centres_of(points, codes, len(order)) if centres is None else centres
    records = tuple(
        EventRecord.of(name, posts.select(codes == code), points[codes == code], centre=middles[code])
        for code, name in enumerate(order.tolist())
    )
    sample = Sample.empty(points).extended(points, posts, names)
    return EventStore(records, sample, found=found)


def _blend(old: float, new: float, share: float) -> float:
    if np.isnan(old) or np.isnan(new):
        return float(np.fmax(old, new))
    return float(old + share * (new - old))
