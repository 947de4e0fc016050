"""Release gate: no synthetic window leaves its owner if it is too near to a real one."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cotempo.typing import Floats

QUANTILES = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75)
MOST_MEMBERSHIP = 0.55
MOST_WINDOWS = 2000


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


def release(synthetic: Floats, trained: Floats, others: Floats) -> Release:
    """Decide which synthetic windows may leave.

    A window is withheld if it is nearer to a real window than 99 % of those not trained on are to those trained on.
    Where what is left still tells who was trained on (a membership score above .55), 95 % take the place of 99 %, then
    90, 75, 50 and 25 %; and where that does not help either, nothing leaves.

    All are windows ``(windows, length, features)``; `others` are real ones not trained on. Where there are none, the
    second half of those trained on stands in, measured against the first.

    Examples
    --------
    >>> stream = np.random.default_rng(0)
    >>> trained, others = stream.normal(size=(2, 100, 4, 1))
    >>> copies = trained[:3] + 1e-4
    >>> release(np.concatenate([copies, stream.normal(size=(50, 4, 1))]), trained, others).kept[:3].tolist()
    [False, False, False]
    """
    half = len(trained) // 2
    usual = nearest_distance(others, trained) if len(others) else nearest_distance(trained[half:], trained[:half])
    near = nearest_distance(synthetic, np.concatenate([trained, others]))
    # Beyond the last of these nothing is, so that nothing leaves.
    thresholds = [*(float(np.quantile(usual, q)) if len(usual) else 0.0 for q in QUANTILES), np.inf]
    parts = [(trained, others), *zip(*(np.array_split(part, 2) for part in (trained, others)), strict=True)]
    scores = np.array([[membership(synthetic[near > t], *part) for part in parts] for t in thresholds])
    whole, first, second = (int(np.argmax(column <= MOST_MEMBERSHIP)) for column in scores.T)
    return Release(near > thresholds[whole], float(scores[second, 1] + scores[first, 2]) / 2)


def membership(released: Floats, trained: Floats, others: Floats) -> float:
    r"""Return the AUC of an attack that calls a window a member if a released one is near.

    .. math:: P(d(x, R) < d(x', R)) + \tfrac12 P(d(x, R) = d(x', R))

    for a training window :math:`x` and another one :math:`x'`; 0.5 where there is nothing to compare.
    """
    if not (len(released) and len(trained) and len(others)):
        return 0.5
    thinned = (part[:: max(1, len(part) // MOST_WINDOWS)] for part in (trained, others))
    member, stranger = (nearest_distance(part, released) for part in thinned)
    gap = np.sign(stranger[None, :] - member[:, None])
    return float((gap.mean() + 1) / 2)


def nearest_distance(windows: Floats, among: Floats) -> Floats:
    """Return the root mean square distance of each window to the nearest of others, ``(windows,)``."""
    found = np.full(len(windows), np.inf)
    if not len(among):
        return found
    flat, others = windows.reshape(len(windows), -1), among.reshape(len(among), -1)
    norms = (others**2).sum(axis=1)
    for first in range(0, len(flat), 256):
        part = flat[first : first + 256]
        squares = (part**2).sum(axis=1)[:, None] + norms - 2 * part @ others.T
        found[first : first + 256] = np.sqrt(np.maximum(squares.min(axis=1), 0) / flat.shape[1])
    return found
