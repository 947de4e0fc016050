"""Invented words in several scripts, so that posts need no corpus and offend nobody."""

SYLLABLES = {
    "en": ("ba", "ter", "lo", "sing", "ma", "ving", "ro", "den", "wes", "ly", "ford", "ness"),
    "fr": ("bou", "lé", "ran", "çon", "vil", "eau", "ché", "mar", "tie", "rou", "dé", "gnon"),
    "de": ("über", "schaft", "gro", "ßen", "lich", "kei", "ten", "mün", "stadt", "wäh", "ler", "zug"),
    "ar": ("با", "ري", "سل", "كت", "من", "دا", "وف", "جم", "لا", "تق", "ها", "شر"),
    "ja": ("さく", "らい", "まち", "かわ", "ゆき", "とう", "ほし", "みず", "そら", "やま", "のは", "ひか"),
}
LANGUAGES = tuple(SYLLABLES)
MOST_WORDS = 12**3


def word(language: str, concept: int) -> str:
    """Return the word of a language for a concept; no two concepts share a word.

    Examples
    --------
    >>> word("en", 5) == word("en", 6), word("en", 5) == word("de", 5)
    (False, False)
    """
    parts = SYLLABLES[language]
    # 7919 is coprime to 12**3: neighbouring concepts look different, and no two share a word.
    code = concept * 7919 % MOST_WORDS
    return "".join(parts[digit] for digit in (code // 144, code // 12 % 12, code % 12))


def proper_name(number: int) -> str:
    """Return the name of a person or a place, spelt the same in all languages.

    Examples
    --------
    >>> proper_name(1)
    'Ronessness'
    """
    return word("en", number).capitalize()
