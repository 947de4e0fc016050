"""Held-out gain in nats per event: simple processes, local models and FedPP on real data.

python benchmarks/events/gains.py --kernel time --data taobao taxi --shares 0.1 1 --local
python benchmarks/events/gains.py --kernel history --data taxi twitter
python benchmarks/events/gains.py --kernel history --data taxi --split time

By sequence (the files' own split, or 80 to 20), or by time: the first 60 of 100 parts of every window are learned
from, the last 20 are scored given all before. Every seed is written as a part; the table is made of all there are.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from pathlib import Path
from typing import Any

from common import FILES, PERIODS, Tables, cohort_score, deal, late_score, write_results
from parts import FOLDER, about, do_part, read_parts

from cotempo.data import split_by_time
from cotempo.events import FedPP, FedSimple, SigmoidCox

SIMPLE = {
    "time": ("profile", "density"),
    "history": ("profile", "density", "hawkes1", "hawkes", "renewal"),
}


def measure(name: str, kernel: str, share: float, given: argparse.Namespace, seed: int) -> dict[str, Any]:
    """All methods on one seed."""
    train, test = deal(name, given.clients, share, seed)
    if given.split == "time":
        test = train
        train, _, _ = split_by_time(train)
    about = {"data": name, "kernel": kernel, "share": share, "clients": given.clients, "seed": seed}
    period = PERIODS.get(name) if kernel == "history" else None
    rows = []

    def note(method: str, models: Any, began: float) -> None:
        score = {"gain": float("nan"), "gain_over_pooled": float("nan"), "count_ratio": float("nan")}
        found = (late_score if given.split == "time" else cohort_score)(models, test)
        rows.append({**about, "method": method, **score, **found, "seconds": time.time() - began})
        print({k: round(v, 3) if isinstance(v, float) else v for k, v in rows[-1].items()}, flush=True)

    for process in SIMPLE[kernel]:
        began = time.time()
        note(process, FedSimple(process=process, period=period).fit(train, progress=False), began)
    began = time.time()
    model = FedPP(kernel=kernel, period=period, compare=False)
    note("FedPP", model.fit(train, progress=False, seed=seed), began)
    if given.local:
        if kernel == "time":
            began = time.time()
            note("local", {client: SigmoidCox().fit(table) for client, table in train.items()}, began)
        began = time.time()
        note("local, tempered" if kernel == "time" else "local", fit_alone(model, train), began)
    return {"rows": rows}


def fit_alone(model: FedPP, train: Tables) -> dict[str, Any]:
    """Every client by itself, with the same method."""
    return {client: model.fit({client: table}, progress=False)[client] for client, table in train.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kernel", choices=("time", "history"), default="time")
    parser.add_argument("--data", nargs="+", choices=FILES, default=["taobao", "taxi", "twitter"])
    parser.add_argument("--shares", nargs="+", type=float, default=[1.0])
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--seeds", nargs="+", type=int, default=[10, 11, 12, 13, 14])
    parser.add_argument("--split", choices=("sequence", "time"), default="sequence")
    parser.add_argument("--local", action="store_true", help="also fit every client by itself")
    parser.add_argument("--parts", type=Path, default=FOLDER)
    given = parser.parse_args()
    for name in given.data:
        for share in given.shares:
            key = {"gains": name, "kernel": given.kernel, "share": share, "split": given.split}
            key |= {"clients": given.clients, "local": given.local}
            for seed in given.seeds:
                found = partial(measure, name, given.kernel, share, given, seed)
                do_part(given.parts, {**key, "seed": seed}, found)
            collect(given.parts, name, key)


def collect(folder: Path, name: str, key: dict[str, Any]) -> None:
    """Write the table of one data set, of all seeds there are."""
    parts = sorted(read_parts(folder, **key), key=lambda part: part["seed"])
    percent = "" if key["share"] == 1 else f"-{key['share'] * 100:g}"
    file = f"events-{key['kernel']}-{name}{percent}" + ("-by-time" if key["split"] == "time" else "")
    rows = [row for part in parts for row in part["rows"]]
    note = f"held-out gain in nats per event, by {key['split']}; {about(parts)}"
    write_results(file, rows, seed=[part["seed"] for part in parts], note=note)


if __name__ == "__main__":
    main()
