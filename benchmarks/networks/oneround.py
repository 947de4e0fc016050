"""OneRound's accuracy and time over sizes and kinds of noise.

Run: python benchmarks/networks/oneround.py [--seeds 10] [--first 0] [--large] [--variables 20 50] [--noise unequal]

`--first 1000` takes seeds that no setting was chosen on, and writes them to a file of their own.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
import warnings
from itertools import product
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
import numpy as np
from results import write_results

import cotempo as ct
from cotempo.federation import Rng

KINDS: dict[str, dict[str, Any]] = {
    "equal": {},
    "unequal": {"noise": "unequal"},
    "standardised": {"standardised": True},
}


def measure(variables: int, samples: int, seeds: range, scaled: bool, **options: Any) -> dict[str, Any]:
    """Mean and standard error over seeds of the distances within a time step, and seconds a fit."""
    rows = []
    for seed in seeds:
        clients, truth = ct.make_networks(variables=variables, clients=8, samples=samples, seed=seed, **options)
        began = time.process_time()
        with warnings.catch_warnings(action="ignore"):
            fitted = ct.OneRound(compare=False, minimum_rows=1, scaled=scaled).fit(clients)
        seconds = time.process_time() - began
        scores = ct.score_network(fitted.network, truth)
        skeleton = ((fitted.network.within != 0) | (fitted.network.within.T != 0)) ^ (
            (truth.within != 0) | (truth.within.T != 0)
        )
        told = (fitted.network.within != 0) & (truth.within.T != 0) & ~fitted.state.as_shown(fitted.state.undirected)
        rows.append(
            (
                scores["within_shd_double"],
                skeleton.sum() / 2,
                told.sum(),
                scores["across_shd"],
                truth_wins(fitted, truth),
                seconds,
            )
        )
    double, skeleton_distance, reversed_told, across, beaten, seconds = zip(*rows, strict=True)
    error = statistics.stdev(double) / len(double) ** 0.5 if len(double) > 1 else 0.0
    return {
        "variables": variables,
        "samples": samples,
        "seeds": len(seeds),
        "within_shd_double": statistics.mean(double),
        "standard_error": error,
        "skeleton_shd": statistics.mean(skeleton_distance),
        "reversed_though_told": statistics.mean(reversed_told),
        "across_shd": statistics.mean(across),
        "truth_scores_higher": sum(beaten),
        "cpu_seconds": statistics.mean(seconds),
    }


def truth_wins(fitted: Any, truth: ct.Network) -> bool:
    """Whether the true graph scores higher than the found one: then the search, not the data, was the limit."""
    evidence = fitted.method.search(fitted.state, Rng(0, "server", "benchmark")).evidence
    scores = []
    for network in (fitted.network, truth):
        edges = np.vstack([network.within, network.across.reshape(-1, len(network.within))]) != 0
        scores.append(evidence.total([tuple(np.flatnonzero(column).tolist()) for column in edges.T]))
    return scores[1] > scores[0] + 1e-6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--noise", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--variables", nargs="+", type=int, default=[5, 10, 20, 50, 100, 200])
    parser.add_argument("--large", action="store_true", help="also 100 and 200 variables")
    options = parser.parse_args()
    cases = [(20, 512, kind, options.seeds) for kind in KINDS] + [(50, 512, kind, options.seeds) for kind in KINDS]
    cases += [
        (5, 30, "equal", 2 * options.seeds),
        (10, 50, "equal", 2 * options.seeds),
        (20, 100, "equal", 2 * options.seeds),
    ]
    if options.large:
        cases += [(100, 512, "equal", options.seeds), (200, 512, "equal", max(options.seeds // 2, 1))]
    rows = []
    cases = [case for case in cases if case[0] in options.variables and case[2] in options.noise]
    for scaled, (variables, samples, kind, seeds) in product((True, False), cases):
        drawn = range(options.first, options.first + seeds)
        rows.append({"noise": kind, "scaled": scaled, **measure(variables, samples, drawn, scaled, **KINDS[kind])})
        print(
            "  ".join(f"{k} {v:.3g}" if isinstance(v, float) else f"{k} {v}" for k, v in rows[-1].items()), flush=True
        )
    note = (
        "8 clients; a reversed edge counts 2; seeds: how many, from the first on; truth_scores_higher: in how many "
        "of them; few rows take the average over graphs, which need not score highest. DYNOTEARS (causalnex), pooled: "
        "4-6 equal, 52 unequal at 20 variables"
    )
    name = f"oneround_from_{options.first}" if options.first else "oneround"
    write_results(f"networks/{name}", rows, seed=f"from {options.first}", note=note)


if __name__ == "__main__":
    main()
