"""`plot_slices` and `plot_networks`: a network as time slices and as matrices, edges marked against the truth."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch
from matplotlib.path import Path
from numpy.typing import NDArray
from scipy.stats import rankdata

from cotempo.drawing.style import BLUE, GREEN, INK, MUTED, ORANGE, PURPLE, RULE, make_panels, show_dates, styled
from cotempo.drawing.svg import NARROW
from cotempo.networks.forecast import NetworkForecast
from cotempo.networks.metrics import comparable
from cotempo.networks.network import Network
from cotempo.typing import Bools

# The marker shows the same in black and white.
STATUSES = {"correct": (GREEN, "o"), "reversed": (PURPLE, "D"), "extra": (ORANGE, "P"), "missing": (MUTED, "x")}
SIGNS = {"positive": (BLUE, "o"), "negative": (ORANGE, "s")}

LINES = "\nlines: which way is not told"
_MOST_VARIABLES_AS_SLICES = 15
_MOST_VARIABLES = 24  # of a matrix: more names cannot be read on a phone
_MOST_ARROWS = 24  # of edges between different variables; a hairball says nothing
_NODE_GAP = 0.05  # between the middle of a dot and the tip of an arrow, in columns


@styled
def plot_networks(found: Network, truth: Network | None = None, undirected: Bools | None = None) -> Figure:
    """Draw a network, its edges marked correct, reversed, extra or missing where the true one is known.

    Matrices have sources as rows and targets as columns, one matrix per lag (0 is inside the time step); the larger a
    mark, the stronger the edge. The time slices with their arrows come first; of more than 15 variables arrows cross
    too often to be read, and those with the strongest edges are drawn. Matrices have at most 24. `undirected`,
    ``[source, target]``, says where the direction within a step is not told.
    """
    truth = truth and comparable(found, truth).standardised(found.scale)
    found = found.standardised()
    status = None if truth is None else edge_status(found, truth)
    strength = np.maximum(found.strength(), 0 if truth is None else truth.strength())
    shown, few = _strongest(strength, _MOST_VARIABLES), _strongest(strength, _MOST_VARIABLES_AS_SLICES)
    count = len(shown)
    side = max(3.3, 0.19 * count + 1.2)
    lines = -(-(found.lags + 2) // max(1, int(10.5 // side)))
    figure, panels = make_panels(found.lags + 2, columns=-(-(found.lags + 2) // lines), size=(side, side))
    open_ends = None if undirected is None else undirected[np.ix_(few, few)]
    names = [found.variables[place] for place in few]
    plot_slices(found.among(names), ax=panels[0], truth=truth and truth.among(names), undirected=open_ends)
    strongest = "" if len(few) == len(found.variables) else f" ({len(few)} with the strongest)"
    untold = "" if truth or undirected is None or not (undirected & (found.within != 0)).any() else LINES
    panels[0].set_title(f"arrows from source to target{strongest}{untold}")
    names = [found.variables[place] for place in shown]
    kinds = status if status is not None else np.select([found.stacked > 0, found.stacked < 0], [*SIGNS], "")
    for lag, axes in enumerate(panels[1:]):
        at = np.ix_([lag], shown, shown)
        _draw_matrix(axes, kinds[at][0], strength[at][0] / (strength.max() or 1.0), names)
        axes.set_title("within a step" if lag == 0 else f"{lag} step{'s' * (lag > 1)} back")
    if count < len(found.variables):
        figure.suptitle(f"the {count} of {len(found.variables)} variables with the strongest edges", fontsize=9)
    figure.legend(handles=legend_handles(SIGNS if truth is None else STATUSES), loc="outside lower center", ncols=4)
    return figure


def _strongest(strength: NDArray[Any], most: int) -> list[int]:
    """Return the variables to draw, in their order: those that share the strongest edges with others."""
    between = strength.max(axis=0) * ~np.eye(strength.shape[1], dtype=bool)
    order = np.argsort(-np.maximum(between.max(axis=0), between.max(axis=1)), kind="stable")
    return sorted(order[:most].tolist())


@styled
def plot_slices(
    network: Network, ax: Axes | None = None, truth: Network | None = None, undirected: Bools | None = None
) -> Axes:
    """Draw the network as time slices.

    Effects of the past are straight arrows into the newest slice, grey where a variable acts on itself; effects inside
    it are arcs on its right, and the variables are ordered so that true arcs point down. Wide arrows are strong
    effects, in standard deviations where these are known, dashed ones negative. Of edges between different variables
    the 24 strongest are drawn, and a line says how many are not. The truth colours them correct, reversed or extra, and
    adds those that are missing; without it, effects inside a step that are `undirected` have no tip.
    """
    truth = truth and comparable(network, truth).standardised(network.scale)
    network = network.standardised()
    count = len(network.variables)
    ax = ax or _new_axes(network, truth is not None)
    rows = _rows(network if truth is None else truth)
    crowding = min(1.0, 12 / count) ** 0.5
    arrows = list(_arrows(network, truth))
    untold = np.zeros((count, count), np.bool_) if undirected is None or truth is not None else undirected
    strength = network.strength()
    between = sorted((a for a in arrows if a[1] != a[2]), key=lambda a: -strength[a[0], a[1], a[2]])
    loops = [a if truth is not None else (*a[:4], RULE) for a in arrows if a[1] == a[2]]
    if len(between) > _MOST_ARROWS:
        left = f"{len(between) - _MOST_ARROWS} weaker edges are not drawn"
        ax.text(0.5, -0.01, left, transform=ax.transAxes, ha="center", va="top", fontsize=8, color=MUTED)
    for lag, source, target, weight, colour in [*loops, *between[:_MOST_ARROWS]]:
        ax.add_patch(
            FancyArrowPatch(
                path=_route(lag, rows[source], rows[target], count),
                arrowstyle="-" if lag == 0 and untold[source, target] else "-|>",
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
    figure, (axes,) = make_panels(1, size=(4.0 + 1.6 * network.lags, height))
    if marked:
        figure.legend(handles=legend_handles(STATUSES), loc="outside lower center", ncols=4)
    new: Axes = axes
    return new


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
        weight = float(shown.stacked[lag, source, target])
        colour = STATUSES[kind][0] if truth is not None else BLUE if weight > 0 else ORANGE
        yield lag, source, target, weight, colour


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
        ax.scatter([-lag] * count, [-row for row in rows], s=size**2 / 2, color=INK, zorder=2)
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
    truth = comparable(found, truth)
    have, want = found.stacked != 0, truth.stacked != 0
    status = np.select([have & want, have & ~want, want & ~have], ["correct", "extra", "missing"], "")
    status = status.astype("<U8")
    turned = (status[0] == "extra") & (status[0] == "missing").T
    status[0][turned] = "reversed"
    status[0][turned.T] = ""
    return status


def legend_handles(kinds: dict[str, tuple[str, str]]) -> list[Line2D]:
    """Return one marker per kind of edge, for a legend."""
    return [
        Line2D([], [], color=colour, marker=marker, label=kind, markersize=6, linestyle="")
        for kind, (colour, marker) in kinds.items()
    ]


def _draw_matrix(axes: Axes, kinds: NDArray[np.str_], strength: NDArray[Any], names: list[str]) -> None:
    """Draw a mark for each edge of a kind, its area by its strength, 1 the strongest."""
    cell = 72 * (NARROW - 1.2) / len(names)  # points
    for kind, (colour, marker) in {**SIGNS, **STATUSES}.items():
        source, target = np.nonzero(kinds == kind)
        if len(source):
            area = min(0.8 * cell, 14) ** 2 * np.clip(strength[source, target], 0.12, 1.0)
            axes.scatter(target, source, s=area, c=colour, marker=marker, linewidths=1.5 * (marker == "x"), label=kind)
    size = min(8.0, 0.95 * cell)
    axes.set_xticks(range(len(names)), names, rotation=90, fontsize=size)
    axes.set_yticks(range(len(names)), names, fontsize=size)
    axes.grid(color=RULE, linewidth=0.4)
    axes.set_axisbelow(True)
    axes.tick_params(length=0)
    axes.set(xlim=(-0.6, len(names) - 0.4), ylim=(len(names) - 0.4, -0.6), xlabel="target", ylabel="source")
    axes.set_aspect("equal")


@styled
def plot_ranks(scores: NDArray[Any], names: tuple[str, ...]) -> Figure:
    """Draw scores of pairs as a matrix, each cell by its rank; of many variables those with the surest edges."""
    off = ~np.eye(len(names), dtype=bool)
    ranks = np.full(scores.shape, np.nan)
    ranks[off] = rankdata(scores[off]) / max(off.sum(), 1)
    shown = _strongest(np.nan_to_num(ranks)[None], _MOST_VARIABLES)
    ranks = ranks[np.ix_(shown, shown)]
    figure, (axes,) = make_panels(1, size=(5.5, 5.0))
    image = axes.imshow(ranks, cmap="viridis", vmin=0.0, vmax=1.0)
    axes.set_xticks(range(len(shown)), [names[place] for place in shown], rotation=90)
    axes.set_yticks(range(len(shown)), [names[place] for place in shown])
    axes.set(xlabel="target", ylabel="source")
    if len(shown) < len(names):
        axes.set_title(f"the {len(shown)} of {len(names)} variables with the surest edges", fontsize=9)
    figure.colorbar(image, ax=axes, label="share of pairs ranked at or below", location="bottom", shrink=0.7)
    return figure


@styled
def plot_forecast(forecast: NetworkForecast) -> Figure:
    """Draw the forecast of each variable, of at most twelve, with its interval where it is known."""
    names = forecast.variables[:12]
    figure, panels = make_panels(len(names), columns=3, size=(3.2, 1.9))
    for place, (axes, name) in enumerate(zip(panels, names, strict=True)):
        for sequence in dict.fromkeys(forecast.sequence.tolist()):
            of = forecast.sequence == sequence
            time = forecast.clock.dates_of(forecast.time[of])
            if forecast.low is not None and forecast.high is not None:
                bounds = (forecast.low[of, place], forecast.high[of, place])
                axes.fill_between(time, *bounds, color=BLUE, alpha=0.2, linewidth=0)
            axes.plot(time, forecast.values[of, place], color=BLUE)
        axes.set_title(name)
        show_dates(axes, forecast.clock)
    return figure
