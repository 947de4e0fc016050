"""Messages that are valid and as extreme as they may be, from one client of eight: how many end a run, or change it?

    python benchmarks/attacks/extreme.py --jobs 2

The cases and lies are those of tests/attacks/test_extreme_messages.py. Every run is a file of its own under
runs/extreme. At the end benchmarks/results/attacks-extreme.csv is written: of each method, runs that were ended or
blamed somebody honest, runs that were changed by more than a twentieth beyond what it costs if the member stays away,
the largest change, and that cost.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parent.parent))
sys.path.append(str(Path(__file__).parent.parent.parent / "tests" / "attacks"))
import test_extreme_messages as lies
from parts import about, do_part, read_parts
from results import write_results

FOLDER = Path("runs/extreme")
MOST = 0.05


def measure(case: str, seed: int) -> dict[str, Any]:
    """Return how far the lies of a seed move a result, and how far the member's absence does."""
    absent = lies.case(case).differ(*lies.honest(case))
    try:
        return {"moved": lies.changed(case, seed), "absent": absent, "ended": ""}
    except Exception as error:
        return {"moved": None, "absent": absent, "ended": f"{type(error).__name__}: {error}"}


def do_cell(cell: Mapping[str, Any]) -> None:
    """Measure one run into its file."""
    do_part(FOLDER, cell, lambda: measure(**cell))


def main() -> None:
    """Measure what is missing, then write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--cases", nargs="*", default=lies.METHODS, choices=lies.METHODS)
    given = parser.parse_args()
    with ProcessPoolExecutor(given.jobs) as pool:
        cells = [{"case": case, "seed": seed} for case in given.cases for seed in range(given.seeds)]
        for done in as_completed([pool.submit(do_cell, cell) for cell in cells]):
            done.result()
    rows, all_parts = [], []
    for case in lies.METHODS:
        if parts := [part for part in read_parts(FOLDER, case=case) if part["seed"] < given.seeds]:
            all_parts += parts
            moved = [part["moved"] for part in parts if part["moved"] is not None]
            rows.append(
                {
                    "case": case, "runs": len(parts), "ended": len(parts) - len(moved),
                    "changed": sum(value > MOST for value in moved), "largest": max(moved),
                    "absent": parts[0]["absent"],
                }
            )  # fmt: skip
            print(rows[-1])
    print(write_results("attacks-extreme", rows, seed=f"0 to {given.seeds - 1}", note=about(all_parts)))


if __name__ == "__main__":
    main()
