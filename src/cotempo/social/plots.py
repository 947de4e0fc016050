"""`draw_rounds` of a graph learner and `draw_detector` of a detector: the family's figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cotempo.social.detector.store import FOUND
from cotempo.typing import Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from cotempo.social.detector.model import Detector
    from cotempo.social.detector.store import EventRecord
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
    """Draw posts in the plane of their two main directions, and when the largest events were, numbered alike."""
    figure, (left, right) = _subplots(12, 4.5, 2)
    sample, records = detector.store.sample, detector.store.events
    largest = sorted(records, key=lambda record: (-record.size, record.name))[:EVENTS_SHOWN]
    plane = _to_plane(detector.encode_anew(sample.text))
    events = np.array(sample.event)
    rest = ~np.isin(events, [record.name for record in largest])
    left.scatter(*plane[rest].T, s=4, color="0.8", linewidths=0)
    for place, record in enumerate(largest):
        rows, colour = events == record.name, f"C{place % 10}"
        left.scatter(*plane[rows].T, s=7, color=colour, alpha=0.6, linewidths=0)
        if rows.any():
            box = {"boxstyle": "circle,pad=0.15", "facecolor": "white", "edgecolor": colour, "alpha": 0.85}
            at = np.median(plane[rows], axis=0)
            left.annotate(str(place + 1), at, fontsize=7, ha="center", va="center", bbox=box)
        if np.isfinite(record.start):
            span = detector.clock.dates_of([record.start, record.end])
            right.plot(span, [place, place], color=colour, linewidth=4, marker="|", markersize=8, markeredgewidth=2)
    left.set(title="Posts, by event; grey: outliers and smaller events", xticks=[], yticks=[])
    right.set(title="Events", xlabel=detector.clock.label)
    right.set_yticks(range(len(largest)), _event_labels(detector, largest), fontsize=7)
    right.set_ylim(max(len(largest), 1) - 0.5, -0.5)
    right.yaxis.tick_right()
    if detector.clock.dates and right.lines:
        from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

        zone = detector.clock.date(0.0).tzinfo
        locator = AutoDateLocator(tz=zone, maxticks=7)  # type: ignore[no-untyped-call]
        right.xaxis.set_major_locator(locator)
        right.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=zone))  # type: ignore[no-untyped-call]
    else:
        right.locator_params(axis="x", nbins=6)
    return figure


def _event_labels(detector: Detector, records: Sequence[EventRecord]) -> list[str]:
    """Return number, name, keywords (of a found event) and size of each event."""
    words = detector.keywords(top=3)
    labels = []
    for place, record in enumerate(records):
        found = ", ".join(words[record.name])
        label = f"{record.name}: {found}" if found and record.name.startswith(FOUND) else record.name
        labels.append(f"{place + 1}  {label if len(label) <= 36 else label[:35] + '…'} ({record.size:.0f})")
    return labels


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
