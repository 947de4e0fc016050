"""Figures 3 (W) and 8 (A): more variables at few rows, 10 clients; n = 6d for d = 5, 15 and 5d for d = 10, 20.

Run: python benchmarks/networks/varying_variables.py [--seeds 5]
"""

from __future__ import annotations

from baselines import Alldata
from measuring import average, federated, finish, local, measure, measure_each, options, show

from drawing import plot_measures

WAYS = {
    "FDBNL": federated(),
    "FDBNL, preset paper": federated(preset="paper"),
    "Alldata": lambda clients, truth: Alldata().fit(clients),
}


def main() -> None:
    chosen = options(__doc__, seeds=5)
    if not chosen.plot:
        run(chosen.seeds)
    plot_measures("varying_variables", "variables", "variables")


def run(seeds: int) -> None:
    rows = []
    for variables, samples in ((5, 30), (10, 50), (15, 90), (20, 100)):
        data = {"variables": variables, "clients": 10, "samples": samples}
        runs = {name: [measure(learn, data, seed) for seed in range(seeds)] for name, learn in WAYS.items()}
        alone = [measure_each(local, data, seed) for seed in range(seeds)]
        runs |= {name: [run[name] for run in alone] for name in alone[0]}
        for name, own in runs.items():
            rows.append({"variables": variables, "samples": samples, "method": name, **average(own)})
            show(rows[-1])
    best = [
        min((row for row in rows if row["variables"] == d), key=lambda row: row["W_shd"])["method"]
        for d in (5, 10, 15, 20)
    ]
    printed = "printed: FDBNL has the lowest SHD of W for d = 5, 15, Alldata for d = 10, 20"
    finish("varying_variables", rows, seeds, f"{printed}; ours for d = 5, 10, 15, 20: {', '.join(best)}")


if __name__ == "__main__":
    main()
