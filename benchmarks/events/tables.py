"""Table 1: data sets by methods, each client with the events of some types only (the heterogeneous partition).

    python benchmarks/events/tables.py --data taobao
    python benchmarks/events/tables.py --data taobao --methods LSTM-FedPP ATT-FedPP

Held-out gain in nats per event over each client's own homogeneous rate, by our likelihood. The numbers printed in the
paper are raw log-likelihoods, which depend on the unit of time, from a code with other errors (see `published.py`):
they cannot stand beside these.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

from common import FILES, PERIODS, cohort_score, deal_types, write_results

from cotempo.events import FedNeural, FedPointProcess, FedPP

TYPES = {"conttime": 2}
PAPER = {"preset": "paper", "inducing": 30, "rounds": 20}
NEURAL = {"compare": False, "rounds": 20, "epochs": 5}


def methods(period: float | None) -> dict[str, Any]:
    """All methods by name; the first five as published, then ours."""
    known = {"period": period}
    return {
        "homogeneous, own rate": FedPointProcess(process="poisson"),
        "homogeneous, pooled rate": FedPointProcess(process="poisson", level="pooled"),
        "profile": FedPointProcess(process="profile"),
        "histogram": FedPointProcess(process="histogram"),
        "density": FedPointProcess(process="density"),
        "steps": FedPointProcess(process="steps"),
        "Hawkes": FedPointProcess(process="hawkes"),
        "renewal": FedPointProcess(process="renewal"),
        "Fed-MLP": FedNeural(model="mlp", **NEURAL, **known),
        "Fed-RMTPP": FedNeural(model="rmtpp", **NEURAL, **known),
        "Fed-SAHP": FedNeural(model="sahp", **NEURAL, **known),
        "Fed-THP": FedNeural(model="thp", **NEURAL, **known),
        "Fed-NHP": FedNeural(model="nhp", **NEURAL, **known),
        "Fed-Dec-ODE": FedNeural(model="dec-ode", **NEURAL, **known),
        "Fed-TCVAE": FedNeural(model="tcvae", **NEURAL, **known),
        "Fed-TCDDM": FedNeural(model="tcddm", **NEURAL, **known),
        "FedPP, paper": FedPP(**PAPER, cells=200),
        "light-FedPP, paper": FedPP(**PAPER, **known, kernel="history", batch=8),
        "LSTM-FedPP, paper": FedPP(**PAPER, **known, kernel="lstm", batch=8),
        "ATT-FedPP, paper": FedPP(**PAPER, **known, kernel="attention", batch=8),
        "FedPP of time": FedPP(kernel="time", compare=False),
        "FedPP of history": FedPP(**known, kernel="history", compare=False),
        "FedPP": FedPP(**known, compare=False),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", choices=FILES, required=True)
    parser.add_argument("--methods", nargs="*", choices=methods(None), default=list(methods(None)))
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument("--name", default="")
    given = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for seed in given.seeds:
        train, test = deal_types(given.data, given.clients, TYPES.get(given.data, 4), seed, given.share)
        for name in given.methods:
            began = time.time()
            method = methods(PERIODS.get(given.data))[name]
            fitted = method.fit(train, progress=False, seed=seed)
            score = {"gain": float("nan"), "gain_over_pooled": float("nan"), "count_ratio": float("nan")}
            found = {**score, **cohort_score(fitted, test), "seconds": time.time() - began}
            rows.append({"data": given.data, "method": name, "seed": seed, **found})
            print(rows[-1], flush=True)
            file = f"events-table1-{given.data}{given.name}"
            write_results(file, rows, seed=given.seeds, note=f"share {given.share:g} of the training sequences")


if __name__ == "__main__":
    main()
