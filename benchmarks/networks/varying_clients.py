"""Figures 4 to 7 (W) and 9 to 12 (A): the same rows spread over 2 to 64 clients.

Run: python benchmarks/networks/varying_clients.py --samples 512 [--variables 10 20] [--seeds 5]
"""

from __future__ import annotations

import argparse

from baselines import Alldata
from measuring import average, federated, finish, local, measure, measure_each, options, show

from drawing import plot_measures

WAYS = {
    "FDBNL": federated(),
    "FDBNL, preset paper": federated(preset="paper"),
    "Alldata": lambda clients, truth: Alldata().fit(clients),
}
PRINTED = "printed for d = 20, K = 64, n = 512: TPR of W FDBNL .7, Ave .5, Best .3"


def main() -> None:
    chosen = options(__doc__, seeds=5, samples=512, variables=[10, 20], clients=[2, 4, 8, 16, 32, 64])
    for variables in chosen.variables:
        name = f"varying_clients_{chosen.samples}_d{variables}"
        if not chosen.plot:
            run(name, variables, chosen)
        plot_measures(name, "clients", "clients", log=True)


def run(name: str, variables: int, chosen: argparse.Namespace) -> None:
    """Every method on every number of clients."""
    rows = []
    for clients in chosen.clients:
        data = {"variables": variables, "clients": clients, "samples": chosen.samples}
        seeds = range(chosen.seeds)
        runs = {method: [measure(learn, data, seed) for seed in seeds] for method, learn in WAYS.items()}
        alone = [measure_each(local, data, seed) for seed in seeds]
        runs |= {method: [run[method] for run in alone] for method in alone[0]}
        for method, own in runs.items():
            rows.append({"variables": variables, "clients": clients, "method": method, **average(own)})
            show(rows[-1])
    last = {row["method"]: row["W_tpr"] for row in rows if row["clients"] == chosen.clients[-1]}
    ours = ", ".join(f"{method} {tpr:.2f}" for method, tpr in last.items())
    finish(name, rows, chosen.seeds, f"{PRINTED}; ours for d = {variables}, K = {chosen.clients[-1]}: {ours}")


if __name__ == "__main__":
    main()
