"""A coordinator killed at random moments and resumed at once: does the resumed run end, and in the same bits?

Three sites over TLS, the consortium of the tests. Every try is a run of five rounds, killed once by SIGKILL: after as
many steps as are drawn, from none to four, and at a random moment of the next one. Coordinators are forked from this
process, which has imported all they need. Tries that were made stay (runs/parts/killed): started again, the script
goes on after them.

Run: python benchmarks/operations/killed.py --tries 50
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import statistics
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

from consortium import Consortium  # noqa: E402
from parts import FOLDER, about, do_part, read_parts  # noqa: E402
from results import write_results  # noqa: E402
from walking import Walking  # noqa: E402

import cotempo as ct  # noqa: E402
from cotempo.engines.flower.processes import wait_until  # noqa: E402
from cotempo.runs.folder import read_lines  # noqa: E402

ROUNDS, PATIENCE = 5, 180.0
PARTS = FOLDER / "killed"
OFF = ct.Privacy(secure_sum=False)  # bits are compared with those of a run in process


class Coordinator:
    """A process that begins a run, or resumes the one that is there."""

    def __init__(self, made: Consortium, run: Path, seed: int):
        forked = multiprocessing.get_context("fork")
        self.said, said = forked.Pipe(duplex=False)
        self.process = forked.Process(target=self._work, args=(said, str(made.server.folder), run, seed))
        self.process.start()
        said.close()

    @staticmethod
    def _work(said: Any, server: str, run: Path, seed: int) -> None:
        try:
            if run.exists():
                fitted = ct.resume(run, progress=False)
            else:
                method = Walking(rounds=ROUNDS)
                fitted = method.fit(engine="flower", server=server, run=run, seed=seed, privacy=OFF, progress=False)
            said.send(fitted.digest)
        except ct.CotempoError as error:
            said.send(f"{type(error).__name__}: {error}")

    def outcome(self) -> str:
        """Return the digest, the error, or that it hung."""
        ended = self.said.recv() if self.said.poll(PATIENCE) else "hung"
        self.kill()
        return str(ended)

    def kill(self) -> None:
        """Kill the process, if it is still there."""
        self.process.kill()
        self.process.join()


def try_all(tries: int) -> None:
    """One consortium, killed again and again."""
    rng = np.random.default_rng(0)
    tables = {name: ct.Series.from_arrays(rng.normal(size=(20, 2)).round(3)) for name in ("ash", "birch", "cedar")}
    with tempfile.TemporaryDirectory() as folder:
        made = Consortium(Path(folder) / "made", tables, methods=("Walking",))
        try:
            made.start()
            Coordinator(made, Path(folder) / "whole", 0).outcome()
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
    coordinator = Coordinator(made, run, seed)
    wait_until(lambda: any(run.glob("checkpoints/step-*")) and steps(run) >= after, PATIENCE)
    time.sleep(rest)
    coordinator.kill()
    done, began = steps(run), time.monotonic()
    ended = Coordinator(made, run, seed).outcome()
    expected = ct.fit(Walking(rounds=ROUNDS), tables, seed=seed, progress=False).digest
    return {
        "steps": done,
        "ended": "same bits" if ended == expected else ended[:80],
        "seconds": time.monotonic() - began,
    }


def steps(run: Path) -> int:
    """Return how many steps are done."""
    return len(read_lines(run / "log.jsonl"))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tries", type=int, default=50)
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that nothing is left behind
    try_all(given.tries)
    rows = sorted(read_parts(PARTS), key=lambda row: row["try"])
    when = "killed after 0 to 4 steps at a random moment of the next, resumed at once"
    note = f"{ROUNDS} rounds, three sites over TLS, {when}; hung: {PATIENCE:g} s; {about(rows)}"
    write_results("operations-killed", rows, seed=[row["try"] for row in rows], note=note)
    print({ended: sum(row["ended"] == ended for row in rows) for ended in {row["ended"] for row in rows}})


if __name__ == "__main__":
    main()
