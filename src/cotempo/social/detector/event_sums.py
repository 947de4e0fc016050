"""`EventSums`: what clients add up about labelled events, in a table that names neither words nor events.

A count-min sketch: every pair of a hashed word and an event's name has a cell in each row of the table, and its count
is at most the least of them. Who knows the name of an event can look its words up; clients whose labels agree add to
the same cells, and the size does not depend on the number of events. Counts are integers: sums are exact.

References
----------
Cormode and Muthukrishnan, An improved data stream summary: the count-min sketch and its applications, 2005.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cotempo.social.encoders.characters import Counts
from cotempo.typing import Array, Floats, Indices, Singles

SKETCH_ROWS, SKETCH_CELLS, NAME_CELLS = 2, 2**16, 2**12
FEWEST = 2
SHRINKAGE, VALUE = 10.0, 0.2


@dataclass(frozen=True)
class EventSums:
    """Labelled posts by word and event, ``(SKETCH_ROWS, SKETCH_CELLS)``, and by event, ``(NAME_CELLS,)``.

    `time_distance` sums the distances in time of `posts_with_time` posts from the middle of their events.
    """

    words: Singles
    posts: Singles
    time_distance: float = 0.0
    posts_with_time: float = 0.0

    @property
    def duration(self) -> float:
        """The mean distance in time from the middle of an event; 0 if unknown."""
        return self.time_distance / self.posts_with_time if self.posts_with_time else 0.0

    @classmethod
    def of(
        cls, counts: Counts, labels: NDArray[np.str_], time_distance: float = 0.0, posts_with_time: float = 0.0
    ) -> EventSums:
        """Count posts, ``(posts, buckets)``, by their labels; a word of a single post of an event is left out."""
        words, posts = np.zeros((SKETCH_ROWS, SKETCH_CELLS), np.float32), np.zeros(NAME_CELLS, np.float32)
        for label in np.unique(labels).tolist():
            rows = counts[labels == label]
            found = np.bincount(rows.indices, minlength=counts.shape[1])
            used = np.flatnonzero(found >= FEWEST)
            for row, cells in enumerate(word_cells(label, used)):
                np.add.at(words[row], cells, found[used])
            posts[name_cell(label)] += rows.shape[0]
        return cls(words, posts, time_distance, posts_with_time)

    def without(self, own: EventSums) -> EventSums:
        """Return what the others added to the counts."""
        # Noised totals may be smaller than one's own.
        return EventSums(np.maximum(self.words - own.words, 0), np.maximum(self.posts - own.posts, 0))

    def counts(self, names: Sequence[str], used: Indices) -> Floats:
        """Return in how many posts of some events some words occur, at most, ``(words, events)``."""
        found = np.zeros((len(used), len(names)))
        for column, name in enumerate(names):
            if self.posts[name_cell(name)]:
                cells = word_cells(name, used)
                found[:, column] = np.minimum.reduce([self.words[row][cell] for row, cell in enumerate(cells)])
        return found

    def coefficients(self, names: Sequence[str], used: Indices, value: Array) -> Floats:
        """Return coefficients of some words for some events, ``(words, events)``, given the value of a word in a post.

        A ridge regression on indicators of the events that ignores the covariances between words.
        """
        posts = np.array([float(self.posts[name_cell(name)]) for name in names])
        weighted = self.counts(names, used) * value[:, None]
        total = weighted.sum(axis=1, keepdims=True)
        return np.asarray((weighted - total * posts / max(posts.sum(), 1.0)) / (SHRINKAGE + VALUE * total))


def word_cells(name: str, words: Indices) -> list[Indices]:
    """Return the cells of each word of an event, row by row; the mixing is that of splitmix64."""
    mixed = words.astype(np.uint64) + np.uint64(_hash(name))
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    return [((mixed >> np.uint64(32 * row)) % np.uint64(SKETCH_CELLS)).astype(np.intp) for row in range(SKETCH_ROWS)]


def name_cell(name: str) -> int:
    """Return the cell of an event's name."""
    return _hash(name) % NAME_CELLS


def _hash(name: str) -> int:
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little")
