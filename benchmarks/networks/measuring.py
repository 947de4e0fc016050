"""What the benchmarks of FDBNL and PFDBNL share: scores of a way to learn, means over seeds, lines in a picture."""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from results import FOLDER, write_results

import cotempo as ct
from cotempo.threads import limit_threads

MEASURES = ("shd", "shd_double", "tpr", "fdr")
Learn = Callable[[Mapping[str, ct.Series], Any], Any]


def options(about: str, seeds: int, **more: Any) -> argparse.Namespace:
    """Read `--seeds` and further options given as name=default."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=seeds, help="data sets to average over")
    for name, default in more.items():
        many = {"nargs": "+"} if isinstance(default, list) else {}
        kind = type(default[0] if isinstance(default, list) else default)
        parser.add_argument(f"--{name.replace('_', '-')}", type=kind, default=default, **many)
    return parser.parse_args()


def measure(learn: Learn, data: Mapping[str, Any], seed: int) -> dict[str, float]:
    """Scores within (W) and across (A) time steps of what is learned from generated data, and seconds."""
    clients, truth = ct.make_networks(seed=seed, **data)
    with limit_threads(1):
        wall, cpu = time.perf_counter(), time.process_time()
        found = learn(clients, truth)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    scores = ct.score_network(found, truth)
    named = {
        f"{short}_{name}": scores[f"{long}_{name}"]
        for short, long in (("W", "within"), ("A", "across"))
        for name in MEASURES
    }
    return {**named, "seconds": wall, "cpu_seconds": cpu}


def average(runs: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Means over runs, and the standard error of the mean distance."""
    means = {name: statistics.mean(run[name] for run in runs) for name in runs[0]}
    error = statistics.stdev([run["W_shd_double"] for run in runs]) / math.sqrt(len(runs)) if len(runs) > 1 else 0.0
    return {**means, "W_shd_double_se": error}


def show(row: Mapping[str, Any]) -> None:
    """Print a row on one line."""
    print("  ".join(f"{k} {v:.3g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items()), flush=True)


def finish(name: str, rows: Sequence[Mapping[str, Any]], seeds: int, comparison: str) -> None:
    """Print the line of comparison and write the rows."""
    print(comparison)
    write_results(f"networks/{name}", rows, seed=f"0 to {seeds - 1}", note=comparison)


def plot_lines(
    name: str, rows: Sequence[Mapping[str, Any]], x: str, by: str, measures: Iterable[str], *, log: bool = False
) -> None:
    """Draw one panel per measure with a line for each value of `by`, beside the CSV."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    measures = list(measures)
    figure, panels = plt.subplots(1, len(measures), figsize=(3.6 * len(measures), 3.2), squeeze=False)
    for panel, wanted in zip(panels[0], measures, strict=True):
        for value in dict.fromkeys(row[by] for row in rows):
            chosen = [row for row in rows if row[by] == value]
            panel.plot([row[x] for row in chosen], [row[wanted] for row in chosen], marker="o", label=str(value))
        panel.set_xlabel(x)
        panel.set_title(wanted)
        if log:
            panel.set_xscale("log", base=2)
    panels[0][0].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(FOLDER / "networks" / f"{name}.png", dpi=120)
    plt.close(figure)


def federated(**parameters: Any) -> Learn:
    """One network by FDBNL."""
    return lambda clients, truth: ct.FDBNL(compare=False, **parameters).fit(clients, progress=False).network


def personal(cohort: int | None = None, **parameters: Any) -> Learn:
    """A network for every client by PFDBNL."""

    def learn(clients: Mapping[str, ct.Series], truth: Any) -> Any:
        fitted = ct.PFDBNL(compare=False, **parameters).fit(clients, progress=False, cohort=cohort)
        return {name: fitted[name].network for name in clients}

    return learn
