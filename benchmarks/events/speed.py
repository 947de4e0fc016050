"""Speed: cost by number of events, and a cohort's round batched against looped.

python benchmarks/events/speed.py --cohorts 10
python benchmarks/events/speed.py --cohorts 100 --name events-speed-gpu      (where there is a GPU)
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import median

import numpy as np
import torch
from common import write_results

from cotempo.data import make_events
from cotempo.events import FedPP, SigmoidCox
from cotempo.federation.exchange import Question
from cotempo.federation.message import Message
from cotempo.federation.rng import Rng


def clock(call: Callable[[], object], repeats: int = 3) -> tuple[float, float]:
    """Median wall and CPU seconds, after one call to warm up."""
    call()
    found = []
    for _ in range(repeats):
        wall, cpu = time.perf_counter(), time.process_time()
        call()
        found.append((time.perf_counter() - wall, time.process_time() - cpu))
    return median(w for w, _ in found), median(c for _, c in found)


def by_events(count: int) -> dict[str, object]:
    times = np.sort(np.random.default_rng(0).uniform(0, 100, count))
    wall, cpu = clock(lambda: SigmoidCox(inducing=50, steps=40).fit(times, (0.0, 100.0)))
    return {"what": f"SigmoidCox, {count} events", "wall": wall, "cpu": cpu}


def by_cohort(size: int) -> list[dict[str, object]]:
    method = FedPP(preset="paper", epochs=5, inducing=30, cells=200)
    clients, _ = make_events(clients=size, sequences=10, seed=0)
    records = [method.prepare(table) for table in clients.values()]
    state = method.open(None, None, Rng(0, "server", 0)).kernel  # type: ignore[arg-type]
    assert state is not None
    common = Message({"span": np.array([0.0, 10.0]), "mean": state.mean, "deviation": state.deviation})
    questions = [Question("run", 1, 1, "train", name, 0, 0, common, Message()) for name in clients]
    memories = [method.begin(record, Rng(0, "c", 0)) for record in records]
    rngs = [Rng(0, name, 1) for name in clients]
    parts = list(zip(questions, records, memories, rngs, strict=True))
    batched = clock(lambda: method.answer_all(questions, records, memories, rngs))
    looped = clock(lambda: [method.answer(*part) for part in parts], 1)
    place = "GPU" if torch.cuda.is_available() else "CPU"
    return [
        {"what": f"one round of {size} clients, batched, {place}", "wall": batched[0], "cpu": batched[1]},
        {"what": f"one round of {size} clients, looped, {place}", "wall": looped[0], "cpu": looped[1]},
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cohorts", nargs="+", type=int, default=[10])
    parser.add_argument("--events", nargs="*", type=int, default=[10**4, 10**5, 10**6])
    parser.add_argument("--name", default="events-speed")
    given = parser.parse_args()
    rows = [by_events(count) for count in given.events]
    for size in given.cohorts:
        rows += by_cohort(size)
    for row in rows:
        print(row, flush=True)
    write_results(given.name, rows, seed=0, note="medians of 3")


if __name__ == "__main__":
    main()
