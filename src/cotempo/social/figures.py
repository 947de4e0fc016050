"""Figures of a run of a graph learner: how it converged, and what DAMe decided in every round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from cotempo.social.graph_model.data import RoundRecord


def draw_rounds(history: Sequence[Mapping[str, Any]], record: Sequence[RoundRecord]) -> dict[str, Figure]:
    """Draw convergence and, where there is a record, local weights, groups and the last similarities."""
    from matplotlib.figure import Figure

    figures: dict[str, Figure] = {}
    trained = [step for step in history if step["phase"] == "train"]
    if trained:
        figure = Figure(figsize=(6, 3), layout="constrained")
        axes = figure.subplots()
        axes.plot([step["round"] for step in trained], [step["metrics"].get("score", np.nan) for step in trained])
        axes.set(xlabel="round", ylabel="NMI on validation posts")
        figures["Convergence"] = figure
    if record:
        figures["Local weights and groups"] = _draw_decisions(record)
        figures["Similarities in the last round"] = _draw_similarities(record[-1])
    return figures


def _draw_decisions(record: Sequence[RoundRecord]) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2)
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
    right.set(xlabel="round", title="group", yticks=range(len(names)))
    right.set_yticklabels(names, fontsize=7)
    return figure


def _draw_similarities(entry: RoundRecord) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4, 3.4), layout="constrained")
    axes = figure.subplots()
    image = axes.imshow(entry.similarities, cmap="viridis")
    names = list(entry.groups)
    axes.set(xticks=range(len(names)), yticks=range(len(names)))
    axes.set_xticklabels(names, rotation=90, fontsize=7)
    axes.set_yticklabels(names, fontsize=7)
    figure.colorbar(image)
    return figure
