"""Figures: generated windows, gaps as they were filled, forecasts, and errors beside baselines."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure

from cotempo.data import Series
from cotempo.federation import Benefit
from cotempo.series.comparison import Comparison
from cotempo.series.imputed import Forecast, Imputed
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
    figure = Figure(figsize=(8, 1.6 * len(features) + 0.4), layout="constrained")
    panels = figure.subplots(len(features), sharex=True, squeeze=False)[:, 0]
    for column, (axes, feature) in enumerate(zip(panels, features, strict=True)):
        time, gone = clock.dates_of(part.time), missing[:, column]
        for name, (low, high) in reversed(part.bounds().items()):
            label = f"{name[1:] or f'{100 * float(part.level):g}'} % interval"  # type: ignore[arg-type]
            axes.fill_between(time, low[:, column], high[:, column], color=MADE, alpha=0.25, linewidth=0, label=label)
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
        _tidy(axes, feature)
        if clock.dates:
            locator = AutoDateLocator(tz=getattr(time, "tz", None))  # type: ignore[no-untyped-call]
            axes.xaxis.set_major_locator(locator)
            formatter = ConciseDateFormatter(locator, tz=getattr(time, "tz", None))  # type: ignore[no-untyped-call]
            axes.xaxis.set_major_formatter(formatter)
    label, whole = (
        f"time ({clock.zone})" if clock.zone else clock.label,
        int((imputed.sequence == part.sequence[0]).sum()),
    )
    shown = f"; the {part.rows:,} rows with most gaps of {whole:,}" if part.rows < whole and past is None else ""
    panels[-1].set_xlabel(label + shown, fontsize=8)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, fontsize=8, ncols=5, loc="outside upper center")
    return figure


def plot_errors(comparison: Comparison) -> Figure:
    """Draw errors in percent of the best baseline's, a group of bars for each feature."""
    columns, features = comparison.columns(), comparison.features[: 2 * MOST_FEATURES]
    best = np.array([columns[name][k] for k, name in enumerate(columns["best_baseline"])])
    figure = Figure(figsize=(1.5 + 0.9 * len(features), 2.6), layout="constrained")
    axes, width = figure.subplots(), 0.8 / len(comparison.errors)
    for place, (name, color) in enumerate(zip(comparison.errors, (MADE, REAL, GAP, "#b7c4d3"), strict=False)):
        heights = (100 * columns[name] / np.where(best > 0, best, 1.0))[: len(features)]
        axes.bar(np.arange(len(features)) + width * place, heights, width, color=color, label=name)
    axes.axhline(100, color="black", linewidth=0.6)
    axes.set_xticks(np.arange(len(features)) + 0.4 - width / 2, features, fontsize=8)
    axes.set_ylabel("error, % of best baseline", fontsize=8)
    _tidy(axes, comparison.task)
    figure.legend(frameon=False, fontsize=8, ncols=4, loc="outside lower center")
    return figure


def plot_benefit(benefit: Mapping[str, Benefit]) -> Figure:
    """Draw each client's metric alone and together."""
    names, items = list(benefit), list(benefit.values())
    figure = Figure(figsize=(6, 0.8 + 0.28 * len(names)), layout="constrained")
    axes, place = figure.subplots(), np.arange(len(names))
    alone, together = (np.array([getattr(item, part) for item in items]) for part in ("alone", "together"))
    axes.hlines(place, np.minimum(alone, together), np.maximum(alone, together), color=GAP, linewidth=0.8)
    axes.plot(alone, place, "o", color=GAP, markersize=5, label="alone")
    axes.plot(together, place, "o", color=MADE, markersize=5, label="together")
    axes.set_yticks(place, names)
    axes.invert_yaxis()
    axes.set_xlim(left=0)
    _tidy(axes, items[0].metric if items else "no client could compare")
    axes.legend(frameon=False, fontsize=8)
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


def _tidy(axes: Axes, title: str) -> None:
    axes.set_title(title, fontsize=9)
    axes.tick_params(labelsize=7)
    axes.spines[["top", "right"]].set_visible(False)
