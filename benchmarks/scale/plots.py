"""The two figures of docs/scale.md, from the result files.

python benchmarks/scale/plots.py
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import matplotlib.pyplot as plt

sys.path.insert(0, str(Path(__file__).parents[1]))
from results import FOLDER

SCALE = FOLDER / "scale"


def read(name: str) -> list[dict[str, str]]:
    """The rows of a result file; none where it was not measured."""
    path = SCALE / f"{name}.csv"
    if not path.exists():
        return []
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def plot_clients() -> None:
    """Seconds and memory of a round by the number of clients."""
    rows = [row for engine in ("inprocess", "flower-simulation", "flower") for row in read(engine)]
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    for engine, load, way in dict.fromkeys((row["engine"], row["load"], row["way"]) for row in rows):
        own = [row for row in rows if (row["engine"], row["load"], row["way"]) == (engine, load, way)]
        label = f"{load}, {way}" if engine == "inprocess" else f"{load}, {engine}"
        sizes = [int(row["clients"]) for row in own]
        axes[0].loglog(sizes, [float(row["seconds"]) for row in own], marker="o", markersize=3, label=label)
        axes[1].loglog(sizes, [float(row["whole"]) / 1e6 for row in own], marker="o", markersize=3, label=label)
    for axis, title in zip(axes, ("seconds per round", "peak memory of the process, MB"), strict=True):
        axis.set(xlabel="clients", title=title)
        axis.grid(alpha=0.3)
    axes[0].legend(fontsize=8)
    figure.savefig(SCALE / "clients.png", dpi=110)


def plot_delays() -> None:
    """Held-out loss by simulated time, one seed."""
    rows = [row for row in read("delays-curves") if row["delays"] == "stragglers"]
    methods = list(dict.fromkeys(row["method"] for row in rows))
    figure, axes = plt.subplots(1, len(methods), figsize=(11, 3.6), layout="constrained")
    for axis, method in zip(axes, methods, strict=True):
        for buffer in dict.fromkeys(row["buffer"] for row in rows):
            own = [row for row in rows if (row["method"], row["buffer"]) == (method, buffer)]
            label = "waits for everyone" if buffer == "0" else f"buffer of {buffer}"
            axis.plot([float(row["seconds"]) for row in own], [float(row["loss"]) for row in own], label=label)
        axis.set(title=method, xlabel="simulated seconds")
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("held-out loss")
    axes[0].legend(fontsize=8)
    figure.savefig(SCALE / "delays.png", dpi=110)


if __name__ == "__main__":
    plt.switch_backend("agg")
    plot_clients()
    plot_delays()
