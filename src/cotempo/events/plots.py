"""Pictures of intensities: bands over rugs of events, the chance of a next event, and quantile plots."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.signal import find_peaks

from cotempo.data import Events
from cotempo.data.clock import Clock
from cotempo.drawing.style import BLUE, DASHES, MUTED, ORANGE, SERIES, make_panels, show_dates, styled
from cotempo.events.intensities.base import Band, Intensity, IntensityGivenHistory, IntensityOverTime
from cotempo.events.intensities.next_event import NextEvent
from cotempo.events.scores import Rescaling
from cotempo.typing import Floats

POINTS, FINE = 300, 5000
MOST_PEAKS = 30
RIPPLE = 0.1  # ups and downs of a smaller share of the range are no rhythm


@styled
def plot_intensities(
    models: Mapping[str, Intensity],
    truth: Any = None,
    events: Mapping[str, Events] | None = None,
    level: float = 0.95,
) -> Figure:
    """Draw a panel a client: posterior mean, band, a rug of events and the truth where they are known.

    An intensity given the history is drawn along the first sequence of the client's `events`.
    """
    figure, panels = make_panels(len(models))
    for axes, (name, model) in zip(panels, models.items(), strict=True):
        known, clock = (events or {}).get(name), model.clock
        times, band, rug = _along(model, known, level)
        across = _across(clock, times)
        if np.isfinite(band.lower).any():
            axes.fill_between(
                across, band.lower, band.upper, color=BLUE, alpha=0.2, linewidth=0, label=f"{level:.0%} band"
            )
        axes.plot(across, band.mean, color=BLUE, label="learned")
        if truth is not None and getattr(truth, "kind", "") == "poisson":
            axes.plot(across, truth.intensity(name, times), color=ORANGE, linewidth=1.2, linestyle="--", label="truth")
        axes.plot(_across(clock, rug), np.zeros(len(rug)), "|", color=MUTED, alpha=0.4, markersize=8)
        axes.set(
            title=name, ylabel=f"events {clock.rate_label}\nand sequence", ylim=(0, 1.25 * axes.get_ylim()[1])
        )  # room for a legend
        axes.legend(ncols=3, loc="upper left", columnspacing=1, handlelength=1.5)
        show_dates(axes, clock, clock.rhythm(model.period))
    return figure


def legible_part(model: IntensityOverTime) -> tuple[float, float]:
    """Return the window to draw: a whole period, or the span, of which the last ten ups and downs if there are many."""
    start, end = model.shown
    if model.period:
        return start, end
    rates = model.mean(np.linspace(start, end, FINE))
    peaks = len(find_peaks(rates, prominence=max(RIPPLE * np.ptp(rates), 1e-300))[0])
    return (start if peaks <= MOST_PEAKS else end - (end - start) * 10 / peaks, end)


def _along(model: Intensity, events: Events | None, level: float) -> tuple[Floats, Band, Floats]:
    """Return times to draw at, the intensity there, and the events below it."""
    if isinstance(model, IntensityOverTime):
        times, rug = np.linspace(*legible_part(model), POINTS), np.zeros(0) if events is None else events.time
        if model.period:
            rug = times[0] + np.mod(model.local(rug) - model.local(times[:1]), model.period)
        return times, model.intensity(times, level), rug[(times[0] <= rug) & (rug <= times[-1])]
    assert isinstance(model, IntensityGivenHistory)
    assert events is not None
    _, past, codes, start, end = next(events.sequences())
    # Just after each event, too, where an intensity given the history jumps.
    times = np.unique(np.concatenate([np.linspace(start, end, POINTS), past, np.nextafter(past, np.inf)]))
    times = times[times <= end]
    marks = tuple(events.marks[code] for code in codes) if getattr(model, "marks", ()) else ()
    return times, model.intensity(times, past, start, level, marks), past


@styled
def plot_next(ahead: NextEvent) -> Figure:
    """Draw the chance that the next event has come."""
    figure, (axes,) = make_panels(1)
    axes.plot(_across(ahead.clock, ahead.numbers), 1 - ahead.survival, color=BLUE)
    axes.set(ylabel="chance that it has come", ylim=(0, 1))
    show_dates(axes, ahead.clock)
    return figure


@styled
def plot_quantiles(tests: Mapping[str, Rescaling]) -> Figure:
    """Draw waiting times on the model's clock against unit exponentials.

    The grey band holds 95 % of right models of the client with most waits; a lighter one those of the client with
    fewest.
    """
    figure, (axes,) = make_panels(1, size=(4.2, 4.0))
    largest = 1.0
    for number, (name, test) in enumerate(tests.items()):
        share = (np.arange(len(test.waits)) + 0.5) / len(test.waits)
        expected = -np.log1p(-share)
        largest = max(largest, float(expected[-1]))
        look = {"color": SERIES[number % len(SERIES)], "linestyle": DASHES[number % len(DASHES)]}
        axes.plot(expected, test.waits, **look, label=f"{name} (D = {test.statistic:.3f})")
    counts = {len(test.waits) for test in tests.values()}
    for count, alpha in ((min(counts), 0.1), (max(counts), 0.2)) if len(counts) > 1 else ((max(counts), 0.2),):
        share = np.linspace(0.5 / count, 1 - 0.5 / count, 400)
        width = 1.36 / np.sqrt(count)
        low, high = (-np.log1p(-np.clip(share + sign * width, 1e-9, 1 - 1e-9)) for sign in (-1, 1))
        axes.fill_between(
            -np.log1p(-share), low, np.minimum(high, 1.3 * largest), color=MUTED, alpha=alpha, linewidth=0,
            label=f"95 % of right models, {count:,} waits",
        )  # fmt: skip
    axes.plot([0, largest], [0, largest], color=MUTED, linewidth=0.8)
    axes.set(xlim=(0, largest), ylim=(0, 1.3 * largest), xlabel="expected wait", ylabel="observed wait")
    axes.legend(loc="upper left")
    return figure


def _across(clock: Clock, numbers: Floats) -> Any:
    """Return times as an axis takes them: dates where there are dates."""
    found = clock.dates_of(numbers)
    return found.to_pydatetime() if not isinstance(found, np.ndarray) else found
