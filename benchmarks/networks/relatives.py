"""Clients that share 80 % of their edges: PFDBNL beside learning alone and beside one network for all.

Run: python benchmarks/networks/relatives.py [--seeds 5]
"""

from __future__ import annotations

from baselines import Local
from measuring import average, federated, finish, measure, options, personal, show

WAYS = {
    "PFDBNL": personal(),
    "PFDBNL, preset paper": personal(preset="paper"),
    "Local": lambda clients, truth: Local().fit(clients),
    "Local, lambda .15": lambda clients, truth: Local(lambda_within=0.15, lambda_across=0.15).fit(clients),
    "FDBNL": federated(),
}


def main() -> None:
    chosen = options(__doc__, seeds=5)
    rows = []
    for samples in (240, 800):
        for noise in ("equal", "unequal"):
            data = {"variables": 10, "clients": 8, "samples": samples, "shared": 0.8, "noise": noise}
            for name, learn in WAYS.items():
                runs = [measure(learn, data, seed) for seed in range(chosen.seeds)]
                rows.append({"samples": samples, "noise": noise, "method": name, **average(runs)})
                show(rows[-1])
    said = "; ".join(
        f"n_k={row['samples'] // 8} {row['noise']} {row['method']} {row['W_shd_double']:.1f} + {row['A_shd']:.1f}"
        for row in rows
    )
    finish("relatives", rows, chosen.seeds, "wrong edges, W + A: " + said)


if __name__ == "__main__":
    main()
