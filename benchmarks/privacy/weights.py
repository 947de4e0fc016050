"""What secret weights of rows cost: the same tables with and without them, paired by seed.

Run: python benchmarks/privacy/weights.py [DREAM4's folder in COTEMPO_DATA]
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "networks")]
from ranking_setting import data_file  # noqa: E402
from results import write_results  # noqa: E402

import cotempo as ct  # noqa: E402
from cotempo.networks.data.loaders import DREAM4_PERTURBED_UNTIL  # noqa: E402

SEEDS = range(20, 25)
Tables = Mapping[str, Any]
Measure = Callable[[Tables, Any], float]


def weigh(tables: Tables, seed: int) -> Tables:
    """Return the tables as sites use them."""
    return {name: tables[name].weigh_rows(np.random.default_rng([seed, k])) for k, name in enumerate(sorted(tables))}


def learn(method: Any, score: str) -> Measure:
    return lambda tables, truth: float(ct.score_network(method.fit(tables, progress=False).network, truth)[score])


def learn_own(method: Any, score: str) -> Measure:
    """Measure the mean over clients' own networks."""

    def measure(tables: Tables, truth: Any) -> float:
        fitted = method.fit(tables, progress=False)
        return float(np.mean([ct.score_network(fitted[name].network, truth)[score] for name in tables]))

    return measure


def rank(method: Any, score: str) -> Measure:
    return lambda tables, truth: float(method.fit(tables, progress=False).ranking.compare(truth)[score])


def fill(tables: Tables, truth: Any) -> float:
    benefit = ct.FedMoments(window=8).fit(tables, progress=False).benefit
    return float(np.mean([one.together for one in benefit.values()]))


def networks(samples: int) -> Callable[[int], tuple[Tables, Any]]:
    """Five clients of ten variables; `samples` rows each."""
    return lambda seed: ct.make_networks(variables=10, clients=5, samples=5 * samples, seed=seed)


def dream4(seed: int) -> tuple[Tables, Any]:
    """The five networks in place of seeds."""
    clients, truth = ct.read_dream4(data_file("dream4_insilico_size100.npz"), seed - SEEDS[0] + 1)
    return clients, truth


def gaps(seed: int) -> tuple[Tables, Any]:
    return ct.make_series(clients=4, length=300, features=3, missing=0.2, seed=seed)


PARENTS = ct.EdgeRanking(score="parent_sets", perturbed_until=DREAM4_PERTURBED_UNTIL)
CASES: dict[str, tuple[Callable[[int], tuple[Tables, Any]], Measure]] = {
    **{
        f"OneRound, {rows} rows a site, F1": (networks(rows), learn(ct.OneRound(compare=False), "f1"))
        for rows in (50, 400)
    },
    **{
        f"FDBNL, {rows} rows a site, F1": (networks(rows), learn(ct.FDBNL(compare=False, scaled=False), "f1"))
        for rows in (50, 400)
    },
    "PFDBNL, 400 rows a site, F1": (networks(400), learn_own(ct.PFDBNL(compare=False, scaled=False, rounds=30), "f1")),
    "EdgeRanking, 50 rows a site, AUPR": (networks(50), rank(ct.EdgeRanking(score="granger"), "aupr")),
    "EdgeRanking, DREAM4, AUPR": (dream4, rank(PARENTS, "aupr")),
    "EdgeRanking, DREAM4, AUROC": (dream4, rank(PARENTS, "auroc")),
    "FedMoments, 300 rows a site, error": (gaps, fill),
}


def main() -> None:
    rows = []
    for name, (make, measure) in CASES.items():
        found = []
        for seed in SEEDS:
            tables, truth = make(seed)
            found.append((measure(tables, truth), measure(weigh(tables, seed), truth)))
        plain, weighed = np.array(found).T
        row = {"case": name, "plain": plain.mean(), "plain_error": _error(plain), "weighed": weighed.mean()}
        rows.append({**row, "difference": (weighed - plain).mean(), "difference_error": _error(weighed - plain)})
        print(rows[-1], flush=True)
    write_results("privacy-weights", rows, seed="20 to 24", note="DREAM4: its five networks in place of seeds")


def _error(values: Any) -> float:
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))


if __name__ == "__main__":
    main()
