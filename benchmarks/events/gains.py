"""Held-out gain in nats per event, by sequence: simple processes, local models and FedPP on real data.

python benchmarks/events/gains.py --kernel time --data taobao taxi --shares 0.1 1 --seeds 5
python benchmarks/events/gains.py --kernel history --data taxi twitter --seeds 5
"""

from __future__ import annotations

import argparse
import time
from typing import Any

from common import FILES, PERIODS, Tables, cohort_score, deal, write_results

from cotempo.events import FedPP, FedSimple, SigmoidCox

SIMPLE = {
    "time": ("profile", "density"),
    "history": ("profile", "density", "hawkes1", "hawkes", "renewal"),
}


def measure(name: str, kernel: str, share: float, clients: int, seed: int, local: bool) -> list[dict[str, Any]]:
    train, test = deal(name, clients, share, seed)
    about = {"data": name, "kernel": kernel, "share": share, "clients": clients, "seed": seed}
    period = PERIODS.get(name) if kernel == "history" else None
    rows = []

    def note(method: str, models: Any, began: float) -> None:
        score = {"gain": float("nan"), "gain_over_pooled": float("nan"), "count_ratio": float("nan")}
        rows.append({**about, "method": method, **score, **cohort_score(models, test), "seconds": time.time() - began})
        print({k: round(v, 3) if isinstance(v, float) else v for k, v in rows[-1].items()}, flush=True)

    for process in SIMPLE[kernel]:
        began = time.time()
        note(process, FedSimple(process=process, period=period).fit(train, progress=False), began)
    began = time.time()
    model = FedPP(kernel=kernel, period=period, rounds=20, compare=False)
    note("FedPP", model.fit(train, progress=False, seed=seed), began)
    if local and kernel == "time":
        began = time.time()
        note("local", {client: SigmoidCox().fit(table) for client, table in train.items()}, began)
        began = time.time()
        note("local, tempered", fit_alone(model, train), began)
    return rows


def fit_alone(model: FedPP, train: Tables) -> dict[str, Any]:
    """Every client by itself, with the same method."""
    return {client: model.fit({client: table}, progress=False)[client] for client, table in train.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kernel", choices=("time", "history"), default="time")
    parser.add_argument("--data", nargs="+", choices=FILES, default=["taobao", "taxi", "twitter"])
    parser.add_argument("--shares", nargs="+", type=float, default=[1.0])
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--local", action="store_true", help="also fit every client by itself")
    parser.add_argument("--name", default="events-gains")
    given = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for name in given.data:
        for share in given.shares:
            for seed in range(given.seeds):
                rows += measure(name, given.kernel, share, given.clients, seed, given.local)
                write_results(given.name, rows, seed=f"0 to {given.seeds - 1}", note=" ".join(__doc__.split()[:10]))


if __name__ == "__main__":
    main()
