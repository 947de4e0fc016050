"""Shared by all social experiments: the clients, the variants of their data, the split, and the label-free rows."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parent)]
from keywords import find_keywords, remove_keywords  # noqa: E402

from cotempo.data import Posts, make_posts, read_posts  # noqa: E402
from cotempo.engines.inprocess import InProcess  # noqa: E402
from cotempo.federation import Outcome  # noqa: E402
from cotempo.runs.folder import describe_step  # noqa: E402
from cotempo.social.clustering import cluster_scores, group_known, group_unknown  # noqa: E402
from cotempo.social.encoders.characters import CharacterEncoder  # noqa: E402
from cotempo.social.encoders.pretrained import CachedEncoder, OnnxEncoder  # noqa: E402
from cotempo.testing import drive  # noqa: E402

Clients = dict[str, Posts]
Split = tuple[Clients, Clients]
DIMENSION = 200
VECTORS = Path("runs/vectors")
TAG = re.compile(r"#\w+")


def data_file() -> Path | None:
    """Return the file of real clients, if available."""
    root = Path(os.environ.get("COTEMPO_DATA", Path(__file__).parents[2].parent / "shared" / "data"))
    path = root / "social" / "crisis_clients.parquet"
    return path if path.exists() else None


@cache
def all_posts() -> Clients:
    """All posts of the real clients, sorted by time."""
    found = read_posts(data_file())
    return {name: table.select(np.argsort(table.time, kind="stable")) for name, table in found.items()}


@cache
def all_keywords() -> frozenset[str]:
    """The words the real posts were collected by."""
    return find_keywords(all_posts())


def real_clients(posts: int, seed: int, *, keywords: bool = True, times: bool = True, hashtags: bool = True) -> Clients:
    """Six clients of real posts, at most so many of each, drawn at random; without some of what they hold if asked."""
    full = all_posts()
    rng = np.random.default_rng(seed)
    clients = {name: table.select(np.sort(rng.permutation(table.rows)[:posts])) for name, table in full.items()}
    if not keywords:
        clients = {name: remove_keywords(table, all_keywords()) for name, table in clients.items()}
    if not hashtags:
        clients = {name: remove_hashtags(table) for name, table in clients.items()}
    if not times:
        clients = {name: replace(table, time=np.full(table.rows, np.nan)) for name, table in clients.items()}
    return clients


def remove_hashtags(posts: Posts) -> Posts:
    """The same posts, without tags and without words that are written as tags."""
    text = tuple(TAG.sub(" ", one) for one in posts.text)
    return replace(posts, text=text, hashtags=((),) * posts.rows)


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


def judge(test: Clients, find: Callable[[str, Posts, int], Iterable[Any]]) -> dict[str, Any]:
    """Scores of found events against true ones, means over clients and per client; `find` is given the true number."""
    clients = {
        name: dict(cluster_scores(table.event, list(find(name, table, len(set(table.event))))))
        for name, table in test.items()
    }
    means = {metric: float(np.mean([row[metric] for row in clients.values()])) for metric in ("NMI", "AMI", "ARI")}
    return {**means, "clients": clients}


def without_labels(posts: Posts) -> Posts:
    """The same posts, without their events."""
    return replace(posts, event=(None,) * posts.rows)


def label_free(name: str, learn: Clients) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """How a row without labels groups posts into a known and an unknown number of events."""
    if name == "k-means on time alone":
        look: Callable[[str, Posts], Any] = lambda client, posts: posts.time[:, None]  # noqa: E731
    elif name == "SVD, own basis":
        own = {client: CharacterEncoder.learn(posts.text, dimension=DIMENSION) for client, posts in learn.items()}
        look = lambda client, posts: own[client].encode(posts.text)  # noqa: E731
    elif name == "SVD, shared basis":
        texts = [text for posts in learn.values() for text in posts.text]
        shared = CharacterEncoder.learn(texts, dimension=DIMENSION)
        look = lambda client, posts: shared.encode(posts.text)  # noqa: E731
    else:
        model = CachedEncoder(OnnxEncoder.multilingual(), VECTORS)
        look = lambda client, posts: model.encode(posts.text)  # noqa: E731
    return (
        lambda client, posts, events: group_known(look(client, posts), events),
        lambda client, posts, events: group_unknown(look(client, posts)),
    )


def linear_svc(learn: Clients) -> Callable[[str, Posts, int], Any]:
    """A linear support vector classifier on tf-idf of words and characters, learned from all posts of `learn`."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import make_pipeline, make_union
    from sklearn.svm import LinearSVC

    words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
    characters = TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 5), sublinear_tf=True)
    known = [pair for posts in learn.values() for pair in zip(posts.text, posts.event, strict=True) if pair[1]]
    texts, events = zip(*known, strict=True)
    fitted = make_pipeline(make_union(words, characters), LinearSVC()).fit(texts, events)
    return lambda client, posts, events: fitted.predict(posts.text)


def run_method(method: Any, clients: Clients, seed: int, wrap: Callable[[Any], Any] = lambda engine: engine) -> Any:
    """Fit on an engine that may be wrapped, and return the result."""
    engine = wrap(InProcess(method, clients, seed=seed))
    ledger: dict[str, int] = {}
    history = []
    for step in drive(method, engine, seed=seed):
        ledger |= step.answers.versions
        history.append(describe_step(step))
        state = step.state
    schemas = engine.schemas(engine.names())
    return method.result(Outcome(method, state, schemas, engine.memories(ledger), tuple(history)))
