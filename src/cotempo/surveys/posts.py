"""`SurveyedPosts`: the figures of a client's posts, and what could be wrong with them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np

from cotempo.data import Posts
from cotempo.data.posts import GARBLED
from cotempo.surveys.calendar import (
    clock_trials,
    daily_keys,
    date_oddities,
    date_trials,
    harmonics,
    time_figures,
    time_keys,
    wall_clock,
)  # fmt: skip
from cotempo.surveys.others import Key, Others
from cotempo.surveys.surveyed import Surveyed
from cotempo.surveys.trials import Correction, Oddity
from cotempo.typing import Floats

FEWEST = 20
#: Words that are frequent in one language and rare in the others.
COMMON_WORDS = {
    "English": "the and of to is for with this that are was you from have at be",
    "German": "der die und ist das nicht mit von den ein auf für sich auch im dem",
    "French": "le les des est une du dans pour pas qui sur au avec ce il sont",
    "Spanish": "el los las del por una con para su como más pero se lo está y",
    "Italian": "il che di per non una sono della con gli alla del nel più è",
    "Portuguese": "os uma não com para mais dos como ao das pelo foi ele são em",
    "Dutch": "het een van en niet dat zijn op voor met ook maar naar wordt deze",
}
WORDS = {language: frozenset(words.split()) for language, words in COMMON_WORDS.items()}
ESCAPED = re.compile(r"&#?\w+;|\\u[0-9a-f]{4}|%[0-9A-F]{2}")


class SurveyedPosts(Surveyed):
    """One client's posts: language, encoding, length, and hours."""

    table: Posts

    @staticmethod
    def layout(columns: Sequence[str]) -> list[Key]:
        """Return the keys of all figures."""
        names = ("edge", "repeats", "garbled", "escaped", "foreign", "capitals")
        languages = [(language, "language") for language in WORDS]
        return [*(("", name) for name in names), *languages, *time_keys(), *daily_keys("")]

    @cached_property
    def seconds(self) -> Floats:
        """Times as clocks on the wall show them."""
        return wall_clock(self.table)

    @cached_property
    def own(self) -> dict[Key, float]:
        """The figures of this table."""
        table = self.table
        if table.rows < FEWEST:
            return {}
        lengths = np.array([len(text) for text in table.text])
        words = [word for text in table.text for word in re.findall(r"\w+", text.casefold())]
        letters = [letter for text in table.text for letter in text if letter.isalpha()]
        rows = {*zip(table.text, np.nan_to_num(table.time).tolist(), table.author, strict=True)}
        found: dict[Key, float] = {
            ("", "edge"): float(np.mean(lengths == lengths.max())),
            ("", "repeats"): 1 - len(rows) / table.rows,
            ("", "garbled"): float(np.mean([bool(GARBLED.search(text)) for text in table.text])),
            ("", "escaped"): float(np.mean([bool(ESCAPED.search(text)) for text in table.text])),
            ("", "foreign"): sum(ord(letter) > 0x24F for letter in letters) / max(len(letters), 1),
            ("", "capitals"): sum(letter.isupper() for letter in letters) / max(len(letters), 1),
        }
        for language, common in WORDS.items():
            found[language, "language"] = sum(word in common for word in words) / max(len(words), 1)
        waves = harmonics(self.seconds, np.ones(table.rows))
        found |= time_figures(self.seconds)
        return found | {("", *wave, "daily"): value for wave, value in waves.items()}

    def trials(self, others: Others) -> Iterator[Correction]:
        """Yield corrections of dates."""
        yield from clock_trials(self.own, [""], others, self.table.clock.zone)
        yield from date_trials(self.seconds, self.own)

    def oddities(self) -> Iterator[Oddity]:
        """Yield figures that should not stand out."""
        yield from date_oddities()
        for language in WORDS:
            words = f"your texts are {language}, the others' are not: only methods whose encoder knows both fit"
            yield Oddity("texts", "texts", (language, "language"), 0.06, words)
        told = {
            "garbled": (0.02, "letters of your texts are garbled, as of UTF-8 read as Latin-1: give their encoding"),
            "escaped": (0.1, "your texts hold escapes such as &amp; that the others' do not: unescape them"),
            "foreign": (0.3, "your texts are in another script than the others'"),
            "capitals": (0.4, "your texts are in capitals, the others' are not"),
            "edge": (0.05, "many of your texts have exactly the same, largest length: cut off?"),
        }  # fmt: skip
        for name, (effect, words) in told.items():
            yield Oddity("texts", "texts", ("", name), effect, words)
        yield Oddity("repeats", "rows", ("", "repeats"), 0.05, "many of your posts are there twice: rows given twice?")
