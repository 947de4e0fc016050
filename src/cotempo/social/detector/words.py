"""`keywords` of events and `language_of` a post."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from cotempo.data import Posts
from cotempo.social.encoders.scripts import RUN, UNSPACED, spaced
from cotempo.typing import Floats

if TYPE_CHECKING:
    from cotempo.social.detector.store import EventRecord

_WORD = re.compile(rf"{UNSPACED}{{2}}|[^\W\d_]{{3,}}")
_TOKEN = re.compile(rf"{UNSPACED}{{2}}|\w+")
_ADDRESS = re.compile(r"https?\S*|@\w+")
_LETTERS = re.compile(r"[^\W\d_]+")

LEAST_LIFT = 2.0
INSIDE = 0.8  # of the texts with some letters: where so many have more of the same beside them, those are the word
# A few frequent words that each of the other languages lacks; enough for most posts, and for nearly all events.
FUNCTION_WORDS = {
    "en": "the and of is are was for with this that you have from they",
    "es": "el los las y del una por para con que está más pero muy este",
    "fr": "les et est des du une pour dans avec sur pas qui que ce",
    "it": "il gli di è sono una per nella della dei nel con non più che",
    "pt": "os um uma não em do da dos para com que são mais você",
    "de": "der die das und ist ein eine nicht mit auf für den von",
}
LANGUAGE_BY_WORD = {
    word: [language for language, words in FUNCTION_WORDS.items() if word in words.split()]
    for word in " ".join(FUNCTION_WORDS.values()).split()
}
#: Letters that are words of their own in Japanese or Chinese, and no part of a keyword's ends.
PARTICLES = set("はがをにのでとへもや的了在是和")
#: Scripts that one language is written in.
LANGUAGE_BY_SCRIPT = {"HIRAGANA": "ja", "KATAKANA": "ja", "HANGUL": "ko", "THAI": "th", "GREEK": "el", "HEBREW": "he"}


def address_free(text: str) -> str:
    """Return a text without addresses and names of accounts."""
    return _ADDRESS.sub(" ", text)


def words_of(text: str) -> set[str]:
    """Return the words of a text of three letters or more, without addresses and names of accounts, in lower case.

    In scripts that put no spaces between words, every pair of neighbouring letters is one.
    """
    return {word.lower() for word in _WORD.findall(spaced(address_free(text)))}


def tokens_of(text: str) -> list[str]:
    """Return all words and numbers of a text in order, as `words_of` makes them."""
    return _TOKEN.findall(spaced(address_free(text).lower()))


def has_words(text: str) -> bool:
    """Return whether there is any word or number in a text beside addresses and names of accounts."""
    return _TOKEN.search(spaced(address_free(text))) is not None


def language_of(posts: Posts, row: int) -> str:
    """Return the language a post is marked with (column `lang` or `language`), else what its text shows.

    Frequent words give the language of a text in Latin letters, some scripts have one language only; otherwise the
    script is named, as in ``"Latin script"``.
    """
    for column in ("lang", "language"):
        if column in posts.extra and posts.extra[column][row]:
            return str(posts.extra[column][row])
    text = address_free(posts.text[row][:400]).lower()
    votes = Counter(found for word in _LETTERS.findall(text) for found in LANGUAGE_BY_WORD.get(word, ()))
    first, second = [*votes.most_common(2), ("", 0), ("", 0)][:2]
    if first[1] > second[1]:
        return first[0]
    scripts = Counter(unicodedata.name(letter, "?").split()[0] for letter in text if letter.isalpha())
    if not scripts:
        return "unknown"
    marked = next((LANGUAGE_BY_SCRIPT[script] for script in scripts if script in LANGUAGE_BY_SCRIPT), "")
    return marked or f"{scripts.most_common(1)[0][0].capitalize()} script"


def keywords(
    records: Sequence[EventRecord], count_everywhere: Callable[[Sequence[str]], tuple[Floats, float]], top: int = 5
) -> list[tuple[str, ...]]:
    """Return the words that mark each event: ``s log(s / b)`` with ``s`` the share of the event's posts with the word.

    ``b`` is the share of posts with the word elsewhere: in the other events, or over all clients if that is larger
    (`count_everywhere` returns the posts with each word, and all posts). A keyword is at least twice as frequent here
    as elsewhere, which no stop word is where some events share its language; the frequent words that languages are
    told by are left out anyway.
    """
    total: Counter[str] = Counter()
    for record in records:
        total.update(record.words)
    order = list(total)
    counts, documents = count_everywhere(order)
    everywhere, posts = dict(zip(order, counts, strict=True)), sum(record.size for record in records)
    ranked = []
    for record in records:
        score = {}
        for word, count in record.words.items():
            share = count / record.size
            # Half a post: a word unseen elsewhere is not infinitely rare there.
            other = (total[word] - count + 0.5) / (posts - record.size + 1)
            others = max(everywhere[word] - count, 0.0) / max(documents - record.size, 1.0)
            lift = share / max(other, others)
            if lift >= LEAST_LIFT and word not in LANGUAGE_BY_WORD and not {word[0], word[-1]} & PARTICLES:
                score[word] = share * np.log(lift)
        best = sorted(score, key=lambda word: (-score[word], word))
        ranked.append(_apart(best, top))
    return ranked


def _apart(words: Iterable[str], top: int) -> tuple[str, ...]:
    """Return the first words that have no pair of letters in common, in scripts that put no spaces between words."""
    found: dict[str, set[str]] = {}
    for word in words:
        if len(found) < top and not any(words_of(word) & other for other in found.values()):
            found[word] = words_of(word)
    return tuple(found)


def most_common(counts: Mapping[str, int], number: int) -> dict[str, int]:
    """Return the most frequent entries, the most frequent first, ties in order of the alphabet."""
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:number])


def count_words(texts: Iterable[str]) -> Counter[str]:
    """Count in how many texts each word occurs.

    In scripts that put no spaces between words, a word is 2 to 5 letters that also occur without those beside them.
    """
    found = Counter(word for text in texts for word in words_of(text) | _parts_of(text))
    longer: dict[str, int] = {}
    for word, count in found.items():
        for part in (word[1:], word[:-1]) if RUN.fullmatch(word) else ():
            longer[part] = max(longer.get(part, 0), count)
    return Counter({word: count for word, count in found.items() if longer.get(word, 0) < INSIDE * count})


def _parts_of(text: str) -> set[str]:
    """Return all 3 to 5 letters that follow each other in scripts that put no spaces between words."""
    runs = RUN.findall(address_free(text))
    return {run[at : at + size] for run in runs for size in (3, 4, 5) for at in range(len(run) - size + 1)}
