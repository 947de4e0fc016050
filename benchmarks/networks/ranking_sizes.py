"""`rank_edges` by default at 5 to 300 variables, some strange: what is found and left out, and how long it takes.

To generated columns come a binary one with two equally frequent values, a constant one and one that moves once.

Run: python benchmarks/networks/ranking_sizes.py [--seeds 3] [--variables 5 50 100 300]
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from measuring import finish, options, show

import cotempo as ct
from cotempo.networks.fitted import edges_of
from cotempo.threads import limit_threads

STRANGE = ("coin", "constant", "once")


def widened(values: np.ndarray) -> np.ndarray:
    """The same with three strange columns."""
    once = np.zeros(len(values))
    once[len(values) // 2] = 1.0
    return np.column_stack([values, np.arange(len(values)) % 2, np.full(len(values), 0.1), once])


def measure(variables: int, seed: int, score: str) -> dict[str, Any]:
    """Areas over the generated columns, what was chosen and left out, and seconds."""
    plain, truth = ct.make_networks(variables=variables, clients=4, samples=1600, degree=0, lags=2, seed=seed)
    clients = {
        name: ct.Series.from_arrays(widened(table.values), features=[*table.features, *STRANGE])
        for name, table in plain.items()
    }
    with limit_threads(1):
        began = time.process_time()
        ranking = ct.rank_edges(clients, score=score)
        seconds = time.process_time() - began
    known = np.pad(edges_of(truth), (0, len(STRANGE)))
    left_out = " | ".join(ranking.left_out)
    return {**ranking.compare(known), "choice": ranking.choice, "left_out": left_out, "cpu_seconds": seconds}


def main() -> None:
    chosen = options(__doc__, seeds=3, variables=[5, 50, 100, 300])
    rows = []
    for variables in chosen.variables:
        for score in ("auto", "granger"):
            for seed in range(chosen.seeds):
                rows.append({"variables": variables, "score": score, "seed": seed, **measure(variables, seed, score)})
                show(rows[-1])
    worst = min(row["auroc"] for row in rows)
    finish("ranking_sizes", rows, chosen.seeds, f"2 lags, 4 clients of 400 rows; worst AUROC {worst:.3f}")


if __name__ == "__main__":
    main()
