"""`edge_status`: whether edges are correct, reversed, extra or missing, and the colours for it."""

from __future__ import annotations

import numpy as np
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from cotempo.errors import DataError
from cotempo.networks.arrays import FloatArray
from cotempo.networks.network import Network

# Colours that stay apart for colour-blind readers; the marker says the same again in black and white.
STATUSES = {
    "correct": ("#009E73", "o"),
    "reversed": ("#CC79A7", "D"),
    "extra": ("#E69F00", "P"),
    "missing": ("#444444", "x"),
}


def stack(network: Network) -> FloatArray:
    """Return all weights as one array, ``(1 + lags, variables, variables)``, lag 0 first."""
    return np.concatenate([network.within[None], network.across])


def edge_status(found: Network, truth: Network) -> NDArray[np.str_]:
    """Return the status of every cell, ``(1 + lags, variables, variables)``; empty where neither has an edge.

    A reversed edge is marked once, where it was found. Only lag 0 has reversed edges.

    Examples
    --------
    >>> truth = Network([[0.0, 0.5], [0.0, 0.0]], [[[0.4, 0.0], [0.0, 0.0]]])
    >>> found = Network([[0.0, 0.0], [0.5, 0.0]], [[[0.4, 0.0], [0.0, 0.0]]])
    >>> edge_status(found, truth).tolist()
    [[['', ''], ['reversed', '']], [['correct', ''], ['', '']]]
    """
    if found.variables != truth.variables or found.lags != truth.lags:
        raise DataError(
            "found and true network must have the same variables, in the same order, and lags; got "
            f"{found.variables} with {found.lags} lags and {truth.variables} with {truth.lags}"
        )
    have, want = stack(found) != 0, stack(truth) != 0
    status = np.select([have & want, have & ~want, want & ~have], ["correct", "extra", "missing"], "")
    status = status.astype("<U8")
    turned = (status[0] == "extra") & (status[0] == "missing").T
    status[0][turned] = "reversed"
    status[0][turned.T] = ""
    return status


def legend_handles() -> list[Line2D]:
    """Return one marker per status, for a legend."""
    return [
        Line2D([], [], color=colour, marker=marker, label=status, markersize=6, linewidth=1.5)
        for status, (colour, marker) in STATUSES.items()
    ]
