"""Honest clients that are alike, one with a tenth of the others' rows: in how many runs is anybody left out?

    python benchmarks/attacks/false_alarms.py --jobs 16

Every run is a file of its own under runs/false-alarms. At the end benchmarks/results/attacks-false-alarms.csv is
written: of each method, runs in which a client is suspected, and in how many it is the small one.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).parent.parent))
from parts import about, do_part, read_parts
from results import write_results

import cotempo as ct
from cotempo import social

FOLDER = Path("runs/false-alarms")
FIRST_SEED = 2000  # nothing was chosen on these
SMALL = "client-3"
ROWS = ("time", "text", "author", "hashtags", "mentions", "event")


def networks(seed: int) -> dict[str, Any]:
    """Return series of one network, of 300 rows each and of 30."""
    clients = dict(ct.make_networks(variables=6, clients=8, samples=2400, seed=seed)[0])
    return {**clients, SMALL: clients[SMALL].select(np.arange(30))}


def events(seed: int) -> dict[str, Any]:
    """Return ten sequences of events each, and one."""
    clients = dict(ct.make_events(clients=8, sequences=10, seed=seed)[0])
    return {**clients, SMALL: clients[SMALL].take([0])}


def posts(seed: int) -> dict[str, Any]:
    """Return 80 posts each, and eight."""
    clients = dict(ct.make_posts(clients=8, posts=80, events=10, seed=seed)[0])
    few = clients[SMALL]
    kept = {name: getattr(few, name)[:8] for name in ROWS}
    return {**clients, SMALL: replace(few, extra={name: values[:8] for name, values in few.extra.items()}, **kept)}


def series(seed: int) -> dict[str, Any]:
    """Return series of 300 rows each, and of 30."""
    clients = dict(ct.make_series(clients=8, length=300, features=3, seed=seed)[0])
    return {**clients, SMALL: clients[SMALL].select(np.arange(30))}


GRAPH = {"dimension": 16, "buckets": 256, "hidden": 16, "heads": 2, "outputs": 16, "compare": False, "rounds": 3}
CASES: Mapping[str, tuple[Callable[[], Any], Callable[[int], dict[str, Any]]]] = {
    "OneRound": (lambda: ct.OneRound(compare=False, restarts=0, minimum_rows=10), networks),
    "FDBNL": (lambda: ct.FDBNL(compare=False, rounds=25, scaled=False), networks),
    "PFDBNL": (lambda: ct.PFDBNL(compare=False, rounds=15), networks),
    "EdgeRanking": (lambda: ct.EdgeRanking(), networks),
    "FedPP": (lambda: ct.FedPP(kernel="time", compare=False, window=(0.0, 10.0), cells=48), events),
    "FedPointProcess": (lambda: ct.FedPointProcess(process="hawkes", rounds=8), events),
    "FedPointProcess, profile": (lambda: ct.FedPointProcess(process="profile"), events),
    "FedMoments": (lambda: ct.FedMoments(), series),
    "EventDetector": (lambda: ct.EventDetector(dimension=20, buckets=1024, compare=False), posts),
    "FedAvg": (lambda: social.FedAvg(**GRAPH), posts),
    "DAMe": (lambda: social.DAMe(probes=3, **GRAPH), posts),
}


def measure(case: str, seed: int) -> dict[str, Any]:
    """Return who is suspected in a run of honest clients, and in which phases."""
    make, data = CASES[case]
    with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
        fitted = make().fit(data(seed), seed=seed, progress=False)
    phases = sorted({failure["phase"] for failure in fitted.failures if failure["client"] in fitted.suspects})
    return {"suspects": list(fitted.suspects), "phases": phases}


def do_cell(cell: Mapping[str, Any]) -> None:
    """Measure one run into its file."""
    do_part(FOLDER, cell, lambda: measure(**cell))


def cells(cases: Sequence[str], seeds: Sequence[int]) -> list[dict[str, Any]]:
    """Return every run."""
    return [{"case": case, "seed": seed} for seed, case in product(seeds, cases)]


def main() -> None:
    """Measure what is missing, then write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--cases", nargs="*", default=[*CASES], choices=[*CASES])
    given = parser.parse_args()
    seeds = range(FIRST_SEED, FIRST_SEED + given.seeds)
    with ProcessPoolExecutor(given.jobs) as pool:
        for done in as_completed([pool.submit(do_cell, cell) for cell in cells(given.cases, seeds)]):
            done.result()
    rows, all_parts = [], []
    for case in given.cases:
        parts = [part for part in read_parts(FOLDER, case=case) if part["seed"] in seeds]
        all_parts += parts
        rows.append(
            {
                "case": case, "runs": len(parts), "with_suspects": sum(bool(part["suspects"]) for part in parts),
                "small_suspected": sum(SMALL in part["suspects"] for part in parts),
                "phases": " ".join(sorted({phase for part in parts for phase in part["phases"]})),
            }
        )  # fmt: skip
        print(rows[-1])
    if {*given.cases} == {*CASES}:
        print(write_results("attacks-false-alarms", rows, seed=f"{seeds[0]} to {seeds[-1]}", note=about(all_parts)))


if __name__ == "__main__":
    main()
