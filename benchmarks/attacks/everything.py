"""Measure every part of the three benchmarks beside this file in one pool, until the time is up.

    python benchmarks/attacks/everything.py --jobs 16 --minutes 8

About 140 minutes of one core, nothing but generated data. Seeds of the matrix come last, one after the other, so that
a run that is cut leaves whole ones. Parts already there are not measured again; the other scripts write the tables.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import false_alarms
import matrix
import one_liar

Job = tuple[Callable[[Mapping[str, Any]], None], dict[str, Any]]


def jobs(seeds: int, alarms: int) -> list[Job]:
    """Return all parts, the longest first."""
    liars = one_liar.cells([*one_liar.CASES], range(one_liar.FIRST_SEED, one_liar.FIRST_SEED + seeds))
    honest = false_alarms.cells([*false_alarms.CASES], range(false_alarms.FIRST_SEED, false_alarms.FIRST_SEED + alarms))
    methods, first = [*matrix.METHODS][::-1], matrix.FIRST_SEED
    return [
        *((one_liar.do_cell, cell) for cell in liars),
        *((false_alarms.do_cell, cell) for cell in honest),
        *((matrix.do_cell, cell) for seed in range(first, first + seeds) for cell in matrix.cells(methods, [seed])),
    ]


def do_job(job: Job, end: float) -> bool:
    """Measure a part if there is time left, and tell whether there was; one that fails is told of and left out."""
    if time.time() > end:
        return False
    do, cell = job
    try:
        do(cell)
    except Exception as error:
        print(f"FAILED {cell}: {type(error).__name__}: {error}", flush=True)
    return True


def main() -> None:
    """Measure what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=1e6)
    parser.add_argument("--seeds", type=int, default=3, help="of liars and of the matrix")
    parser.add_argument("--alarms", type=int, default=40, help="seeds of runs with honest clients")
    given = parser.parse_args()
    end, todo = time.time() + 60 * given.minutes, jobs(given.seeds, given.alarms)
    with ProcessPoolExecutor(given.jobs) as pool:
        done = [future.result() for future in [pool.submit(do_job, job, end) for job in todo]]
    print(f"{sum(done)} of {len(done)} parts are there or were tried")


if __name__ == "__main__":
    main()
