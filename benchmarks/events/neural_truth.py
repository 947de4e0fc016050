"""Neural point processes on a generated Hawkes process: held-out gain in nats per event beside that of the truth.

    python benchmarks/events/neural_truth.py run --seeds 0 1 2
    python benchmarks/events/neural_truth.py table

Clients share one process (rate 2, an event triggers .8 others, decay 2): 40 sequences of length 10 each, of which
FedNeural learns from 32; 20 new sequences of each are scored. `lack` is the truth's gain less the model's.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from common import Tables, cohort_score, write_results
from parts import FOLDER, about, do_part, read_parts

from cotempo.data import make_events
from cotempo.data.generate.events import EventsTruth
from cotempo.events import FedNeural, FedPointProcess

CLIENTS, SEQUENCES, TESTED = 4, 40, 20
SETTING: dict[str, Any] = {"kind": "hawkes", "excitation": 0.8, "spread": 0.0, "clients": CLIENTS}
TRAINED: dict[str, Any] = {"rounds": 10, "epochs": 6, "batch": 4, "compare": False}
METHODS: dict[str, Any] = {
    "hawkes": FedPointProcess(process="hawkes"),
    **{name: FedNeural(model=name, **TRAINED) for name in ("mlp", "tcvae", "dec-ode", "tcddm")},
}


def true_gain(truth: EventsTruth, train: Tables, test: Tables) -> float:
    """Gain of the process that made the events, over each client's own rate in what is learned from."""
    gained = events = 0.0
    for name, table in test.items():
        learned = [times for n, (_, times, *_) in enumerate(train[name].sequences()) if n % 10 not in (4, 9)]
        rate = sum(map(len, learned)) / (len(learned) * truth.length)
        for _, times, *_ in table.sequences():
            likelihood = np.log(truth.intensity(name, times, times)).sum() - truth.compensator(
                name, [truth.length], times
            )
            gained += float(likelihood[0]) - len(times) * np.log(rate) + rate * truth.length
            events += len(times)
    return gained / events


def measure(name: str, seed: int) -> dict[str, Any]:
    """One method on one seed."""
    train, truth = make_events(sequences=SEQUENCES, seed=seed, **SETTING)
    test, _ = make_events(sequences=TESTED, seed=1000 + seed, **SETTING)
    began, best = time.process_time(), true_gain(truth, train, test)
    found = cohort_score(METHODS[name].fit(train, progress=False, seed=seed), test)
    spent = {"seconds": time.process_time() - began}
    return {**found, "truth": best, "lack": best - found["gain"], **spent}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("run", "table"))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--parts", type=Path, default=FOLDER)
    given = parser.parse_args()
    if given.what == "run":
        for seed in given.seeds:
            for name in given.methods:
                do_part(given.parts, {"neural": name, "seed": seed}, partial(measure, name, seed))
        return
    parts = sorted((part for part in read_parts(given.parts) if "neural" in part), key=lambda part: part["seed"])
    fields = ("seed", "gain", "truth", "lack", "count_ratio", "seconds")
    rows = [
        {"method": name, **{field: part[field] for field in fields}}
        for name in METHODS for part in parts if part["neural"] == name
    ]  # fmt: skip
    write_results("events-neural-truth", rows, seed=sorted({part["seed"] for part in parts}), note=about(parts))


if __name__ == "__main__":
    main()
