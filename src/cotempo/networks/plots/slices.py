"""`plot_slices`: one column of variables per time step, with arrows into the newest."""

from collections.abc import Iterator

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch
from matplotlib.path import Path
from numpy.typing import NDArray

from cotempo.networks.metrics import check_comparable
from cotempo.networks.network import Network

# Colours that stay apart for colour-blind readers; the marker shows the same in black and white.
STATUSES = {
    "correct": ("#009E73", "o"),
    "reversed": ("#CC79A7", "D"),
    "extra": ("#E69F00", "P"),
    "missing": ("#444444", "x"),
}

_PLAIN = "#4477AA"
_NODE_GAP = 0.05  # between the middle of a dot and the tip of an arrow, in columns


def plot_slices(network: Network, ax: Axes | None = None, truth: Network | None = None) -> Axes:
    """Draw the network as time slices.

    Effects of the past are straight arrows into the newest slice; effects inside it are arcs on its right, and the
    variables are ordered so that true arcs point down. Wide arrows are strong effects, dashed ones negative.

    Parameters
    ----------
    network : Network
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure when left out.
    truth : Network, optional
        Colours the arrows correct, reversed or extra, and adds those that are missing.

    Examples
    --------
    >>> network = Network([[0.0, 0.5], [0.0, 0.0]], [[[0.4, 0.0], [0.0, 0.0]]])
    >>> len(plot_slices(network).patches)
    2
    """
    count = len(network.variables)
    if ax is None:
        ax = _new_axes(network, truth is not None)
    rows = _rows(network if truth is None else truth)
    crowding = min(1.0, 12 / count) ** 0.5
    for lag, source, target, weight, colour in _arrows(network, truth):
        ax.add_patch(
            FancyArrowPatch(
                path=_route(lag, rows[source], rows[target], count),
                arrowstyle="-|>",
                mutation_scale=4 + 7 * crowding,
                linewidth=(0.5 + 3.0 * min(abs(weight), 1.0)) * crowding,
                linestyle=(0, (4, 2)) if weight < 0 else "-",
                color=colour,
                zorder=1,
            )
        )
    _draw_nodes(ax, network, rows)
    return ax


def _new_axes(network: Network, marked: bool) -> Axes:
    height = max(3.0, 0.2 * len(network.variables) + 1.2)
    figure = Figure(figsize=(4.0 + 1.6 * network.lags, height), layout="constrained")
    if marked:
        figure.legend(handles=legend_handles(), loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    return figure.add_subplot()


def _rows(network: Network) -> list[int]:
    """Place every variable on a row, so that arrows inside the time step point down where they can."""
    edges = network.within != 0
    left = list(range(len(edges)))
    rows = [0] * len(edges)
    for row in range(len(edges)):
        # In a cyclic network nobody may be free of parents: then the one with the fewest goes first.
        first = min(left, key=lambda variable: (int(edges[left, variable].sum()), variable))
        rows[first] = row
        left.remove(first)
    return rows


def _arrows(network: Network, truth: Network | None) -> Iterator[tuple[int, int, int, float, str]]:
    weights = network.stacked
    if truth is None:
        for lag, source, target in np.argwhere(weights != 0).tolist():
            yield lag, source, target, float(weights[lag, source, target]), _PLAIN
        return
    status, true_weights = edge_status(network, truth), truth.stacked
    for lag, source, target in np.argwhere(status != "").tolist():
        kind = str(status[lag, source, target])
        shown = true_weights if kind == "missing" else weights
        yield lag, source, target, float(shown[lag, source, target]), STATUSES[kind][0]


def _route(lag: int, start: int, end: int, count: int) -> Path:
    if lag > 1:
        # A slight bow keeps the arrow off the dots of the slices it passes.
        corners = [(-lag + _NODE_GAP, -start), (-lag / 2, 0.7 - (start + end) / 2), (-_NODE_GAP, -end)]
        return Path(corners, [Path.MOVETO, Path.CURVE3, Path.CURVE3])
    if lag == 1:
        return Path([(-1 + _NODE_GAP, -start), (-_NODE_GAP, -end)], [Path.MOVETO, Path.LINETO])
    # Long arcs reach further out, so that they go round short ones instead of through them.
    reach = 0.2 + 1.1 * abs(end - start) / max(count - 1, 1)
    corners = [(_NODE_GAP, -start), (reach, -start), (reach, -end), (_NODE_GAP, -end)]
    return Path(corners, [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4])


def _draw_nodes(ax: Axes, network: Network, rows: list[int]) -> None:
    count, lags = len(network.variables), network.lags
    size = 9.0 if count <= 12 else max(4.5, 9.0 * (12 / count) ** 0.5)
    for lag in range(lags + 1):
        ax.scatter([-lag] * count, [-row for row in rows], s=size**2 / 2, color="#222222", zorder=2)
        ax.text(-lag, 0.9, "t" if lag == 0 else f"t − {lag}", ha="center", va="bottom", fontsize=9)
    for name, row in zip(network.variables, rows, strict=True):
        ax.text(-lags - 0.08, -row, name, ha="right", va="center", fontsize=size)
    ax.set_xlim(-lags - 0.35, 1.15)
    ax.set_ylim(-count + 0.4, 1.2 + 0.03 * count)
    ax.set_axis_off()


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
    check_comparable(found, truth)
    have, want = found.stacked != 0, truth.stacked != 0
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
