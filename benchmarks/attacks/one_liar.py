"""One liar of eight, inside of what is checked, against the defaults: how far a result moves, and who is named.

    python benchmarks/attacks/one_liar.py --jobs 16

Every cell is a file of its own under runs/one-liar. Beside the honest run stands one in which the member stays away:
what its absence costs is no harm that a lie does. At the end benchmarks/results/attacks-one-liar.csv is written. The
seeds are others than those on which anything was chosen.
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
from cotempo.series.metrics import ContextFID

FOLDER = Path("runs/one-liar")
FIRST_SEED = 10
LIAR = "client-3"
HONEST, AWAY = "honest", "away"
LIES = ("sign_flip", "scaling", "gaussian", "inner_product", "alie", "mimic", "free_rider", "inflated_weight")
Score = Callable[[Any], float]


def networks(seed: int) -> tuple[dict[str, Any], Score, Any]:
    """Return series of one network, and the number of wrong edges."""
    clients, truth = ct.make_networks(variables=6, clients=8, samples=2400, seed=seed)
    return clients, lambda fitted: float(ct.score_network(fitted.network, truth)["shd"]), None


def events(seed: int) -> tuple[dict[str, Any], Score, Any]:
    """Return events, and the relative error of honest clients' intensities."""
    clients, truth = ct.make_events(clients=8, sequences=6, seed=seed)
    times, honest = np.linspace(0.25, 9.75, 40), sorted({*clients} - {LIAR})
    wanted = np.stack([truth.intensity(name, times) for name in honest])

    def score(fitted: Any) -> float:
        found = np.stack([fitted[name].intensity(times).mean for name in honest])
        return float(np.abs(found - wanted).mean() / wanted.mean())

    return clients, score, None


def posts(seed: int, labels: bool = True) -> tuple[dict[str, Any], Score, Any]:
    """Return posts, and the NMI of honest clients' events."""
    from sklearn.metrics import normalized_mutual_info_score

    clients, truth = ct.make_posts(clients=8, posts=80, events=10, seed=seed)
    if not labels:
        clients = {name: replace(table, event=(None,) * len(table.event)) for name, table in clients.items()}
    honest = sorted({*clients} - {LIAR})

    def score(fitted: Any) -> float:
        found = {name: [str(event) for event in fitted[name].detect(clients[name]).event] for name in honest}
        return float(np.mean([normalized_mutual_info_score(truth.labels[name], found[name]) for name in honest]))

    return clients, score, None


def series(seed: int) -> tuple[dict[str, Any], Score, Any]:
    """Return series, and the mean Context-FID of what honest clients' models draw."""
    clients, _ = ct.make_series(clients=9, length=160, features=3, seed=seed)
    public, honest = clients.pop("client-8"), sorted({*clients} - {LIAR})

    def windows(values: np.ndarray) -> np.ndarray:
        return np.stack([values[start : start + 12] for start in range(0, len(values) - 11, 2)])

    def score(fitted: Any) -> float:
        found = []
        for name in honest:
            real = windows(clients[name].values)
            drawn = fitted[name].sample(len(real), seed=0).values.reshape(real.shape)
            found.append(ContextFID.of(real, steps=50).score(drawn))
        return float(np.mean(found))

    return clients, score, public


def fedtdd() -> Any:
    """Return a small FedTDD that releases windows."""
    return ct.FedTDD(
        common=("x0", "x1", "x2"), alpha=0.5, rounds=2, window=12, context=18, width=16, heads=2, encoders=1,
        decoders=1, diffusion_steps=20, sampler_steps=5, pretrain_steps=100, token_steps=5, start_steps=20,
        corrector_steps=5, first_steps=50, last_steps=50, imputer_width=4, imputer_layers=1, batch=16,
    )  # fmt: skip


GRAPH = {"dimension": 32, "buckets": 1024, "hidden": 32, "heads": 2, "outputs": 32, "compare": False, "rounds": 10}
POSTS_LIES = (*LIES, "label_flip", "backdoor", "poisoned_vocabulary")
CASES: Mapping[str, tuple[Callable[[], Any], Callable[[int], Any], tuple[str, ...]]] = {
    "OneRound": (
        lambda: ct.OneRound(compare=False, restarts=0), networks, (*LIES, "label_flip", "backdoor", "forged_edge"),
    ),
    "FDBNL": (
        lambda: ct.FDBNL(compare=False, rounds=25, scaled=False), networks,
        (*LIES, "label_flip", "backdoor", "forged_edge", "lying_duals"),
    ),
    "FedPP": (
        lambda: ct.FedPP(kernel="time", compare=False, window=(0.0, 10.0), cells=48), events,
        (*LIES, "label_flip", "backdoor", "flooded_counts", "inflated_precision"),
    ),
    "EventDetector": (lambda: ct.EventDetector(dimension=20, buckets=1024, compare=False), posts, POSTS_LIES),
    "EventDetector without labels": (
        lambda: ct.EventDetector(dimension=20, buckets=1024, compare=False, events=10),
        lambda seed: posts(seed, labels=False), POSTS_LIES,
    ),
    "DAMe": (lambda: social.DAMe(**GRAPH), posts, POSTS_LIES),
    "FedTDD": (fedtdd, series, (*LIES, "flooding", "trigger_motif", "replay")),
}  # fmt: skip


def measure(case: str, lie: str, seed: int) -> dict[str, Any]:
    """Return the score of one run, and who was named."""
    make, data, _ = CASES[case]
    tables, score, public = data(seed)
    attack = None if lie in (HONEST, AWAY) else ct.Attack(lie, clients=(LIAR,))
    taking_part = {name: table for name, table in tables.items() if name != LIAR or lie != AWAY}
    try:
        with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
            fitted = make().fit(taking_part, public=public, attack=attack, seed=seed, progress=False)
            named = sorted({failure["client"] for failure in fitted.failures})
            return {"score": score(fitted), "liar_named": LIAR in named, "others_named": len({*named} - {LIAR})}
    except ct.CotempoError as error:  # a run that a liar ends
        return {"score": float("nan"), "error": type(error).__name__, "liar_named": False, "others_named": 0}


def do_cell(cell: Mapping[str, Any]) -> None:
    """Measure one cell into its file."""
    do_part(FOLDER, cell, lambda: measure(**cell))


def cells(cases: Sequence[str], seeds: Sequence[int]) -> list[dict[str, Any]]:
    """Return every cell, the longest first."""
    return [
        {"case": case, "lie": lie, "seed": seed}
        for case, seed in product(cases[::-1], seeds)
        for lie in (HONEST, AWAY, *CASES[case][2])
    ]


def main() -> None:
    """Measure what is missing, then write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--cases", nargs="*", default=[*CASES], choices=[*CASES])
    given = parser.parse_args()
    seeds = range(FIRST_SEED, FIRST_SEED + given.seeds)
    todo = cells(given.cases, seeds)
    with ProcessPoolExecutor(given.jobs) as pool:
        for done in as_completed([pool.submit(do_cell, cell) for cell in todo]):
            done.result()
    rows, all_parts = [], []
    for case in given.cases:
        parts = {(part["lie"], part["seed"]): part for part in read_parts(FOLDER, case=case)}
        for lie in (HONEST, AWAY, *CASES[case][2]):
            own = [parts[lie, seed] for seed in seeds]
            all_parts += own
            moved, beyond = (
                np.array([parts[lie, seed]["score"] - parts[other, seed]["score"] for seed in seeds])
                for other in (HONEST, AWAY)
            )
            rows.append(
                {
                    "case": case, "lie": lie, "score": float(np.mean([part["score"] for part in own])),
                    "moved": float(moved.mean()), "moved_error": float(moved.std(ddof=1) / np.sqrt(len(seeds))),
                    "against_away": float(beyond.mean()),
                    "against_away_error": float(beyond.std(ddof=1) / np.sqrt(len(seeds))),
                    "liar_named": sum(part["liar_named"] for part in own),
                    "others_named": sum(part["others_named"] for part in own), "seeds": len(seeds),
                }
            )  # fmt: skip
            print({name: round(value, 3) if isinstance(value, float) else value for name, value in rows[-1].items()})
    if {*given.cases} == {*CASES}:
        print(write_results("attacks-one-liar", rows, seed=list(seeds), note=about(all_parts)))


if __name__ == "__main__":
    main()
