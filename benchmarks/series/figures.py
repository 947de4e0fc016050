"""Pictures of the tables, written beside the result files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

OURS, PRINTED = "#1f5fa8", "#c8553d"


def draw_scores(rows: Sequence[Mapping[str, Any]], path: Path, title: str) -> None:
    """Draw the Context-FID of every method, a dot for each seed, with the mean, the floor and what was printed."""
    from matplotlib.figure import Figure  # where results are made there may be none
    from matplotlib.ticker import LogLocator, NullFormatter

    by_method: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_method.setdefault(row["method"], []).append(row)
    names = sorted(by_method, key=lambda name: -np.mean([row["Context-FID"] for row in by_method[name]]))
    figure = Figure(figsize=(6.4, 1.5 + 0.32 * len(names)), layout="constrained")
    axes = figure.subplots()
    floor = float(np.mean([row["Context-FID floor"] for row in rows]))
    axes.axvline(floor, color="0.5", linewidth=1, linestyle="--", label="real against real")
    for place, name in enumerate(names):
        scores = [row["Context-FID"] for row in by_method[name]]
        axes.plot(scores, [place] * len(scores), "o", color=OURS, alpha=0.45, markersize=5)
        axes.plot(np.mean(scores), place, "|", color=OURS, markersize=14, markeredgewidth=2)
        axes.annotate(f"{np.mean(scores):.2f}", (max(scores), place), (9, 0), textcoords="offset points", va="center",
                      fontsize=8)  # fmt: skip
        paper = by_method[name][0]["printed Context-FID"]
        if paper != "":
            axes.plot(paper, place, "D", color=PRINTED, fillstyle="none", markersize=6)
    axes.plot([], [], "o", color=OURS, label="here")
    if any(row["printed Context-FID"] != "" for row in rows):
        axes.plot([], [], "D", color=PRINTED, fillstyle="none", label="printed")
    axes.set_yticks(range(len(names)), names)
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.margins(x=0.12)
    axes.set_ylim(-0.6, len(names) - 0.4)
    axes.set_xlabel("Context-FID (log scale, lower is better)")
    axes.set_title(title, fontsize=10)
    axes.grid(axis="x", alpha=0.25)
    axes.legend(frameon=False, fontsize=8, loc="best")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.savefig(path, dpi=110)
