"""Figures 3 (W) and 8 (A): more variables at few rows, 10 clients; n = 6d for d = 5, 15 and 5d for d = 10, 20.

Run: python benchmarks/networks/varying_variables.py [--seeds 5]
"""

from __future__ import annotations

from measuring import average, federated, finish, measure, options, plot_lines, show

from cotempo.networks.baselines import Alldata, Ave, Best

WAYS = {
    "FDBNL": federated(),
    "FDBNL, preset paper": federated(preset="paper"),
    "Ave": lambda clients, truth: Ave().fit(clients),
    "Best": lambda clients, truth: Best().fit(clients, truth),
    "Alldata": lambda clients, truth: Alldata().fit(clients),
}


def main() -> None:
    chosen = options(__doc__, seeds=5)
    rows = []
    for variables, samples in ((5, 30), (10, 50), (15, 90), (20, 100)):
        for name, learn in WAYS.items():
            data = {"variables": variables, "clients": 10, "samples": samples}
            runs = [measure(learn, data, seed) for seed in range(chosen.seeds)]
            rows.append({"variables": variables, "samples": samples, "method": name, **average(runs)})
            show(rows[-1])
    best = [
        min((row for row in rows if row["variables"] == d), key=lambda row: row["W_shd"])["method"]
        for d in (5, 10, 15, 20)
    ]
    plot_lines("varying_variables", rows, "variables", "method", ("W_shd", "W_tpr", "W_fdr", "A_shd", "A_tpr", "A_fdr"))
    printed = "printed: FDBNL has the lowest SHD of W for d = 5, 15, Alldata for d = 10, 20"
    finish("varying_variables", rows, chosen.seeds, f"{printed}; ours for d = 5, 10, 15, 20: {', '.join(best)}")


if __name__ == "__main__":
    main()
