"""FDBNL: accuracy and time, beside the authors' own code run on the same data (19 wrong edges in 20 s, 23 in 59 s).

Run: python benchmarks/networks/fdbnl.py [--seeds 5]
"""

from __future__ import annotations

from measuring import average, federated, finish, measure, options, show

AUTHORS = {(20, 8): "19 in 20 s", (20, 64): "23 in 59 s"}
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
            row = {"variables": variables, "clients": clients, "method": name, **average(runs)}
            rows.append({**row, "authors": AUTHORS.get((variables, clients), "")})
            show(rows[-1])
    ours = {(row["variables"], row["clients"]): row for row in rows if row["method"] == "FDBNL, one unit"}
    said = [
        f"d={d}, K={k}: {ours[d, k]['W_shd_double']:.1f} in {ours[d, k]['cpu_seconds']:.1f} s of CPU (authors {them})"
        for (d, k), them in AUTHORS.items()
    ]
    finish("fdbnl", rows, chosen.seeds, "W, a reversed edge counting 2. " + "; ".join(said))


if __name__ == "__main__":
    main()
