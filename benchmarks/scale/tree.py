"""Seconds, bytes and peak memory of a round with and without a tree of 100 regions, by the number of clients.

python benchmarks/scale/tree.py        each size in a fresh process, then the exponents

Clients cost nothing, but every question is written to bytes and every reply read from bytes and checked, as in
`clients.py`. `received` are the bytes of all clients' replies, `to_root` those of what the root itself is sent: every
client's reply, or every region's sum. `peak` is the memory above the start, `whole` that of the process.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from clients import exponent, peak
from loads import WIDTHS, Echo, make_load

sys.path.insert(0, str(Path(__file__).parents[1]))
from results import commit, write_results

import cotempo as ct
from cotempo.federation import Answers, Expect, Message, Question
from cotempo.federation.reducers import Exchange, PlainReducer
from cotempo.testing import drive
from cotempo.threads import limit_threads

REGIONS = 100
SIZES = {"vector-10": (1_000, 3_000, 10_000, 30_000, 100_000), "vector-100k": (300, 1_000, 3_000, 10_000)}
WAYS = ("flat", "tree")
FITTED = ("cpu_seconds", "received", "to_root", "peak", "whole")


class Counted(ct.TreeReducer):
    """A tree that counts the bytes of what regions send on."""

    sent = 0

    def gather_region(self, exchange: Exchange, questions: Sequence[Question], expect: Expect) -> Answers:
        region = super().gather_region(exchange, questions, expect)
        self.sent += region.sum.nbytes
        return region


def measure(load: str, way: str, clients: int) -> dict[str, Any]:
    """One size, in this process: the second of two rounds; the first also opens and prepares."""
    first, few = make_load(load, 3, 1)
    first.fit(few, progress=False)  # imports are not part of a run
    method, _ = make_load(load, 1, 2)
    before = peak()
    engine = Echo(clients, Message({"mean": np.ones(WIDTHS[load], np.float32)}))
    reducer = Counted(REGIONS) if way == "tree" else PlainReducer()
    steps = []
    with limit_threads(1):
        cpu = time.process_time()
        for step in drive(method, engine, reducer=reducer):
            used, cpu = time.process_time() - cpu, time.process_time()
            received = sum(step.received.values())
            to_root = reducer.sent if isinstance(reducer, Counted) else received
            steps.append({"seconds": step.seconds, "cpu_seconds": used, "received": received, "to_root": to_root})
            reducer.sent = 0
    return {"load": load, "way": way, "clients": clients, **steps[-1], "peak": peak() - before, "whole": peak()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--one", nargs=3, metavar=("LOAD", "WAY", "CLIENTS"))
    given = parser.parse_args()
    if given.one:
        load, way, clients = given.one
        print(json.dumps(measure(load, way, int(clients))))
        return
    os.environ.setdefault("COTEMPO_COMMIT", commit())  # of both files: the first is a change when the second is written
    rows = []
    for load in WIDTHS:
        for way in WAYS:
            for size in SIZES[load]:
                command = [sys.executable, __file__, "--one", load, way, str(size)]
                ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
                rows.append(json.loads(ended.stdout.splitlines()[-1]))
                print(rows[-1], flush=True)
    write_results("scale/tree", rows, seed=0, note=f"{REGIONS} regions; the second of two rounds")
    fits = []
    for load in WIDTHS:
        for way in WAYS:
            own = [row for row in rows if (row["load"], row["way"]) == (load, way)]
            for name in FITTED:
                factor, slope, error = exponent([row["clients"] for row in own], [max(row[name], 1e-6) for row in own])
                fits.append(
                    {
                        "load": load, "way": way, "quantity": name, "factor": factor, "exponent": slope,
                        "standard_error": error,
                    }
                )  # fmt: skip
    note = f"least squares on logarithms, over the sizes of {SIZES}"
    write_results("scale/tree-exponents", fits, seed=0, note=note)


if __name__ == "__main__":
    main()
