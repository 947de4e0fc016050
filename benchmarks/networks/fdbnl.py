"""FDBNL: accuracy and time.

Run: python benchmarks/networks/fdbnl.py [--seeds 5]
"""

from __future__ import annotations

from measuring import average, federated, finish, measure, options, show

WAYS = {
    "FDBNL": federated(scaled=True),
    "FDBNL, one unit": federated(),
    "FDBNL, one unit, lambda .05": federated(lambda_within=0.05, lambda_across=0.05),
    "FDBNL, preset paper": federated(preset="paper"),
}


def main() -> None:
    chosen = options(__doc__, seeds=5)
    rows = []
    for variables, clients in ((20, 8), (10, 64), (20, 64)):
        data = {"variables": variables, "clients": clients, "samples": 512}
        for name, learn in WAYS.items():
            runs = [measure(learn, data, seed) for seed in range(chosen.seeds)]
            rows.append({"variables": variables, "clients": clients, "method": name, **average(runs)})
            show(rows[-1])
    finish("fdbnl", rows, chosen.seeds, "W, a reversed edge counting 2")


if __name__ == "__main__":
    main()
