"""`Ridge`: linear classifiers of posts on words and n-grams, with a prior mean from other clients' sums.

With ``K`` the inner products of posts, ``f`` their scores by the prior and ``A = (K + a I)^-1``, scores are
``f + K A (Y - f)``, and for post i, left out, ``Y_i - [A (Y - f)]_i / A_ii``. Unlabelled posts take part with half the
weight, by the classifier's own probabilities (self-training).

`LogOdds`, naive Bayes, is added: a linear classifier of few posts hardly learns words that it saw once or twice; counts
do, and the sum of both beats either.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from cotempo.social.detector.detection import softmax
from cotempo.social.detector.features import Features, Weights
from cotempo.social.encoders.characters import Counts, dense
from cotempo.typing import Floats, Indices, Singles

PENALTY = 1.6
SHARE = 0.5
ODDS = 0.1
"""Weight of the log odds beside the ridge regression."""
UNLABELLED_WEIGHT, CERTAINTY, PASSES = 0.5, 32.0, 2
STEPS, TOLERANCE = 200, 1e-5


@dataclass(frozen=True)
class WordPrior:
    """Coefficients of some words from others' sums, ``(words, events)``, and the buckets of those words."""

    used: Indices
    words: Floats

    def scores(self, weighted: Features) -> Floats:
        """Return the scores of posts, ``(posts, events)``."""
        return np.asarray(weighted.words[:, self.used] @ self.words)


@dataclass(frozen=True)
class Ridge:
    """A linear classifier of known events.

    `words` and `characters` are coefficients of the features in `used_words` and `used_characters`, ``(used, events)``
    each, for posts weighted by `weights`; `sharpness` turns scores into log probabilities up to a constant.
    """

    names: tuple[str, ...]
    weights: Weights
    used_words: Indices
    words: Singles
    used_characters: Indices
    characters: Singles
    sharpness: float

    def scores(self, weighted: Features) -> Floats:
        """Return the log probability of each event up to a constant, ``(posts, events)``."""
        raw = weighted.words[:, self.used_words] @ self.words
        raw = raw + weighted.characters[:, self.used_characters] @ self.characters
        return np.asarray(self.sharpness * raw, dtype=np.float64)

    def renamed(self, names: Mapping[str, str]) -> Ridge:
        """Return the classifier with some events renamed; those of one name are one event."""
        return replace(self, names=tuple(names.get(name, name) for name in self.names))

    def without(self, events: Collection[str]) -> Ridge:
        """Return the classifier of the other events."""
        kept = [column for column, name in enumerate(self.names) if name not in events]
        names = tuple(self.names[column] for column in kept)
        return replace(self, names=names, words=self.words[:, kept], characters=self.characters[:, kept])


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


def leave_out(weighted: Features, codes: Indices, prior: WordPrior) -> tuple[float, Floats]:
    """Return the scale of the prior, and leave-one-out scores of each post.

    The scale is a half or zero, whichever has the smaller squared error; scores are ``(posts, events)``.
    """
    centred = _indicators(codes)
    inverse = np.linalg.inv(_inner(weighted) + PENALTY * np.eye(len(codes)))
    diagonal = np.diagonal(inverse)[:, None]
    prior_scores = prior.scores(weighted)
    errors = {share: inverse @ (centred - share * prior_scores) / diagonal for share in (0.0, SHARE)}
    best = min(errors, key=lambda share: float((errors[share] ** 2).sum()))
    return best, centred - errors[best]


def fit_ridge(
    names: tuple[str, ...],
    labelled: Features,
    codes: Indices,
    others: Features,
    prior: WordPrior,
    weights: Weights,
    sharpness: float,
) -> Ridge:
    """Fit the classifier to labelled posts and, by its own probabilities, to others; add log odds."""
    learned, targets, membership = labelled, _indicators(codes), np.eye(len(names))[codes]
    solved = _solve(learned, targets - prior.scores(learned), np.ones(len(codes)))
    for _ in range(PASSES if others.words.shape[0] else 0):
        raw = prior.scores(others) + _products(others, learned, solved)
        learned = Features(_stack(labelled.words, others.words), _stack(labelled.characters, others.characters))
        weight = np.repeat((1.0, UNLABELLED_WEIGHT), (len(codes), len(raw)))
        shares = np.vstack([np.eye(len(names))[codes], softmax(CERTAINTY * raw)])
        targets, membership = shares - weight @ shares / weight.sum(), weight[:, None] * shares
        solved = _solve(learned, targets - prior.scores(learned), weight)
    words, characters = learned.words.T @ solved, learned.characters.T @ solved
    words[prior.used] += prior.words
    for part, found in zip((words, characters), log_odds(learned, membership, weights), strict=True):
        part[found.used] += ODDS * found.coefficients
    used = [np.flatnonzero(part.any(axis=1)) for part in (words, characters)]
    parts = [np.asarray(part[rows], np.float32) for part, rows in zip((words, characters), used, strict=True)]
    return Ridge(names, weights, used[0], parts[0], used[1], parts[1], sharpness)


def log_odds(weighted: Features, membership: Floats, weights: Weights) -> tuple[LogOdds, LogOdds]:
    """Return the log odds of words and of n-grams."""
    words = LogOdds.of(weighted.words, membership, weights.words)
    return words, LogOdds.of(weighted.characters, membership, weights.characters)


def left_out_odds(weighted: Features, codes: Indices, few: Indices, weights: Weights) -> Floats:
    """Return the leave-one-out contribution of the log odds to the scores of a few posts, ``(few, events)``."""
    words, characters = log_odds(weighted, np.eye(int(codes.max()) + 1)[codes], weights)
    by_words = words.leave_out(weighted.words[few], codes[few])
    return ODDS * (by_words + characters.leave_out(weighted.characters[few], codes[few]))


def _indicators(codes: Indices) -> Floats:
    """Return centred indicators of the posts' events, ``(posts, events)``."""
    indicators = np.eye(int(codes.max()) + 1)[codes]
    return np.asarray(indicators - indicators.mean(axis=0))


def _inner(weighted: Features) -> Floats:
    """Return inner products of posts, ``(posts, posts)``."""
    words = dense(weighted.words @ weighted.words.T).astype(np.float64)
    return words + dense(weighted.characters @ weighted.characters.T).astype(np.float64)


def _products(first: Features, second: Features, given: Floats) -> Floats:
    """Return inner products of posts with others times a matrix, without forming them."""
    words = first.words @ (second.words.T @ given)
    return np.asarray(words + first.characters @ (second.characters.T @ given))


def _solve(weighted: Features, right: Floats, weight: Floats) -> Floats:
    """Solve ``(K + a / weight) x = right`` for all columns together by conjugate gradients."""
    penalty = (PENALTY / weight)[:, None]
    found = np.zeros_like(right)
    rest, direction = right.copy(), right.copy()
    size = (rest**2).sum(axis=0)
    enough = TOLERANCE**2 * np.maximum(size, 1e-30)
    for _ in range(STEPS):
        if (size <= enough).all():
            break
        moved = _products(weighted, weighted, direction) + penalty * direction
        step = size / np.maximum((direction * moved).sum(axis=0), 1e-30)
        found += step * direction
        rest -= step * moved
        size, before = (rest**2).sum(axis=0), size
        direction = rest + size / np.maximum(before, 1e-30) * direction
    return found


def _stack(first: Any, second: Any) -> Any:
    from scipy import sparse

    return np.vstack([first, second]) if isinstance(first, np.ndarray) else sparse.vstack([first, second]).tocsr()
