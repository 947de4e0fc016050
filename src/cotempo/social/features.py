"""What a post is known by: hashed words beside n-grams, weighted by frequencies summed over clients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cotempo.data import Posts
from cotempo.social.encoder import LONGEST, Counts, document_frequencies, hash_ngrams, inverse_frequencies, weigh
from cotempo.social.pretrained import CHARACTERS, read_texts

FINE = 2**18
WORDS = 2**15
SEEN = 5


def hash_words(texts: Sequence[str]) -> Counts:
    """Count words and pairs of words that follow each other, hashed into 2^18 buckets.

    Examples
    --------
    >>> hash_words(["flood in town", ""]).sum(axis=1).tolist()
    [[5.0], [0.0]]
    """
    from scipy import sparse
    from sklearn.feature_extraction.text import HashingVectorizer

    if not len(texts):
        return sparse.csr_matrix(np.zeros((0, FINE), np.float32))
    vectorizer = HashingVectorizer(
        ngram_range=(1, 2), n_features=FINE, alternate_sign=False, norm=None, dtype=np.float32
    )
    return vectorizer.transform([text[:LONGEST] for text in texts])


def fold(counts: Counts, buckets: int) -> Counts:
    """Return counts as if they had been hashed into fewer buckets, a divisor of their number."""
    from scipy import sparse

    if isinstance(counts, np.ndarray):
        return counts
    shape, indices = (counts.shape[0], buckets), counts.indices % buckets
    folded = sparse.csr_matrix((counts.data.copy(), indices, counts.indptr.copy()), shape)
    folded.sum_duplicates()  # in place, hence the copies
    return folded


@dataclass(frozen=True)
class Weights:
    """What every hashed word and every n-gram counts, ``(WORDS,)`` and ``(buckets,)``; finer buckets share a weight.

    Ones where a pretrained encoder's vectors take the place of n-grams.

    Attributes
    ----------
    common
        Which words are not rare, ``(WORDS,)``.
    """

    words: NDArray[np.float32]
    characters: NDArray[np.float32]
    common: NDArray[np.bool_]


@dataclass(frozen=True)
class Features:
    """Posts as rows: hashed words, and hashed n-grams or pretrained vectors; counts, or weighted."""

    words: Counts
    characters: Counts

    @classmethod
    def read(cls, kind: str, texts: Sequence[str], buckets: int) -> Features:
        """Hash texts; see `EventDetector` for the kinds of encoder."""
        characters = hash_ngrams(texts, FINE) if kind in CHARACTERS else read_texts(kind, texts, buckets)
        return cls(hash_words(texts), characters)

    def frequencies(self, kind: str, buckets: int) -> NDArray[np.float32]:
        """In how many posts each word and each n-gram occurs, ``(WORDS + buckets,)``."""
        parts = [fold(self.words, WORDS)]
        if kind in CHARACTERS:
            parts.append(fold(self.characters, buckets))
        return np.concatenate([document_frequencies(part) for part in parts]).astype(np.float32)

    def weigh(self, weights: Weights) -> Features:
        """Weighted rows of length one."""
        words, characters = self.words, self.characters
        times = FINE // len(weights.characters) if not isinstance(characters, np.ndarray) else 1
        return Features(
            weigh(words, np.tile(weights.words, FINE // WORDS)), weigh(characters, np.tile(weights.characters, times))
        )

    def select(self, rows: NDArray[np.intp]) -> Features:
        """Some rows."""
        return Features(self.words[rows], self.characters[rows])


def weights_of(frequencies: NDArray[np.float32], documents: float, buckets: int) -> Weights:
    """Inverse document frequencies from what `Features.frequencies` gave, or its sum over clients.

    A word of fewer than five posts is rare.
    """
    found = inverse_frequencies(frequencies.astype(np.float64), documents)
    characters = found[WORDS:] if len(found) > WORDS else np.ones(buckets, np.float32)
    return Weights(found[:WORDS], characters, frequencies[:WORDS] >= SEEN)


def in_order(posts: Posts) -> Posts:
    """The posts by time, text and label, so that nothing depends on the order they came in."""
    when = np.where(np.isfinite(posts.time), posts.time, np.inf)

    def key(row: int) -> tuple[Any, ...]:
        named = posts.event[row] or "", posts.author[row] or "", posts.hashtags[row], posts.mentions[row]
        return (when[row], posts.text[row], *named)

    return posts.select(np.array(sorted(range(posts.rows), key=key), dtype=np.intp))
