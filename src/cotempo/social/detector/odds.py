"""`LogOdds`: naive Bayes beside the ridge classifier.

A linear classifier of few posts hardly learns words that it saw once or twice; counts do, and the sum of both beats
either.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np

from cotempo.social.encoders.characters import Counts
from cotempo.typing import Floats, Indices, Singles


@dataclass(frozen=True)
class LogOdds:
    """In how many posts of each event a word or n-gram occurs, and the log odds from it.

    `used` are the buckets of the words that occur, `posts` their posts by event, ``(used, events)``, `weights` their
    weights. The shares of the events, ``(events,)``, are added to every word's counts as a prior.
    """

    used: Indices
    posts: Floats
    shares: Floats
    weights: Floats

    @classmethod
    def of(cls, weighted: Counts, membership: Floats, weights: Singles) -> Self:
        """Count weighted posts, ``(posts, buckets)``, by their membership in events, ``(posts, events)``.

        Vectors of a pretrained encoder are no counts and have no odds.
        """
        shares = membership.sum(axis=0) / membership.sum()
        if isinstance(weighted, np.ndarray) or len(shares) < 2:
            return cls(np.zeros(0, np.intp), np.zeros((0, len(shares))), shares, np.zeros(0))
        found = weighted.astype(bool).T @ membership
        used = np.flatnonzero(found.any(axis=1))
        return cls(used, found[used], shares, weights[used].astype(np.float64))

    @property
    def coefficients(self) -> Floats:
        """The log odds of each event given a word, ``(used, events)``."""
        return self._log_odds(self.posts, slice(None))

    def leave_out(self, weighted: Counts, codes: Indices) -> Floats:
        """Return leave-one-out scores of posts of these events, ``(posts, events)``."""
        scores = np.zeros((len(codes), len(self.shares)))
        for event in np.unique(codes) if len(self.used) else ():
            rows = codes == event
            seen = weighted[rows][:, self.used]
            here = np.unique(seen.indices)
            without = self.posts[here] - np.eye(len(self.shares))[event]
            scores[rows] = seen[:, here] @ (self._log_odds(without, here) * without.any(axis=1, keepdims=True))
        return scores

    def _log_odds(self, posts: Floats, words: slice | Indices) -> Floats:
        sizes = self.posts.sum(axis=0) + len(self.used) * self.shares
        inside = posts + self.shares
        outside = inside.sum(axis=1, keepdims=True) - inside
        odds = np.log(inside / sizes) - np.log(outside / (sizes.sum() - sizes))
        return np.asarray((odds - odds.mean(axis=1, keepdims=True)) / self.weights[words, None])
