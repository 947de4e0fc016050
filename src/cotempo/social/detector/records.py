"""What a client keeps of each event: where it lies, when it was, and what was said."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cotempo.data import Posts
from cotempo.social.graph_model.attributes import language_of

WORDS_KEPT = 200
POSTS_KEPT = 3
_WORD = re.compile(r"[^\W\d_]{3,}")
_ADDRESS = re.compile(r"https?\S*")


@dataclass(frozen=True)
class EventRecord:
    """One event, as its owner knows it.

    Attributes
    ----------
    name
        Its label, or the id it was given.
    size
        Posts counted so far.
    centre
        Mean vector of its posts, ``(dimension,)``.
    middle, lapse, timed
        Median time, mean distance in time from it, and the posts that had a time.
    start, end
        First and last time, NaN where no post had one.
    words, languages
        How many posts hold a word, or are in a language.
    posts, nearness
        Its most central posts and their squared distances from the centre, nearest first.
    window
        The last window in which it was seen.
    """

    name: str
    size: float
    centre: NDArray[np.float64]
    middle: float
    lapse: float
    timed: float
    start: float
    end: float
    words: Mapping[str, int]
    languages: Mapping[str, int]
    posts: tuple[str, ...]
    nearness: NDArray[np.float64]
    window: int = 0


def make_record(
    name: str, posts: Posts, points: NDArray[Any], window: int = 0, centre: NDArray[Any] | None = None
) -> EventRecord:
    """Describe an event by its posts and their vectors, ``(posts, dimension)``."""
    centre = points.mean(axis=0, dtype=np.float64) if centre is None else np.asarray(centre, dtype=np.float64)
    known = posts.time[np.isfinite(posts.time)]
    middle = float(np.median(known)) if len(known) else np.nan
    distance = ((points - centre) ** 2).sum(axis=1, dtype=np.float64)
    nearest = np.argsort(distance, kind="stable")[:POSTS_KEPT]
    return EventRecord(
        name=name,
        size=float(posts.rows),
        centre=centre,
        middle=middle,
        lapse=float(np.abs(known - middle).mean()) if len(known) else np.nan,
        timed=float(len(known)),
        start=float(known.min()) if len(known) else np.nan,
        end=float(known.max()) if len(known) else np.nan,
        words=_top(Counter(word for text in posts.text for word in words_of(text))),
        languages=_top(Counter(language_of(posts, row) for row in range(posts.rows))),
        posts=tuple(posts.text[row] for row in nearest),
        nearness=distance[nearest],
        window=window,
    )


def join_records(old: EventRecord, new: EventRecord) -> EventRecord:
    """Add later posts of an event to what is known of it; the name stays."""
    size = old.size + new.size
    order = np.argsort(np.concatenate([old.nearness, new.nearness]), kind="stable")[:POSTS_KEPT]
    texts = (*old.posts, *new.posts)
    timed = old.timed + new.timed
    share = new.timed / timed if timed else 0.0
    return replace(
        old,
        size=size,
        centre=(old.centre * old.size + new.centre * new.size) / size,
        middle=_blend(old.middle, new.middle, share),
        lapse=_blend(old.lapse, new.lapse, share),
        timed=timed,
        start=float(np.fmin(old.start, new.start)),
        end=float(np.fmax(old.end, new.end)),
        words=_top(Counter(old.words) + Counter(new.words)),
        languages=_top(Counter(old.languages) + Counter(new.languages)),
        posts=tuple(texts[place] for place in order),
        nearness=np.concatenate([old.nearness, new.nearness])[order],
        window=max(old.window, new.window),
    )


def words_of(text: str) -> set[str]:
    """Return the words of a text, without addresses, in lower case."""
    return {word.lower() for word in _WORD.findall(_ADDRESS.sub(" ", text))}


def keywords(records: Sequence[EventRecord], top: int = 5) -> list[tuple[str, ...]]:
    """Return the words that mark each event by class TF-IDF: ``share of its posts * log(1 + events / events with it)``.

    A word counts for an event in proportion to how much of it is said there, so that common words rank low.
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
