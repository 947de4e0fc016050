"""Pictures of intensities: bands over rugs of events, and quantile plots."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

from cotempo.data import Events
from cotempo.events.intensities.base import IntensityOverTime
from cotempo.events.scores import Rescaling

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLUE, GREY, RED = "#1f5fa8", "#8a8a8a", "#c0392b"
POINTS = 300


def plot_intensities(
    curves: Mapping[str, IntensityOverTime], truth: Any = None, events: Mapping[str, Events] | None = None
) -> Figure:
    """Draw a panel a client: posterior mean, 95 % band, a rug of events and the truth where they are known."""
    columns = min(len(curves), 2) or 1
    lines = -(-len(curves) // columns) or 1
    figure = Figure(figsize=(4.6 * columns, 2.6 * lines), layout="constrained")
    panels = figure.subplots(lines, columns, squeeze=False).ravel()
    for axes, (name, curve) in zip(panels, curves.items(), strict=False):
        times = np.linspace(curve.grid.start, curve.grid.end, POINTS)
        mean, lower, upper = curve.intensity(times)
        axes.fill_between(times, lower, upper, color=BLUE, alpha=0.2, linewidth=0)
        axes.plot(times, mean, color=BLUE, linewidth=1.6, label="learned")
        if truth is not None and getattr(truth, "kind", "") == "poisson":
            axes.plot(times, truth.intensity(name, times), color=RED, linewidth=1, linestyle="--", label="truth")
            axes.legend(frameon=False, fontsize=8)
        if events is not None:
            axes.plot(events[name].time, np.zeros(events[name].rows), "|", color=GREY, alpha=0.4, markersize=8)
        axes.set_ylim(bottom=0)
        _dress(axes, name, "time", "events per unit of time")
    for axes in panels[len(curves) :]:
        axes.set_visible(False)
    return figure


def plot_quantiles(tests: Mapping[str, Rescaling]) -> Figure:
    """Draw waiting times on the model's clock against unit exponentials; the grey band holds 95 % of right models."""
    figure = Figure(figsize=(4.2, 4.0), layout="constrained")
    axes = figure.subplots()
    largest = 1.0
    for number, (name, test) in enumerate(tests.items()):
        share = (np.arange(len(test.waits)) + 0.5) / len(test.waits)
        expected = -np.log1p(-share)
        largest = max(largest, float(expected[-1]))
        axes.plot(expected, test.waits, linewidth=1.6, color=f"C{number}", label=f"{name} (D = {test.statistic:.3f})")
    count = max(len(test.waits) for test in tests.values())
    share = np.linspace(0.5 / count, 1 - 0.5 / count, 400)
    width = 1.36 / np.sqrt(count)
    low, high = (-np.log1p(-np.clip(share + sign * width, 1e-9, 1 - 1e-9)) for sign in (-1, 1))
    axes.fill_between(-np.log1p(-share), low, np.minimum(high, 1.3 * largest), color=GREY, alpha=0.2, linewidth=0)
    axes.plot([0, largest], [0, largest], color=GREY, linewidth=0.8)
    axes.set_xlim(0, largest)
    axes.set_ylim(0, 1.3 * largest)
    axes.legend(frameon=False, fontsize=8, loc="lower right")
    _dress(axes, "Quantiles of rescaled waits", "unit exponential", "observed")
    return figure


def _dress(axes: Axes, title: str, across: str, up: str) -> None:
    axes.set_title(title, fontsize=9)
    axes.set_xlabel(across, fontsize=8)
    axes.set_ylabel(up, fontsize=8)
    axes.tick_params(labelsize=7)
    axes.spines[["top", "right"]].set_visible(False)
