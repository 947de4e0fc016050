"""`PALETTE`, `styled` and `make_panels`: the colours, fonts and sizes of every picture and page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from cycler import cycler
from matplotlib import rc_context
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, DateFormatter, DayLocator, HourLocator
from matplotlib.figure import Figure

from cotempo.drawing.plain import PlainFigure
from cotempo.typing import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from cotempo.data.clock import Clock

# Each colour on light and on dark pages. Hues are apart for colour-blind readers (after Okabe and Ito), and dark or
# light enough to be seen: tests compute both.
PALETTE = {
    "page": ("#f4f6f8", "#12161c"),
    "card": ("#ffffff", "#1b2129"),
    "ink": ("#1b2430", "#e3e8ef"),
    "muted": ("#596473", "#a3adbb"),
    "rule": ("#d5dae1", "#3a4452"),
    "blue": ("#0072b2", "#56b4e9"),
    "orange": ("#b34a00", "#f08a4b"),
    "green": ("#0b5a34", "#9fdc8a"),
    "purple": ("#a3478a", "#e09bc9"),
    "gold": ("#8f6f00", "#e6c04d"),
}
INK, MUTED, RULE, BLUE, ORANGE, GREEN, PURPLE, GOLD = (
    PALETTE[name][0] for name in ("ink", "muted", "rule", "blue", "orange", "green", "purple", "gold")
)
SERIES = (BLUE, ORANGE, GREEN, PURPLE, GOLD)  # of lines and groups, in this order
DASHES = ("-", "--", "-.", ":")

# Use as a decorator: artists take the style when they are made.
styled = rc_context(
    {
        "font.size": 9, "text.color": INK,
        "axes.titlesize": 9, "axes.titleweight": "bold", "axes.titlelocation": "left", "axes.labelsize": 8.5,
        "axes.labelcolor": MUTED, "axes.edgecolor": MUTED, "axes.linewidth": 0.7, "axes.spines.top": False,
        "axes.spines.right": False, "axes.prop_cycle": cycler(color=SERIES), "lines.linewidth": 1.6,
        "xtick.labelsize": 8, "ytick.labelsize": 8, "xtick.color": MUTED, "ytick.color": MUTED,
        "xtick.labelcolor": INK, "ytick.labelcolor": INK, "legend.frameon": False, "legend.fontsize": 8,
        "figure.dpi": 100,
    }
)  # fmt: skip


def make_panels(
    count: int, columns: int = 2, size: tuple[float, float] = (4.6, 2.6), **options: Any
) -> tuple[Figure, Any]:
    """Return a figure and its `count` panels of a size in inches, in rows of so many columns."""
    columns = max(min(count, columns), 1)
    lines = max(-(-count // columns), 1)
    figure = PlainFigure(figsize=(size[0] * columns, size[1] * lines), layout="constrained")
    panels = figure.subplots(lines, columns, squeeze=False, **options).ravel()
    for empty in panels[count:]:
        empty.remove()
    return figure, panels[:count]


def show_dates(axes: Axes, clock: Clock, rhythm: str = "") -> None:
    """Label the horizontal axis: with dates in the clock's zone where times were dates.

    Of a day that stands for all, hours are shown; of a week, its days.
    """
    label = {"day": "time of day", "week": "day of the week"}.get(rhythm, clock.label)
    axes.set_xlabel(f"{label} ({clock.zone})" if clock.zone else label)
    if not clock.dates:
        axes.locator_params(axis="x", nbins=6)
        return
    zone = getattr(clock.date(0.0), "tzinfo", None)
    locator: Any
    formatter: Any
    if rhythm:
        locator = HourLocator(range(0, 24, 4), tz=zone) if rhythm == "day" else DayLocator(tz=zone)  # type: ignore[no-untyped-call]
        formatter = DateFormatter("%H:%M" if rhythm == "day" else "%a", tz=zone)  # type: ignore[no-untyped-call]
    else:
        # Six ticks would be too few for nearly three days, by steps of half a day, and warn at each drawing.
        locator = AutoDateLocator(tz=zone, minticks=3, maxticks=7)  # type: ignore[no-untyped-call]
        formatter = ConciseDateFormatter(locator, tz=zone)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(formatter)


def move_apart(points: Floats, least: float) -> Floats:
    """Return points ``(points, 2)`` moved so that no two are nearer than `least`, where there is room.

    Examples
    --------
    >>> bool(np.ptp(move_apart(np.zeros((2, 2)), 1.0)[:, 0]) > 0.99)
    True
    """
    angles = np.arange(len(points)) * np.pi  # two that coincide move in different directions
    placed = points + 1e-6 * np.column_stack([np.cos(angles), np.sin(angles)])
    for _ in range(200):
        apart = placed[:, None] - placed[None]
        distance = np.sqrt((apart**2).sum(axis=-1)) + 1e-12
        push = np.maximum(least * 1.001 - distance, 0) * ~np.eye(len(placed), dtype=bool)
        if not push.any():
            break
        placed = placed + (apart / distance[..., None] * push[..., None] / 2).sum(axis=1)
    return np.asarray(placed)
