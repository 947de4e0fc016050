"""What the words of an event add up to over clients, in a table of fixed size that names neither words nor events.

A count sketch: every pair of a hashed word and an event's name has a cell and a sign. Who knows the name of an event
can look its words up; clients whose labels agree add to the same cells, and a table is as large for ten events as for
a thousand. Entries are rounded to 1/1024, so that sums are exact in any order.

References
----------
Charikar, Chen and Farach-Colton, Finding frequent items in data streams, 2002.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cotempo.social.encoder import Counts
from cotempo.social.features import FINE, Weights

CELLS = 2**16
NAMES = 2**12
GRAIN = 1024
SHRINKAGE = 10.0
VALUE = 0.2


@dataclass(frozen=True)
class EventSums:
    """Sums over labelled posts.

    Attributes
    ----------
    words
        Weighted words by event, in cells, ``(CELLS,)``.
    posts
        Posts by event, in cells, ``(NAMES,)``.
    """

    words: NDArray[np.float32]
    posts: NDArray[np.float32]

    @classmethod
    def of(cls, weighted: Counts, labels: NDArray[np.str_], weights: Weights) -> EventSums:
        """Add up posts by their labels, ``(posts, buckets)``; of words that are not rare."""
        words, posts = np.zeros(CELLS), np.zeros(NAMES)
        for label in np.unique(labels).tolist():
            rows = labels == label
            total = np.asarray(weighted[rows].sum(axis=0), dtype=np.float64).ravel()
            used = common_words(np.flatnonzero(total), weights)
            place, sign = _cells(label, used)
            np.add.at(words, place, sign * np.round(total[used] * GRAIN) / GRAIN)
            posts[_name_cell(label)] += int(rows.sum())
        return cls(words.astype(np.float32), posts.astype(np.float32))

    def without(self, own: EventSums) -> EventSums:
        """What the others added."""
        return EventSums(self.words - own.words, self.posts - own.posts)

    def coefficients(self, names: Sequence[str], used: NDArray[np.intp]) -> Any:
        """Return what some words say for some events, a sparse ``(buckets, events)``; zero where the sums hold none.

        The ridge regression on indicators of the events, with the covariances between words left out.
        """
        from scipy import sparse

        posts = [max(float(self.posts[_name_cell(name)]), 0.0) for name in names]
        found = np.zeros((len(used), len(names)))
        for column, name in enumerate(names):
            if posts[column]:
                place, sign = _cells(name, used)
                found[:, column] = np.maximum(self.words[place] * sign, 0.0)
        total = found.sum(axis=1, keepdims=True)
        said = (found - total * np.array(posts) / max(sum(posts), 1.0)) / (SHRINKAGE + VALUE * total)
        spread = sparse.csr_matrix((np.ones(len(used)), (used, np.arange(len(used)))), (FINE, len(used)))
        return spread @ sparse.csr_matrix(said)


def common_words(buckets: NDArray[np.intp], weights: Weights) -> NDArray[np.intp]:
    """Those of some words that are not rare."""
    return buckets[weights.common[buckets % len(weights.common)]]


def _cells(name: str, words: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """The cell and the sign of each word of an event; the mixing is that of splitmix64."""
    mixed = words.astype(np.uint64) + np.uint64(_hash(name))
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    return (mixed % np.uint64(CELLS)).astype(np.intp), np.where(mixed >> np.uint64(63), 1.0, -1.0)


def _name_cell(name: str) -> int:
    return _hash(name) % NAMES


def _hash(name: str) -> int:
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little")
