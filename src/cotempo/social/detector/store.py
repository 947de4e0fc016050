"""`EventStore`: the events a client knows, one `EventRecord` each, and a bounded sample of its posts."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cotempo.data import Posts
from cotempo.social.clustering import centres_of
from cotempo.social.encoders.characters import LONGEST
from cotempo.typing import Floats

MOST_KEPT = 2000
WORDS_KEPT = 200
POSTS_KEPT = 3
FOUND = "found-"
_WORD = re.compile(r"[^\W\d_]{3,}")
_ADDRESS = re.compile(r"https?\S*")


@dataclass(frozen=True)
class EventRecord:
    """One event, as its owner knows it.

    Of its `size` posts, with mean vector `centre`, ``(dimension,)``, `posts_with_time` had a time: from `start` to
    `end`, with median `middle` and mean distance from it `mean_time_distance`, NaN if none had. `words` and `languages`
    count posts, `posts` are the most central ones and `nearness` their squared distances from the centre, nearest
    first. The event was last seen in `window`.
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
    window: int = 0

    @classmethod
    def of(cls, name: str, posts: Posts, points: Floats, window: int = 0, centre: Floats | None = None) -> EventRecord:
        """Describe an event by its posts and their vectors, ``(posts, dimension)``."""
        centre = points.mean(axis=0) if centre is None else centre
        known = posts.time[np.isfinite(posts.time)]
        middle = float(np.median(known)) if len(known) else np.nan
        distance = ((points - centre) ** 2).sum(axis=1)
        nearest = np.argsort(distance, kind="stable")[:POSTS_KEPT]
        return cls(
            name=name,
            size=float(posts.rows),
            centre=centre,
            middle=middle,
            mean_time_distance=float(np.abs(known - middle).mean()) if len(known) else np.nan,
            posts_with_time=float(len(known)),
            start=float(known.min()) if len(known) else np.nan,
            end=float(known.max()) if len(known) else np.nan,
            words=_top(Counter(word for text in posts.text for word in _words(text))),
            languages=_top(Counter(language_of(posts, row) for row in range(posts.rows))),
            posts=tuple(posts.text[row] for row in nearest),
            nearness=distance[nearest],
            window=window,
        )

    def joined(self, new: EventRecord) -> EventRecord:
        """Return the record with the event's later posts; the name stays."""
        size = self.size + new.size
        nearness, texts = np.concatenate([self.nearness, new.nearness]), (*self.posts, *new.posts)
        order = np.argsort(nearness, kind="stable")[:POSTS_KEPT]
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
            words=_top(Counter(self.words) + Counter(new.words)),
            languages=_top(Counter(self.languages) + Counter(new.languages)),
            posts=tuple(texts[place] for place in order),
            nearness=nearness[order],
            window=max(self.window, new.window),
        )


@dataclass(frozen=True)
class Sample:
    """Posts kept to group later ones with, and to draw: their vectors, times, events and texts."""

    points: Floats
    time: Floats
    event: tuple[str, ...]
    text: tuple[str, ...]

    def extended(self, points: Floats, posts: Posts, names: NDArray[np.str_]) -> Sample:
        """Return the newest posts, at most 2,000 of them, evenly spread."""
        keep = np.linspace(0, max(len(points) - 1, 0), min(len(points), MOST_KEPT)).astype(np.intp)
        return Sample(
            np.concatenate([self.points, points[keep]])[-MOST_KEPT:],
            np.concatenate([self.time, posts.time[keep]])[-MOST_KEPT:],
            (*self.event, *(str(names[row]) for row in keep))[-MOST_KEPT:],
            (*self.text, *(posts.text[row][:LONGEST] for row in keep))[-MOST_KEPT:],
        )


@dataclass(frozen=True)
class EventStore:
    """The events a client knows, and a sample of posts.

    Nearly all posts of an event lie within the squared distance `radius`; posts beyond are new. `window` counts
    windows, `found` events found without a label, and `posts_since_fit` posts that came after the encoder was learned.
    """

    events: tuple[EventRecord, ...]
    sample: Sample
    radius: float
    window: int = 0
    found: int = 0
    posts_since_fit: int = 0

    def after_window(self, names: NDArray[np.str_], posts: Posts, points: Floats, found: int) -> EventStore:
        """Return the store after a window of posts about the events `names`, some known, joined with the new posts."""
        window, since = self.window + 1, self.posts_since_fit + posts.rows
        events = {record.name: record for record in self.events}
        for name in dict.fromkeys(names.tolist()):
            new = EventRecord.of(name, posts.select(names == name), points[names == name], window)
            events[name] = events[name].joined(new) if name in events else new
        sample = self.sample.extended(points, posts, names)
        return EventStore(tuple(events.values()), sample, self.radius, window, found, since)


def event_name(number: int) -> str:
    """Return the id of the n-th event found without a label."""
    return f"{FOUND}{number:04d}"


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
    # A post draws its centre towards itself by its share of the event: new posts lie that much farther away.
    size = np.bincount(codes)[codes]
    distance = ((points - middles[codes]) ** 2).sum(axis=1) * (size / np.maximum(size - 1, 1)) ** 2
    sample = Sample(points[:0], posts.time[:0], (), ()).extended(points, posts, names)
    return EventStore(records, sample, float(np.quantile(distance, 0.99)), found=found)


def _words(text: str) -> set[str]:
    """Return the words of a text, without addresses, in lower case."""
    return {word.lower() for word in _WORD.findall(_ADDRESS.sub(" ", text))}


def language_of(posts: Posts, row: int) -> str:
    """Return the language a post is marked with (column `lang` or `language`), else the script it is written in."""
    for column in ("lang", "language"):
        if column in posts.extra and posts.extra[column][row]:
            return str(posts.extra[column][row])
    scripts = Counter(unicodedata.name(letter, "?").split()[0] for letter in posts.text[row][:200] if letter.isalpha())
    return scripts.most_common(1)[0][0].capitalize() if scripts else "unknown"


def keywords(records: Sequence[EventRecord], top: int = 5) -> list[tuple[str, ...]]:
    """Return the words that mark each event by class TF-IDF: ``share of its posts * log(1 + events / events with it)``.

    An event counts towards a word in proportion to the share of its posts with the word: common words rank low.
    """
    spread: dict[str, float] = {}
    for record in records:
        for word, count in record.words.items():
            spread[word] = spread.get(word, 0.0) + count / record.size
    ranked = []
    for record in records:
        score = {
            word: count / record.size * np.log1p(len(records) * (count / record.size) / spread[word])
            for word, count in record.words.items()
        }
        ranked.append(tuple(sorted(score, key=lambda word: (-score[word], word))[:top]))
    return ranked


def _top(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:WORDS_KEPT])


def _blend(old: float, new: float, share: float) -> float:
    if np.isnan(old) or np.isnan(new):
        return float(np.fmax(old, new))
    return float(old + share * (new - old))
