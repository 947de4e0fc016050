"""Figure 2: three lags, n = 500, 5 variables, 10 clients; and the threshold that keeps the weak third lag.

Run: python benchmarks/networks/three_lags.py [--seeds 5]
"""

from __future__ import annotations

from measuring import average, federated, finish, measure, options, show
from results import FOLDER

import cotempo as ct
from cotempo.networks.plots import plot_networks

DATA = {"variables": 5, "clients": 10, "samples": 500, "lags": 3}
WAYS = {
    "FDBNL": federated(lags=3),
    "FDBNL, threshold .15 across": federated(lags=3, threshold_across=0.15),
    "FDBNL, preset paper": federated(preset="paper", lags=3),
}


def main() -> None:
    chosen = options(__doc__, seeds=5)
    rows = []
    for name, learn in WAYS.items():
        rows.append({"method": name, **average([measure(learn, DATA, seed) for seed in range(chosen.seeds)])})
        show(rows[-1])
    clients, truth = ct.make_networks(seed=0, **DATA)
    figure = plot_networks(WAYS["FDBNL"](clients, truth), truth)
    printed = "printed: weights close to the truth, thresholds .3"
    ours = "; ".join(f"{r['method']}: W {r['W_shd_double']:.1f}, A {r['A_shd']:.1f} wrong edges" for r in rows)
    finish("three_lags", rows, chosen.seeds, f"{printed}; ours: {ours}")
    figure.savefig(FOLDER / "networks" / "three_lags.png", dpi=110)


if __name__ == "__main__":
    main()
