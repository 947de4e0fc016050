"""Pictures of a network: time slices with arrows, and matrices, found beside true."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch
from numpy.typing import NDArray

from cotempo.errors import DataError
from cotempo.networks.acyclicity import edges_on_cycles
from cotempo.networks.network import Network

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

# Colours that stay apart for colour-blind readers; the marker says the same again in black and white.
_STATUSES = {
    "correct": ("#009E73", "o"),
    "reversed": ("#CC79A7", "D"),
    "extra": ("#E69F00", "P"),
    "missing": ("#000000", "x"),
}
_PLAIN = "#4477AA"
_MOST_VARIABLES_AS_SLICES = 20


def plot_networks(found: Network, truth: Network | None = None) -> Figure:
    """Draw a network, beside the true one when it is known.

    One column per lag (0 is inside the time step), one row of matrices per network, rows being sources and
    columns targets. With a truth every edge is marked correct, reversed, extra or missing. Up to 20 variables the
    time slices with their arrows stand above.

    Parameters
    ----------
    found, truth : Network
        With the same variables and lags.

    Returns
    -------
    matplotlib.figure.Figure
        Free of global state; ``figure.savefig("network.png")`` writes it.

    Examples
    --------
    >>> network = Network([[0.0, 0.5], [0.0, 0.0]], [[[0.4, 0.0], [0.0, 0.0]]])
    >>> len(plot_networks(network, truth=network).legends)
    1
    """
    if truth is not None:
        _check_same(found, truth)
    networks = {"found": found} if truth is None else {"found": found, "true": truth}
    count = len(found.variables)
    slices = count <= _MOST_VARIABLES_AS_SLICES
    columns = max(found.lags + 1, len(networks)) if slices else found.lags + 1
    side = 3.2 + 0.05 * count
    heights = ([side * 1.25] if slices else []) + [side] * len(networks)
    figure = Figure(figsize=(side * columns + 0.8, sum(heights) + 0.9), layout="constrained")
    parts = figure.subfigures(1 + slices, 1, height_ratios=[side * 1.25, side * len(networks)][1 - slices :])
    page = list(np.atleast_1d(parts))
    if slices:
        for axes, (name, network) in zip(page[0].subplots(1, len(networks), squeeze=False)[0], networks.items(), strict=True):
            plot_slices(network, ax=axes, truth=truth if name == "found" else None)
            axes.set_title(f"{name}: time slices", fontsize=10)
    grid = page[-1].subplots(len(networks), found.lags + 1, squeeze=False)
    limit = max(float(np.abs(_stack(network)).max(initial=0.0)) for network in networks.values()) or 1.0
    for row, (name, network) in zip(grid, networks.items(), strict=True):
        for lag, axes in enumerate(row):
            image = _draw_matrix(axes, network, lag, limit)
            axes.set_title(f"{name}: {_lag_title(lag)}", fontsize=10)
            if truth is not None and name == "found":
                _mark_cells(axes, found, truth, lag)
    page[-1].colorbar(image, ax=grid, label="weight", shrink=0.6, aspect=30)
    if truth is not None:
        figure.legend(handles=_legend(), loc="outside lower center", ncols=4, frameon=False)
    return figure


def plot_slices(network: Network, ax: Axes | None = None, truth: Network | None = None) -> Axes:
    """Draw the network as time slices: a column of variables per time step, arrows into the last one.

    Variables are ordered so that arrows inside the time step point down. Wider arrows are stronger effects; dashed
    ones are negative.

    Parameters
    ----------
    network : Network
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure when left out.
    truth : Network, optional
        Colours the arrows correct, reversed or extra, and adds those that are missing.
    """
    if truth is not None:
        _check_same(network, truth)
    count, lags = len(network.variables), network.lags
    if ax is None:
        figure = Figure(figsize=(3.5 + 1.2 * lags, max(3.0, 0.22 * count + 1.0)), layout="constrained")
        ax = figure.add_subplot()
        if truth is not None:
            figure.legend(handles=_legend(), loc="outside lower center", ncols=2, frameon=False, fontsize=8)
    order = _drawing_order(network if truth is None else truth)
    height = {variable: -float(place) for place, variable in enumerate(order)}
    bend = 0.9 / max(count - 1, 1)
    for lag, source, target, weight, colour in _arrows(network, truth):
        distance = height[target] - height[source]
        ax.add_patch(
            FancyArrowPatch(
                (-lag, height[source]),
                (0.0, height[target]),
                connectionstyle=f"arc3,rad={0.0 if lag else 0.35 * np.sign(distance)}" if count <= 8 or lag else _arc(distance, bend),
                arrowstyle="-|>",
                mutation_scale=9 if count <= 20 else 6,
                shrinkA=5, shrinkB=5,
                linewidth=(0.6 + 2.5 * min(abs(weight), 1.0)) * (1.0 if count <= 20 else 0.6),
                linestyle="--" if weight < 0 else "-",
                color=colour, alpha=0.8, zorder=1,
            )
        )
    return ax
