r"""Features that some clients lack: those who have them say what they have to do with the others.

.. math:: \ell_f = b^T \ell + e

with the levels :math:`\ell` of features that all windows with :math:`f` have, and :math:`b` by least squares over
these windows alone. What all windows say of :math:`\ell` then tells how :math:`\ell_f` varies and where it lies.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from cotempo.series.moments.moments import Units, WindowMoments
from cotempo.typing import Floats

ROWS_EACH = 10  # rows without gaps for each feature, for least squares
STILL = 1e-12  # the variance, in usual steps, of what does not move but for rounding
EQUAL = 1 - 1e-9  # counts that are equal but for rounding


def join_levels(found: Floats, moments: WindowMoments) -> None:
    """Put what levels of such features have to do with others into mean products of window moments, in place.

    Products of levels of features that all clients have must be there, and each feature's own.
    """
    for feature, known, table in _in_turn(moments):
        weights = _weights(table, feature, known, moments.counts[feature, feature])
        left = table[feature, feature] - weights @ (2 * table[known, feature] - table[np.ix_(known, known)] @ weights)
        joined = np.tensordot(weights, found[1, known], axes=1)
        variance = weights @ joined[1, known] + max(left, 0.0)
        between = np.tensordot(found[1][known][:, :, known], weights, axes=1)
        for place in range(len(found)):
            found[1, feature, place, known] = found[place, known, 1, feature] = joined[place, known]
            if place != 1:
                found[1, known, place, feature] = found[place, feature, 1, known] = between[:, place]
        scale = np.sqrt(variance / found[1, feature, 1, feature])
        found[1, feature, :, feature] *= scale
        found[:, feature, 1, feature] *= scale


def levels_of(moments: WindowMoments, own: NDArray[np.intp], lacked: NDArray[np.intp], values: Floats) -> Floats:
    """Return a client's products of levels for each feature that some lack, as `WindowMoments` has them.

    Rows without gaps say them best: where a long gap is filled at first, little is known of the level in it.
    """
    found = moments.levels_with(lacked)
    whole = values[~np.isnan(values).any(axis=1)]
    moving = int((whole.var(axis=0) > STILL).sum()) if len(whole) else 0
    if len(whole) < ROWS_EACH * max(moving, 1):
        return found
    products = np.zeros_like(moments.counts)
    products[np.ix_(own, own)] = whole.T @ whole * (moments.counts.max() / len(whole))
    return np.asarray(np.isin(lacked, own)[:, None, None] * products)


def recentre(units: Units, moments: WindowMoments, means: Floats) -> Units:
    """Move centres of such features to where they lie when the others are at theirs.

    `means` has those of all features at the clients that have a feature, ``(features, features)``.
    """
    centre = units.centre.copy()
    for feature, known, table in _in_turn(moments):
        away = (means[feature] - units.centre) / units.step
        weights = _weights(table - np.outer(away, away), feature, known, moments.counts[feature, feature])
        centre[feature] += units.step[feature] * (weights @ ((centre - means[feature]) / units.step)[known])
    return Units(centre, units.step)


def _in_turn(moments: WindowMoments) -> Iterator[tuple[int, list[int], Floats]]:
    """Yield each such feature, those before it that its windows have, and mean products of levels in its windows."""
    counts, own = moments.counts, moments.counts.diagonal()
    done = [int(place) for place in np.flatnonzero(own >= own.max(initial=0.0) * EQUAL)]
    for row in np.argsort(-own[moments.lacked], kind="stable").tolist():
        feature, table = int(moments.lacked[row]), moments.levels[row]
        # What never moves tells of no level.
        moving = table.diagonal() > STILL * own[feature]
        known = [place for place in done if counts[feature, place] >= own[feature] * EQUAL and moving[place]]
        if feature in done or not known or table[feature, feature] <= 0:
            continue
        yield feature, known, table / own[feature]
        done.append(feature)


def _weights(table: Floats, feature: int, known: list[int], windows: float) -> Floats:
    """Return least squares' weights of levels, shrunk as by a window for each."""
    among = table[np.ix_(known, known)]
    size = np.where(among.diagonal() > 0, among.diagonal(), 1.0)
    return np.asarray(np.linalg.solve(among + np.diag(size * len(known) / windows), table[known, feature]))
