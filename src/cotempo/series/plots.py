"""Figures: generated windows, and gaps as they were filled."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cotempo.data import Series
from cotempo.series.fitted import Imputed
from cotempo.series.windows import SeriesRows

REAL, MADE, GAP = "#1f5fa8", "#c8553d", "#777777"
MOST_FEATURES = 8


def plot_samples(synthetic: Series, count: int = 20) -> Figure:
    """Draw generated windows, a panel for each feature.

    Examples
    --------
    >>> len(plot_samples(Series.from_arrays([np.ones((4, 2)), np.zeros((4, 2))])).axes)
    2
    """
    features, rows = synthetic.features[:MOST_FEATURES], SeriesRows.of(synthetic)
    windows = rows.windows(min(rows.lengths))
    figure = Figure(figsize=(2.4 * len(features), 2.0), layout="constrained")
    for column, axes in enumerate(figure.subplots(1, len(features), squeeze=False)[0]):
        chosen = windows[:: max(1, len(windows) // count), :, column]
        axes.plot(chosen.T, color=MADE, alpha=0.35, linewidth=0.8)
        _tidy(axes, features[column])
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


def _tidy(axes: Axes, title: str) -> None:
    axes.set_title(title, fontsize=9)
    axes.tick_params(labelsize=7)
    axes.spines[["top", "right"]].set_visible(False)
