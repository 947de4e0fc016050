"""What the benchmarks of FDBNL and PFDBNL share: scores of a way to learn, and means over seeds."""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from baselines import Ave, Best
from results import write_results

import cotempo as ct
from cotempo.federation.reducers import PlainReducer
from cotempo.threads import limit_threads

MEASURES = ("shd", "shd_double", "tpr", "fdr")
Learn = Callable[[Mapping[str, ct.Series], Any], Any]


def options(about: str, seeds: int, **more: Any) -> argparse.Namespace:
    """Read `--seeds`, `--plot` and further options given as name=default."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=seeds, help="data sets to average over")
    parser.add_argument("--plot", action="store_true", help="only draw what the result file holds")
    for name, default in more.items():
        many = {"nargs": "+"} if isinstance(default, list) else {}
        kind = type(default[0] if isinstance(default, list) else default)
        parser.add_argument(f"--{name.replace('_', '-')}", type=kind, default=default, **many)
    return parser.parse_args()


def measure(learn: Learn, data: Mapping[str, Any], seed: int) -> dict[str, float]:
    """Scores within (W) and across (A) time steps of what is learned from generated data, and seconds."""
    return measure_each(lambda clients, truth: {"": learn(clients, truth)}, data, seed)[""]


def measure_each(learn: Learn, data: Mapping[str, Any], seed: int) -> dict[str, dict[str, float]]:
    """The same for a way that learns several networks at once, by name; each is said to take the time of all."""
    clients, truth = ct.make_networks(seed=seed, **data)
    with limit_threads(1):
        wall, cpu = time.perf_counter(), time.process_time()
        found = learn(clients, truth)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return {
        name: {**measures(ct.score_network(one, truth)), "seconds": wall, "cpu_seconds": cpu}
        for name, one in found.items()
    }


def measures(scores: Mapping[str, float]) -> dict[str, float]:
    """The papers' measures of W and A."""
    return {
        f"{short}_{name}": scores[f"{long}_{name}"]
        for short, long in (("W", "within"), ("A", "across"))
        for name in MEASURES
    }


def average(runs: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Means over runs, and the standard errors of the mean distances."""
    means = {name: statistics.mean(run[name] for run in runs) for name in runs[0]}
    for name in ("W_shd", "W_shd_double", "A_shd"):
        values = [run[name] for run in runs]
        means[f"{name}_se"] = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0
    return means


def show(row: Mapping[str, Any]) -> None:
    """Print a row on one line."""
    print("  ".join(f"{k} {v:.3g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items()), flush=True)


def finish(name: str, rows: Sequence[Mapping[str, Any]], seeds: int, comparison: str) -> None:
    """Print the line of comparison and write the rows."""
    print(comparison)
    write_results(f"networks/{name}", rows, seed=f"0 to {seeds - 1}", note=comparison)


def local(clients: Mapping[str, ct.Series], truth: Any) -> dict[str, ct.Network]:
    """The papers' Ave and Best, from the same local networks."""
    learned = Ave().learn_each(clients)
    return {"Ave": Ave().fit(clients, learned), "Best": Best().fit(clients, truth, learned)}


def federated(**parameters: Any) -> Learn:
    """One network by FDBNL; generated columns share one unit, so they are not scaled unless said."""
    method = ct.FDBNL(**{"compare": False, "scaled": False, **parameters})
    return lambda clients, truth: method.fit(clients, progress=False, reducer=PlainReducer()).network


def personal(cohort: int | None = None, **parameters: Any) -> Learn:
    """A network for every client by PFDBNL, not scaled unless said."""
    method = ct.PFDBNL(**{"compare": False, "scaled": False, **parameters})

    def learn(clients: Mapping[str, ct.Series], truth: Any) -> Any:
        fitted = method.fit(clients, progress=False, cohort=cohort, reducer=PlainReducer())
        return {name: fitted[name].network for name in clients}

    return learn
