"""Pictures of intensities: bands over rugs of events, the chance of a next event, and quantile plots."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure

from cotempo.data import Events
from cotempo.data.clock import Clock
from cotempo.events.intensities.base import Band, Intensity, IntensityGivenHistory, IntensityOverTime
from cotempo.events.intensities.next_event import NextEvent
from cotempo.events.scores import Rescaling
from cotempo.typing import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLUE, GREY, RED = "#1f5fa8", "#8a8a8a", "#c0392b"
POINTS = 300


def plot_intensities(
    models: Mapping[str, Intensity],
    truth: Any = None,
    events: Mapping[str, Events] | None = None,
    level: float = 0.95,
) -> Figure:
    """Draw a panel a client: posterior mean, band, a rug of events and the truth where they are known.

    An intensity given the history is drawn along the first sequence of the client's `events`.
    """
    columns = min(len(models), 2) or 1
    lines = -(-len(models) // columns) or 1
    figure = Figure(figsize=(4.6 * columns, 2.6 * lines), layout="constrained")
    panels = figure.subplots(lines, columns, squeeze=False).ravel()
    for axes, (name, model) in zip(panels, models.items(), strict=False):
        known, clock = (events or {}).get(name), model.clock
        times, band, rug = _along(model, known, level)
        across = _across(clock, times)
        axes.fill_between(across, band.lower, band.upper, color=BLUE, alpha=0.2, linewidth=0, label=f"{level:.0%} band")
        axes.plot(across, band.mean, color=BLUE, linewidth=1.6, label="learned")
        if truth is not None and getattr(truth, "kind", "") == "poisson":
            axes.plot(across, truth.intensity(name, times), color=RED, linewidth=1, linestyle="--", label="truth")
        axes.plot(_across(clock, rug), np.zeros(len(rug)), "|", color=GREY, alpha=0.4, markersize=8)
        axes.legend(frameon=False, fontsize=7)
        axes.set_ylim(bottom=0)
        _dress(axes, name, clock.label, f"events {clock.rate_label} and sequence", clock)
    for axes in panels[len(models) :]:
        axes.set_visible(False)
    return figure


def _along(model: Intensity, events: Events | None, level: float) -> tuple[Floats, Band, Floats]:
    """Return times to draw at, the intensity there, and the events below it."""
    if isinstance(model, IntensityOverTime):
        times, rug = np.linspace(*model.shown, POINTS), np.zeros(0) if events is None else events.time
        if model.period:
            rug = times[0] + np.mod(model.local(rug) - model.local(times[:1]), model.period)
        return times, model.intensity(times, level), rug
    assert isinstance(model, IntensityGivenHistory)
    assert events is not None
    _, past, codes, start, end = next(events.sequences())
    # Just after each event, too, where an intensity given the history jumps.
    times = np.unique(np.concatenate([np.linspace(start, end, POINTS), past, np.nextafter(past, np.inf)]))
    times = times[times <= end]
    marks = tuple(events.marks[code] for code in codes) if getattr(model, "marks", ()) else ()
    return times, model.intensity(times, past, start, level, marks), past


def plot_next(ahead: NextEvent) -> Figure:
    """Draw the chance that the next event has come."""
    figure = Figure(figsize=(4.6, 2.6), layout="constrained")
    axes = figure.subplots()
    axes.plot(_across(ahead.clock, ahead.numbers), 1 - ahead.survival, color=BLUE, linewidth=1.6)
    axes.set_ylim(0, 1)
    _dress(axes, "", ahead.clock.label, "chance that it has come", ahead.clock)
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


def _across(clock: Clock, numbers: Floats) -> Any:
    """Return times as an axis takes them: dates where there are dates."""
    found = clock.dates_of(numbers)
    return found.to_pydatetime() if not isinstance(found, np.ndarray) else found


def _dress(axes: Axes, title: str, across: str, up: str, clock: Clock | None = None) -> None:
    axes.set_title(title, fontsize=9)
    axes.set_xlabel(f"{across} ({clock.zone})" if clock and clock.zone else across, fontsize=8)
    axes.set_ylabel(up, fontsize=8)
    axes.tick_params(labelsize=7)
    axes.spines[["top", "right"]].set_visible(False)
    if clock and clock.dates:
        zone = getattr(clock.date(0.0), "tzinfo", None)
        locator = AutoDateLocator(tz=zone)  # type: ignore[no-untyped-call]
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.get_offset_text().set_fontsize(7)
        formatter = ConciseDateFormatter(locator, tz=zone)  # type: ignore[no-untyped-call]
        axes.xaxis.set_major_formatter(formatter)
