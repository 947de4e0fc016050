"""`extract_attributes`: authors, mentions, hashtags, linked sites and names that posts have in common."""

import re
from collections.abc import Callable, Iterable

from cotempo.data import Posts

Extractor = Callable[[str], Iterable[str]]

_TAG = re.compile(r"#(\w+)")
_MENTION = re.compile(r"@(\w+)")
_SITE = re.compile(r"https?://(?:www\.)?([^\s/?#:]+\.[^\s/?#:]+)", re.IGNORECASE)
_NAME = re.compile(r"(?<![\w#@])[^\W\d_a-z][\w'’-]+(?:\s+[^\W\d_a-z][\w'’-]+)*")
_SENTENCE = re.compile(r"(?:^|[.!?…]\s+)$")


def capitalised_phrases(text: str) -> list[str]:
    """Return runs of capitalised words that do not merely open a sentence.

    Scripts without capitals give nothing; pass another entity extractor for them.

    Examples
    --------
    >>> capitalised_phrases("Today the Red Cross went to Boulder. Rain again")
    ['red cross', 'boulder']
    """
    found = []
    for match in _NAME.finditer(text):
        phrase = match.group()
        opens = _SENTENCE.search(text[: match.start()]) is not None
        if phrase[0].isupper() and not (opens and " " not in phrase):
            found.append(phrase.lower())
    return found


def extract_attributes(posts: Posts, entities: Extractor = capitalised_phrases) -> list[tuple[str, ...]]:
    """Return the attributes of every post, each with its kind in front.

    Parameters
    ----------
    entities
        A function from a text to the names in it.

    Examples
    --------
    >>> extract_attributes(Posts(time=[0.0], text=("Flood in Boulder! #cowx @noaa https://www.nws.gov/x",)))
    [('entity:boulder', 'site:nws.gov', 'tag:cowx', 'user:noaa')]
    """
    found = []
    for row, text in enumerate(posts.text):
        bag = {f"tag:{tag.lower()}" for tag in (*posts.hashtags[row], *_TAG.findall(text))}
        bag |= {f"user:{name.lower()}" for name in (*posts.mentions[row], *_MENTION.findall(text))}
        bag |= {f"site:{site.lower()}" for site in _SITE.findall(text)}
        bag |= {f"entity:{name}" for name in entities(text)}
        author = posts.author[row]
        if author is not None:
            bag.add(f"user:{author.lower()}")
        found.append(tuple(sorted(bag)))
    return found
