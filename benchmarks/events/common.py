"""Data for the benchmarks of events, dealt out to clients, and the scores of a cohort."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from conttime import conttime_file
from results import write_results

from cotempo.data import Events, split_by_time
from cotempo.events import EventArchive, read_event_archive

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
    "conttime-generated": "",
}
PERIODS = {"taobao": 8.64, "taxi": 24.0, "twitter": 24.0}
Tables = dict[str, Events]

__all__ = [
    "FILES",
    "PERIODS",
    "ROOT",
    "Tables",
    "archive_of",
    "cohort_score",
    "deal",
    "deal_types",
    "late_score",
    "whole_span",
    "write_results",
]


def archive_of(name: str) -> EventArchive:
    """Read a data set, or generate it."""
    return read_event_archive(ROOT / f"{FILES[name]}.npz" if FILES[name] else conttime_file())


def deal(name: str, clients: int, share: float, seed: int, scored: str = "test") -> tuple[Tables, Tables]:
    """Deal whole sequences at random: the file's own split, or 80 to 20 where it has none; a share of the training.

    With `scored` ``"dev"`` nothing is taken from the test: the file's own development sequences are scored, or a fifth
    of the training ones where it has none.
    """
    archive = archive_of(name)
    rng = np.random.default_rng(seed)
    train, test = archive.of_split("train"), archive.of_split("test")
    development = archive.of_split("dev")
    if not len(train):
        train, development = development, train
    if not len(test):
        order = rng.permutation(len(archive.times))
        train, test = order[: int(0.8 * len(order))], order[int(0.8 * len(order)) :]
    train, test = rng.permutation(train), rng.permutation(test)
    if scored == "dev":
        cut = int(0.8 * len(train))
        train, test = (train, rng.permutation(development)) if len(development) else (train[:cut], train[cut:])
    train = train[: max(int(share * len(train)), clients)]
    return _hand_out(archive, train, clients), _hand_out(archive, test, clients)


def _hand_out(archive: EventArchive, sequences: Any, clients: int) -> Tables:
    unmarked = archive._replace(marks=None)
    return {
        f"client-{number:03d}": unmarked.select(np.sort(sequences[number::clients])) for number in range(clients)
    }  # fmt: skip


def deal_types(
    name: str, clients: int, types: int, seed: int, share: float = 1.0, scored: str = "test"
) -> tuple[Tables, Tables]:
    """Each client is given only the events of some types: the heterogeneous partition."""
    archive = archive_of(name)
    rng = np.random.default_rng(seed)
    owned = [rng.choice(archive.mark_count, types, replace=False) for _ in range(clients)]
    parts: list[Tables] = []
    train = "train" if len(archive.of_split("train")) else "dev"
    for split in (train, scored):
        found = rng.permutation(archive.of_split(split))
        found = found[: max(int(share * len(found)), clients)] if split == train else found
        tables = {}
        for number, kept in enumerate(owned):
            mine = found[number::clients]
            marks = archive.marks or []
            times = [archive.times[i][np.isin(marks[i], kept)] for i in mine]
            held = archive._replace(times=times, windows=archive.windows[mine], marks=None)
            tables[f"client-{number:03d}"] = held.select(np.arange(len(mine)))
        parts.append(tables)
    return parts[0], parts[1]


def whole_span(*parts: Tables) -> tuple[float, float]:
    """From the first start to the last end of all clients, asked or not."""
    tables = [table for part in parts for table in part.values()]
    return float(min(table.start.min() for table in tables)), float(max(table.end.max() for table in tables))


def cohort_score(models: Mapping[str, Any], test: Tables) -> dict[str, float]:
    """Gains per event over all clients' test events, and expected over observed counts."""
    scores = [models[name].score(test[name]) for name in test]
    weight = np.array([score["events"] for score in scores])
    fields = [name for name in ("gain", "gain_over_pooled", "count_ratio") if name in scores[0]]
    return {name: float((weight * [score[name] for score in scores]).sum() / weight.sum()) for name in fields}


def late_score(models: Mapping[str, Any], tables: Tables) -> dict[str, float]:
    """The same for the last fifth of every window given what came before: whole windows less their first four."""
    early, _ = split_by_time(tables, (0.8, 0.2))
    both = [(models[name].score(tables[name]), models[name].score(early[name])) for name in tables]
    events = sum(whole["events"] - first["events"] for whole, first in both)
    fields = [name for name in ("gain", "gain_over_pooled", "count_ratio") if name in both[0][0]]
    return {
        name: float(sum(w[name] * w["events"] - f[name] * f["events"] for w, f in both) / events) for name in fields
    }
