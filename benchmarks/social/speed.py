"""Costs of the parts: structural entropy, the graph, BOLA's search, a stream, and a million posts end to end.

python benchmarks/social/speed.py [--only entropy,excess,graph,bola,stream,million] [--collect]

Run one at a time where memory matters: the peak of the process is reported.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parent)]
from methods import prepare  # noqa: E402
from parts import FOLDER, about, do_part, read_parts  # noqa: E402
from results import write_results  # noqa: E402
from setting import run_method, without_labels  # noqa: E402
from tables import with_error  # noqa: E402

from cotempo.data import Posts, make_posts  # noqa: E402
from cotempo.learners.dual.bola import search_weight  # noqa: E402
from cotempo.learners.dual.entropy import group_by_entropy, structural_entropy  # noqa: E402
from cotempo.social import CharacterEncoder, DAMe, EventDetector  # noqa: E402
from cotempo.social.clustering import group_known, mutual_information  # noqa: E402
from cotempo.social.graph_model.graph import extract_attributes, join_posts  # noqa: E402

PIECE = 50_000
STREAMS = range(5, 10)
REFIT = 3
Found = dict[str, float]


def seconds(call: Callable[[], Any]) -> float:
    """Wall time of a call."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def gigabytes() -> float:
    """Return the peak memory of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def client_graph(count: int) -> np.ndarray:
    """Similarities of clients in twenty groups."""
    rng = np.random.default_rng(0)
    group = rng.integers(0, 20, count)
    weights = rng.random((count, count))
    weights = (weights + weights.T) * np.where(group[:, None] == group, 1.0, 0.05)
    np.fill_diagonal(weights, 0.0)
    return weights


def tags(count: int) -> list[tuple[str, ...]]:
    """Three tags a post, of a heavy-tailed vocabulary."""
    drawn = np.random.default_rng(0).zipf(1.3, size=(count, 3)) % 200_000
    return [tuple(map(str, row)) for row in drawn.tolist()]


def authors(count: int) -> tuple[str, ...]:
    """An author for each post; three posts of each on average."""
    return tuple(map(str, np.random.default_rng(1).integers(0, max(count // 3, 1), count).tolist()))


def entropy() -> Found:
    """Grouping clients by structural entropy."""
    found = {}
    for count in (1000, 2000):
        weights = client_graph(count)
        found[f"{count} clients, seconds"] = seconds(lambda weights=weights: group_by_entropy(weights))
    return found


def excess(most: int = 6) -> Found:
    """Greedy merging against the best of all partitions, on all graphs of up to six nodes with an edge."""
    from networkx import graph_atlas_g, to_numpy_array

    parts: dict[int, list[tuple[int, ...]]] = {1: [(0,)]}
    for size in range(2, most + 1):
        parts[size] = [(*part, code) for part in parts[size - 1] for code in range(max(part) + 2)]
    above = []
    for drawn in graph_atlas_g():
        if drawn.number_of_edges() and len(drawn) <= most:
            weights = to_numpy_array(drawn)
            best = min(structural_entropy(weights, np.array(part)) for part in parts[len(drawn)])
            above.append(structural_entropy(weights, group_by_entropy(weights)) / max(best, 1e-12) - 1)
    values = np.array(above)
    missed = float((values > 1e-9).sum())
    return {"graphs": float(len(values)), "missed": missed, "mean excess": values.mean(), "most": values.max()}


def graph(count: int = 100_000) -> Found:
    """The graph of posts that share attributes, hubs capped at 300."""
    posts = Posts([np.nan] * count, ("",) * count, author=authors(count), hashtags=tuple(tags(count)))
    bags = extract_attributes(posts)
    before = gigabytes()
    spent = seconds(lambda: join_posts(bags))
    return {f"{count} posts, seconds": spent, "gigabytes": gigabytes(), "gigabytes before": before}


def bola() -> Found:
    """Twenty probes beside the models they judge, as a share of a round at a client of 800 posts."""
    clients, _ = prepare("bare", 800, 0)
    method = DAMe(probes=20, rounds=3, test=0.0, compare=False)
    trained = [step["seconds"] for step in run_method(method, clients, 0).history if step["phase"] == "train"]
    whole = float(np.mean(trained[1:]))
    search = float(np.mean([seconds(lambda: search_weight(lambda weight: weight, 0.6, 20)) for _ in range(20)]))
    share = search * len(clients) / whole
    return {"search, seconds": search, "round of six clients, seconds": whole, "share of the round": share}


def stream(seed: int, history: int = 8) -> Found:
    """Daily windows after some days of history; every third is also judged after refitting on all days so far."""
    posts = make_posts(clients=3, posts=900, events=24, seed=seed)[0]["client-0"]
    bare = without_labels(posts)
    truth, day = np.array(posts.event), np.floor(posts.time).astype(int)
    detector = EventDetector(compare=False).fit(bare.select(day < history), progress=False)
    rows = []
    for today in range(history, int(day.max()) + 1):
        window = bare.select(day == today)
        began = time.perf_counter()
        followed = detector.partial_fit(window).detect(window, outliers=False).event
        middle = time.perf_counter()
        if not window.rows or (today - history) % REFIT:
            continue
        refitted = EventDetector(compare=False).fit(bare.select(day <= today), progress=False)
        refitted = refitted.detect(window, outliers=False).event
        times = middle - began, time.perf_counter() - middle
        rows.append([mutual_information(truth[day == today], found) for found in (followed, refitted)] + list(times))
    names = ("NMI", "NMI refitted", "seconds a window", "seconds refitted")
    found = dict(zip(names, np.mean(rows, axis=0).tolist(), strict=True))
    ahead, cost = found["NMI"] - found["NMI refitted"], found["seconds a window"] / found["seconds refitted"]
    return {**found, "ahead of refitting": ahead, "share of its cost": cost}


def million(count: int = 1_000_000, events: int = 100) -> Found:
    """Encode hashed in pieces, build the graph, and group into a known number of events by mini-batches."""
    made = make_posts(clients=1, posts=20_000, events=events, seed=0)[0]["client-0"]
    drawn = np.random.default_rng(0).integers(0, made.rows, count).tolist()
    text = tuple(made.text[row] for row in drawn)
    posts = Posts(np.zeros(count), text, author=authors(count), hashtags=tuple(tags(count)))
    began = time.perf_counter()
    encoder = CharacterEncoder.random(32, 2**15)
    pieces = [encoder.encode(text[start : start + PIECE]) for start in range(0, count, PIECE)]
    vectors = np.concatenate(pieces)
    encoded = time.perf_counter()
    edges = join_posts(extract_attributes(posts)).nnz
    built = time.perf_counter()
    found = group_known(vectors, events)
    done = time.perf_counter()
    spent = {"encode": encoded - began, "graph": built - encoded, "detect": done - built, "all": done - began}
    nmi = mutual_information([made.event[row] for row in drawn], found)
    timed = {f"{part}, seconds": value for part, value in spent.items()}
    return {**timed, "edges": float(edges), "NMI": nmi, "gigabytes": gigabytes()}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="entropy,excess,graph,bola,stream,million")
    parser.add_argument("--parts", type=Path, default=FOLDER)
    parser.add_argument("--collect", action="store_true")
    given = parser.parse_args()
    single = {"entropy": entropy, "excess": excess, "graph": graph, "bola": bola, "million": million}
    for name in () if given.collect else given.only.split(","):
        for seed in STREAMS if name == "stream" else (0,):
            call = (lambda seed=seed: stream(seed)) if name == "stream" else single[name]
            do_part(given.parts, {"cost": name, "seed": seed}, lambda call=call: {"found": call()})
    collect(given.parts)


def collect(folder: Path) -> None:
    """Write the table; numbers of several seeds with their standard error."""
    rows: list[dict[str, Any]] = []
    parts = [part for part in read_parts(folder) if "cost" in part]
    for name in sorted({part["cost"] for part in parts}):
        runs = [part["found"] for part in parts if part["cost"] == name]
        for what in runs[0]:
            value, error = with_error([run[what] for run in runs])
            rows.append({"part": name, "what": what, "value": value, "error": error, "runs": len(runs)})
    write_results("social/speed", rows, seed=list(STREAMS), note=f"one thread; {about(parts)}")


if __name__ == "__main__":
    main()
