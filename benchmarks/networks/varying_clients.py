"""Figures 4 to 7 (W) and 9 to 12 (A): the same rows spread over 2 to 64 clients.

Run: python benchmarks/networks/varying_clients.py --samples 512 [--variables 10 20] [--seeds 3] [--local-until 8]

`--local-until`: Ave and Best learn at every client alone, which takes longest; they are left out above so many clients.
"""

from __future__ import annotations

from measuring import average, federated, finish, measure, options, plot_lines, show

from cotempo.networks.baselines import Alldata, Ave, Best

WAYS = {
    "FDBNL": federated(),
    "FDBNL, preset paper": federated(preset="paper"),
    "Alldata": lambda clients, truth: Alldata().fit(clients),
}
LOCAL = {
    "Ave": lambda clients, truth: Ave().fit(clients),
    "Best": lambda clients, truth: Best().fit(clients, truth),
}
PRINTED = "printed for d = 20, K = 64, n = 512: TPR of W FDBNL .7, Ave .5, Best .3"


def main() -> None:
    chosen = options(__doc__, seeds=3, samples=512, variables=[10, 20], clients=[2, 4, 8, 16, 32, 64], local_until=8)
    for variables in chosen.variables:
        rows = []
        for clients in chosen.clients:
            ways = {**WAYS, **(LOCAL if clients <= chosen.local_until else {})}
            for name, learn in ways.items():
                data = {"variables": variables, "clients": clients, "samples": chosen.samples}
                runs = [measure(learn, data, seed) for seed in range(chosen.seeds)]
                rows.append({"variables": variables, "clients": clients, "method": name, **average(runs)})
                show(rows[-1])
        name = f"varying_clients_{chosen.samples}_d{variables}"
        measures = ("W_shd", "W_tpr", "W_fdr", "A_shd", "A_tpr", "A_fdr")
        plot_lines(name, rows, "clients", "method", measures, log=True)
        last = {row["method"]: row["W_tpr"] for row in rows if row["clients"] == chosen.clients[-1]}
        ours = ", ".join(f"{method} {tpr:.2f}" for method, tpr in last.items())
        finish(name, rows, chosen.seeds, f"{PRINTED}; ours for d = {variables}, K = {chosen.clients[-1]}: {ours}")


if __name__ == "__main__":
    main()
