"""Held-out gain in nats per event: simple processes, local models and FedPP on real data.

python benchmarks/events/gains.py run --kernel time --data taobao taxi --shares 0.1 1 --local
python benchmarks/events/gains.py run --kernel auto --data taxi --shares 0.1 --seeds 20
python benchmarks/events/gains.py run --kernel history --data taxi --split time
python benchmarks/events/gains.py table

By sequence (the files' own split, or 80 to 20), or by time: the first 60 of 100 parts of every window are learned
from, the last 20 are scored given all before. Every data set, share and seed is a part of its own, so that many
processes can share the work; `table` makes the result files of all the parts there are, and a summary.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from common import FILES, PERIODS, Tables, cohort_score, deal, late_score, write_results
from parts import FOLDER, about, do_part, read_parts

from cotempo.data import split_by_time
from cotempo.events import FedPointProcess, FedPP, SigmoidCox
from cotempo.events.processes.federated import OVER_TIME

TIME = ("profile", "histogram", "density", "steps")
SIMPLE = {
    "time": TIME,
    "history": (*TIME, "hawkes1", "hawkes", "renewal"),
    "auto": (*TIME, "hawkes1", "hawkes", "renewal"),
}


def measure(name: str, kernel: str, share: float, given: argparse.Namespace, seed: int) -> dict[str, Any]:
    """All methods on one seed."""
    train, test = deal(name, given.clients, share, seed)
    if given.split == "time":
        test = train
        train, _, _ = split_by_time(train)
    about = {"data": name, "kernel": kernel, "share": share, "clients": given.clients, "seed": seed}
    period = None if kernel == "time" else PERIODS.get(name)
    rows = []

    def note(method: str, models: Any, began: float) -> None:
        score = {"gain": float("nan"), "gain_over_pooled": float("nan"), "count_ratio": float("nan")}
        found = (late_score if given.split == "time" else cohort_score)(models, test)
        rows.append({**about, "method": method, **score, **found, "seconds": time.process_time() - began})
        print({k: round(v, 3) if isinstance(v, float) else v for k, v in rows[-1].items()}, flush=True)

    for process in SIMPLE[kernel]:
        began = time.process_time()
        known = {"period": period} if process in OVER_TIME else {}
        note(process, FedPointProcess(process=process, **known).fit(train, progress=False), began)
    began = time.process_time()
    model = FedPP(kernel=kernel, period=period, compare=False)
    fitted = model.fit(train, progress=False, seed=seed)
    note("FedPP", fitted, began)
    known = fitted.state
    choice = {"kept": known.kept, "base": known.design.base, "curve": known.timeline.smoother}
    if given.local:
        if kernel == "time":
            began = time.process_time()
            note("SigmoidCox, local", {client: SigmoidCox().fit(table) for client, table in train.items()}, began)
        began = time.process_time()
        note("FedPP, local", fit_alone(model, train), began)
    return {"rows": rows, "choice": choice}


def fit_alone(model: FedPP, train: Tables) -> dict[str, Any]:
    """Every client by itself, with the same method."""
    return {client: model.fit({client: table}, progress=False)[client] for client, table in train.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("run", "table"))
    parser.add_argument("--kernel", choices=SIMPLE, default="auto")
    parser.add_argument("--data", nargs="+", choices=FILES, default=list(FILES))
    parser.add_argument("--shares", nargs="+", type=float, default=[1.0])
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--seeds", nargs="+", type=int, default=[20, 21, 22, 23, 24])
    parser.add_argument("--split", choices=("sequence", "time"), default="sequence")
    parser.add_argument("--local", action="store_true", help="also fit every client by itself")
    parser.add_argument("--parts", type=Path, default=FOLDER)
    given = parser.parse_args()
    if given.what == "table":
        return write_tables(given.parts)
    for name in given.data:
        for share in given.shares:
            key = {"gains": name, "kernel": given.kernel, "share": share, "split": given.split}
            for seed in given.seeds:
                part = {**key, "clients": given.clients, "local": given.local, "seed": seed}
                do_part(given.parts, part, partial(measure, name, given.kernel, share, given, seed))
    return None


def write_tables(folder: Path) -> None:
    """Write the table of each data set, share and kernel, of all seeds there are, and how FedPP compares in each."""
    cases: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for part in (part for part in read_parts(folder) if "gains" in part):
        cases.setdefault((part["split"], part["kernel"], part["gains"], part["share"]), []).append(part)
    summary = []
    for (split, kernel, name, share), found in sorted(cases.items()):
        parts = sorted(found, key=lambda part: part["seed"])
        percent = "" if share == 1 else f"-{share * 100:g}"
        rows = [row for part in parts for row in part["rows"]]
        seeds = [part["seed"] for part in parts]
        note = f"held-out gain in nats per event, by {split}; {about(parts)}"
        file = f"events-{kernel}-{name}{percent}" + ("-by-time" if split == "time" else "")
        write_results(file, rows, seed=seeds, note=note)
        summary.append({"data": name, "share": share, "kernel": kernel, "split": split, **compare(rows, parts)})
    write_results(
        "events-gains", summary, seed="see the files of the data sets", note="FedPP beside the best simple process"
    )


def compare(rows: list[dict[str, Any]], parts: list[dict[str, Any]]) -> dict[str, Any]:
    """FedPP's mean gain, and paired over seeds how far it lies above the simple process that is best on average."""
    gains: dict[str, list[float]] = {}
    for row in rows:
        gains.setdefault(row["method"], []).append(row["gain"])
    ours = np.array(gains["FedPP"])
    best = max(SIMPLE[rows[0]["kernel"]], key=lambda method: float(np.mean(gains[method])))
    above, root = ours - np.array(gains[best]), np.sqrt(len(ours))
    spread = float(ours.std(ddof=1)) if len(ours) > 1 else float("nan")
    local = gains.get("FedPP, local")
    return {
        "seeds": len(ours), "gain": float(ours.mean()), "gain_sd": spread, "best_simple": best,
        "simple_gain": float(np.mean(gains[best])), "above": float(above.mean()),
        "above_se": float(above.std(ddof=1) / root) if len(ours) > 1 else float("nan"),
        "local_gain": float(np.mean(local)) if local else float("nan"),
        "kept": "/".join(sorted({part["choice"]["kept"] for part in parts})),
        "base": "/".join(sorted({part["choice"]["base"] for part in parts})),
        "seconds": float(np.mean([row["seconds"] for row in rows if row["method"] == "FedPP"])),
    }  # fmt: skip


if __name__ == "__main__":
    main()
