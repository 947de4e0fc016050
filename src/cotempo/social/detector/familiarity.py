"""`Familiarity`: how well posts fit the kept posts of known events, calibrated by leaving each of those out.

Kernel ridge regression of the events' indicators on words and n-grams: with ``K`` the inner products of kept posts,
``Y`` the indicators of their events and ``A = (K + a I)^-1``, a new post with inner products ``k`` has the scores
``k A Y``, and kept post i, left out, ``Y_i - [A Y]_i / A_ii``. A post about no known event has low scores for all. Its
rank among the best scores of kept posts, each left out, is a conformal p-value: if the post is exchangeable with them,
p is at most `level` with about that probability.

How many posts of an event that nobody knows would be outliers is measured by leaving each event out in turn: its posts
B have the scores ``-A_BB^-1 [A Y]_B`` by the others. The level is 3 % if that makes nine tenths of them outliers, else
4 %: events that have many words in common. Of fewer than 33 posts to judge beside, those are outliers that fit worse
than all of them.

Posts that fit no event are not alike because of that. How alike those of one event are is measured by `alike`: the mean
inner product of its pairs, above that of posts of different events, as a share of what it is inside of the others.
Everyday posts about as many subjects have about 0, those of an event about 1.

References
----------
Vovk, Gammerman and Shafer, Algorithmic learning in a random world, 2005.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cotempo.social.detector.features import Features, Weights
from cotempo.social.detector.words import words_of
from cotempo.social.encoders.characters import dense
from cotempo.typing import Bools, Floats, Indices

LEVEL = 0.03
LEVELS = (LEVEL, 0.04)
ENOUGH = 0.9  # of the posts of events left out
FEWEST = 10  # posts with a known event: of as many, one at most is lost
# Of what known events have. Some of any posts are alike: halves and dense groups were chosen for it, and need more.
LEAST_ALIKE, HALVES_ALIKE, DENSE_ALIKE = 0.25, 0.5, 0.75
FEW_ALIKE = 20  # posts of a dense group that need that; more need less
EVERYDAY_ALIKE = 0.1  # at most, of what other events have; a few events together have more
COPY = 0.99
PENALTY = 1.0
GAP_WEIGHT = 0.1
SPAN = (0.1, 0.9)
MOST_COMPARED = 1000


@dataclass(frozen=True)
class Familiarity:
    """Scores of posts by known events.

    `kept` are weighted posts, `texts` their words, `codes` the places of their events in `names`, `times` theirs,
    `rows` their places among the posts learned from, and `given` those that others are judged beside.
    """

    kind: str
    buckets: int
    names: tuple[str, ...]
    weights: Weights
    kept: Features
    texts: tuple[str, ...]
    codes: Indices
    times: Floats
    rows: Indices
    given: Bools

    @classmethod
    def of(
        cls,
        encoder: tuple[str, int],
        texts: Sequence[str],
        events: NDArray[np.str_],
        times: Floats,
        given: Bools | None = None,
    ) -> Familiarity:
        """Learn from kept posts of at least one event; of many posts, from 1,000 evenly spread.

        `encoder` is its kind and the length of its input; times are NaN where they are unknown or not used. New posts
        are judged beside those whose event was `given`: posts that were detected to be of an event all fit it.
        """
        names, codes = np.unique(events, return_inverse=True)
        few = np.unique(np.linspace(0, len(texts) - 1, min(len(texts), MOST_COMPARED)).astype(np.intp))
        chosen = tuple(texts[row] for row in few)
        counts = Features.read(encoder[0], chosen, encoder[1])
        kept = counts.weigh(counts.weights)
        known = np.ones(len(few), dtype=bool) if given is None else given[few]
        return cls(*encoder, tuple(names.tolist()), counts.weights, kept, chosen, codes[few], times[few], few, known)

    @cached_property
    def _solved(self) -> tuple[Floats, Floats]:
        """Coefficients of kept posts and their leave-one-out scores, ``(kept, events)`` each."""
        indicators = np.eye(len(self.names))[self.codes]
        solved = self._inverse @ indicators
        return solved, indicators - solved / np.diagonal(self._inverse)[:, None] - self._gaps(self.times)

    @cached_property
    def _inverse(self) -> Floats:
        """``(K + a I)^-1``, ``(kept, kept)``."""
        return np.asarray(np.linalg.inv(products(self.kept, self.kept) + PENALTY * np.eye(len(self.codes))))

    @cached_property
    def _spans(self) -> Floats:
        """When the middle four fifths of each event's posts were written, NaN if unknown, ``(events, 2)``."""
        found = np.full((len(self.names), 2), np.nan)
        for code in range(len(self.names)):
            known = self.times[(self.codes == code) & np.isfinite(self.times)]
            if len(known):
                found[code] = np.quantile(known, SPAN)
        return found

    @property
    def left_out(self) -> Floats:
        """Scores of every kept post by each event, learned without that post, ``(kept, events)``."""
        return self._solved[1]

    def scores(self, texts: Sequence[str], times: Floats) -> Floats:
        """Return how well posts fit each event, about 1 if well and 0 if not at all, ``(posts, events)``.

        Kept posts whose event was detected are judged as if they had been left out: else each would fit it.
        """
        weighted = Features.read(self.kind, texts, self.buckets).weigh(self.weights)
        found = np.asarray(products(weighted, self.kept) @ self._solved[0] - self._gaps(times))
        place = {self.texts[row]: row for row in np.flatnonzero(~self.given).tolist()}
        again = [row for row, text in enumerate(texts) if text in place]
        found[again] = self.left_out[[place[texts[row]] for row in again]]
        return found

    def p_values(self, scores: Floats) -> Floats:
        """Return the conformal p-value of posts with these scores, ``(posts,)``: small if they fit no event."""
        known = np.sort(self.left_out[self.given].max(axis=1))
        return np.asarray((1 + np.searchsorted(known, scores.max(axis=1), side="right")) / (len(known) + 1))

    @cached_property
    def judges(self) -> int:
        """The number of kept posts with a known event that others are judged beside; copies count once."""
        return len({frozenset(words_of(self.texts[row])) for row in np.flatnonzero(self.given).tolist()})

    @property
    def tells_new(self) -> bool:
        """Whether there are posts enough for a new one to be an outlier at all."""
        return self.judges >= FEWEST

    @cached_property
    def unseen(self) -> Floats:
        """The p-values of kept posts by the other events, each event left out as a whole, ``(kept,)``; none for one."""
        if len(self.names) < 2:
            return np.zeros(0)
        solved = self._solved[0]
        scores, gaps = np.full((len(self.codes), len(self.names)), -np.inf), self._gaps(self.times)
        for code in range(len(self.names)):
            rows = np.flatnonzero(self.codes == code)
            others = np.arange(len(self.names)) != code
            if len(rows):
                found = -np.linalg.solve(self._inverse[np.ix_(rows, rows)], solved[np.ix_(rows, others)])
                scores[np.ix_(rows, others)] = found - gaps[np.ix_(rows, others)]
        return self.p_values(scores)

    @cached_property
    def level(self) -> float:
        """The p-value at and below which a post is an outlier; of few posts, that of less than the worst of them."""
        levels = [max(level, 1 / (self.judges + 1)) for level in LEVELS]
        if not len(self.unseen):
            return levels[0]
        return next((level for level in levels if np.mean(self.unseen <= level) >= ENOUGH), levels[-1])

    @cached_property
    def means(self) -> Floats:
        """Mean inner products of posts of two events without copies, NaN where none is left, ``(events, events)``."""
        pairs = products(self.kept, self.kept)
        lengths = np.sqrt(np.maximum(np.diagonal(pairs), 1e-12))
        told = pairs < COPY * np.outer(lengths, lengths)
        own = np.eye(len(self.names))[self.codes]
        counts = own.T @ told @ own
        return np.asarray(np.where(counts > 0, own.T @ (pairs * told) @ own / np.maximum(counts, 1), np.nan))

    def alike(self, event: str, usual: Callable[[Floats], Any] = np.nanmean) -> float:
        """Return how alike an event's posts are beside those of the others: 0 as posts of different events, 1 as those.

        Copies say nothing; an event of copies only has 1, as one without another to compare with. What others have is
        their mean, or what else is `usual`: where they were found, too, a few may be nearly copies.
        """
        own, known, apart = self.names.index(event), np.diagonal(self.means), self._apart
        others = np.delete(known, own)
        if np.isnan(known[own]) or np.isnan(others).all() or np.isnan(apart).all():
            return 1.0
        between = float(np.nanmean(apart))
        return float((known[own] - between) / max(float(usual(others)) - between, 1e-12))

    def together(self, first: str, second: str) -> float:
        """Return how alike posts of two events are: 0 as of different ones, 1 as of one; 0 without a third."""
        places = [self.names.index(first), self.names.index(second)]
        inside = np.diagonal(self.means)[places]
        # One labelled post has no pair; a few have an uncertain mean.
        sizes = np.bincount(self.codes, minlength=len(self.names))[places]
        if len(self.names) < 3 or np.isnan(inside).all():
            return 0.0
        alone = float(np.average(np.nan_to_num(inside), weights=sizes * np.isfinite(inside)))
        between = float(np.nanmedian(self._apart))
        return float((np.nan_to_num(self.means[places[0], places[1]]) - between) / max(alone - between, 1e-12))

    @property
    def _apart(self) -> Floats:
        """The means of different events."""
        return self.means[np.triu_indices(len(self.names), 1)]

    def _gaps(self, times: Floats) -> Floats:
        """Return what to take off for posts long before or after an event, ``(posts, events)``.

        Nothing within one length of the event: events go on for a while.
        """
        start, end = self._spans.T
        known = np.isfinite(end - start)
        length = np.maximum(end - start, np.median((end - start)[known]) if known.any() else 0.0)
        away = np.maximum(start - times[:, None], times[:, None] - end)
        return np.asarray(np.nan_to_num(GAP_WEIGHT * np.log(np.maximum(away / np.maximum(length, 1e-12), 1.0))))


def least_alike(posts: int) -> float:
    """Return how alike so many posts must be that were grouped for it: of any posts a few are alike, many are not."""
    return float(np.clip(DENSE_ALIKE * np.sqrt(FEW_ALIKE / posts), LEAST_ALIKE, DENSE_ALIKE))


def products(first: Features, second: Features) -> Floats:
    """Return inner products of posts, ``(first, second)``."""
    words = dense(first.words @ second.words.T).astype(np.float64)
    return np.asarray(words + dense(first.characters @ second.characters.T))
