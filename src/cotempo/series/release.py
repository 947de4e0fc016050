"""Release gate: no synthetic window leaves its owner if it is too near to a real one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cotempo.data import Series
from cotempo.data.tables import FrameKind
from cotempo.errors import DataError
from cotempo.typing import Floats

QUANTILES = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75)
MOST_MEMBERSHIP = 0.55
MOST_WINDOWS = 2000
Measure = Callable[[Floats, Floats], Floats]


@dataclass(frozen=True)
class Release:
    """Which synthetic windows may leave.

    `membership` is the AUC of telling training windows from others by distances to released ones; 0.5 is chance. It is
    cross-fitted: of each half of the real windows with the threshold that the other half asks for.
    """

    kept: NDArray[np.bool_]
    membership: float

    @property
    def withheld(self) -> int:
        """Return how many windows stay."""
        return int((~self.kept).sum())


@dataclass(frozen=True)
class Released:
    """Synthetic windows to share, and how near they are to the real ones.

    Attributes
    ----------
    windows
        The windows, each a sequence of its own; None where all were withheld.
    withheld
        How many were too near to a real window.
    nearness
        The median distance of released windows to the nearest real one, in units of that between real ones; about 1 or
        more where they are as far from the data as the data are from each other.
    membership
        AUC of telling windows learned from by distances to released ones, 0.5 being chance; None without `others`.
    """

    windows: Series | None
    withheld: int
    nearness: float
    membership: float | None

    def to_frame(self, kind: FrameKind = "pandas") -> Any:
        """Return the windows as a dataframe; raise `DataError` where all were withheld."""
        if self.windows is None:
            raise DataError(
                f"some windows must be far enough from real ones to share, all {self.withheld} were withheld"
            )
        return self.windows.to_frame(kind)

    @classmethod
    def of(cls, drawn: Series, synthetic: Floats, trained: Floats, others: Floats) -> Released:
        """Keep the windows that `release` lets through; `synthetic` are those drawn, as the others are scaled."""
        gate, usual, length = release(synthetic, trained, others), usual_distance(trained, others), synthetic.shape[1]
        near = nearest_distance(synthetic[gate.kept], np.concatenate([trained, others]))
        nearness = float(np.median(near) / max(np.median(usual), 1e-300)) if len(near) and len(usual) else float("nan")
        kept = drawn.select(np.repeat(gate.kept, length)) if gate.kept.any() else None
        return cls(kept, gate.withheld, nearness, gate.membership if len(others) else None)


def release(synthetic: Floats, trained: Floats, others: Floats) -> Release:
    """Decide which synthetic windows may leave.

    A window is withheld if it, one of its halves or one of its features is nearer to a real one than 99 % of those not
    trained on are to those trained on. Where what is left still tells who was trained on (a membership score above
    .55), 95 % take the place of 99 %, then 90, 75, 50 and 25 %; and where that does not help either, nothing leaves.

    All are windows ``(windows, length, features)`` in the owner's own units; `others` are real ones not trained on.
    Where there are none, the second half of those trained on stands in, measured against the first.

    Examples
    --------
    >>> stream = np.random.default_rng(0)
    >>> trained, others = stream.normal(size=(2, 100, 4, 1))
    >>> copies = trained[:3] + 1e-4
    >>> release(np.concatenate([copies, stream.normal(size=(50, 4, 1))]), trained, others).kept[:3].tolist()
    [False, False, False]
    """
    half = len(trained) // 2
    held, known = (others, trained) if len(others) else (trained[half:], trained[:half])
    real = np.concatenate([trained, others])
    near = [measure(synthetic, real) for measure in MEASURES]
    usual = [measure(held, known) for measure in MEASURES]
    pairs = [(one, own if len(own) else np.zeros(1)) for one, own in zip(near, usual, strict=True)]
    may_leave = [np.all([one > np.quantile(own, q) for one, own in pairs], axis=0) for q in QUANTILES]
    may_leave.append(np.zeros(len(synthetic), dtype=np.bool_))
    parts = [(trained, others), *zip(*(np.array_split(part, 2) for part in (trained, others)), strict=True)]
    scores = np.array(
        [
            [[membership(synthetic[kept], inside, outside, one) for one in MEASURES] for inside, outside in parts]
            for kept in may_leave
        ]
    )
    whole, first, second = (int(np.argmax(column <= MOST_MEMBERSHIP)) for column in scores.max(axis=2).T)
    # The threshold and the measure that one half asks for, judged on the other.
    judged = scores[second, 1, scores[second, 2].argmax()], scores[first, 2, scores[first, 1].argmax()]
    return Release(may_leave[whole], float(sum(judged)) / 2)


def membership(released: Floats, trained: Floats, others: Floats, measure: Measure | None = None) -> float:
    r"""Return the AUC of an attack that calls a window a member if a released one is near.

    .. math:: P(d(x, R) < d(x', R)) + \tfrac12 P(d(x, R) = d(x', R))

    for a training window :math:`x` and another one :math:`x'`; 0.5 where there is nothing to compare. `measure` is the
    distance, `nearest_distance` unless given.
    """
    if not (len(released) and len(trained) and len(others)):
        return 0.5
    thinned = (part[:: max(1, len(part) // MOST_WINDOWS)] for part in (trained, others))
    member, stranger = ((measure or nearest_distance)(part, released) for part in thinned)
    gap = np.sign(stranger[None, :] - member[:, None])
    return float((gap.mean() + 1) / 2)


def usual_distance(trained: Floats, others: Floats) -> Floats:
    """Return how far windows not trained on are from the nearest trained on; without any, of one half to the other."""
    half = len(trained) // 2
    return nearest_distance(others, trained) if len(others) else nearest_distance(trained[half:], trained[:half])


def nearest_distance(windows: Floats, among: Floats) -> Floats:
    """Return the root mean square distance of each window to the nearest of others, ``(windows,)``."""
    found = np.full(len(windows), np.inf)
    if not len(among) or not len(windows):
        return found
    flat, others = windows.reshape(len(windows), -1), among.reshape(len(among), -1)
    norms = (others**2).sum(axis=1)
    for first in range(0, len(flat), 256):
        part = flat[first : first + 256]
        squares = (part**2).sum(axis=1)[:, None] + norms - 2 * part @ others.T
        found[first : first + 256] = np.sqrt(np.maximum(squares.min(axis=1), 0) / flat.shape[1])
    return found


def nearest_half_distance(windows: Floats, among: Floats) -> Floats:
    """Return the distance of the nearer half of each window to the nearest half of others, ``(windows,)``."""
    half = windows.shape[1] // 2
    if not half:
        return nearest_distance(windows, among)
    halves = np.concatenate([among[:, :half], among[:, half : 2 * half]])
    return np.minimum(*(nearest_distance(part, halves) for part in (windows[:, :half], windows[:, half : 2 * half])))


def nearest_feature_distance(windows: Floats, among: Floats) -> Floats:
    """Return the distance of each window to the nearest of others, in the feature where it is least, ``(windows,)``."""
    each = [nearest_distance(windows[..., [one]], among[..., [one]]) for one in range(windows.shape[2])]
    return np.asarray(np.min(each, axis=0))


MEASURES: tuple[Measure, ...] = (nearest_distance, nearest_half_distance, nearest_feature_distance)
