"""Does joining help or harm? Window moments alone, of each client, and of all, against the truth of real gaps.

    python benchmarks/series/joining.py --seeds 10 11 12 13      about 20 seconds a seed on one CPU thread

Clients are blocks of ETTh1 with gaps: single cells, and 2 to 12 hours of a sensor. In `differ` three plants have 1,350
hours each of other seasons and partly other sensors; in `alike` three plants have the same sensors and 450 hours each,
one after the other. `missing` are the cells missing in what was learned from, `later` those of the 1,000 hours after.
Errors are in deviations of each sensor. `alone` is `SeriesMoments`, `personal` what `FedMoments` returns for it,
and `pooled` the process of all clients' moments. `said` is what FedMoments said of joining: its percentage.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parent)]
from results import write_results  # noqa: E402
from setting import load  # noqa: E402

import cotempo as ct  # noqa: E402
from cotempo.data import Series  # noqa: E402
from cotempo.federation.benefit import standard_error  # noqa: E402

NAMES = ("HUFL", "HULL", "MUFL", "MULL", "LUFL", "LULL", "OT")
PLANTS = {
    "differ": {
        "nord": (0, 1350, ("HUFL", "OT", "HULL", "MUFL")),
        "sued": (3000, 1350, ("HUFL", "OT", "LUFL")),
        "west": (6000, 1350, ("HUFL", "OT", "MUFL", "LULL")),
    },
    "alike": {f"plant-{k}": (450 * k, 450, ("HUFL", "OT", "HULL", "MUFL")) for k in range(3)},
}
LATER = 1000


def with_gaps(truth: np.ndarray, stream: np.random.Generator) -> np.ndarray:
    """Three percent of single cells, and a gap of 2 to 12 rows of each sensor in some 170."""
    holes = np.where(stream.random(truth.shape) < 0.03, np.nan, truth)
    for column in range(truth.shape[1]):
        for start in stream.integers(20, len(truth) - 30, size=max(3, len(truth) // 170)):
            holes[start : start + stream.integers(2, 13), column] = np.nan
    return holes


def measure(kind: str, seed: int) -> list[dict]:
    """Errors of each client's missing cells, in its table and later."""
    rows, _ = load("etth")
    stream, tables, truths = np.random.default_rng([seed, 16]), {}, {}
    for name, (start, count, features) in PLANTS[kind].items():
        truth = rows[start : start + count + LATER, [NAMES.index(feature) for feature in features]]
        parts = {"missing": truth[:count], "later": truth[count:]}
        truths[name] = parts
        tables[name] = {
            when: Series.from_arrays(with_gaps(part, stream), features=features) for when, part in parts.items()
        }
    fitted = ct.FedMoments().fit({name: parts["missing"] for name, parts in tables.items()}, progress=False)
    found = []
    for name, parts in tables.items():
        joined, table = fitted.benefit[name], parts["missing"]
        models = {"alone": ct.SeriesMoments().fit(table), "personal": fitted[name], "pooled": fitted.pooled(name)}
        spread = truths[name]["missing"].std(axis=0)
        for when, table in parts.items():
            gone, row = np.isnan(table.values), {"clients": kind, "client": name, "cells": when, "seed": seed}
            for label, model in models.items():
                errors = np.abs(model.impute(table, level=()).values - truths[name][when]) / spread
                row[label] = float(errors[gone].mean())
            found.append(row | {"said": 100 * (joined.together / joined.alone - 1), "verdict": joined.verdict})
            print(found[-1], flush=True)
    return found


def table(rows: list[dict]) -> list[dict]:
    """Mean errors, and by how many percent they differ from those alone, with a standard error over seeds."""
    found = []
    for key in dict.fromkeys((row["clients"], row["client"], row["cells"]) for row in rows):
        group = [row for row in rows if (row["clients"], row["client"], row["cells"]) == key]
        line = dict(zip(("clients", "client", "cells"), key, strict=True))
        line["alone"] = float(np.mean([row["alone"] for row in group]))
        for label in ("personal", "pooled"):
            changes = [100 * (row[label] / row["alone"] - 1) for row in group]
            line |= {f"{label}, %": float(np.mean(changes)), f"{label}, error": standard_error(changes)}
        said = [row["said"] for row in group]
        found.append(line | {"said, %": float(np.mean(said)), "said, error": standard_error(said)})
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[10, 11, 12, 13])
    parser.add_argument("--clients", nargs="+", default=list(PLANTS))
    given = parser.parse_args()
    rows = [row for kind in given.clients for seed in given.seeds for row in measure(kind, seed)]
    print(write_results("series-joining", table(rows), seed=given.seeds))
