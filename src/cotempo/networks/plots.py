"""`plot_slices` and `plot_networks`: a network as time slices and as matrices, edges marked against the truth."""

from collections.abc import Iterator

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure, SubFigure
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch
from matplotlib.path import Path
from numpy.typing import NDArray

from cotempo.figures import PlainFigure
from cotempo.networks.metrics import check_comparable
from cotempo.networks.network import Network
from cotempo.typing import Floats

# Colours that stay apart for colour-blind readers; the marker shows the same in black and white.
STATUSES = {
    "correct": ("#009E73", "o"),
    "reversed": ("#CC79A7", "D"),
    "extra": ("#E69F00", "P"),
    "missing": ("#444444", "x"),
}

_PLAIN = "#4477AA"
_MOST_VARIABLES_AS_SLICES = 20
_MOST_ARROWS = 24  # of edges between different variables; a hairball says nothing
_LOOP = "#BBBBBB"
_NODE_GAP = 0.05  # between the middle of a dot and the tip of an arrow, in columns


def plot_networks(found: Network, truth: Network | None = None) -> Figure:
    """Draw a network, beside the true one when it is known.

    Matrices have sources as rows and targets as columns, one matrix per lag (0 is inside the time step). With a
    truth every edge is marked correct, reversed, extra or missing. Up to 20 variables the time slices with their
    arrows stand above; beyond that arrows cross too often to be read. Weights are in standard deviations, so that units
    do not matter.
    """
    found, truth = found.standardised(), truth and truth.standardised(found.scale)
    networks = {"found": found} if truth is None else {"found": found, "true": truth}
    status = None if truth is None else edge_status(found, truth)
    with_slices = len(found.variables) <= _MOST_VARIABLES_AS_SLICES
    side = 2.6 + 0.08 * len(found.variables)
    height = side * (len(networks) + with_slices)
    figure = PlainFigure(figsize=(side * (found.lags + 1) + 1.4, height + 0.6), layout="constrained")
    lower: Figure | SubFigure = figure
    if with_slices:
        upper, lower = figure.subfigures(2, 1, squeeze=False, height_ratios=[1, len(networks)])[:, 0]
        _fill_slices(upper, networks, truth)
    _fill_matrices(lower, networks, status)
    if truth is not None:
        figure.legend(handles=legend_handles(), loc="outside lower center", ncols=4, frameon=False)
    return figure


def plot_slices(network: Network, ax: Axes | None = None, truth: Network | None = None) -> Axes:
    """Draw the network as time slices.

    Effects of the past are straight arrows into the newest slice, grey where a variable acts on itself; effects inside
    it are arcs on its right, and the variables are ordered so that true arcs point down. Wide arrows are strong
    effects, in standard deviations where these are known, dashed ones negative. Of edges between different variables
    the 24 strongest are drawn, and a line says how many are not. The truth colours them correct, reversed or extra, and
    adds those that are missing.
    """
    network, truth = network.standardised(), truth and truth.standardised(network.scale)
    count = len(network.variables)
    ax = ax or _new_axes(network, truth is not None)
    rows = _rows(network if truth is None else truth)
    crowding = min(1.0, 12 / count) ** 0.5
    arrows = list(_arrows(network, truth))
    strength = network.strength()
    between = sorted((a for a in arrows if a[1] != a[2]), key=lambda a: -strength[a[0], a[1], a[2]])
    loops = [a if truth is not None else (*a[:4], _LOOP) for a in arrows if a[1] == a[2]]
    if len(between) > _MOST_ARROWS:
        left = len(between) - _MOST_ARROWS
        ax.text(
            0.5,
            -0.01,
            f"{left} weaker edges are not drawn",
            transform=ax.transAxes,
            ha="center",
            va="top",
            fontsize=8,
            color="#666666",
        )
    for lag, source, target, weight, colour in [*loops, *between[:_MOST_ARROWS]]:
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
    figure = PlainFigure(figsize=(4.0 + 1.6 * network.lags, height), layout="constrained")
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
    true = network if truth is None else truth
    status = edge_status(network, true)
    for lag, source, target in np.argwhere(status != "").tolist():
        kind = str(status[lag, source, target])
        shown = true if kind == "missing" else network
        colour = _PLAIN if truth is None else STATUSES[kind][0]
        yield lag, source, target, float(shown.stacked[lag, source, target]), colour


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


def _fill_slices(part: SubFigure, networks: dict[str, Network], truth: Network | None) -> None:
    panels = part.subplots(1, len(networks), squeeze=False)[0]
    for axes, (name, network) in zip(panels, networks.items(), strict=True):
        # The true network is drawn against itself, so that the same edge has the same colour and place in both.
        plot_slices(network, ax=axes, truth=truth)
        axes.set_title(f"{name}: time slices", fontsize=10)


def _fill_matrices(part: Figure | SubFigure, networks: dict[str, Network], status: NDArray[np.str_] | None) -> None:
    weights = {name: network.stacked for name, network in networks.items()}
    limit = max(float(np.abs(stacked).max(initial=0.0)) for stacked in weights.values()) or 1.0
    lags = len(weights["found"])
    panels = part.subplots(len(networks), lags, squeeze=False)
    for row, (name, network) in zip(panels, networks.items(), strict=True):
        for lag, axes in enumerate(row):
            image = _draw_matrix(axes, weights[name][lag], network.variables, limit)
            axes.set_title(f"{name}: {'within a step' if lag == 0 else f'{lag} back'}", fontsize=10)
            if status is not None and name == "found":
                _mark_cells(axes, status[lag])
    for axes in panels[-1]:
        axes.set_xlabel("target", fontsize=8)
    for axes in panels[:, 0]:
        axes.set_ylabel("source", fontsize=8)
    part.colorbar(image, ax=panels, label="weight", shrink=0.5, aspect=30)


def _draw_matrix(axes: Axes, weights: Floats, names: tuple[str, ...], limit: float) -> AxesImage:
    image = axes.imshow(weights, cmap="RdBu_r", norm=Normalize(-limit, limit), interpolation="nearest")
    count = len(names)
    size = min(8.0, max(4.0, 270 / count))
    axes.set_xticks(range(count), names, rotation=90, fontsize=size)
    axes.set_yticks(range(count), names, fontsize=size)
    # Two collections of lines, because a grid on minor ticks costs a second of drawing at 50 variables.
    edges = np.arange(1, count) - 0.5
    axes.vlines(edges, -0.5, count - 0.5, color="#dddddd", linewidth=0.4)
    axes.hlines(edges, -0.5, count - 0.5, color="#dddddd", linewidth=0.4)
    axes.tick_params(length=0)
    return image


def _mark_cells(axes: Axes, status: NDArray[np.str_]) -> None:
    size = min(7.0, 200 / len(status))
    for name, (colour, marker) in STATUSES.items():
        source, target = np.nonzero(status == name)
        # Errors are what a reader looks for: they may stand out over their cell.
        side = size if name == "correct" else 1.5 * size
        line = {"linewidths": 1.5} if marker == "x" else {"linewidths": 0.4, "edgecolors": "white"}
        axes.scatter(target, source, s=side**2, c=colour, marker=marker, **line)
