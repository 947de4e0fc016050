"""Figures of a detector: a map of posts, and when events were."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cotempo.social.detector.records import keywords

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from cotempo.social.detector.model import Detector

SHOWN = 15


def draw_detector(detector: Detector) -> Figure:
    """Draw posts in the plane of their two main directions, and the span of the largest events."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.5), layout="constrained")
    left, right = figure.subplots(1, 2)
    sample, records = detector.book.sample, detector.book.events
    largest = sorted(records, key=lambda record: (-record.size, record.name))[:SHOWN]
    words = dict(zip((record.name for record in records), keywords(records, top=2), strict=True))
    plane = to_plane(sample.points)
    events = np.array(sample.event)
    for place, record in enumerate(largest):
        rows = events == record.name
        colour = f"C{place % 10}"
        left.scatter(*plane[rows].T, s=6, color=colour, alpha=0.6, linewidths=0)
        if rows.any():
            label = ", ".join(words[record.name]) or record.name
            left.annotate(label, plane[rows].mean(axis=0), fontsize=7, ha="center")
        right.plot([record.start, record.end], [place, place], color=colour, linewidth=4, solid_capstyle="butt")
    rest = ~np.isin(events, [record.name for record in largest])
    left.scatter(*plane[rest].T, s=4, color="0.8", linewidths=0, zorder=0)
    left.margins(x=0.15)  # room for labels of events at the rim
    left.set(title="Posts", xticks=[], yticks=[])
    _label_timeline(right, [f"{record.name} ({record.size:.0f})" for record in largest])
    return figure


def _label_timeline(axes: Axes, labels: list[str]) -> None:
    axes.set(title="Events", xlabel="time", yticks=range(len(labels)))
    axes.set_yticklabels(labels, fontsize=7)
    axes.invert_yaxis()


def to_plane(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Project points on their two main directions, ``(points, 2)``."""
    if not len(points):
        return np.zeros((0, 2))
    centred = points - points.mean(axis=0)
    directions = np.linalg.svd(centred, full_matrices=False)[2][:2]
    plane = centred @ directions.T
    return np.asarray(np.pad(plane, ((0, 0), (0, 2 - plane.shape[1]))))
