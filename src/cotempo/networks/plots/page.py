"""`plot_networks`: time slices and matrices of a network, found beside true."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure, SubFigure
from matplotlib.image import AxesImage
from numpy.typing import NDArray

from cotempo.networks.network import Network
from cotempo.networks.plots.slices import STATUSES, edge_status, legend_handles, plot_slices
from cotempo.typing import Floats

_MOST_VARIABLES_AS_SLICES = 20


def plot_networks(found: Network, truth: Network | None = None) -> Figure:
    """Draw a network, beside the true one when it is known.

    Matrices have sources as rows and targets as columns, one matrix per lag (0 is inside the time step). With a
    truth every edge is marked correct, reversed, extra or missing. Up to 20 variables the time slices with their
    arrows stand above; beyond that arrows cross too often to be read.

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
    networks = {"found": found} if truth is None else {"found": found, "true": truth}
    status = None if truth is None else edge_status(found, truth)
    with_slices = len(found.variables) <= _MOST_VARIABLES_AS_SLICES
    side = 2.6 + 0.08 * len(found.variables)
    height = side * (len(networks) + with_slices)
    figure = Figure(figsize=(side * (found.lags + 1) + 1.4, height + 0.6), layout="constrained")
    if with_slices:
        upper, lower = figure.subfigures(2, 1, squeeze=False, height_ratios=[1, len(networks)])[:, 0]
        _fill_slices(upper, networks, truth)
        _fill_matrices(lower, networks, status)
    else:
        _fill_matrices(figure, networks, status)
    if truth is not None:
        figure.legend(handles=legend_handles(), loc="outside lower center", ncols=4, frameon=False)
    return figure


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
        if marker == "x":
            axes.scatter(target, source, s=side**2, c=colour, marker=marker, linewidths=1.5)
        else:
            axes.scatter(target, source, s=side**2, c=colour, marker=marker, edgecolors="white", linewidths=0.4)
