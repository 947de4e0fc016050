"""Data for the benchmarks of events, dealt out to clients, and the scores of a cohort."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from results import write_results

from cotempo.data import Events
from cotempo.events import read_event_archive

ROOT = Path(os.environ.get("COTEMPO_DATA", Path(__file__).parents[3] / "shared" / "data")) / "events"
FILES = {
    "taobao": "taobao",
    "stackoverflow": "stackoverflow_22types",
    "taxi": "tritpp_taxi",
    "twitter": "tritpp_twitter",
    "amazon": "amazon_devtest",
    "hawkes1": "tritpp_hawkes1",
    "hawkes_nhp": "hawkes_nhp_382",
    "conttime": "conttime_382",
}
PERIODS = {"taobao": 8.64, "taxi": 24.0, "twitter": 24.0}
Tables = dict[str, Events]

__all__ = ["FILES", "PERIODS", "ROOT", "Tables", "cohort_score", "deal", "write_results"]


def deal(name: str, clients: int, share: float, seed: int) -> tuple[Tables, Tables]:
    """Deal whole sequences at random: the file's own split, or 80 to 20 where it has none; a share of the training."""
    archive = read_event_archive(ROOT / f"{FILES[name]}.npz")
    rng = np.random.default_rng(seed)
    train, test = archive.of_split("train"), archive.of_split("test")
    if not len(train):
        train = archive.of_split("dev")
    if not len(test):
        order = rng.permutation(len(archive.times))
        train, test = order[: int(0.8 * len(order))], order[int(0.8 * len(order)) :]
    train, test = rng.permutation(train), rng.permutation(test)
    train = train[: max(int(share * len(train)), clients)]
    unmarked = archive._replace(marks=None)
    names = [f"client-{number:03d}" for number in range(clients)]
    return tuple(  # type: ignore[return-value]
        {client: unmarked.select(np.sort(part[number::clients])) for number, client in enumerate(names)}
        for part in (train, test)
    )


def cohort_score(models: Mapping[str, Any], test: Tables) -> dict[str, float]:
    """Gains per event over all clients' test events, and expected over observed counts."""
    scores = [models[name].score(test[name]) for name in test]
    weight = np.array([score["events"] for score in scores])
    fields = [name for name in ("gain", "gain_over_pooled", "count_ratio") if name in scores[0]]
    return {name: float((weight * [score[name] for score in scores]).sum() / weight.sum()) for name in fields}
