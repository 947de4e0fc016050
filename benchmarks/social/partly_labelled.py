"""Partly labelled posts: is an event without any label found, and are posts of unseen events outliers, by text alone?

    uv run python benchmarks/social/partly_labelled.py --jobs 16 --write     # about 25 core-minutes

Six events of a client (or as many as have 80 posts), up to 140 posts each, 30 % of them held out. One event at a time
is apart. Settings: its posts are absent from learning ("unseen"), or there without labels ("unlabelled"), or nothing is
apart ("all labelled", to see what is found where nothing is to be). Labels of the others: all, or 30 %. Dates: their
own, which follow each other, or drawn anew in one fortnight. The baseline is similarity to the nearest learned post,
calibrated alike. Generated posts (`make_posts`) are a client of their own. The rules were chosen on en_pacific and mix.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parent)]
from new_events import nearest_post  # noqa: E402
from parts import FOLDER, about, do_part, read_parts  # noqa: E402
from results import write_results  # noqa: E402
from setting import all_posts  # noqa: E402

from cotempo.data import Posts, make_posts  # noqa: E402
from cotempo.social import EventDetector  # noqa: E402

MOST_EVENTS, MOST_POSTS, FEWEST_POSTS, HELD_OUT = 6, 140, 80, 0.3
PARTS = FOLDER / "partly-labelled"
FIGURES = ("new outside", "old outside", "old right", "gathered", "pure", "found", "nearest post")
Part = tuple[str, str, int]


def drawn(client: str, seed: int) -> Posts:
    """The posts of a client's largest events."""
    rng = np.random.default_rng([seed, len(client)])
    posts = make_posts(clients=1, posts=900, events=MOST_EVENTS, seed=seed)[0]["client-0"]
    posts = posts if client == "generated" else all_posts()[client]
    first = np.unique(np.array(posts.text), return_index=True)[1]
    posts = posts.select(np.sort(first))
    labels = np.array(posts.event)
    names, sizes = np.unique(labels, return_counts=True)
    chosen = names[np.argsort(-sizes, kind="stable")][: min(MOST_EVENTS, int((sizes >= FEWEST_POSTS).sum()))]
    rows = [rng.permutation(np.flatnonzero(labels == event))[:MOST_POSTS] for event in chosen]
    return posts.select(np.sort(np.concatenate(rows)))


def measure(client: str, event: str, seed: int) -> Mapping[str, Any]:
    """All settings with one event apart."""
    posts, rng = drawn(client, seed), np.random.default_rng(seed)
    truth = np.array(posts.event)
    test, lot = rng.random(posts.rows) < HELD_OUT, rng.random(posts.rows)
    span = 14 * 86400.0
    fortnight = replace(posts, time=posts.time[0] + span * rng.random(posts.rows))
    rows = []
    for dates, share, setting in product(("own", "fortnight"), (1.0, 0.3), ("unseen", "unlabelled", "all labelled")):
        if share == 1.0 and setting == "all labelled":
            continue
        table = posts if dates == "own" else fortnight
        apart = truth == event
        shown = lot < share
        labels = tuple(name if keep else None for name, keep in zip(truth, shown, strict=True))
        if setting == "unlabelled":
            labels = tuple(None if out else label for out, label in zip(apart, labels, strict=True))
        learn = ~test & ~apart if setting == "unseen" else ~test
        detector = EventDetector(compare=False).fit(replace(table, event=labels).select(learn), progress=False)
        bare = replace(table, event=(None,) * table.rows)
        named = detector.detect(bare.select(test)).event
        new, known = apart[test], set(truth) - ({event} if setting != "all labelled" else set())
        old = np.isin(truth[test], sorted(known))
        found = set(detector.events()["event"]) - set(truth)
        groups = [name for name in named[new].tolist() if name in found]
        largest = max(found, key=groups.count, default="")
        row = {"dates": dates, "labels": share, "setting": setting, "found": float(len(found))}
        row["old outside"] = float(np.mean([name not in truth for name in named[old]]))
        row["old right"] = float(np.mean(named[old] == truth[test][old]))
        if setting != "all labelled":
            row["new outside"] = float(np.mean([name not in known for name in named[new]]))
        if setting == "unlabelled":
            row["gathered"] = groups.count(largest) / max(int(new.sum()), 1)
            row["pure"] = float(np.mean(new[named == largest])) if groups else 0.0
        if setting == "unseen" and share == 1.0:
            row["nearest post"] = nearest_post(
                table.select(learn), bare.select(test & ~apart), bare.select(test & apart)
            )[0]
        rows.append(row)
    return {"rows": rows}


def work(part: Part) -> None:
    client, event, seed = part
    do_part(PARTS, {"client": client, "event": event, "seed": seed}, lambda: measure(client, event, seed))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", default="en_americas,en_europe,es,generated")
    parser.add_argument("--seeds", default="5,6,7,8,9")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/social/partly-labelled")
    given = parser.parse_args()
    seeds = [int(seed) for seed in given.seeds.split(",")]
    parts = [
        (client, event, seed)
        for client, seed in product(given.clients.split(","), seeds)
        for event in sorted(set(drawn(client, seed).event))
    ]
    with ProcessPoolExecutor(given.jobs) as pool:
        list(pool.map(work, parts))
    done = [part for part in read_parts(PARTS) if (part["client"], part["event"], part["seed"]) in parts]
    each = [
        {"client": part["client"], "event": part["event"], "seed": part["seed"], **row}
        for part in done
        for row in part["rows"]
    ]
    table = summarize(each)
    for line in table:
        print({key: round(value, 3) if isinstance(value, float) else value for key, value in line.items()})
    if given.write:
        note = f"means with standard errors over events and seeds; {about(done)}"
        write_results("social/partly-labelled", table, seed=seeds, note=note)
        columns = ("client", "event", "seed", "dates", "labels", "setting", *FIGURES)
        rows = [{name: row.get(name, "") for name in columns} for row in each]
        write_results("social/partly-labelled-each", rows, seed=seeds, note=note)


def summarize(each: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Means of every setting for real and for generated posts, with standard errors."""
    table = []
    for kind, dates, labels, setting in product(
        ("real", "generated"), ("own", "fortnight"), (1.0, 0.3), ("unseen", "unlabelled", "all labelled")
    ):
        rows = [
            row
            for row in each
            if (row["client"] == "generated") == (kind == "generated")
            and (row["dates"], row["labels"], row["setting"]) == (dates, labels, setting)
        ]
        if not rows:
            continue
        line: dict[str, Any] = {"posts": kind, "dates": dates, "labels": labels, "setting": setting, "runs": len(rows)}
        for figure in FIGURES:
            values = np.array([row[figure] for row in rows if figure in row])
            line[figure] = float(values.mean()) if len(values) else ""
            line[f"{figure} error"] = float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else ""
        table.append(line)
    return table


if __name__ == "__main__":
    main()
