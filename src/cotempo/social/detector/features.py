"""`Features` of posts: hashed words, and n-grams or pretrained vectors, weighted by how rare they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cotempo.data import Posts
from cotempo.social.encoders.characters import Counts, hash_ngrams, own_weights, weigh
from cotempo.social.encoders.pretrained import CHARACTERS, read_texts
from cotempo.typing import Indices, Singles

HASH_BUCKETS = 2**18


def hash_words(texts: Sequence[str]) -> Counts:
    """Count words and pairs of words that follow each other, hashed into 2^18 buckets."""
    return hash_ngrams(texts, HASH_BUCKETS, "word", (1, 2))


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
    """Weights of hashed words and n-grams, ``(buckets,)`` each; pretrained vectors have none."""

    words: Singles
    characters: Singles


@dataclass(frozen=True)
class Features:
    """Posts as rows: hashed words, and hashed n-grams or pretrained vectors; counts, or weighted."""

    words: Counts
    characters: Counts

    @classmethod
    def read(cls, kind: str, texts: Sequence[str], buckets: int) -> Features:
        """Hash texts; see `EventDetector` for the kinds of encoder."""
        characters = hash_ngrams(texts, HASH_BUCKETS) if kind in CHARACTERS else read_texts(kind, texts, buckets)
        return cls(hash_words(texts), characters)

    @property
    def weights(self) -> Weights:
        """Inverse frequencies of words and n-grams among these posts."""
        return Weights(own_weights(self.words), own_weights(self.characters))

    def weigh(self, weights: Weights) -> Features:
        """Return weighted rows of length one."""
        return Features(weigh(self.words, weights.words), weigh(self.characters, weights.characters))

    def select(self, rows: Indices) -> Features:
        """Return some rows."""
        return Features(self.words[rows], self.characters[rows])


def in_order(posts: Posts) -> Posts:
    """Return the posts sorted by time, text and label, so that nothing depends on their order in the table."""
    when = np.where(np.isfinite(posts.time), posts.time, np.inf)

    def key(row: int) -> tuple[Any, ...]:
        named = posts.event[row] or "", posts.author[row] or "", posts.hashtags[row], posts.mentions[row]
        return (when[row], posts.text[row], *named)

    return posts.select(np.array(sorted(range(posts.rows), key=key), dtype=np.intp))
