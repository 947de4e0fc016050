"""`draw_rounds` of a graph learner and `draw_detector` of a detector: the family's figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cotempo.social.detector.store import keywords
from cotempo.typing import Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from cotempo.social.detector.model import Detector
    from cotempo.social.graph_model.data import RoundRecord

EVENTS_SHOWN = 15


def draw_rounds(history: Sequence[Mapping[str, Any]], record: Sequence[RoundRecord]) -> dict[str, Figure]:
    """Draw convergence and, where there is a record, local weights, groups and the last similarities."""
    figures: dict[str, Figure] = {}
    trained = [step for step in history if step["phase"] == "train"]
    if trained:
        figure, axes = _subplots(6, 3)
        axes.plot([step["round"] for step in trained], [step["metrics"].get("score", np.nan) for step in trained])
        axes.set(xlabel="round", ylabel="NMI on validation posts")
        figures["Convergence"] = figure
    if record:
        figures["Local weights and groups"] = _draw_decisions(record)
        figures["Similarities in the last round"] = _draw_similarities(record[-1])
    return figures


def _draw_decisions(record: Sequence[RoundRecord]) -> Figure:
    figure, (left, right) = _subplots(9, 3.2, 2)
    names = sorted({name for entry in record for name in entry.groups})
    # In the first round there is no own model yet to weigh.
    for name in names:
        weights = [entry.weights.get(name, np.nan) for entry in record[1:]]
        left.plot(range(2, len(record) + 1), weights, label=name, marker="o", markersize=3, alpha=0.6)
    left.set(xlabel="round", ylabel="local weight")
    left.locator_params(axis="x", integer=True)
    left.legend(fontsize=6)
    table = [[entry.groups.get(name, -1) for entry in record] for name in names]
    extent = (0.5, len(record) + 0.5, len(names) - 0.5, -0.5)
    right.imshow(np.array(table), aspect="auto", cmap="tab10", vmin=-1, vmax=9, interpolation="nearest", extent=extent)
    right.set(xlabel="round", title="group")
    right.set_yticks(range(len(names)), names, fontsize=7)
    return figure


def _draw_similarities(entry: RoundRecord) -> Figure:
    figure, axes = _subplots(4, 3.4)
    figure.colorbar(axes.imshow(entry.similarities, cmap="viridis"))
    names = list(entry.groups)
    axes.set_xticks(range(len(names)), names, rotation=90, fontsize=7)
    axes.set_yticks(range(len(names)), names, fontsize=7)
    return figure


def draw_detector(detector: Detector) -> Figure:
    """Draw posts in the plane of their two main directions, and the span of the largest events."""
    figure, (left, right) = _subplots(11, 4.5, 2)
    sample, records = detector.store.sample, detector.store.events
    largest = sorted(records, key=lambda record: (-record.size, record.name))[:EVENTS_SHOWN]
    words = dict(zip((record.name for record in records), keywords(records, top=2), strict=True))
    plane = _to_plane(sample.points)
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
    right.set(title="Events", xlabel="time")
    right.set_yticks(range(len(largest)), [f"{record.name} ({record.size:.0f})" for record in largest], fontsize=7)
    right.invert_yaxis()
    return figure


def _subplots(width: float, height: float, columns: int = 1) -> tuple[Figure, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(1, columns)


def _to_plane(points: Floats) -> Floats:
    """Project points on their two main directions, ``(points, 2)``."""
    if not len(points):
        return np.zeros((0, 2))
    centred = points - points.mean(axis=0)
    directions = np.linalg.svd(centred, full_matrices=False)[2][:2]
    plane = centred @ directions.T
    return np.asarray(np.pad(plane, ((0, 0), (0, 2 - plane.shape[1]))))
