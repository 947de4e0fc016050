"""What the squared loss needs to know of a client's series: a count, column sums and a Gram matrix.

Rows are transitions ``z_t = [x_t, x_{t-1}, ..., x_{t-p}]``, so one joint matrix of side ``(p + 1) d`` holds
S, M and N of the papers: ``[[S, M], [M', N]]``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cotempo.errors import DataError
from cotempo.networks.transitions import transitions

FloatArray = NDArray[np.float64]


#: Digits of a scaled Gram. Units leave traces in the last ones, and where two graphs are as good as each other such a
#: trace would decide between them.
DIGITS = 10


class Moments(NamedTuple):
    """First and second moments of transitions, about the rows' own mean.

    The scatter about the own mean, not the raw Gram, is kept: shifting it to another mean adds a square and
    subtracts nothing, so means a million times the spread cost no digits.

    Attributes
    ----------
    rows : int
        Number of complete transitions.
    sums : (side,)
        Column sums.
    scatter : (side, side)
        ``sum_t (z_t - mean)(z_t - mean)'``.
    """

    rows: int
    sums: FloatArray
    scatter: FloatArray

    @property
    def gram(self) -> FloatArray:
        """The uncentred Gram matrix ``sum_t z_t z_t'``, which simply adds up over clients."""
        return self.scatter + np.outer(self.sums, self.sums) / max(self.rows, 1)


def moments(pieces: Iterable[FloatArray], lags: int) -> Moments:
    """Sum up all transitions inside contiguous pieces; none crosses from one piece to the next.

    Parameters
    ----------
    pieces : iterable of (times, variables)
        Contiguous stretches of series. A transition with a missing cell is dropped.
    lags : int
        p, at least 0.

    Examples
    --------
    >>> import numpy as np
    >>> found = moments([np.array([[1.0], [2.0], [3.0]])], lags=1)
    >>> found.rows, found.sums.tolist(), found.gram.tolist()
    (2, [5.0, 3.0], [[13.0, 8.0], [8.0, 5.0]])
    """
    blocks = [transitions(np.asarray(piece, dtype=np.float64), lags) for piece in pieces]
    if not blocks:
        raise DataError("moments need at least one piece of a series; none was given: pass the client's series")
    joined = np.vstack(blocks)
    sums = joined.sum(axis=0)
    deviations = joined - sums / max(len(joined), 1)
    return Moments(len(joined), sums, deviations.T @ deviations)


def centre(own: Moments, mean: FloatArray, scale: FloatArray | None = None) -> FloatArray:
    """Return the Gram per row about a pooled mean, ``scatter / n + (m - mean)(m - mean)'`` with own mean m.

    Clients are centred by the POOLED mean: each one's own mean would remove differences between clients that
    the model must explain, and no mean at all bends every weight.

    Parameters
    ----------
    own : Moments
        One client's moments, with at least one row.
    mean : (side,)
        The pooled mean of the joint columns; zeros leave the Gram uncentred.
    scale : (side,), optional
        The pooled standard deviations, to divide the columns by. The result is then rounded to `DIGITS` digits.

    Examples
    --------
    >>> import numpy as np
    >>> own = moments([np.array([[1.0], [3.0]])], lags=0)
    >>> centre(own, mean=np.array([1.0])).item(), centre(own, np.array([1.0]), scale=np.array([2.0])).item()
    (2.0, 0.5)
    """
    if own.rows == 0:
        raise DataError("at least one complete transition must be left; every row misses a cell or none was given")
    shift = own.sums / own.rows - mean
    gram = own.scatter / own.rows + np.outer(shift, shift)
    return gram if scale is None else np.round(gram / np.outer(scale, scale), DIGITS)
