"""Table 1: data sets by methods, each client with the events of some types only (the heterogeneous partition).

    python benchmarks/events/tables.py --data taobao stackoverflow conttime-generated --jobs 16
    python benchmarks/events/tables.py --data taobao --collect

Held-out gain in nats per event over each client's own homogeneous rate, by our likelihood. The numbers printed in the
paper are raw log-likelihoods, which depend on the unit of time, from a code with other errors (see `published.py`):
they cannot stand beside these. Rows called "paper" have the whole preset: 100 rounds of 10 of the 20 clients. Every
row and seed is a part of its own.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from pathlib import Path
from typing import Any

from common import FILES, PERIODS, cohort_score, deal_types, whole_span, write_results
from parts import FOLDER, about, do_parts, read_parts

from cotempo.events import FedNeural, FedPointProcess, FedPP
from cotempo.federation.reducers import PlainReducer

TYPES = {"conttime": 2, "conttime-generated": 2}
SHARES = {"taobao": 0.2, "stackoverflow": 0.2, "conttime-generated": 0.04}
COHORT, PLAIN = 10, PlainReducer()  # the papers screen nobody
NEURAL: dict[str, Any] = {"compare": False, "rounds": 20, "epochs": 5}
EMPTY = {"gain": float("nan"), "gain_over_pooled": float("nan"), "count_ratio": float("nan")}


def methods(period: float | None) -> dict[str, Any]:
    """All methods by name: simple ones, neural ones, FedPP as published, and ours."""
    known = {"period": period}
    neural = ("mlp", "rmtpp", "sahp", "thp", "nhp", "dec-ode", "tcvae", "tcddm")
    names = {"dec-ode": "Fed-Dec-ODE"}
    return {
        "homogeneous, own rate": FedPointProcess(process="poisson"),
        "homogeneous, pooled rate": FedPointProcess(process="poisson", level="pooled"),
        "profile": FedPointProcess(process="profile"),
        "histogram": FedPointProcess(process="histogram"),
        "density": FedPointProcess(process="density"),
        "steps": FedPointProcess(process="steps"),
        "Hawkes": FedPointProcess(process="hawkes"),
        "renewal": FedPointProcess(process="renewal"),
        **{names.get(name, f"Fed-{name.upper()}"): FedNeural(model=name, **NEURAL, **known) for name in neural},
        "FedPP, paper": FedPP(preset="paper"),
        "light-FedPP, paper": FedPP(preset="paper", **known, kernel="history", batch=8),
        "LSTM-FedPP, paper": FedPP(preset="paper", **known, kernel="lstm", batch=8),
        "ATT-FedPP, paper": FedPP(preset="paper", **known, kernel="attention", batch=8),
        "FedPP of time": FedPP(kernel="time", compare=False),
        "FedPP of history": FedPP(**known, kernel="history", compare=False),
        "FedPP": FedPP(**known, compare=False),
    }


def measure(name: str, data: str, clients: int, share: float, rounds: int | None, seed: int) -> dict[str, Any]:
    """One method on one seed; `rounds` changes those of the preset. Clients never asked have the prior."""
    train, test = deal_types(data, clients, TYPES.get(data, 4), seed, share)
    method, began = methods(PERIODS.get(data))[name], time.process_time()
    if "paper" not in name:
        models: Any = method.fit(train, progress=False, seed=seed, reducer=PLAIN)
    else:
        changes = {"window": whole_span(train, test), **({"rounds": rounds} if rounds else {})}
        method = method.model_copy(update=changes)
        fitted = method.fit(train, progress=False, seed=seed, cohort=min(COHORT, clients), reducer=PLAIN)
        asked = {client for client, memory in fitted.outcome.memories.items() if len(memory.values)}
        models = {client: fitted[client] if client in asked else fitted.adapt(client, train[client]) for client in test}
    return {**EMPTY, **cohort_score(models, test), "seconds": time.process_time() - began}


def collect(folder: Path, data: str, name: str) -> None:
    """Write the table of a data set."""
    parts = read_parts(folder, table1=data)
    order = list(methods(None))
    parts.sort(key=lambda part: (part["seed"], order.index(part["method"])))
    fields = ("method", "seed", "rounds", "share", *EMPTY, "seconds")
    rows = [{"data": data, **{field: part[field] for field in fields}} for part in parts]
    if rows:
        write_results(
            f"events-table1-{data}{name}", rows, seed=sorted({row["seed"] for row in rows}), note=about(parts)
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", choices=FILES, nargs="+", required=True)
    parser.add_argument("--methods", nargs="*", choices=methods(None), default=list(methods(None)))
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--share", type=float, help="of the training sequences; by default a small one for large sets")
    parser.add_argument("--rounds", type=int, help="of rows with the preset; by default its own, 100")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument("--name", default="", help="at the end of the result file's name")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--parts", type=Path, default=FOLDER)
    parser.add_argument("--collect", action="store_true")
    given = parser.parse_args()
    work = []
    for seed in given.seeds:
        for data in given.data:
            share = given.share or SHARES.get(data, 1.0)
            for name in given.methods:
                rounds = (given.rounds or 100) if "paper" in name else getattr(methods(None)[name], "rounds", 0)
                about_part = {"clients": given.clients, "share": share, "seed": seed, "rounds": rounds}
                key = {"table1": data, "method": name, **about_part}
                options = {**about_part, "rounds": given.rounds}
                work.append((key, partial(measure, name, data, **options)))
    if not given.collect:
        do_parts(given.parts, work, given.jobs)
    for data in given.data:
        collect(given.parts, data, given.name)


if __name__ == "__main__":
    main()
