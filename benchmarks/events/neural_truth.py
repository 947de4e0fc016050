"""Neural point processes on a generated Hawkes process: held-out gain in nats per event beside that of the truth.

    python benchmarks/events/neural_truth.py --seeds 0 1 2

Clients share one process (rate 2, an event triggers .8 others, decay 2): 40 sequences of length 10 each, of which
FedNeural learns from 32; 20 new sequences of each are scored. `lack` is the truth's gain less the model's.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from common import Tables, cohort_score, write_results

from cotempo.data import make_events
from cotempo.data.generate.events import EventsTruth
from cotempo.events import FedNeural, FedPointProcess

CLIENTS, SEQUENCES, TESTED = 4, 40, 20
SETTING: dict[str, Any] = {"kind": "hawkes", "excitation": 0.8, "spread": 0.0, "clients": CLIENTS}
METHODS: dict[str, Any] = {
    "mlp": FedNeural(model="mlp", rounds=20, epochs=4, compare=False),
    "dec-ode": FedNeural(model="dec-ode", rounds=20, epochs=4, learning_rate=0.02, compare=False),
    "tcvae": FedNeural(model="tcvae", rounds=20, epochs=4, compare=False),
    "tcddm": FedNeural(model="tcddm", rounds=20, epochs=4, compare=False),
    "hawkes": FedPointProcess(process="hawkes"),
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    given = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for seed in given.seeds:
        train, truth = make_events(sequences=SEQUENCES, seed=seed, **SETTING)
        test, _ = make_events(sequences=TESTED, seed=1000 + seed, **SETTING)
        best = true_gain(truth, train, test)
        for name in given.methods:
            began = time.process_time()
            fitted = METHODS[name].fit(train, progress=False, seed=seed)
            found = cohort_score(fitted, test)
            spent = {"seconds": time.process_time() - began}
            rows.append({"method": name, "seed": seed, **found, "truth": best, "lack": best - found["gain"], **spent})
            print(rows[-1], flush=True)
            write_results("events-neural-truth", rows, seed=given.seeds, note="clients of one Hawkes process")


if __name__ == "__main__":
    main()
