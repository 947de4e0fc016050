"""Posts of an event that nobody has seen: how many are said to be new, and how many posts of known events are.

    python benchmarks/social/new_events.py [--clients es,it] [--seeds 5,6] [--write]

Of a real client, each event in turn is unseen: 500 posts of the others are learned, then come up to 300 further posts
of those and 150 of the unseen event, without labels. Rows: with and without labels in learning; `detect`, `partial_fit`
on all of them as one window, and the simplest baseline: similarity to the nearest learned post, calibrated alike. Last,
an event that goes on: its first three fifths and earlier events are learned, the rest and the next event come.
The settings were chosen on the clients en_pacific and mix; en_americas, en_europe, es and it are for the report.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parent)]
from results import write_results  # noqa: E402
from setting import all_posts  # noqa: E402

from cotempo.data import Posts  # noqa: E402
from cotempo.social import EventDetector  # noqa: E402
from cotempo.social.detector.familiarity import LEVEL, products  # noqa: E402
from cotempo.social.detector.features import Features  # noqa: E402

LEARNED, OLD, NEW = 500, 300, 150
Shares = dict[str, tuple[float, float]]


def bare(posts: Posts) -> Posts:
    return replace(posts, event=(None,) * posts.rows)


def parts_of(posts: Posts, event: str, seed: int) -> tuple[Posts, Posts, Posts]:
    """Posts to learn from, others of the same events, and posts of the unseen event."""
    rng = np.random.default_rng(seed)
    labels = np.array(posts.event)
    rest = rng.permutation(np.flatnonzero(labels != event))
    new = rng.permutation(np.flatnonzero(labels == event))[:NEW]
    learned = min(LEARNED, 2 * len(rest) // 3)
    rows = (rest[:learned], rest[learned : learned + OLD], new)
    learn, old, unseen = (posts.select(np.sort(part)) for part in rows)
    return learn, bare(old), bare(unseen)


def running_parts(posts: Posts, events: list[str], place: int, seed: int) -> tuple[Posts, Posts, Posts]:
    """Learn earlier events and the first three fifths of one that goes on; then come its rest, and the next event."""
    rng = np.random.default_rng(seed)
    labels = np.array(posts.event)
    running = np.flatnonzero(labels == events[place])
    running = running[np.argsort(posts.time[running], kind="stable")]
    cut = 3 * len(running) // 5
    known = np.concatenate([np.flatnonzero(np.isin(labels, events[:place])), running[:cut]])
    new = np.flatnonzero(labels == events[place + 1])
    rows = (rng.permutation(known)[:LEARNED], rng.permutation(running[cut:])[:OLD], rng.permutation(new)[:NEW])
    learn, old, unseen = (posts.select(np.sort(part)) for part in rows)
    return learn, bare(old), bare(unseen)


def measure_running(clients: dict[str, Posts], names: list[str], seeds: list[int]) -> list[dict[str, Any]]:
    """Shares outside the known events in `detect`, with labels, where one of these events goes on."""
    each = []
    for client in names:
        posts = clients[client]
        labels = np.array(posts.event)
        events = sorted(set(labels), key=lambda event: float(np.median(posts.time[labels == event])))
        for place in range(1, len(events) - 1):
            for seed in seeds:
                learn, old, new = running_parts(posts, events, place, seed)
                detector = EventDetector(compare=False).fit(learn, progress=False)
                outside = {"new": detector.detect(new).outlier.mean(), "old": detector.detect(old).outlier.mean()}
                about = {"client": client, "running event": events[place], "seed": seed}
                each.append({**about, "row": "labels, detect, an event goes on", **outside})
    return each


def nearest_post(learn: Posts, old: Posts, new: Posts) -> tuple[float, float]:
    """Outliers by the similarity to the nearest learned post, calibrated by leaving each of those out."""
    counts = Features.read("shared", learn.text, 2**15)
    kept = counts.weigh(counts.weights)
    own = products(kept, kept)
    np.fill_diagonal(own, -np.inf)
    level = np.quantile(own.max(axis=1), LEVEL)
    shares = []
    for posts in (new, old):
        weighted = Features.read("shared", posts.text, 2**15).weigh(counts.weights)
        shares.append(float((products(weighted, kept).max(axis=1) < level).mean()))
    return shares[0], shares[1]


def measure(learn: Posts, old: Posts, new: Posts) -> Shares:
    """Shares of new and of old posts outside the events learned, by row."""
    found: Shares = {"nearest post": nearest_post(learn, old, new)}
    for name, table in (("labels", learn), ("no labels", bare(learn))):
        detector = EventDetector(compare=False).fit(table, progress=False)
        known = set(detector.events()["event"])

        def outside(posts: Posts, detector: Any = detector, known: set[str] = known) -> float:
            return float(np.mean([event not in known for event in detector.detect(posts).event]))

        found[f"{name}, detect"] = outside(new), outside(old)
        times = np.concatenate([old.time, new.time])
        detector.partial_fit(Posts(times, (*old.text, *new.text), unit=old.unit, zone=old.zone))
        found[f"{name}, partial_fit"] = outside(new), outside(old)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", default="en_americas,en_europe,es,it")
    parser.add_argument("--seeds", default="5,6")
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/social/new-events")
    given = parser.parse_args()
    clients, seeds = all_posts(), [int(seed) for seed in given.seeds.split(",")]
    each: list[dict[str, Any]] = []
    for client in given.clients.split(","):
        for event in sorted({event for event in clients[client].event if event}):
            for seed in seeds:
                shares = measure(*parts_of(clients[client], event, seed))
                about = {"client": client, "unseen event": event, "seed": seed}
                each += [{**about, "row": row, "new": new, "old": old} for row, (new, old) in shares.items()]
                print(
                    client, event, seed, {row: f"{new:.2f} {old:.3f}" for row, (new, old) in shares.items()}, flush=True
                )
    going_on = measure_running(clients, given.clients.split(","), seeds)
    table = [summarize(row, each + going_on) for row in dict.fromkeys(entry["row"] for entry in each + going_on)]
    for line in table:
        print({key: value if isinstance(value, str) else round(float(value), 3) for key, value in line.items()})
    if given.write:
        note = f"{LEARNED} posts learned, up to {OLD} old and {NEW} new; standard errors over events and seeds"
        write_results("social/new-events", table, seed=seeds, note=note)
        write_results("social/new-events-each", each, seed=seeds, note=note)
        write_results("social/new-events-running", going_on, seed=seeds, note=note)


def summarize(row: str, each: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the means of a row, with standard errors."""
    values = np.array([(entry["new"], entry["old"]) for entry in each if entry["row"] == row])
    error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
    return {
        "row": row,
        "new posts outside": values[:, 0].mean(),
        "error": error[0],
        "unseen events with 70 %": (values[:, 0] >= 0.7).mean(),
        "old posts outside": values[:, 1].mean(),
        "error of old": error[1],
        "runs": len(values),
    }


if __name__ == "__main__":
    main()
