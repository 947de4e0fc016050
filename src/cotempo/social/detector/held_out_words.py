"""`HeldOutWords`: how good events found without labels are, and how many there are.

Every word belongs to one of two halves. A classifier of all other posts (kernel ridge regression, left out one by one)
tells the event of each post from its words of one half, and another from those of the other half. What both tell alike,
as mutual information in nats, is judged against two limits:

- the most that groups of posts by the words of one half (Ward's tree, any number) and what the other half tells about
  these have in common: a few lumps have less;
- the entropy of the events told: events torn apart have more of it than they have in common.

The quality is the harmonic mean of both shares. The number of events is that of the cut of Ward's tree with the highest
quality.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cotempo.social.detector.familiarity import PENALTY, products
from cotempo.social.detector.features import Features, fold
from cotempo.social.detector.words import tokens_of, words_of
from cotempo.social.encoders.characters import CharacterEncoder
from cotempo.typing import Floats, Indices

MOST_JUDGED = 800
STEP = 1.15


@dataclass(frozen=True)
class HeldOutWords:
    """Texts in two halves: vectors to group them by, ``(posts, dimension)``, and what tells groups from the words.

    `inverses` are those of the kernel ridge regressions, ``(posts, posts)``; `smallest` is the fewest posts of a group.
    """

    points: tuple[Floats, Floats]
    inverses: tuple[Floats, Floats]
    smallest: int

    @classmethod
    def of(cls, encoder: CharacterEncoder, texts: Sequence[str], smallest: int) -> HeldOutWords:
        """Divide the words of texts."""
        points: list[Floats] = []
        inverses: list[Floats] = []
        for half in _halves(texts):
            counts = Features.read(encoder.kind, half, len(encoder.weights))
            folded = fold(counts.characters, len(encoder.weights))
            points.append(encoder.with_own_basis(folded).encode_counts(folded).astype(np.float64))
            weighted = counts.weigh(counts.weights)
            inverses.append(np.asarray(np.linalg.inv(products(weighted, weighted) + PENALTY * np.eye(len(half)))))
        return cls((points[0], points[1]), (inverses[0], inverses[1]), smallest)

    @cached_property
    def numbers(self) -> list[int]:
        """The numbers of events to try, in growing steps."""
        found, most = [2], len(self.points[0]) // self.smallest
        while found[-1] < most:
            found.append(min(max(found[-1] + 1, int(found[-1] * STEP)), most))
        return found if most > 1 else []

    @cached_property
    def largest(self) -> float:
        """The most that the words of one half tell about groups by those of the other, in nats."""
        found = np.zeros(len(self.numbers) + 1)
        for points, inverse in zip(self.points, self.inverses[::-1], strict=True):
            for place, codes in enumerate(_cuts(points, self.numbers)):
                found[place] += _information(codes, _tell(inverse, codes)) / 2
        return float(found.max())

    def number(self, points: Floats) -> int:
        """Return the number of groups of these posts' vectors with the highest quality; 1 if none has any."""
        qualities = [self.quality(codes) for codes in _cuts(points, self.numbers)]
        return self.numbers[int(np.argmax(qualities))] if max(qualities, default=0.0) > 0 else 1

    def quality(self, codes: Indices) -> float:
        """Return how much both halves of the words tell alike about events, 0 to 1; one event alone has 0."""
        first, second = (_tell(inverse, codes) for inverse in self.inverses)
        common = _information(first, second)
        if common <= 0 or self.largest <= 0:
            return 0.0
        unlumped, untorn = min(common / self.largest, 1.0), min(2 * common / (_entropy(first) + _entropy(second)), 1.0)
        return float(2 * unlumped * untorn / (unlumped + untorn))


def spread(count: int) -> Indices:
    """Return the places of at most 800 of so many posts, evenly spread."""
    return np.unique(np.linspace(0, count - 1, min(count, MOST_JUDGED)).astype(np.intp))


def distinct_texts(texts: Sequence[str]) -> tuple[Indices, Indices]:
    """Return the first post of each set of words, and for each post its place among those.

    Copies (a post passed on, with another address) would hide behind their number what the others are about.
    """
    words = [" ".join(sorted(words_of(text))) or text for text in texts]
    _, first, place = np.unique(words, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return first[order].astype(np.intp), rank[place].astype(np.intp)


def _halves(texts: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the words of each half of every text; a word is always in the same half."""
    words = [tokens_of(text) for text in texts]
    # The last bits of a checksum differ too little between similar words.
    half = {word: zlib.crc32(word.encode()) >> 3 & 1 for one in words for word in one}
    first, second = ([" ".join(word for word in one if half[word] == side) for one in words] for side in (0, 1))
    return first, second


def _cuts(points: Floats, numbers: Sequence[int]) -> Iterator[Indices]:
    """Yield the groups of Ward's tree, cut into each of these numbers."""
    from scipy.cluster.hierarchy import fcluster, linkage

    if not numbers:
        return
    tree = linkage(points, "ward")
    for number in numbers:
        yield np.unique(fcluster(tree, number, "maxclust"), return_inverse=True)[1]


def _tell(inverse: Floats, codes: Indices) -> Indices:
    """Return the group of each post by a classifier of the others."""
    indicators = np.eye(int(codes.max()) + 1)[codes]
    indicators = indicators - indicators.mean(axis=0)
    return np.asarray((indicators - inverse @ indicators / np.diagonal(inverse)[:, None]).argmax(axis=1))


def _information(first: Indices, second: Indices) -> float:
    """Return the mutual information of two groupings in nats, less its expectation by chance (Miller and Madow)."""
    size = max(int(first.max()), int(second.max())) + 1
    joint = np.bincount(first * size + second, minlength=size * size).reshape(size, size) / len(first)
    rows, columns = joint.sum(axis=1), joint.sum(axis=0)
    inside = joint > 0
    shared = float((joint[inside] * np.log(joint[inside] / np.outer(rows, columns)[inside])).sum())
    return shared - (np.count_nonzero(rows) - 1) * (np.count_nonzero(columns) - 1) / (2 * len(first))


def _entropy(codes: Indices) -> float:
    shares = np.bincount(codes)[np.unique(codes)] / len(codes)
    return float(-(shares * np.log(shares)).sum())
