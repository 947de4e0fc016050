"""Sums over joint rows, seen in one or several ways: all rows, blocks of them, or other centrings.

A view is a count, column sums and a Gram matrix; views of two clients add up to the view of both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

BLOCKS = 5

#: A column whose variance is below this share of its mean square does not vary but for rounding.
FLAT = 1e-10


class Views(NamedTuple):
    """Summed moments, one row a view.

    Attributes
    ----------
    rows : (views,)
        Rows, less the means that were already taken off.
    sums : (views, columns)
    gram : (views, columns, columns)
        ``sum_t z_t z_t'``.
    """

    rows: FloatArray
    sums: FloatArray
    gram: FloatArray

    def scatter(self, view: int = 0) -> FloatArray:
        """Return the Gram of one view about its mean; a flat column is given variance one and no covariance."""
        scatter: FloatArray = self.gram[view] - np.outer(self.sums[view], self.sums[view]) / self.rows[view]
        flat = scatter.diagonal() <= FLAT * self.gram[view].diagonal()
        scatter[flat] = scatter[:, flat] = 0.0
        scatter[flat, flat] = self.rows[view]
        return scatter

    def total(self) -> Views:
        """Return the sum of all views as one view."""
        return Views(*(part.sum(axis=0, keepdims=True) for part in self))


def whole(pieces: Sequence[FloatArray]) -> Views:
    """Sum all complete rows.

    Examples
    --------
    >>> import numpy as np
    >>> found = whole([np.array([[1.0], [3.0]])])
    >>> found.rows.tolist(), found.scatter().tolist()
    ([2.0], [[2.0]])
    """
    return _stack([complete(np.vstack(pieces))])


def blocks(pieces: Sequence[FloatArray]) -> Views:
    """Sum complete rows in five consecutive blocks."""
    return _stack(np.array_split(complete(np.vstack(pieces)), BLOCKS))


def centrings(pieces: Sequence[FloatArray], times: Sequence[FloatArray], perturbed_until: float | None) -> Views:
    """Sum complete rows three ways: all of them, about the mean of their piece and phase, and after the perturbation.

    Without a perturbation every piece is one phase, and there are two ways.

    Parameters
    ----------
    pieces : sequence of (rows, columns)
        Joint rows of contiguous pieces.
    times : sequence of (rows,)
        Their times.
    perturbed_until : float or None
        Rows up to this time are the first phase, later ones the relaxation.
    """
    until = np.inf if perturbed_until is None else perturbed_until
    early = [complete(rows[time <= until]) for rows, time in zip(pieces, times, strict=True)]
    late = [complete(rows[time > until]) for rows, time in zip(pieces, times, strict=True)]
    phases = [rows for rows in (*early, *late) if len(rows)]
    everything, after = np.vstack(phases), np.vstack(late)
    centred = np.vstack([rows - rows.mean(axis=0) for rows in phases])
    found = _stack([everything, centred] if perturbed_until is None else [everything, centred, after])
    found.rows[1] -= len(phases)
    found.sums[1] = 0.0  # but for rounding it is
    return found


def complete(rows: FloatArray) -> FloatArray:
    """Return the rows without a missing cell."""
    kept: FloatArray = rows[~np.isnan(rows).any(axis=1)]
    return kept


def _stack(parts: Sequence[FloatArray]) -> Views:
    return Views(
        np.array([float(len(part)) for part in parts]),
        np.stack([part.sum(axis=0) for part in parts]),
        np.stack([part.T @ part for part in parts]),
    )
