"""Networks of one's own on clients that share most of their structure: OneRound(personal=True), alone, pooled, PFDBNL.

Run: python benchmarks/networks/personal.py [--seeds 5]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from results import write_results

import cotempo as ct

CLIENTS = 8


def distances(rows: int, noise: str, seed: int, scaled: bool) -> dict[str, float]:
    """Mean distance within a time step over clients, a reversed edge counting two, by method."""
    clients, truth = ct.make_networks(
        variables=10, clients=CLIENTS, samples=CLIENTS * rows, shared=0.8, noise=noise, seed=seed
    )
    began = time.process_time()
    fitted = ct.OneRound(personal=True, compare=False, scaled=scaled).fit(clients)
    seconds = time.process_time() - began
    own = ct.OneRound(compare=False, scaled=scaled)
    alone = {name: own.fit({name: table}).network for name, table in clients.items()}
    pooled = dict.fromkeys(clients, fitted.network)
    proximal = ct.PFDBNL(compare=False, scaled=scaled).fit(clients)
    found = {
        "personal": fitted.scores(truth),
        "alone": ct.score_network(alone, truth),
        "pooled": ct.score_network(pooled, truth),
        "pfdbnl": proximal.scores(truth),
    }
    return {
        **{name: scores["within_shd_double"] for name, scores in found.items()},
        "share": min(fitted.state.share, 99.0),
        "cpu_seconds": seconds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--scaled", action="store_true", help="columns may have any units; without it they share one")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    table = []
    for rows in (30, 100):
        for noise in ("equal", "unequal"):
            runs = [distances(rows, noise, seed, options.scaled) for seed in range(options.seeds)]
            row: dict[str, float | str | int] = {"rows": rows, "noise": noise, "seeds": options.seeds}
            row |= {name: statistics.mean(run[name] for run in runs) for name in runs[0]}
            for other in ("alone", "pooled", "pfdbnl"):
                gaps = [run["personal"] - run[other] for run in runs]
                row[f"minus_{other}"] = statistics.mean(gaps)
                row[f"minus_{other}_error"] = statistics.stdev(gaps) / len(gaps) ** 0.5
            table.append(row)
            print("  ".join(f"{k} {v:.3g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items()), flush=True)
    note = "10 variables, 8 clients, 80 % of edges common; paired over seeds; share 99: all rows of the others borrowed"
    write_results(
        "networks/personal_scaled" if options.scaled else "networks/personal",
        table,
        seed=f"0..{options.seeds - 1}",
        note=note,
    )


if __name__ == "__main__":
    main()
