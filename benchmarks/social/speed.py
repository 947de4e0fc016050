"""What the parts cost: structural entropy, the graph, BOLA's search, a stream, and a million posts end to end.

python benchmarks/social/speed.py [--million]
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parent)]
from results import write_results  # noqa: E402

from cotempo.data import make_posts  # noqa: E402
from cotempo.social import CharacterEncoder, EventDetector  # noqa: E402
from cotempo.social.bola import search_weight  # noqa: E402
from cotempo.social.clustering import group_known, mutual_information  # noqa: E402
from cotempo.social.entropy import group_by_entropy  # noqa: E402
from cotempo.social.graph import PostGraph  # noqa: E402

PIECE = 50_000


def seconds(call: Callable[[], Any]) -> float:
    """Wall time of a call."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def gigabytes() -> float:
    """The most memory this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def client_graph(count: int) -> np.ndarray:
    """Similarities of clients in twenty groups."""
    rng = np.random.default_rng(0)
    group = rng.integers(0, 20, count)
    weights = rng.random((count, count))
    weights = (weights + weights.T) * np.where(group[:, None] == group, 1.0, 0.05)
    np.fill_diagonal(weights, 0.0)
    return weights


def attributes(count: int) -> list[tuple[str, ...]]:
    """Attributes of posts: three tags of a heavy-tailed vocabulary and an author."""
    rng = np.random.default_rng(0)
    tags = rng.zipf(1.3, size=(count, 3)) % 200_000
    authors = rng.integers(0, max(count // 3, 1), count)
    return [
        tuple({*(f"tag:{tag}" for tag in row), f"user:{author}"})
        for row, author in zip(tags.tolist(), authors.tolist(), strict=True)
    ]


def stream(seed: int, history: int = 8) -> dict[str, float]:
    """Daily windows after some days of history: found in the window by the stream, and by refitting on everything."""
    posts = make_posts(clients=3, posts=900, events=24, seed=seed)[0]["client-0"]
    bare = replace(posts, event=(None,) * posts.rows)
    truth, day = np.array(posts.event), np.floor(posts.time).astype(int)
    detector = EventDetector(compare=False).fit(bare.select(day < history), progress=False)
    rows = []
    for today in range(history, int(day.max()) + 1):
        window = bare.select(day == today)
        if not window.rows:
            continue
        began = time.perf_counter()
        followed = detector.partial_fit(window).detect(window).event
        middle = time.perf_counter()
        refitted = EventDetector(compare=False).fit(bare.select(day <= today), progress=False).detect(window).event
        times = middle - began, time.perf_counter() - middle
        rows.append([mutual_information(truth[day == today], found) for found in (followed, refitted)] + list(times))
    names = ("stream NMI", "refit NMI", "stream seconds", "refit seconds")
    return dict(zip(names, np.mean(rows, axis=0).tolist(), strict=True))


def million(count: int = 1_000_000, events: int = 200) -> dict[str, float]:
    """Encode hashed in pieces, build the graph, and group into a known number of events by mini-batches."""
    began = time.perf_counter()
    texts = np.array(make_posts(clients=1, posts=20_000, events=events, seed=0)[0]["client-0"].text)
    encoder = CharacterEncoder.random(32, 2**15)
    rng = np.random.default_rng(0)
    vectors = np.concatenate(
        [
            encoder.encode(texts[rng.integers(0, len(texts), min(PIECE, count - start))].tolist())
            for start in range(0, count, PIECE)
        ]
    )
    encoded = time.perf_counter()
    edges = PostGraph.build(attributes(count)).edges.nnz
    built = time.perf_counter()
    group_known(vectors, events)
    done = time.perf_counter()
    parts = {"encode": encoded - began, "graph": built - encoded, "detect": done - built, "all": done - began}
    return {**parts, "edges": float(edges), "gigabytes": gigabytes()}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--million", action="store_true")
    given = parser.parse_args()
    rows: list[dict[str, Any]] = []

    def note(name: str, value: float) -> None:
        rows.append({"what": name, "value": value})
        print(name, round(value, 3), flush=True)

    for count in (1000, 2000):
        weights = client_graph(count)
        note(f"structural entropy, {count} clients, seconds", seconds(lambda w=weights: group_by_entropy(w)))
    bags = attributes(100_000)
    note("graph of 100,000 posts, seconds", seconds(lambda: PostGraph.build(bags)))
    note("memory so far, gigabytes", gigabytes())
    note(
        "twenty BOLA probes beside the models, seconds", seconds(lambda: search_weight(lambda weight: weight, 0.6, 20))
    )
    for seed in range(2):
        for name, value in stream(seed).items():
            note(f"stream {seed}: {name}", value)
    if given.million:
        for name, value in million().items():
            note(f"a million posts: {name}", value)
    write_results("social/speed", rows, seed=0, note="one thread")


if __name__ == "__main__":
    main()
