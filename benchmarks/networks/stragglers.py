"""FDBNL that does not wait for stragglers: simulated time and graph, beside the loop that waits for everyone.

    python benchmarks/networks/stragglers.py

Ten clients, two of them ten times slower, eight variables of equal noise, fixed sparsity, every seed a network of its
own. Both loops have the same parameters; `growth` is the factor of rho_1 each step of the server, 2 being the default.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from results import write_results

import cotempo as ct

CLIENTS, VARIABLES = 10, 8
SLOW = ct.Delays(stragglers=0.2, slowdown=10)
SETTING: dict[str, Any] = {"lambda_within": 0.05, "lambda_across": 0.05, "scaled": False, "compare": False}


def measure(seed: int, samples: int, growth: float) -> dict[str, Any]:
    """Run both loops on one network."""
    clients, truth = ct.make_networks(variables=VARIABLES, clients=CLIENTS, samples=samples, seed=seed)
    assert isinstance(truth, ct.Network)
    method, row = ct.FDBNL(cycle_growth=growth, **SETTING), {"samples": samples, "growth": growth, "seed": seed}
    found = {}
    for loop, buffer in (("waits", None), ("goes on", "auto")):
        steps = ct.simulate_delays(method, clients, delays=SLOW, buffer=buffer, seed=seed)
        shared = steps[-1].step.state.shared[0]
        within = np.abs(shared[:VARIABLES]) >= method.threshold
        across = np.abs(shared[VARIABLES:]) >= method.threshold_across
        found[loop] = (within, across, shared)
        wrong = int((within != (truth.within != 0)).sum() + (across != (truth.across[0] != 0)).sum())
        row |= {f"{loop}: seconds": steps[-1].seconds, f"{loop}: steps": len(steps), f"{loop}: wrong edges": wrong}
    (within, across, weights), (late_within, late_across, late_weights) = found["waits"], found["goes on"]
    differ = int((within != late_within).sum() + (across != late_across).sum())
    ratio = row["goes on: seconds"] / row["waits: seconds"]
    apart = float(np.abs(weights - late_weights).max())
    return {**row, "edges that differ": differ, "largest difference of a weight": apart, "ratio of seconds": ratio}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument("--samples", nargs="+", type=int, default=[2000, 8000])
    parser.add_argument("--growths", nargs="+", type=float, default=[1.3, 2.0])
    given = parser.parse_args()
    rows = []
    for samples in given.samples:
        for growth in given.growths:
            for seed in given.seeds:
                rows.append(measure(seed, samples, growth))
                print(rows[-1], flush=True)
    write_results("networks/stragglers", rows, seed=given.seeds, note=f"{CLIENTS} clients, two ten times slower")


if __name__ == "__main__":
    main()
