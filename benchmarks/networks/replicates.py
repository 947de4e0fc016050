"""Replicates with levels or trends of their own: of the edges OneRound states at .9 or more, how many are true?

8 variables, three clients; replicates of one network with normal levels, or slopes over time, of a given number of
standard deviations. Short ones are 10 of 15 rows a client, long ones 5 of 40. Baseline: the same after each replicate's
own mean, or line where there are slopes, was subtracted by hand. The rule was looked at on seeds 0 to 2; reported are
seeds 10 to 19.

Run: python benchmarks/networks/replicates.py [--seeds 10] [--first-seed 10]
"""

from __future__ import annotations

import warnings

import numpy as np
from measuring import options, show
from results import write_results

import cotempo as ct
from cotempo.data import Series
from cotempo.networks.network import simulate_svar

SURE = 0.9
CLIENTS, VARIABLES, SETTLING = 3, 8, 50


def main() -> None:
    chosen = options(__doc__, seeds=10, first_seed=10)
    rows = []
    seeds = range(chosen.first_seed, chosen.first_seed + chosen.seeds)
    for count, length in ((5, 40), (10, 15)):
        for kind, size in (
            ("none", 0.0),
            ("sequence", 0.5),
            ("sequence", 1.5),
            ("drift", 0.5),
            ("drift", 2.0),
            ("trend", 1.0),
        ):
            found = [measure(seed, kind, size, count, length) for seed in seeds]
            total = {name: int(sum(one[name] for one in found)) for name in found[0]}
            rows.append({"replicates": count, "rows": length, "levels": kind, "size": size, **total})
            show(rows[-1])
    note = f"three clients, 8 variables, edges between variables stated at {SURE} or more"
    write_results("networks/replicates", rows, seed=f"{seeds[0]} to {seeds[-1]}", note=note)


def make(seed: int, kind: str, size: float, count: int, length: int) -> tuple[dict[str, list[np.ndarray]], ct.Network]:
    """Return the replicates of each client, and the true network."""
    _, truth = ct.make_networks(variables=VARIABLES, clients=1, samples=50, noise="unequal", seed=seed)
    rng, time = np.random.default_rng(seed), np.linspace(-1, 1, length)[:, None]
    noise, slope = rng.uniform(0.5, 2.0, VARIABLES), rng.normal(size=VARIABLES)

    def simulate(rows: int) -> np.ndarray:
        shocks = noise * rng.normal(size=(SETTLING + rows, VARIABLES))
        return simulate_svar(truth.within, truth.across, shocks)[SETTLING:]

    spread = size * simulate(2000).std(axis=0)
    added = {
        "none": lambda: 0.0,
        "sequence": lambda: rng.normal(size=VARIABLES),
        "drift": lambda: slope * time,
        "trend": lambda: rng.normal(size=VARIABLES) + rng.normal(size=VARIABLES) * time,
    }[kind]
    clients = [[simulate(length) + spread * added() for _ in range(count)] for _ in range(CLIENTS)]
    return {f"client-{number}": parts for number, parts in enumerate(clients)}, truth


def measure(seed: int, kind: str, size: float, count: int, length: int) -> dict[str, int]:
    """Return edges stated as sure and those that are true, as the data are and with levels subtracted by hand."""
    clients, truth = make(seed, kind, size, count, length)
    basis = np.vander(np.linspace(-1, 1, length), 2 if kind in ("drift", "trend") else 1)
    by_hand = {
        name: [part - basis @ np.linalg.lstsq(basis, part, rcond=None)[0] for part in parts]
        for name, parts in clients.items()
    }
    found = {}
    for way, tables in (("as_they_are", clients), ("by_hand", by_hand)):
        with warnings.catch_warnings(action="ignore"):
            fitted = ct.OneRound().fit({n: Series.from_arrays(parts) for n, parts in tables.items()}, progress=False)
        edges, names = fitted.edges(), list(truth.variables)
        edges = edges[(edges["probability"] >= SURE) & (edges["source"] != edges["target"])]
        places = zip(edges["source"], edges["target"], edges["lag"], strict=True)
        found[f"{way}_sure"] = len(edges)
        found[f"{way}_right"] = sum(truth.stacked[lag, names.index(a), names.index(b)] != 0 for a, b, lag in places)
        if way == "as_they_are":
            found["levels_found"] = int(fitted.state.levels == ("common" if kind == "none" else kind))
    return found


if __name__ == "__main__":
    main()
