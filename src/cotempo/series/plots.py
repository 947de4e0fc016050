"""Figures: generated windows, gaps as they were filled, forecasts, and errors beside baselines."""

import numpy as np
from matplotlib.figure import Figure

from cotempo.data import Series
from cotempo.drawing.style import BLUE, GOLD, GREEN, MUTED, ORANGE, make_panels, show_dates, styled
from cotempo.series.comparison import Comparison
from cotempo.series.imputed import Forecast, Imputed
from cotempo.series.windows import SeriesRows
from cotempo.typing import Floats

REAL, MADE, GAP = BLUE, ORANGE, MUTED
MOST_FEATURES = 8


@styled
def plot_samples(synthetic: Series, count: int = 20, real: Floats | None = None, label: str = "row") -> Figure:
    """Draw generated windows, a panel for each feature, and behind them `real` ones, ``(windows, rows, features)``.

    `label` says what time is counted in.

    Examples
    --------
    >>> len(plot_samples(Series.from_arrays([np.ones((4, 2)), np.zeros((4, 2))])).axes)
    2
    """
    features, rows = synthetic.features[:MOST_FEATURES], SeriesRows.of(synthetic)
    windows = rows.windows(min(rows.lengths))
    figure, panels = make_panels(len(features), columns=4, size=(2.4, 2.0))
    for column, axes in enumerate(panels):
        chosen = windows[:: max(1, len(windows) // count), :, column]
        time = synthetic.time[: windows.shape[1]]
        for each, color, name in ((real, REAL, "real"), (chosen, MADE, "synthetic")):
            if each is not None and len(each):
                lines = each[:count, :, column] if each is real else each
                axes.plot(time, lines.T, color=color, alpha=0.35, linewidth=0.8)
                axes.plot([], [], color=color, label=name)
        axes.set(title=features[column], xlabel=label)
    if real is not None and len(real):
        figure.legend(*panels[0].get_legend_handles_labels(), ncols=2, loc="outside upper center")
    return figure


@styled
def plot_gaps(imputed: Imputed, truth: Series | None = None, rows: int = 500) -> Figure:
    """Draw the first sequence of a filled series, or of a forecast after what came before, with intervals.

    Of a long one the part with most filled cells is shown. The truth is drawn where it is known.

    Examples
    --------
    >>> series = Series.from_arrays([[0.0], [float("nan")], [1.0]])
    >>> len(plot_gaps(Imputed.of(series, [[0.0], [0.5], [1.0]])).axes)
    1
    """
    part = _busiest(imputed, rows)
    past = imputed.past if isinstance(imputed, Forecast) else None
    clock, missing = imputed.clock, part.missing if part.missing is not None else np.zeros(part.values.shape, bool)
    features = imputed.features[:MOST_FEATURES]
    figure, panels = make_panels(len(features), columns=1, size=(8, 1.7), sharex=True)
    for column, (axes, feature) in enumerate(zip(panels, features, strict=True)):
        time, gone = clock.dates_of(part.time), missing[:, column]
        for depth, (name, (low, high)) in enumerate(reversed(part.bounds().items())):
            label = f"{name[1:] or f'{100 * float(part.level):g}'} % interval"  # type: ignore[arg-type]
            shade = {"color": MADE, "alpha": min(0.2 + 0.25 * depth, 0.8), "linewidth": 0}
            axes.fill_between(time, low[:, column], high[:, column], label=label, **shade)
        axes.plot(
            time, part.values[:, column], color=MADE, linewidth=0.8, label="filled" if past is None else "forecast"
        )
        if truth is not None:
            same = (truth.sequence == part.sequence[0]) & np.isin(truth.time, part.time[gone])
            values = truth.values[same, truth.features.index(feature)]
            axes.plot(clock.dates_of(truth.time[same]), values, "x", color=GAP, markersize=4, label="truth")
        measured = part.select(~gone) if past is None else _last(past, part)
        values = measured.values[:, column]
        axes.plot(clock.dates_of(measured.time), values, ".", color=REAL, markersize=3, label="measured")
        axes.set_title(feature)
    show_dates(panels[-1], clock)
    whole = int((imputed.sequence == part.sequence[0]).sum())
    if part.rows < whole and past is None:
        shown = f"{panels[-1].get_xlabel()}; the {part.rows:,} rows with most gaps of {whole:,}"
        panels[-1].set_xlabel(shown)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, ncols=5, loc="outside upper center")
    return figure


@styled
def plot_errors(comparison: Comparison) -> Figure:
    """Draw errors in percent of the best baseline's, a group of bars for each feature."""
    columns, features = comparison.columns(), comparison.features[: 2 * MOST_FEATURES]
    best = np.array([columns[name][k] for k, name in enumerate(columns["best_baseline"])])
    figure, (axes,) = make_panels(1, size=(1.5 + 0.9 * len(features), 2.6))
    width = 0.8 / len(comparison.errors)
    for place, (name, color) in enumerate(zip(comparison.errors, (MADE, REAL, GAP, GOLD, GREEN), strict=False)):
        heights = (100 * columns[name] / np.where(best > 0, best, 1.0))[: len(features)]
        axes.bar(np.arange(len(features)) + width * place, heights, width, color=color, label=name)
    axes.axhline(100, color=MUTED, linewidth=0.6)
    axes.set_xticks(np.arange(len(features)) + 0.4 - width / 2, features)
    axes.set(title=comparison.task, ylabel="error, % of best baseline")
    figure.legend(ncols=4, loc="outside lower center")
    return figure


def _busiest(imputed: Imputed, rows: int) -> Imputed:
    """Return the part of the first sequence with most filled cells, at most so many rows."""
    part = imputed.select(imputed.sequence == imputed.sequence[0])
    if part.rows <= rows or part.missing is None or isinstance(imputed, Forecast):
        return part.select(np.arange(min(part.rows, rows)))
    total = np.concatenate([[0], np.cumsum(part.missing.sum(axis=1))])
    inside = total[rows:] - total[:-rows]
    most = np.flatnonzero(inside == inside.max())
    first = int(most[len(most) // 2])
    return part.select(np.arange(first, first + rows))


def _last(past: Series, part: Imputed) -> Series:
    """Return the rows before a forecast, three times as many as it has."""
    same = past.select(past.sequence == part.sequence[0])
    return same.select(np.arange(max(0, same.rows - 3 * part.rows), same.rows))
