"""Pictures of result files: lines, grouped bars and heat maps, each beside the CSV it is drawn from."""

from __future__ import annotations

import csv
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from results import FOLDER

MEASURES = ("W_shd", "W_tpr", "W_fdr", "A_shd", "A_tpr", "A_fdr")
TITLES = {"shd": "wrong edges", "tpr": "share of true edges found", "fdr": "share of found edges that are wrong"}


def read_results(name: str) -> list[dict[str, Any]]:
    """The rows of a result file, numbers as numbers and empty cells as NaN."""
    with open(FOLDER / "networks" / f"{name}.csv", newline="") as file:
        return [{key: _number(cell) for key, cell in row.items()} for row in csv.DictReader(file)]


def _number(cell: str) -> Any:
    try:
        return float(cell or "nan")
    except ValueError:
        return cell


def plot_measures(name: str, x: str, label: str, *, log: bool = False) -> None:
    """Draw SHD, TPR and FDR of W above those of A, a line for each method, and what was printed where it is known."""
    rows = read_results(name)
    figure = _figure(10.5, 6.2)
    panels = figure.subplots(2, 3, sharex=True)
    for panel, wanted in zip(panels.flat, MEASURES, strict=True):
        for method in dict.fromkeys(row["method"] for row in rows):
            chosen = [row for row in rows if row["method"] == method]
            errors = [row.get(f"{wanted}_se", 0.0) for row in chosen]
            where, values = [row[x] for row in chosen], [row[wanted] for row in chosen]
            panel.errorbar(where, values, errors, marker="o", markersize=4, capsize=2, label=method)
        if f"printed_{wanted}" in rows[0]:
            printed = {row[x]: row[f"printed_{wanted}"] for row in rows}
            panel.plot(list(printed), list(printed.values()), "k--", marker="x", linewidth=1, label="printed")
        matrix, measure = wanted.split("_")
        panel.set_title(f"{matrix}: {TITLES[measure]}", fontsize=10)
        panel.set_ylim(bottom=0)
        if log:
            panel.set_xscale("log", base=2)
        panel.set_xticks(ticks := sorted({row[x] for row in rows}), [f"{tick:g}" for tick in ticks])
        panel.minorticks_off()
        panel.grid(alpha=0.25)
    for panel in panels[1]:
        panel.set_xlabel(label)
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    _save(figure, name)


def plot_bars(name: str, groups: Sequence[str], bars: Mapping[str, Sequence[float]], label: str) -> None:
    """Draw horizontal bars in groups, a colour for each name of `bars`; NaN leaves a bar out."""
    lines = sum(length == length for lengths in bars.values() for length in lengths) + len(groups)
    figure = _figure(8.0, 1.2 + 0.06 * len(bars) + 0.16 * lines)
    ax = figure.subplots()
    place, middles = 0, []
    named: set[str] = set()
    for group in range(len(groups)):
        first = place
        for index, (bar, lengths) in enumerate(bars.items()):
            if lengths[group] != lengths[group]:
                continue
            drawn = ax.barh(place, lengths[group], 0.92, color=f"C{index}", label="" if bar in named else bar)
            ax.bar_label(drawn, [f"{lengths[group]:.2f}"], fontsize=7, padding=2)
            named.add(bar)
            place += 1
        middles.append((first + place - 1) / 2)
        place += 1
    ax.set_yticks(middles, groups)
    ax.set_ylim(place - 1, -1)
    ax.set_xlim(0, 1.06)
    ax.set_xlabel(label)
    ax.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside upper left", ncols=min(len(bars), 4) if len(bars) < 9 else 3, frameon=False, fontsize=8)
    _save(figure, name)


def plot_heat(name: str, panels: Mapping[str, Sequence[Sequence[float]]], ticks: Sequence[float], label: str) -> None:
    """Draw square heat maps of lambda within over lambda across, in one scale, each cell with its number."""
    figure = _figure(3.3 * len(panels) + 1.0, 3.9)
    axes = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    highest = max(cell for cells in panels.values() for row in cells for cell in row)
    for ax, (title, cells) in zip(axes, panels.items(), strict=True):
        image = ax.imshow(cells, cmap="viridis_r", vmin=0, vmax=highest)
        for i, row in enumerate(cells):
            for j, cell in enumerate(row):
                colour = "white" if cell > highest / 2 else "black"
                ax.text(j, i, f"{cell:.1f}", ha="center", va="center", fontsize=8, color=colour)
        ax.set_xticks(range(len(ticks)), ticks)
        ax.set_yticks(range(len(ticks)), ticks)
        ax.set_xlabel("lambda across")
        ax.set_title(title, fontsize=10)
    axes[0].set_ylabel("lambda within")
    figure.colorbar(image, ax=list(axes), label=label, shrink=0.9)
    _save(figure, name)


def plot_calibration(name: str) -> None:
    """Draw the share of edges that are right over the probability stated, a panel for each kind of noise."""
    rows = read_results(name)
    kinds = list(dict.fromkeys(row["noise"] for row in rows))
    figure = _figure(3.9 * len(kinds), 3.9)
    axes = figure.subplots(1, len(kinds), squeeze=False, sharey=True)[0]
    for ax, kind in zip(axes, kinds, strict=True):
        ax.plot([0, 1], [0, 1], color="0.6", linewidth=1)
        for samples in dict.fromkeys(row["samples"] for row in rows):
            own = [row for row in rows if (row["noise"], row["samples"]) == (kind, samples) and row["edges"] >= 10]
            ax.plot([row["stated"] for row in own], [row["right"] for row in own], "o-", label=f"n = {samples:g}")
        ax.set_title(f"{kind} noise", fontsize=10)
        ax.set_xlabel("probability stated")
        ax.set_aspect("equal")
        ax.grid(alpha=0.25)
    axes[0].set_ylabel("share of edges that are right")
    axes[0].legend(frameon=False)
    _save(figure, name)


def _figure(width: float, height: float) -> Any:
    from matplotlib.figure import Figure  # where results are made there may be none

    return Figure(figsize=(width, height), layout="constrained")


def _save(figure: Any, name: str) -> None:
    figure.savefig(FOLDER / "networks" / f"{name}.png", dpi=110)
