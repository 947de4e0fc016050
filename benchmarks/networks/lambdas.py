"""The heat maps of lambda (appendix 7.3, Tables 9 to 11): distance over lambda_W and lambda_A of the papers' [.05, .5].

Run: python benchmarks/networks/lambdas.py [--clients 2 8 64] [--variables 10] [--samples 256] [--seeds 5]

The papers' lambda stands before a sum over clients; per average loss it is lambda / K. Also counts empty graphs.
"""

from __future__ import annotations

import argparse
import statistics

from measuring import federated, finish, measure, options, show

from drawing import plot_heat, read_results

GRID = (0.05, 0.15, 0.25, 0.35, 0.5)


def main() -> None:
    chosen = options(__doc__, seeds=5, clients=[2, 8, 64], variables=10, samples=256)
    if not chosen.plot:
        run(chosen)
    plot()


def run(chosen: argparse.Namespace) -> None:
    rows = []
    for clients in chosen.clients:
        data = {"variables": chosen.variables, "clients": clients, "samples": chosen.samples}
        for within in GRID:
            for across in GRID:
                learn = federated(lambda_within=within / clients, lambda_across=across / clients)
                runs = [measure(learn, data, seed) for seed in range(chosen.seeds)]
                row = {"clients": clients, "lambda_within": within, "lambda_across": across}
                row |= {name: statistics.mean(run[name] for run in runs) for name in ("W_shd_double", "A_shd")}
                rows.append({**row, "empty": sum(run["W_tpr"] == 0 for run in runs)})
        automatic = [measure(federated(), data, seed) for seed in range(chosen.seeds)]
        ours = {name: statistics.mean(run[name] for run in automatic) for name in ("W_shd_double", "A_shd")}
        rows.append({"clients": clients, "lambda_within": "auto", "lambda_across": "auto", **ours, "empty": 0})
        show(rows[-1])
    empty = sum(row["empty"] for row in rows)
    said = f"empty graphs: {empty} of {(len(rows) - len(chosen.clients)) * chosen.seeds} (printed: zeros above .5)"
    for clients in chosen.clients:
        own = [row for row in rows if row["clients"] == clients]
        least = min(own, key=lambda row: row["W_shd_double"] + row["A_shd"])
        said += (
            f"; K={clients}: best lambda_W {least['lambda_within']}, lambda_A {least['lambda_across']} with "
            f"{least['W_shd_double']:.1f} + {least['A_shd']:.1f}, auto {own[-1]['W_shd_double']:.1f} + "
            f"{own[-1]['A_shd']:.1f}"
        )
    finish("lambdas", rows, chosen.seeds, said)


def plot() -> None:
    """Wrong edges, W and A together, for each number of clients."""
    rows = read_results("lambdas")
    panels = {}
    for clients in dict.fromkeys(row["clients"] for row in rows):
        own = [row["W_shd_double"] + row["A_shd"] for row in rows if row["clients"] == clients]
        title = f"K = {clients:g}, chosen automatically: {own.pop():.1f}"
        panels[title] = [own[i : i + len(GRID)] for i in range(0, len(own), len(GRID))]
    plot_heat("lambdas", panels, GRID, "wrong edges, W + A")


if __name__ == "__main__":
    main()
