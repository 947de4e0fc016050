"""The heat maps of lambda and the best ones (appendix 7.3, Tables 9 to 11): distance over the papers' [.05, .5].

Run: python benchmarks/networks/lambdas.py --tables 9 10 11 [--seeds 5] [--jobs 16] [--collect 1]

Table 9: 5 to 20 variables, 10 clients. 10 and 11: 2 to 64 clients, 256 rows, 10 and 20 variables. Every grid of one
seed is a part, once with the papers' settings and once with ours, beside what ours chooses by itself. The papers'
lambda stands before a sum over clients; for ours, per average loss, it is lambda / K. The best is the least distance
of W and A together.
"""

from __future__ import annotations

import statistics
from functools import partial
from pathlib import Path
from typing import Any

from measuring import federated, finish, measure, options, show
from parts import FOLDER, about, do_parts, read_parts

from drawing import plot_heat, read_results

GRID = (0.05, 0.15, 0.25, 0.35, 0.5)
NAMES = ("W_shd", "W_shd_double", "A_shd", "W_tpr")
WAYS: dict[str, dict[str, Any]] = {"FDBNL": {}, "FDBNL, preset paper": {"preset": "paper"}}
#: (variables, clients): lambda_a, lambda_w as printed.
PRINTED: dict[int, dict[tuple[int, int], tuple[float, float]]] = {
    9: {(d, 10): (0.5, 0.5) for d in (5, 10, 15, 20)},
    10: {(10, 2): (0.05, 0.3), (10, 4): (0.5, 0.5), (10, 8): (0.5, 0.45), (10, 16): (0.4, 0.5), (10, 32): (0.35, 0.25),
         (10, 64): (0.4, 0.3)},
    11: {(20, 2): (0.3, 0.4), (20, 4): (0.2, 0.5), (20, 8): (0.5, 0.5), (20, 16): (0.5, 0.5), (20, 32): (0.5, 0.5),
         (20, 64): (0.05, 0.25)},
}  # fmt: skip
ROWS = {5: 30, 10: 50, 15: 90, 20: 100}


def main() -> None:
    chosen = options(__doc__, seeds=5, tables=[9, 10, 11], jobs=1, collect=0, parts=str(FOLDER))
    work = [
        (
            {"lambdas": table, "variables": d, "clients": k, "method": way, "seed": seed},
            partial(grid, table, d, k, way, seed),
        )
        for seed in range(chosen.seeds) for table in chosen.tables for d, k in PRINTED[table] for way in WAYS
    ]  # fmt: skip
    if not (chosen.plot or chosen.collect):
        do_parts(Path(chosen.parts), work, chosen.jobs)
    if not chosen.plot:
        for table in chosen.tables:
            tabulate(table, read_parts(Path(chosen.parts), lambdas=table))
    if 10 in chosen.tables:
        plot()


def grid(table: int, variables: int, clients: int, way: str, seed: int) -> dict[str, Any]:
    """Distances over the grid on one seed, and those of the automatic choice where there is one."""
    data = {"variables": variables, "clients": clients, "samples": ROWS[variables] if table == 9 else 256}
    unit = 1 if "preset" in WAYS[way] else clients
    learned = {
        f"{within} {across}": federated(**WAYS[way], lambda_within=within / unit, lambda_across=across / unit)
        for within in GRID for across in GRID
    }  # fmt: skip
    if way == "FDBNL":
        learned["auto auto"] = federated()
    scores = {key: measure(learn, data, seed) for key, learn in learned.items()}
    return {"scores": {key: {name: score[name] for name in NAMES} for key, score in scores.items()}}


def tabulate(table: int, parts: list[dict[str, Any]]) -> None:
    """Write the means over seeds, the best of each setting marked."""
    rows: list[dict[str, Any]] = []
    said = []
    for (d, k), (across, within) in PRINTED[table].items():
        for way in WAYS:
            own = [
                part["scores"] for part in parts if (part["variables"], part["clients"], part["method"]) == (d, k, way)
            ]
            if not own:
                continue
            found = []
            for key in own[0]:
                mean = {name: statistics.mean(one[key][name] for one in own) for name in NAMES[:3]}
                empty = sum(one[key]["W_tpr"] == 0 for one in own)
                about_row = {"variables": d, "clients": k, "method": way, "seeds": len(own)}
                lambdas = dict(zip(("lambda_within", "lambda_across"), key.split(), strict=True))
                found.append({**about_row, **lambdas, **mean, "empty": empty, "best": ""})
            best = min(
                (row for row in found if row["lambda_within"] != "auto"), key=lambda row: row["W_shd"] + row["A_shd"]
            )
            best["best"] = "best"
            rows += found
            said.append(
                f"{d} variables, {k} clients, {way}: lambda_a {best['lambda_across']}, "
                f"lambda_w {best['lambda_within']} (printed {across}, {within})"
            )
            show(best)
    if rows:
        finish(f"lambdas_table{table}", rows, max(row["seeds"] for row in rows), "; ".join(said) + f"; {about(parts)}")


def plot() -> None:
    """Wrong edges, W and A together, with the papers' settings for each number of clients of Table 10."""
    rows = [row for row in read_results("lambdas_table10") if row["method"] == "FDBNL, preset paper"]
    panels = {}
    for clients in dict.fromkeys(row["clients"] for row in rows):
        own = [row["W_shd"] + row["A_shd"] for row in rows if row["clients"] == clients]
        panels[f"K = {clients:g}"] = [own[i : i + len(GRID)] for i in range(0, len(own), len(GRID))]
    plot_heat("lambdas", panels, GRID, "wrong edges, W + A")


if __name__ == "__main__":
    main()
