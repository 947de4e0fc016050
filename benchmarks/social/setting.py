"""What all social experiments share: the clients, the variants of their data, the split, and the label-free rows."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

sys.path[:0] = [str(Path(__file__).parents[1])]

from cotempo.data import Posts, make_posts, read_posts  # noqa: E402
from cotempo.engines.inprocess import InProcess  # noqa: E402
from cotempo.federation.fitted import Outcome  # noqa: E402
from cotempo.federation.rounds import rounds  # noqa: E402
from cotempo.federation.run import describe_step  # noqa: E402
from cotempo.social.clustering import cluster_scores, group_known  # noqa: E402
from cotempo.social.encoder import CharacterEncoder  # noqa: E402
from cotempo.social.keywords import find_keywords, remove_keywords  # noqa: E402

Clients = dict[str, Posts]
Split = tuple[Clients, Clients]


def data_file() -> Path | None:
    """The real clients, where they are at hand."""
    root = Path(os.environ.get("COTEMPO_DATA", Path(__file__).parents[2].parent / "shared" / "data"))
    path = root / "social" / "crisis_clients.parquet"
    return path if path.exists() else None


def real_clients(posts: int, seed: int, *, keywords: bool = True, times: bool = True) -> Clients:
    """Six clients of real posts, a random sample of each; without keywords or times where asked."""
    full = read_posts(data_file())
    rng = np.random.default_rng(seed)
    clients = {name: table.select(np.sort(rng.permutation(table.rows)[:posts])) for name, table in full.items()}
    if not keywords:
        found = find_keywords(full)
        clients = {name: remove_keywords(table, found) for name, table in clients.items()}
    if not times:
        clients = {name: replace(table, time=np.full(table.rows, np.nan)) for name, table in clients.items()}
    return clients


def generated_clients(posts: int, seed: int) -> Clients:
    """Six clients of generated posts about concurrent events."""
    return make_posts(clients=6, posts=posts, events=36, seed=seed)[0]


def split(clients: Clients, seed: int, *, labels: float = 1.0, unseen: bool = False) -> Split:
    """Deal out a fifth of the posts, or of the events, to test on; keep a share of the other labels."""
    learn, test = {}, {}
    for number, (name, table) in enumerate(sorted(clients.items())):
        rng = np.random.default_rng([seed, number])
        if unseen:
            events = rng.permutation(sorted(set(table.event)))
            held = np.isin(table.event, events[: max(2, len(events) // 3)]) if len(events) > 3 else None
            if held is None:
                continue
        else:
            held = np.zeros(table.rows, dtype=bool)
            held[rng.permutation(table.rows)[: table.rows // 5]] = True
        rest = table.select(~held)
        known = rng.random(rest.rows) < labels
        known[[rest.event.index(event) for event in set(rest.event)]] = True
        learn[name] = replace(rest, event=tuple(e if k else None for e, k in zip(rest.event, known, strict=True)))
        test[name] = table.select(held)
    return learn, test


def judge(test: Clients, find: Callable[[str, Posts, int], Iterable[Any]]) -> dict[str, dict[str, float]]:
    """Scores per client of found events against true ones; `find` is told the true number."""
    return {
        name: dict(cluster_scores(table.event, list(find(name, table, len(set(table.event))))))
        for name, table in test.items()
    }


def mean_of(scores: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Means over clients."""
    return {metric: float(np.mean([row[metric] for row in scores.values()])) for metric in ("NMI", "AMI", "ARI")}


def label_free(learn: Clients, test: Clients, dimension: int = 200) -> dict[str, dict[str, float]]:
    """The rows that stand in every table: k-means on times, and on character vectors of an own or shared basis."""
    shared = CharacterEncoder.learn([text for table in learn.values() for text in table.text], dimension=dimension)
    own = {name: CharacterEncoder.learn(table.text, dimension=dimension) for name, table in learn.items()}
    rows = {
        "SVD + k-means, own basis": lambda n, t, k: group_known(own[n].encode(t.text), k),
        "SVD + k-means, shared basis": lambda n, t, k: group_known(shared.encode(t.text), k),
    }
    if all(np.isfinite(table.time).all() for table in test.values()):
        rows["k-means on time alone"] = lambda n, t, k: group_known(t.time[:, None], k)
    return {label: mean_of(judge(test, find)) for label, find in rows.items()}


def run_method(method: Any, clients: Clients, seed: int, wrap: Callable[[Any], Any] = lambda engine: engine) -> Any:
    """Fit on an engine that may be wrapped, and return the result."""
    engine = wrap(InProcess(method, clients, seed=seed))
    ledger: dict[str, int] = {}
    history = []
    for step in rounds(method, engine, seed=seed):
        ledger |= step.answers.versions
        history.append(describe_step(step))
        state = step.state
    schemas = engine.schemas(engine.names())
    return method.result(Outcome(method, state, schemas, engine.memories(ledger), tuple(history)))


def with_error(values: list[float]) -> tuple[float, float]:
    """Mean and standard error."""
    return float(np.mean(values)), float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0
