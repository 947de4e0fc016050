"""Lorenz-96, 10 nodes, 500 rows over five clients: does the rule that chooses its own features find the products?

python benchmarks/networks/lorenz96.py [--seeds 10]
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parent)]
from ranking_setting import grouped, mean_rows  # noqa: E402
from results import write_results  # noqa: E402

import cotempo as ct  # noqa: E402
from drawing import plot_bars, read_results  # noqa: E402

SCORES = ("auto", "fourier", "lagged", "granger")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--plot", action="store_true", help="only draw what the result file holds")
    chosen = parser.parse_args()
    if not chosen.plot:
        run(chosen.seeds)
    plot()


def run(seeds: int) -> None:
    rows: list[dict[str, Any]] = []
    for force in (10.0, 40.0):
        for step in (0.1, 0.05):
            for seed in range(seeds):
                clients, truth = ct.make_lorenz96(force=force, step=step, seed=seed)
                for score in SCORES:
                    began = time.perf_counter()
                    ranking = ct.rank_edges(clients, score=score, seed=seed)
                    seconds = time.perf_counter() - began
                    rows.append(
                        {"force": force, "step": step, "score": score, "seed": seed, "choice": ranking.choice,
                         **ranking.compare(truth), "seconds": seconds}
                    )  # fmt: skip
                    print(rows[-1], flush=True)
    write_results("networks/lorenz96_each", rows, seed=list(range(seeds)), note="T = 500, 10 nodes, 5 clients")
    means = mean_rows(rows, ["force", "step", "score"], ["auroc", "aupr", "seconds"])
    write_results(
        "networks/lorenz96", means, seed=list(range(seeds)), note="T = 500, 10 nodes, 5 clients; the papers have none"
    )
    for row in means:
        if row["score"] == "auto":
            print(
                f"force {row['force']:.0f}, step {row['step']}: AUROC {row['auroc']:.4f} (the papers have no Lorenz-96)"
            )


def plot() -> None:
    rows = [{**row, "setting": f"force {row['force']:.0f}, step {row['step']}"} for row in read_results("lorenz96")]
    plot_bars("lorenz96", *grouped(rows, "setting", "score", "auroc"), "AUROC, Lorenz-96, 10 nodes, T = 500")


if __name__ == "__main__":
    main()
