"""`curve` and `strip`: small drawings as SVG that fit any width; words and numbers stand beside them, as text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from cotempo.report.tables import number
from cotempo.runs.state import RunState

MOST_POINTS, MOST_LINES, MOST_CURVES = 200, 40, 6
WIDTH, HEIGHT = 300, 90
Points = Sequence[tuple[int, float]]


@dataclass(frozen=True)
class Curve:
    """A metric over the steps: its drawing, and all that the drawing does not say."""

    name: str
    drawing: Markup
    newest: str
    low: str
    high: str
    first: int
    last: int
    clients: int
    is_log: bool


def curves(state: RunState) -> list[Curve]:
    """Return the metrics that were measured more than twice, those first that clients measured, too."""
    chosen = [name for name, points in state.metrics.items() if len({step for step, _ in points}) > 2]
    chosen.sort(key=lambda name: name not in state.own)
    return [curve(name, state.metrics[name], state.own.get(name, {})) for name in chosen[:MOST_CURVES]]


def curve(name: str, mean: Points, own: Mapping[str, Mapping[int, float]]) -> Curve:
    """Draw the mean of a metric, and behind it what each client measured."""
    mean = [point for point in mean if math.isfinite(point[1])] or [(0, 0.0)]
    lines = [sorted(values.items()) for _, values in sorted(own.items())[:MOST_LINES] if len(values) > 1]
    values = [value for line in (*lines, mean) for _, value in line if math.isfinite(value)]
    steps = [step for line in (*lines, mean) for step, _ in line]
    is_log = min(values) > 0 and max(values) > 100 * min(values)
    low, high = (math.log(bound) if is_log else bound for bound in (min(values), max(values)))
    first, last = min(steps), max(steps)

    def place(step: int, value: float) -> str:
        height = math.log(value) if is_log else value
        across = (step - first) / max(last - first, 1)
        up = (height - low) / (high - low) if high > low else 0.5
        return f"{across * WIDTH:.1f},{(1 - up) * HEIGHT:.1f}"

    def line(points: Points, kind: str) -> str:
        shown = [point for point in thinned(points) if math.isfinite(point[1])]
        return f'<polyline class="{kind}" points="{" ".join(place(*point) for point in shown)}"/>'

    drawn = "".join([*(line(points, "own") for points in lines), line(mean, "mean")])
    return Curve(
        name.replace("_", " "), _svg(drawn, WIDTH, HEIGHT), number(mean[-1][1]), number(min(values)),
        number(max(values)), first, last, len(lines), is_log,
    )  # fmt: skip


def thinned(points: Points) -> Points:
    """Return at most 200 of the points, the last among them."""
    every = -(-len(points) // MOST_POINTS)
    return points[len(points) - 1 :: -every][::-1] if points else points


def strip(stretches: Iterable[tuple[int, int, str]], steps: int) -> Markup:
    """Draw a client's steps from left to right: where it answered, was left out, and was not asked."""
    parts = (
        f'<rect class="{how.replace(" ", "-")}" x="{start - 1}" width="{end - start + 1}" height="1"/>'
        for start, end, how in stretches
    )
    return _svg("".join(parts), max(steps, 1), 1)


def _svg(content: str, width: int, height: int) -> Markup:
    return Markup(  # numbers and names of classes only
        f'<svg viewBox="0 0 {width} {height}" preserveAspectRatio="none" aria-hidden="true">{content}</svg>'
    )
