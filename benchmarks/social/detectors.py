"""The detector alone and together on all variants, beside rows without labels.

    python benchmarks/social/detectors.py [--seeds 5] [--posts 450]

Known events: every test post is given to one of the client's events. Unseen events: test posts tell of events that were
not among the labels, and are grouped by their true number.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parent)]
from methods import prepare  # noqa: E402
from results import write_results  # noqa: E402
from setting import Clients, judge, label_free, mean_of, with_error  # noqa: E402

from cotempo.social import EventDetector  # noqa: E402


def measure(variant: str, posts: int, seed: int) -> dict[str, dict[str, float]]:
    """All rows of one seed."""
    learn, test = prepare(variant, posts, seed)
    rows = {name: {**scores, "seconds": 0.0} for name, scores in label_free(learn, test).items()}
    began = time.perf_counter()
    fitted = EventDetector(compare=False).fit(learn, seed=seed, progress=False)
    seconds = time.perf_counter() - began
    rows["EventDetector, together"] = {**score(variant, test, fitted), "seconds": seconds}
    began = time.perf_counter()
    alone = {name: EventDetector(compare=False).fit(table, seed=seed, progress=False) for name, table in learn.items()}
    seconds = time.perf_counter() - began
    rows["EventDetector, alone"] = {**score(variant, test, alone), "seconds": seconds}
    print(variant, seed, {name: round(row["NMI"], 3) for name, row in rows.items()}, flush=True)
    return rows


def score(variant: str, test: Clients, detectors: Any) -> dict[str, float]:
    """Means over clients; new events are grouped by their number."""
    unseen = variant == "unseen"
    found = judge(test, lambda name, table, k: detectors[name].detect(table, events=k if unseen else None).event)
    return mean_of(found)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--posts", type=int, default=450)
    parser.add_argument("--variants", default="collected,keywords,bare,fifteen,unseen,generated")
    given = parser.parse_args()
    table = []
    for variant in given.variants.split(","):
        runs = [measure(variant, given.posts, seed) for seed in range(given.seeds)]
        for name in runs[0]:
            row: dict[str, Any] = {"variant": variant, "method": name}
            for metric in ("NMI", "AMI", "ARI"):
                row[metric], row[f"{metric} error"] = with_error([run[name][metric] for run in runs])
            ahead = [run["EventDetector, together"]["NMI"] - run[name]["NMI"] for run in runs]
            row["together minus it"], row["error of that"] = with_error(ahead)
            row["seconds"] = with_error([run[name]["seconds"] for run in runs])[0]
            table.append(row)
    note = f"{given.posts} posts a client; means over clients and {given.seeds} seeds; new posts"
    write_results("social/detectors", table, seed=list(range(given.seeds)), note=note)


if __name__ == "__main__":
    main()
