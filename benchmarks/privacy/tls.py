"""What privacy costs between sites: FDBNL over TLS with 3 sites, with the secure sum and without.

Run: python benchmarks/privacy/tls.py [repeats]

Sites made their own keys; policy, contract, question log and ledger are part of every deployment and at work in both.
Runs alternate on the same deployment on this machine. Load by others stretches both; what is counted does not depend on
it: exchanges as the loop makes them, those of them that go through Flower's queues, and all processor time.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil

sys.path.append(str(Path(__file__).parents[1]))
sys.path.append(str(Path(__file__).parents[1] / "scale"))

from deployment import deployment
from results import write_results

import cotempo as ct
from cotempo.engines.flower.coordinator.engine import Flower
from cotempo.engines.flower.coordinator.task import ServerTask

SEED = 0
ROUNDS = 6


def timed(method: ct.FDBNL, server: Path, is_on: bool) -> dict[str, Any]:
    """One run: its seconds from beginning to end, and what it took."""
    counts, exchange, push = Counter[str](), Flower.exchange, ServerTask.push

    def counted_exchange(self: Flower, questions: Any) -> Any:
        counts["exchanges"] += 1
        return exchange(self, questions)

    def counted_push(self: ServerTask, envelopes: Any, seconds: float) -> Any:
        counts["through_flower"] += 1
        return push(self, envelopes, seconds)

    Flower.exchange, ServerTask.push = counted_exchange, counted_push  # type: ignore[method-assign]
    began, spent = time.perf_counter(), processor_seconds(server.parents[1])
    try:
        privacy = ct.Privacy(secure_sum=is_on)
        fitted = ct.fit(method, engine="flower", server=server, seed=SEED, privacy=privacy, progress=False)
    finally:
        Flower.exchange, ServerTask.push = exchange, push  # type: ignore[method-assign]
    assert not fitted.failures
    return {
        "secure": is_on, "seconds": time.perf_counter() - began, "steps": len(fitted.history), **counts,
        "seconds_in_steps": sum(record["seconds"] for record in fitted.history),
        "processor_seconds": processor_seconds(server.parents[1]) - spent,
    }  # fmt: skip


def processor_seconds(folder: Path) -> float:
    """The processor time of this process and of all that run from a deployment's folder."""
    total = 0.0
    for process in psutil.process_iter(["cmdline"]):
        if process.pid == os.getpid() or any(str(folder) in part for part in process.info["cmdline"] or ()):
            with suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                total += times.user + times.system
    return total


def main() -> None:
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    method = ct.FDBNL(rounds=ROUNDS, compare=False)
    tables, _ = ct.make_networks(variables=5, clients=3, samples=400, seed=SEED)
    rows: list[dict[str, Any]] = []
    with deployment(method, tables, own_keys=True) as server:
        timed(ct.FDBNL(rounds=1, compare=False), server.folder, True)  # loads modules at the sites
        for repeat in range(repeats):
            for is_on in (False, True) if repeat % 2 else (True, False):
                rows.append({"repeat": repeat, **timed(method, server.folder, is_on)})
                print(rows[-1], flush=True)
    note = f"FDBNL(rounds={ROUNDS}) over TLS, 3 sites on this machine, {os.getloadavg()[2]:.0f} processes at work on it"
    summary: list[dict[str, Any]] = []
    for what in ("seconds", "seconds_in_steps", "processor_seconds", "exchanges", "through_flower"):
        spent = {is_on: np.array([row[what] for row in rows if row["secure"] == is_on]) for is_on in (False, True)}
        ratios = spent[True] / spent[False]
        summary.append({"what": what, "ratio": ratios.mean(), "ratio_error": ratios.std(ddof=1) / np.sqrt(len(ratios))})
    print(summary)
    write_results("privacy-tls-ratios", summary, seed=SEED, note=f"{note}; with the secure sum over without")
    write_results("privacy-tls", rows, seed=SEED, note=note)


if __name__ == "__main__":
    main()
