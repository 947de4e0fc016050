"""OneRound's accuracy and time over sizes and kinds of noise.

Run: python benchmarks/networks/oneround.py [--seeds 10] [--large]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from results import write_results

import cotempo as ct

KINDS: dict[str, dict[str, Any]] = {
    "equal": {},
    "unequal": {"noise": "unequal"},
    "standardised": {"standardised": True},
}


def measure(variables: int, samples: int, seeds: int, **options: Any) -> dict[str, Any]:
    """Mean and standard error over seeds of the distances within a time step, and seconds a fit."""
    rows = []
    for seed in range(seeds):
        clients, truth = ct.make_networks(variables=variables, clients=8, samples=samples, seed=seed, **options)
        began = time.process_time()
        with warnings.catch_warnings(action="ignore"):
            fitted = ct.OneRound(compare=False, minimum_rows=1).fit(clients)
        seconds = time.process_time() - began
        scores = ct.score_network(fitted.network, truth)
        skeleton = ((fitted.network.within != 0) | (fitted.network.within.T != 0)) ^ (
            (truth.within != 0) | (truth.within.T != 0)
        )
        rows.append((scores["within_shd_double"], skeleton.sum() / 2, scores["across_shd"], seconds))
    double, skeleton_distance, across, seconds = zip(*rows, strict=True)
    error = statistics.stdev(double) / len(double) ** 0.5 if len(double) > 1 else 0.0
    return {
        "variables": variables,
        "samples": samples,
        "seeds": seeds,
        "within_shd_double": statistics.mean(double),
        "standard_error": error,
        "skeleton_shd": statistics.mean(skeleton_distance),
        "across_shd": statistics.mean(across),
        "cpu_seconds": statistics.mean(seconds),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--large", action="store_true", help="also 100 and 200 variables")
    options = parser.parse_args()
    cases = [(20, 512, kind, options.seeds) for kind in KINDS] + [(50, 512, kind, options.seeds) for kind in KINDS]
    cases += [
        (5, 30, "equal", 2 * options.seeds),
        (10, 50, "equal", 2 * options.seeds),
        (20, 100, "equal", 2 * options.seeds),
    ]
    if options.large:
        cases += [(100, 512, "equal", max(options.seeds // 2, 1)), (200, 512, "equal", 1)]
    rows = []
    for variables, samples, kind, seeds in cases:
        rows.append({"noise": kind, **measure(variables, samples, seeds, **KINDS[kind])})
        print(
            "  ".join(f"{k} {v:.3g}" if isinstance(v, float) else f"{k} {v}" for k, v in rows[-1].items()), flush=True
        )
    note = "8 clients; a reversed edge counts 2; DYNOTEARS on pooled data: 4-6 equal, 52 unequal at 20 variables"
    write_results("networks/oneround", rows, seed=f"0..{options.seeds - 1}", note=note)


if __name__ == "__main__":
    main()
