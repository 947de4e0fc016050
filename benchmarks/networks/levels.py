"""Labs with baselines of their own: of the edges OneRound states at .9 or more, how many are true?

8 variables, three clients, 450 rows in all; each client's columns are moved by normal offsets of a given number of
standard deviations. Baseline: the same after each client's own mean was subtracted by hand. The rule (an F of 10, then
the evidence) was looked at on seeds 0 to 2; reported are seeds 10 to 19.

Run: python benchmarks/networks/levels.py [--seeds 10] [--first-seed 10]
"""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
from measuring import options, show
from results import write_results

import cotempo as ct

SURE = 0.9


def main() -> None:
    chosen = options(__doc__, seeds=10, first_seed=10)
    rows = []
    for spread in (0.0, 0.5, 1.0, 2.0):
        found = [measure(seed, spread) for seed in range(chosen.first_seed, chosen.first_seed + chosen.seeds)]
        total = {name: int(sum(one[name] for one in found)) for name in found[0]}
        rows.append({"offsets": spread, **total})
        show(rows[-1])
    note = f"three clients of 150 rows, 8 variables, edges stated at {SURE} or more"
    seeds = f"{chosen.first_seed} to {chosen.first_seed + chosen.seeds - 1}"
    write_results("networks/levels", rows, seed=seeds, note=note)


def measure(seed: int, spread: float) -> dict[str, int]:
    """Return edges stated as sure and those that are true, as the data are and with own means subtracted by hand."""
    clients, truth = ct.make_networks(variables=8, clients=3, samples=450, noise="unequal", seed=seed)
    rng = np.random.default_rng(seed)
    moved = {
        name: replace(table, values=table.values + rng.normal(0, spread * table.values.std(axis=0)))
        for name, table in clients.items()
    }
    by_hand = {name: replace(table, values=table.values - table.values.mean(axis=0)) for name, table in moved.items()}
    found = {}
    for way, tables in (("as_they_are", moved), ("by_hand", by_hand)):
        with warnings.catch_warnings(action="ignore"):
            fitted = ct.OneRound().fit(tables, progress=False)
        edges, names = fitted.edges(), list(truth.variables)
        edges = edges[edges["probability"] >= SURE]
        places = zip(edges["source"], edges["target"], edges["lag"], strict=True)
        found[f"{way}_sure"] = len(edges)
        found[f"{way}_right"] = sum(truth.stacked[lag, names.index(a), names.index(b)] != 0 for a, b, lag in places)
        if way == "as_they_are":
            found["own_levels"] = int(fitted.state.levels == "own")
    return found


if __name__ == "__main__":
    main()
