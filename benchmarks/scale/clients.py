"""Seconds, bytes and peak memory of a round by the number of clients, each size in a fresh process, with exponents.

python benchmarks/scale/clients.py                                  in process: looped, batched, and the server alone
python benchmarks/scale/clients.py --engine flower-simulation       10 to 1,000 clients under Ray
python benchmarks/scale/clients.py --engine flower                  2 to 5 node processes
python benchmarks/scale/clients.py --collect parts                  the tables of what was measured, by engine
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from loads import LOADS, WIDTHS, Echo, make_load

sys.path.insert(0, str(Path(__file__).parents[1]))
from results import write_results

import cotempo as ct
from cotempo.engines.inprocess import InProcess
from cotempo.engines.settings import InProcessSettings
from cotempo.federation import Message, Method
from cotempo.federation.engine import Engine
from cotempo.testing import drive
from cotempo.threads import limit_threads

WAYS = ("looped", "batched", "server")
IN_PROCESS = (10, 30, 100, 300, 1_000, 3_000, 10_000)
SERVER = (*IN_PROCESS, 100_000, 1_000_000)
PLANS: dict[str, dict[tuple[str, str], Sequence[int]]] = {
    "inprocess": {
        ("vector-10", "looped"): IN_PROCESS,
        ("vector-100k", "looped"): IN_PROCESS,
        ("vector-100k", "server"): IN_PROCESS,
        ("fedpp", "batched"): IN_PROCESS,
        ("fedpp", "looped"): IN_PROCESS,
        ("vector-10", "server"): SERVER,
    },
    "flower-simulation": {("fedpp", "looped"): (10, 30, 100, 300, 1_000)},
    "flower": {("fedpp", "looped"): (2, 3, 4, 5)},
}
FITTED = ("seconds", "cpu_seconds", "sent", "received", "peak")
LEARNING = ("move", "learn")
LARGE, SMALL = 10_000, 100  # exponents are fitted between these
SEEN = 2e6  # memory that grows by less cannot be told from what the allocator holds
NOTE = "medians over the rounds but the first; peak: bytes above those held before the run, tables: bytes of the tables"


def peak() -> int:
    """The most memory this process ever had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measure(engine: str, load: str, way: str, clients: int) -> dict[str, Any]:
    """One size, in this process: medians over all rounds but the first, which also opens and prepares."""
    first, few = make_load(load, 3, 1)
    first.fit(few, progress=False)  # imports are not part of a run
    before = peak()
    method, tables = make_load(load, 1 if way == "server" else clients, 4 if clients < 1_000 else 2)
    empty = peak()
    if way == "server":
        steps = watch(method, Echo(clients, Message({"mean": np.ones(WIDTHS[load], np.float32)})))
    elif engine == "inprocess":
        steps = watch(method, InProcess(method, tables, InProcessSettings(batched=way == "batched"), seed=0))
    else:
        steps = fit_elsewhere(engine, method, tables)
    found = {name: statistics.median(step[name] for step in steps[1:]) for name in steps[0]}
    return {**found, "peak": peak() - empty, "tables": empty - before, "whole": peak()}


def watch(method: Method, engine: Engine) -> list[dict[str, float]]:
    """What every round of learning costs in this process."""
    steps = []
    with limit_threads(1):
        cpu = time.process_time()
        for step in drive(method, engine):
            used, cpu = time.process_time() - cpu, time.process_time()
            if step.phase in LEARNING:
                sent, received = sum(step.sent.values()), sum(step.received.values())
                steps.append({"seconds": step.seconds, "cpu_seconds": used, "sent": sent, "received": received})
    return steps


def fit_elsewhere(engine: str, method: Method, tables: dict[str, Any]) -> list[dict[str, float]]:
    """What every round of learning costs with clients elsewhere; seconds of CPU are those of the server's loop."""
    cpu = time.process_time()
    if engine == "flower":
        from deployment import deployment, peak_of

        with deployment(method, tables) as server:
            cpu = time.process_time()
            fitted = ct.fit(method, engine=engine, server=server.folder, progress=False)
            more = {"link_peak": float(peak_of(server))}
    else:
        fitted, more = ct.fit(method, tables, engine=engine, progress=False), {}
    used = (time.process_time() - cpu) / len(fitted.history)
    return [
        {
            "seconds": row["seconds"], "cpu_seconds": used, "sent": sum(row["sent"].values()),
            "received": sum(row["received"].values()), **more,
        }
        for row in fitted.history
        if row["phase"] in LEARNING
    ]  # fmt: skip


def exponent(sizes: Sequence[int], values: Sequence[float]) -> tuple[float, float, float]:
    """Least squares on logarithms: factor, exponent and its standard error."""
    x, y = np.log(np.asarray(sizes, float)), np.log(values)
    slope, start = np.polyfit(x, y, 1)
    left = y - slope * x - start
    error = np.sqrt((left**2).sum() / (len(x) - 2) / ((x - x.mean()) ** 2).sum())
    return float(np.exp(start)), float(slope), float(error)


def fit_exponents(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """An exponent per load, way and quantity, where three sizes can be told from nothing."""
    table = []
    for load, way in dict.fromkeys((row["load"], row["way"]) for row in rows):
        own = [row for row in rows if (row["load"], row["way"]) == (load, way)]
        large = [row for row in own if SMALL <= row["clients"] <= LARGE]
        for name in FITTED:
            used = [row for row in (large if len(large) > 2 else own) if row[name] > (SEEN if name == "peak" else 0)]
            if len(used) < 3:
                continue
            factor, slope, error = exponent([row["clients"] for row in used], [row[name] for row in used])
            extended = {f"at_1e{power}": factor * 10 ** (power * slope) for power in (5, 6)}
            table.append(
                {
                    "engine": used[0]["engine"], "load": load, "way": way, "quantity": name,
                    "from": used[0]["clients"], "to": used[-1]["clients"], "factor": factor, "exponent": slope,
                    "standard_error": error, **extended,
                }
            )  # fmt: skip
    return table


def collect(engine: str, folder: Path) -> None:
    """Write the tables of all parts."""
    rows = [json.loads(path.read_text()) for path in sorted(folder.rglob(f"{engine}_*.json"))]
    write_results(f"scale/{engine}", rows, seed=0, note=NOTE)
    note = f"least squares on logarithms, sizes {SMALL} to {LARGE} where there are any; the last columns extend the fit"
    write_results(f"scale/{engine}-exponents", fit_exponents(rows), seed=0, note=note)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", choices=PLANS, default="inprocess")
    parser.add_argument("--loads", nargs="+", choices=LOADS, default=LOADS)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS)
    parser.add_argument("--sizes", type=int, nargs="+")
    parser.add_argument("--parts", type=Path, default=Path("parts"))
    parser.add_argument("--collect", type=Path)
    parser.add_argument("--one", nargs=3, metavar=("LOAD", "WAY", "CLIENTS"))
    given = parser.parse_args()
    if given.one:
        load, way, clients = given.one
        print(json.dumps(measure(given.engine, load, way, int(clients))))
        return
    if given.collect:
        collect(given.engine, given.collect)
        return
    given.parts.mkdir(parents=True, exist_ok=True)
    for (load, way), sizes in PLANS[given.engine].items():
        for size in sizes if load in given.loads and way in given.ways else ():
            if not given.sizes or size in given.sizes:
                command = [sys.executable, __file__, "--engine", given.engine, "--one", load, way, str(size)]
                ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
                found = json.loads(ended.stdout.splitlines()[-1])
                row = {"engine": given.engine, "load": load, "way": way, "clients": size, **found}
                print(row, flush=True)
                (given.parts / f"{given.engine}_{load}_{way}_{size:07d}.json").write_text(json.dumps(row))


if __name__ == "__main__":
    main()
