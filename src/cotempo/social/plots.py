"""`draw_rounds` of a graph learner and `draw_detector` of a detector: the family's figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cotempo.data.tables import pluralize
from cotempo.drawing.style import DASHES, PALETTE, RULE, SERIES, make_panels, move_apart, show_dates, styled
from cotempo.social.detector.detection import OUTLIER
from cotempo.social.detector.store import FOUND
from cotempo.typing import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from cotempo.learners import RoundRecord
    from cotempo.social.detector.detection import Detection
    from cotempo.social.detector.model import Detector
    from cotempo.social.detector.store import EventRecord

EVENTS_SHOWN = 15
BINS, HEIGHT = 60, 0.4  # of the counts below the bar of an event
MARKERS = ("o", "s", "^", "D", "v")  # for events beyond the number of colours


@styled
def draw_rounds(history: Sequence[Mapping[str, Any]], record: Sequence[RoundRecord]) -> dict[str, Figure]:
    """Draw convergence and, where there is a record, local weights, groups and the last similarities."""
    figures: dict[str, Figure] = {}
    trained = [step for step in history if step["phase"] == "train"]
    if trained:
        figure, (axes,) = make_panels(1, size=(6, 3))
        axes.plot([step["round"] for step in trained], [step["metrics"].get("score", np.nan) for step in trained])
        axes.set(xlabel="round", ylabel="NMI on validation posts")
        figures["Convergence"] = figure
    if record:
        figures["Local weights and groups"] = _draw_decisions(record)
        figures["Similarities in the last round"] = _draw_similarities(record[-1])
    return figures


def _draw_decisions(record: Sequence[RoundRecord]) -> Figure:
    figure, (left, right) = make_panels(2, size=(4.5, 3.2))
    names = sorted({name for entry in record for name in entry.groups})
    # In the first round there is no own model yet to weigh.
    for place, name in enumerate(names):
        weights = [entry.weights.get(name, np.nan) for entry in record[1:]]
        dash = DASHES[place // len(SERIES) % len(DASHES)]
        left.plot(range(2, len(record) + 1), weights, label=name, marker="o", markersize=3, linestyle=dash)
    left.set(title="local weight", xlabel="round")
    left.locator_params(axis="x", integer=True)
    if len(names) <= 2 * len(SERIES):
        figure.legend(loc="outside lower center", ncols=5)
    table = [[entry.groups.get(name, -1) for entry in record] for name in names]
    extent = (0.5, len(record) + 0.5, len(names) - 0.5, -0.5)
    right.imshow(np.array(table), aspect="auto", cmap="tab10", vmin=-1, vmax=9, interpolation="nearest", extent=extent)
    right.set(xlabel="round", title="group")
    right.set_yticks(range(len(names)), names)
    return figure


def _draw_similarities(entry: RoundRecord) -> Figure:
    figure, (axes,) = make_panels(1, size=(4, 3.4))
    figure.colorbar(axes.imshow(entry.similarities, cmap="viridis"), label="similarity")
    names = list(entry.groups)
    axes.set_xticks(range(len(names)), names, rotation=90)
    axes.set_yticks(range(len(names)), names)
    return figure


@styled
def draw_detector(detector: Detector) -> Figure:
    """Draw posts in the plane of their two main directions, and when the largest events were, numbered alike.

    Below the bar from an event's first post to its last hang the counts of its kept posts over time. Where no event
    has a time, the right panel only names the events.
    """
    figure, (left, right) = make_panels(2, size=(5.2, 4.2))
    sample, records = detector.store.sample, detector.store.events
    largest = sorted(records, key=lambda record: (-record.size, record.name))[:EVENTS_SHOWN]
    timed = any(np.isfinite(record.start) for record in largest)
    plane = _to_plane(detector.encode_anew(sample.text))
    events = np.array(sample.event)
    rest = ~np.isin(events, [record.name for record in largest])
    left.scatter(*plane[rest].T, s=5, color=RULE, linewidths=0, label="outliers and smaller events")
    colours = [SERIES[place % len(SERIES)] for place in range(len(largest))]
    labels = _event_labels(detector, largest)
    shown = sample.time[np.isfinite(sample.time) & ~rest]
    edges = np.linspace(shown.min(), shown.max(), BINS + 1) if len(shown) and np.ptp(shown) else None
    for place, record in enumerate(largest):
        rows = events == record.name
        look = {"color": colours[place], "marker": MARKERS[place // len(SERIES) % len(MARKERS)]}
        left.scatter(*plane[rows].T, s=9, alpha=0.6, linewidths=0, label=labels[place], **look)
        if np.isfinite(record.start):
            span = detector.clock.dates_of([record.start, record.end])
            dash = DASHES[place // len(SERIES) % len(DASHES)]
            right.plot(span, [place] * 2, color=colours[place], linewidth=2, linestyle=dash, marker="|", markersize=8)
            if edges is not None:
                counts = np.histogram(sample.time[rows & np.isfinite(sample.time)], edges)[0]
                depth = place + HEIGHT * counts / max(counts.max(), 1)
                right.stairs(depth, detector.clock.dates_of(edges), baseline=place, fill=True, color=colours[place])
    _number_groups(left, plane, [events == record.name for record in largest], colours)
    which = "" if len(sample.text) >= sum(record.size for record in records) else "labelled or latest "
    left.set(title=f"{which}posts by event (grey: others)", xticks=[], yticks=[])
    left.spines[:].set_visible(False)
    misdated = detector.store.misdated
    outside = f"\nnot shown: {pluralize(misdated, 'date')} more than a year from all others" if misdated else ""
    heading = "when events were (posts)" if timed else "events (posts), without times"
    right.set(title=f"{heading}{outside}", ylim=(max(len(largest), 1) - 0.5, -0.9))
    right.set_yticks(range(len(largest)), labels)
    right.tick_params(axis="y", left=False, labelleft=False)  # above the bars names have room at any width
    right.spines["left"].set_visible(False)
    for place, label in enumerate(labels):
        right.text(0, place - 0.15, label, transform=right.get_yaxis_transform(), va="bottom", fontsize=8)
    if timed:
        show_dates(right, detector.clock)
    else:
        right.spines["bottom"].set_visible(False)
        right.set_xticks([])
    return figure


@styled
def draw_posts(vectors: Any, found: Detection) -> Figure:
    """Draw posts in the plane of their two main directions, the largest events numbered; grey are the others."""
    figure, (axes,) = make_panels(1, size=(5.2, 4.2))
    plane = _to_plane(np.asarray(vectors, dtype=np.float64))
    names, codes, counts = np.unique(np.array(found.event, dtype=str), return_inverse=True, return_counts=True)
    largest = [code for code in np.argsort(-counts, kind="stable") if names[code] != OUTLIER][:EVENTS_SHOWN]
    axes.scatter(*plane[~np.isin(codes, largest)].T, s=5, color=RULE, linewidths=0, label="others")
    colours = [SERIES[place % len(SERIES)] for place in range(len(largest))]
    for place, code in enumerate(largest):
        label = f"{names[code]} ({counts[code]})"
        look = {"color": colours[place], "marker": MARKERS[place // len(SERIES) % len(MARKERS)]}
        axes.scatter(*plane[codes == code].T, s=9, alpha=0.6, linewidths=0, label=label, **look)
    _number_groups(axes, plane, [codes == code for code in largest], colours)
    axes.set(title="posts by event (grey: others)", xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    return figure


def _number_groups(axes: Axes, plane: Floats, groups: Sequence[Any], colours: Sequence[str]) -> None:
    """Write the number of each group of points at its middle; numbers move apart rather than cover each other."""
    present = [place for place, rows in enumerate(groups) if rows.any()]
    if not present:
        return
    size = np.maximum(np.ptp(plane, axis=0), 1e-9)
    middle = np.array([np.median(plane[groups[place]], axis=0) for place in present])
    at = move_apart(middle / size, 0.075) * size
    for place, point in zip(present, at, strict=True):
        box = {"boxstyle": "circle,pad=0.15", "facecolor": PALETTE["card"][0], "edgecolor": colours[place]}
        axes.annotate(str(place + 1), point, fontsize=7.5, ha="center", va="center", bbox=box)


def _event_labels(detector: Detector, records: Sequence[EventRecord]) -> list[str]:
    """Return number, name, keywords (of a found event) and size of each event."""
    words = detector.keywords(top=3)
    labels = []
    for place, record in enumerate(records):
        found = ", ".join(words[record.name])
        label = f"{record.name}: {found}" if found and record.name.startswith(FOUND) else record.name
        labels.append(f"{place + 1}  {label if len(label) <= 44 else label[:43] + '…'} ({record.size:.0f})")
    return labels


def _to_plane(points: Floats) -> Floats:
    """Project points on their two main directions, ``(points, 2)``."""
    if not len(points):
        return np.zeros((0, 2))
    centred = points - points.mean(axis=0)
    directions = np.linalg.svd(centred, full_matrices=False)[2][:2]
    plane = centred @ directions.T
    return np.asarray(np.pad(plane, ((0, 0), (0, 2 - plane.shape[1]))))
