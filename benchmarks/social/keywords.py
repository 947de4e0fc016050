"""`find_keywords` and `remove_keywords`: the words a data set was collected by, which reveal the event."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from cotempo.data import Posts

COVER = 0.97
PRECISION = 0.5
LEAST_SHARE = 0.01
INSIDE = 5
_TOKEN = re.compile(r"[#@]?\w+")


def find_keywords(clients: Mapping[str, Posts]) -> frozenset[str]:
    """Return the fewest words that identify the events of labelled posts, and the words of the events' names.

    For each event, words that occur mostly there are taken greedily, the most frequent in the remaining posts first,
    until nearly all its posts hold one: the likely search terms of the collector.

    Examples
    --------
    >>> posts = Posts([0.0] * 15, ("quake now", "flood now", "fire now") * 5, event=("a", "b", "c") * 5)
    >>> sorted(find_keywords({"x": posts}))
    ['fire', 'flood', 'quake']
    """
    everywhere: Counter[str] = Counter()
    by_event: dict[str, list[set[str]]] = {}
    for posts in clients.values():
        for text, event in zip(posts.text, posts.event, strict=True):
            words = {token.lstrip("#@").lower() for token in _TOKEN.findall(text)}
            everywhere.update(words)
            if event is not None:
                by_event.setdefault(event, []).append(words)
    found: set[str] = set()
    for event, posts_words in sorted(by_event.items()):
        found |= _cover(posts_words, everywhere)
        found |= {word.lower() for word in re.split(r"[\W\d_]+", event) if len(word) > 2}
    return frozenset(found)


def _cover(posts: list[set[str]], everywhere: Counter[str]) -> set[str]:
    own = Counter(word for words in posts for word in words)
    frequent = {word for word, count in own.items() if count >= 5 and count / everywhere[word] >= PRECISION}
    chosen: set[str] = set()
    left = posts
    while len(left) > (1 - COVER) * len(posts):
        counts = Counter(word for words in left for word in words & frequent if len(word) > 2)
        if not counts:
            break
        word = min(counts, key=lambda item: (-counts[item], item))
        if counts[word] < LEAST_SHARE * len(posts):
            break
        chosen.add(word)
        left = [words for words in left if word not in words]
    return chosen


def remove_keywords(posts: Posts, keywords: Iterable[str]) -> Posts:
    """Return posts without words and hashtags that are a keyword or, from five letters on, hold one.

    A text without other words becomes a dash.

    Examples
    --------
    >>> remove_keywords(Posts([0.0], ("Big #BoulderFlood today",)), ["flood"]).text
    ('Big today',)
    """
    exact = {word.lower() for word in keywords}
    inside = re.compile("|".join(sorted(re.escape(word) for word in exact if len(word) >= INSIDE)) or r"(?!)")

    def is_keyword(token: str) -> bool:
        word = token.lstrip("#@").lower()
        return word in exact or inside.search(word) is not None

    texts = tuple(
        " ".join(_TOKEN.sub(lambda match: "" if is_keyword(match.group()) else match.group(), text).split()) or "-"
        for text in posts.text
    )
    tags = tuple(tuple(tag for tag in row if not is_keyword(tag)) for row in posts.hashtags)
    return replace(posts, text=texts, hashtags=tags)
