"""Pictures: windows, overlays of real and generated ones, gaps with bands, and the parts of a series."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from cotempo.data import Series
from cotempo.errors import ParameterError
from cotempo.series.fitted import Imputed
from cotempo.series.windows import SeriesRows

REAL, MADE, GAP = "#1f5fa8", "#c8553d", "#777777"
MOST_FEATURES = 8


def plot_samples(synthetic: Series, real: Series | None = None, count: int = 20) -> Figure:
    """Draw generated windows, above real ones of the same length and features where they are given.

    Examples
    --------
    >>> series = Series.from_arrays([np.ones((4, 2)), np.zeros((4, 2))])
    >>> len(plot_samples(series, series).axes)
    4
    """
    features = synthetic.features[:MOST_FEATURES]
    length = min(SeriesRows.of(synthetic).lengths)
    tables = {"generated": (synthetic, MADE), **({} if real is None else {"real": (real, REAL)})}
    figure = Figure(figsize=(2.4 * len(features), 2.0 * len(tables)), layout="constrained")
    panels = figure.subplots(len(tables), len(features), squeeze=False, sharey="col")
    for row, (name, (table, colour)) in zip(panels, tables.items(), strict=True):
        for axes, feature in zip(row, features, strict=True):
            column = table.features.index(feature)
            windows = SeriesRows.of(table).windows(length)[..., column]
            axes.plot(windows[:: max(1, len(windows) // count)].T, color=colour, alpha=0.35, linewidth=0.8)
            _tidy(axes, f"{feature}, {name}")
    return figure


def plot_overlay(
    real: NDArray[np.float64], synthetic: NDArray[np.float64], kind: Literal["pca", "tsne", "density"] = "pca"
) -> Figure:
    """Lay generated windows over real ones, both ``(windows, length, features)``, in the plane or as densities.

    Examples
    --------
    >>> windows = np.random.default_rng(0).normal(size=(20, 6, 2))
    >>> len(plot_overlay(windows, windows).axes)
    1
    """
    if kind not in ("pca", "tsne", "density"):
        raise ParameterError(f"kind must be 'pca', 'tsne' or 'density', got {kind!r}")
    figure = Figure(figsize=(4.2, 3.6), layout="constrained")
    axes = figure.subplots()
    if kind == "density":
        bins = np.linspace(min(real.min(), synthetic.min()), max(real.max(), synthetic.max()), 60)
        for windows, colour, name in ((real, REAL, "real"), (synthetic, MADE, "generated")):
            axes.hist(windows.ravel(), bins.tolist(), density=True, histtype="step", color=colour, label=name)
        _tidy(axes, "values", "density of all cells")
    else:
        first, second = _plane(real, synthetic, kind)
        axes.scatter(first[:, 0], first[:, 1], s=7, color=REAL, alpha=0.5, label="real", linewidths=0)
        axes.scatter(second[:, 0], second[:, 1], s=7, color=MADE, alpha=0.5, label="generated", linewidths=0)
        _tidy(axes, f"windows, {'principal components' if kind == 'pca' else 't-SNE'}")
    axes.legend(frameon=False, fontsize=8)
    return figure


def plot_gaps(series: Series, imputed: Imputed, truth: Series | None = None) -> Figure:
    """Draw the first sequence of a series with its gaps filled, the interval of several draws, and the truth if known.

    Examples
    --------
    >>> series = Series.from_arrays([[0.0], [float("nan")], [1.0]])
    >>> filled = Imputed(series.features, series.sequence, series.time, [[0.0], [0.5], [1.0]])
    >>> len(plot_gaps(series, filled).axes)
    1
    """
    rows = series.sequence == series.sequence[0]
    features = series.features[:MOST_FEATURES]
    figure = Figure(figsize=(8, 1.6 * len(features) + 0.4), layout="constrained")
    time = series.time[rows]
    for axes, feature in zip(figure.subplots(len(features), squeeze=False)[:, 0], features, strict=True):
        column = series.features.index(feature)
        gone = np.isnan(series.values[rows, column])
        filled = imputed.values[rows, column]
        if imputed.low is not None and imputed.high is not None:
            axes.fill_between(
                time, imputed.low[rows, column], imputed.high[rows, column], color=MADE, alpha=0.25, linewidth=0,
                label="interval",
            )  # fmt: skip
        axes.plot(time, filled, color=MADE, linewidth=0.8, label="filled")
        if truth is not None:
            axes.plot(time[gone], truth.values[rows, column][gone], "x", color=GAP, markersize=4, label="truth")
        axes.plot(time[~gone], series.values[rows, column][~gone], ".", color=REAL, markersize=4, label="measured")
        _tidy(axes, feature)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, fontsize=8, ncols=4, loc="outside upper center")
    return figure


def plot_parts(parts: Mapping[str, Series], feature: str | None = None) -> Figure:
    """Draw what `SeriesModel.decompose` found for one feature of the first sequence.

    Examples
    --------
    >>> series = Series.from_arrays([[0.0], [1.0]])
    >>> len(plot_parts({"trend": series, "season": series, "residual": series}).axes)
    4
    """
    first = next(iter(parts.values()))
    name = feature or first.features[0]
    column, rows = first.features.index(name), first.sequence == first.sequence[0]
    figure = Figure(figsize=(8, 1.5 * (len(parts) + 1)), layout="constrained")
    panels = figure.subplots(len(parts) + 1, sharex=True)
    lines = {name: sum(part.values for part in parts.values()), **{key: part.values for key, part in parts.items()}}
    for axes, (title, values) in zip(panels, lines.items(), strict=True):
        axes.plot(first.time[rows], np.asarray(values)[rows, column], color=REAL, linewidth=0.9)
        _tidy(axes, title)
    return figure


def _plane(
    real: NDArray[np.float64], synthetic: NDArray[np.float64], kind: str
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Both sets of windows in the plane; t-SNE places them together."""
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE

    first, second = real.reshape(len(real), -1), synthetic.reshape(len(synthetic), -1)
    if kind == "pca":
        plane = PCA(2, random_state=0).fit(first)
        return plane.transform(first), plane.transform(second)
    both = np.concatenate([first, second])
    placed = TSNE(2, perplexity=min(30, (len(both) - 1) / 3), random_state=0).fit_transform(both)
    return placed[: len(first)], placed[len(first) :]


def _tidy(axes: Axes, title: str, label: str = "") -> None:
    axes.set_title(title, fontsize=9)
    axes.set_ylabel(label, fontsize=8)
    axes.tick_params(labelsize=7)
    axes.spines[["top", "right"]].set_visible(False)
