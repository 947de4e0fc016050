"""Forecasts and filled gaps of `SeriesMoments` beside the simplest baselines, and how often intervals of 90 % hold.

    python benchmarks/series/forecasts.py --data etth energy     under a minute a set on one CPU thread

At five places of a series 3,000 rows are learned from and the 1,500 after them are asked about, 24 and 168 rows ahead
and in gaps of six.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parent)]
from results import write_results  # noqa: E402
from setting import NAMES, load  # noqa: E402

from cotempo.data import Series  # noqa: E402
from cotempo.series import SeriesMoments  # noqa: E402

LEARNED, ASKED, PLACES = 3000, 1500, 5
PERIOD = {"etth": 24, "energy": 144}


def measure(name: str) -> list[dict]:
    """Return a row for each place and task: the mean over features of errors in percent of the best baseline's."""
    rows, _ = load(name)
    found = []
    for place, first in enumerate(np.linspace(0, len(rows) - LEARNED - ASKED, PLACES).astype(int)):
        parts = np.split(rows[first : first + LEARNED + ASKED], [LEARNED])
        learned, asked = (Series.from_arrays(part) for part in parts)
        model, period = SeriesMoments().fit(learned), PERIOD[name]
        tasks = {f"{steps} ahead": model.compare(asked, steps, period=period) for steps in (24, 168)}
        for task, compared in (tasks | {"gaps of 6": model.compare(asked, period=period, seed=place)}).items():
            frame = compared.to_frame()
            best = [frame[base][index] for index, base in enumerate(frame["best_baseline"])]
            row = {"data": name, "place": place, "task": task}
            row["model, % of best"] = float(100 * (frame["model"] / np.maximum(best, 1e-12)).mean())
            row["inside, %"] = float(frame["inside"].mean())
            for verdict in ("model", "no difference shown"):
                row[verdict] = int((frame["better"] == verdict).sum())
            row["baseline"] = len(frame) - row["model"] - row["no difference shown"]
            found.append(row)
            print(row, flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="*", choices=NAMES, default=["etth"])
    given = parser.parse_args()
    rows = [row for name in given.data for row in measure(name)]
    write_results("series/forecasts", rows, seed=list(range(PLACES)), note="seeds are places of the series")


if __name__ == "__main__":
    main()
