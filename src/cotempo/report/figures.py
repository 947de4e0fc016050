"""`plot_benefit`, `plot_progress` and `plot_differences`: the figures every report has, whatever was learned."""

from collections.abc import Iterable, Mapping
from textwrap import fill
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from cotempo.drawing.style import BLUE, GREEN, MUTED, ORANGE, RULE, make_panels, styled
from cotempo.federation.benefit import Benefit, standard_error

MOST_NAMES = 30  # of clients along an axis
MOST_METRICS = 9
VERDICTS = {
    "helped": (GREEN, "o"),
    "no difference shown": (MUTED, "D"),
    "harmed": (ORANGE, "s"),
    "not tested": (MUTED, "x"),
}


@styled
def plot_benefit(benefit: Mapping[str, Benefit]) -> Figure:
    """Draw each client's gain by joining with two standard errors; of many clients all gains in order, unnamed."""
    order = sorted(benefit, key=lambda name: -benefit[name].gain)
    named = len(order) <= MOST_NAMES
    figure, (axes,) = make_panels(1, size=(7.5, 1.3 + 0.24 * len(order) if named else 3.2))
    axes.axvline(0, color=MUTED, linewidth=0.8)
    for verdict, (colour, marker) in VERDICTS.items():
        places = [place for place, name in enumerate(order) if benefit[name].verdict == verdict]
        gains = [benefit[order[place]].gain for place in places]
        errors = [2 * (benefit[order[place]].error or 0.0) for place in places]
        if places:
            axes.hlines(places, np.subtract(gains, errors), np.add(gains, errors), color=colour, linewidth=1.2)
            axes.plot(gains, places, marker, color=colour, markersize=5 if named else 2, label=verdict)
    axes.set_ylim(max(len(order), 1) - 0.5, -0.5)
    if named:
        axes.set_yticks(range(len(order)), [_short(name) for name in order])
    else:
        axes.set_ylabel("clients, by gain")
    metric = next((item.metric for item in benefit.values()), "no client could compare")
    axes.set_xlabel(fill(f"gain by joining, with two standard errors: {metric}", 60))
    if order:
        figure.legend(loc="outside upper center", ncols=3)
    return figure


@styled
def plot_differences(differences: Mapping[str, Mapping[str, float]], baseline: str, metric: str) -> Figure:
    """Draw clients' differences to a baseline run, and their mean with two standard errors, a row for each run."""
    figure, (axes,) = make_panels(1, size=(7.5, 1.2 + 0.5 * len(differences)))
    axes.axvline(0, color=MUTED, linewidth=0.8)
    for place, found in enumerate(differences.values()):
        values = np.array(list(found.values()))
        axes.plot(values, np.full(len(values), place), "|", color=MUTED, markersize=9, label="a client")
        axes.hlines(place, *(values.mean() + sign * 2 * standard_error(values) for sign in (-1, 1)), color=BLUE)
        axes.plot(values.mean(), place, "o", color=BLUE, label="mean, with two standard errors")
    axes.set_yticks(range(len(differences)), [_short(name) for name in differences])
    axes.set_ylim(len(differences) - 0.5, -0.5)
    axes.set_xlabel(fill(f"better than {baseline} by: {metric}", 60))
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles[:2], labels[:2], loc="outside upper center", ncols=2)
    return figure


@styled
def plot_progress(history: Iterable[Mapping[str, Any]]) -> Figure | None:
    """Draw every metric with more than two values, one small panel each; `None` if there is none."""
    series: dict[str, list[tuple[int, float]]] = {}
    for record in history:
        for name, value in record["metrics"].items():
            series.setdefault(name, []).append((record["step"], value))
    series = {name: points for name, points in series.items() if len(points) > 2}
    if not series:
        return None
    chosen = dict(list(series.items())[:MOST_METRICS])
    figure, panels = make_panels(len(chosen), columns=3, size=(3.2, 2.0))
    for axes, (name, points) in zip(panels, chosen.items(), strict=True):
        steps, values = zip(*points, strict=True)
        axes.plot(steps, values, color=BLUE, linewidth=1.4)
        if min(values) > 0 and max(values) > 100 * min(values):
            axes.set_yscale("log")
        axes.set(title=name.replace("_", " "), xlabel="step")
        axes.grid(axis="y", color=RULE, linewidth=0.4)
    return figure


def _short(name: str) -> str:
    return name if len(name) <= 24 else f"{name[:23]}…"
