"""Ridge classifiers of labelled posts on words and n-grams, beginning from what other clients' sums say.

With ``K`` the inner products of posts, ``f`` what the others' sums say of them and ``A = (K + a I)^-1``, the classifier
predicts ``f + K A (Y - f)``, and for post i, had it been left out, ``Y_i - [A (Y - f)]_i / A_ii``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cotempo.social.features import Features

Floats = NDArray[np.float64]
PENALTY = 1.6
SHARE = 0.5
STEPS, TOLERANCE = 200, 1e-5


@dataclass(frozen=True)
class Ridge:
    """A linear classifier of known events.

    Attributes
    ----------
    names
        The events.
    words, characters
        Coefficients of the features in `used_words` and `used_characters`, ``(used, events)`` each.
    sharpness
        What scores are multiplied by to be log probabilities up to a constant.
    """

    names: tuple[str, ...]
    used_words: NDArray[np.intp]
    words: NDArray[np.float32]
    used_characters: NDArray[np.intp]
    characters: NDArray[np.float32]
    sharpness: float = 1.0

    def scores(self, weighted: Features) -> Floats:
        """Return the log probability of each event up to a constant, ``(posts, events)``."""
        raw = weighted.words[:, self.used_words] @ self.words
        raw = raw + weighted.characters[:, self.used_characters] @ self.characters
        return np.asarray(self.sharpness * raw, dtype=np.float64)


def leave_out(weighted: Features, codes: NDArray[np.intp], prior: Any) -> tuple[float, Floats]:
    """Return how much of the others' coefficients to begin from, and each post's scores by all the rest.

    All or nothing, whichever has the smaller squared error.

    Parameters
    ----------
    prior
        Coefficients of words, ``(words, events)``.

    Returns
    -------
    float, array
        The share, and ``(posts, events)``.
    """
    centred = _indicators(codes)
    inverse = np.linalg.inv(_inner(weighted) + PENALTY * np.eye(len(codes)))
    diagonal = np.diagonal(inverse)[:, None]
    said = np.asarray((weighted.words @ prior).todense())
    errors = {share: inverse @ (centred - share * said) / diagonal for share in (0.0, SHARE)}
    best = min(errors, key=lambda share: float((errors[share] ** 2).sum()))
    return best, centred - errors[best]


def fit_ridge(
    names: tuple[str, ...], weighted: Features, codes: NDArray[np.intp], prior: Any, sharpness: float
) -> Ridge:
    """Fit the classifier, beginning from coefficients of words, ``(words, events)``."""
    solved = _solve(weighted, _indicators(codes) - np.asarray((weighted.words @ prior).todense()))
    words, characters = weighted.words.T @ solved, weighted.characters.T @ solved
    words += prior.todense()
    used = [np.flatnonzero(part.any(axis=1)) for part in (words, characters)]
    parts = [np.asarray(part[rows], np.float32) for part, rows in zip((words, characters), used, strict=True)]
    return Ridge(names, used[0], parts[0], used[1], parts[1], sharpness)


def _indicators(codes: NDArray[np.intp]) -> Floats:
    """Which event each post tells of, less the shares of the events, ``(posts, events)``."""
    indicators = np.eye(int(codes.max()) + 1)[codes]
    return np.asarray(indicators - indicators.mean(axis=0))


def _inner(weighted: Features) -> Floats:
    """Inner products of posts, ``(posts, posts)``."""
    return _dense(weighted.words @ weighted.words.T) + _dense(weighted.characters @ weighted.characters.T)


def _solve(weighted: Features, right: Floats) -> Floats:
    """Solve ``(K + a I) x = right`` for all columns together by conjugate gradients."""

    def times(given: Floats) -> Floats:
        words = weighted.words @ (weighted.words.T @ given)
        return np.asarray(words + weighted.characters @ (weighted.characters.T @ given) + PENALTY * given)

    found = np.zeros_like(right)
    rest, direction = right.copy(), right.copy()
    size = (rest**2).sum(axis=0)
    enough = TOLERANCE**2 * np.maximum(size, 1e-30)
    for _ in range(STEPS):
        if (size <= enough).all():
            break
        moved = times(direction)
        step = size / np.maximum((direction * moved).sum(axis=0), 1e-30)
        found += step * direction
        rest -= step * moved
        size, before = (rest**2).sum(axis=0), size
        direction = rest + size / np.maximum(before, 1e-30) * direction
    return found


def _dense(products: Any) -> Floats:
    return np.asarray(products if isinstance(products, np.ndarray) else products.toarray(), dtype=np.float64)
