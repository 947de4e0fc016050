"""A coordinator killed at random moments and resumed at once: does the resumed run end, and in the same bits?

Three sites over TLS, the consortium of the tests. Every try is a run of ten rounds, killed once: after as many steps as
are drawn, from none to eight, and at a random moment of the next one. Tries that were made stay (runs/parts/killed):
started again, the script goes on after them.

Run: python benchmarks/operations/killed.py --tries 50
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[2]
FLOWER = ROOT / "tests" / "engines" / "flower"
sys.path += [str(FLOWER), str(ROOT / "benchmarks")]
os.environ["PYTHONPATH"] = os.pathsep.join([str(FLOWER), *filter(None, [os.environ.get("PYTHONPATH")])])

from consortium import Consortium, outcome  # noqa: E402
from parts import FOLDER, about, do_part, read_parts  # noqa: E402
from results import write_results  # noqa: E402
from walking import Walking  # noqa: E402

import cotempo as ct  # noqa: E402
from cotempo.engines.flower.processes import wait_until  # noqa: E402
from cotempo.runs.folder import read_lines  # noqa: E402

ROUNDS, PATIENCE = 10, 180.0
PARTS = FOLDER / "killed"


def try_all(tries: int) -> None:
    """One consortium, killed again and again."""
    rng = np.random.default_rng(0)
    tables = {name: ct.Series.from_arrays(rng.normal(size=(20, 2)).round(3)) for name in ("ash", "birch", "cedar")}
    with tempfile.TemporaryDirectory() as folder:
        made = Consortium(Path(folder) / "made", tables, methods=("Walking",))
        try:
            made.start()
            outcome(made.coordinate("run", Path(folder) / "whole", parameters={"rounds": ROUNDS}, seed=0))
            usual = statistics.median(record["seconds"] for record in read_lines(Path(folder) / "whole" / "log.jsonl"))
            for seed in range(1, tries + 1):
                run = Path(folder) / f"run-{seed}"
                do_part(PARTS, {"try": seed}, lambda run=run, seed=seed: try_once(made, run, tables, seed, usual))
        finally:
            made.stop()


def try_once(made: Consortium, run: Path, tables: dict[str, Any], seed: int, usual: float) -> dict[str, Any]:
    """Kill the coordinator of a new run at a random moment, and resume the run at once."""
    rng = np.random.default_rng(seed)
    after, rest = int(rng.integers(ROUNDS - 1)), float(rng.uniform(0, usual))
    process = made.coordinate("run", run, parameters={"rounds": ROUNDS}, seed=seed)
    wait_for(run, after)
    time.sleep(rest)
    process.send_signal(signal.SIGKILL)
    process.wait()
    return {"steps": steps(run), **resume(made, run, tables, seed)}


def wait_for(run: Path, after: int) -> None:
    """Wait until a run has its first checkpoint, and so many steps are done."""
    wait_until(lambda: any(run.glob("checkpoints/step-*")) and steps(run) >= after, PATIENCE)


def steps(run: Path) -> int:
    """Return how many steps are done."""
    return len(read_lines(run / "log.jsonl"))


def resume(made: Consortium, run: Path, tables: dict[str, Any], seed: int) -> dict[str, Any]:
    """Resume at once."""
    began = time.monotonic()
    process = made.coordinate("resume", run)
    try:
        ended = outcome(process, PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        return {"ended": "hung", "seconds": PATIENCE}
    expected = ct.fit(Walking(rounds=ROUNDS), tables, seed=seed, progress=False).digest
    same = "same bits" if ended.get("digest") == expected else ended.get("text", "other bits")[:80]
    return {"ended": same, "seconds": time.monotonic() - began}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tries", type=int, default=50)
    given = parser.parse_args()
    try_all(given.tries)
    rows = sorted(read_parts(PARTS), key=lambda row: row["try"])
    when = "killed after 0 to 8 steps at a random moment of the next, resumed at once"
    note = f"{ROUNDS} rounds, three sites over TLS, {when}; hung: {PATIENCE:g} s; {about(rows)}"
    write_results("operations-killed", rows, seed=[row["try"] for row in rows], note=note)
    print({ended: sum(row["ended"] == ended for row in rows) for ended in {row["ended"] for row in rows}})


if __name__ == "__main__":
    main()
