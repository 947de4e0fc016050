"""Events in an unknown number, without labels: density, the number chosen by held-out words, and the true number.

    python benchmarks/social/how_many.py [--seeds 5,6,7,8,9]

`concurrent`: 2 to 5 events of a client, 35 to 90 posts of each, a twelfth of them passed on ("RT @u: ..."), no times.
`many`: 640 posts of all events of a client, without hashtags and times. The rule was chosen on the clients en_pacific
and mix and on generated posts of the seeds 0 to 2; these are the other four clients. Quality is judged by its rank
correlation with NMI over numbers of events from 2 to four times the true one.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parent)]
from results import write_results  # noqa: E402
from setting import all_posts, real_clients, without_labels  # noqa: E402

from cotempo.data import Posts  # noqa: E402
from cotempo.social import EventDetector  # noqa: E402
from cotempo.social.clustering import group_unknown, mutual_information  # noqa: E402
from cotempo.social.detector.held_out_words import HeldOutWords, distinct_texts  # noqa: E402

CLIENTS = ("en_americas", "en_europe", "es", "it")
EVENTS = (2, 3, 5)


def concurrent(posts: Posts, events: int, rng: np.random.Generator) -> Posts:
    """Some posts of a few events, some of them twice."""
    labels = np.array(posts.event)
    chosen = rng.permutation(np.unique(labels))[:events]
    rows = [rng.permutation(np.flatnonzero(labels == name))[: int(rng.uniform(35, 91))] for name in chosen]
    few = np.sort(np.concatenate(rows))
    again = rng.permutation(few)[: len(few) // 12]
    found = posts.select(np.concatenate([few, again]))
    texts = (*found.text[: len(few)], *(f"RT @u: {text}" for text in found.text[len(few) :]))
    return Posts(np.full(found.rows, np.nan), texts, event=found.event)


def cases(seed: int) -> Iterator[tuple[str, str, Posts]]:
    """The collections of a seed, by kind and client."""
    for place, name in enumerate(CLIENTS):
        posts = all_posts()[name]
        for events in EVENTS:
            if events <= len(set(posts.event)):
                yield "concurrent", name, concurrent(posts, events, np.random.default_rng([seed, place, events]))
    clients = real_clients(640, seed, hashtags=False, times=False)
    for name in CLIENTS:
        yield "many", name, clients[name]


def measure(posts: Posts) -> dict[str, float]:
    """NMI of each way, numbers of events, posts of none, and the rank correlation of quality with NMI."""
    true, bare = len(set(posts.event)), without_labels(posts)

    def judge(found: Any) -> float:
        return mutual_information(posts.event, found)

    numbers = sorted({2, 3, true, round(1.5 * true), 2 * true, 4 * true})
    fitted = {number: EventDetector(events=number).fit(bare, progress=False) for number in numbers}
    found = {number: one.detect(bare, outliers=False).event for number, one in fitted.items()}
    rows = distinct_texts(posts.text)[0][:800]
    encoder = fitted[true].space.encoder
    words = HeldOutWords.of(encoder, [posts.text[row] for row in rows], 8)
    quality = [words.quality(np.unique(groups[rows], return_inverse=True)[1]) for groups in found.values()]
    chosen = EventDetector().fit(bare, progress=False)
    density = group_unknown(encoder.encode(posts.text), smallest=8)
    return {
        "density": judge(density),
        "chosen": judge(chosen.detect(bare, outliers=False).event),
        "given": judge(found[true]),
        "events": true,
        "by_density": len(np.unique(density)),
        "by_choice": len(chosen.events()),
        "none": chosen.store.nameless / posts.rows,
        "quality": float(spearmanr(quality, [judge(groups) for groups in found.values()])[0]),
    }


def main() -> None:
    """Measure and write a table, paired by seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="5,6,7,8,9")
    seeds = [int(seed) for seed in parser.parse_args().seeds.split(",")]
    parts = [{"seed": seed, "kind": kind, **measure(posts)} for seed in seeds for kind, _, posts in cases(seed)]
    table = []
    for kind in ("concurrent", "many"):
        by_seed = [[part for part in parts if (part["seed"], part["kind"]) == (seed, kind)] for seed in seeds]
        row: dict[str, Any] = {"kind": kind, "collections": sum(map(len, by_seed))}
        for name in ("density", "chosen", "given", "events", "by_density", "by_choice", "none", "quality"):
            row[name] = float(np.mean([np.mean([part[name] for part in group]) for group in by_seed]))
        gains = [np.mean([part["chosen"] - part["density"] for part in group]) for group in by_seed]
        row |= {"gain": float(np.mean(gains)), "error": float(np.std(gains, ddof=1) / np.sqrt(len(gains)))}
        table.append(row)
        print(row)
    note = "NMI, mean over clients and seeds; every post assigned; none: the share of posts that fit called outliers; "
    note += "quality: rank correlation with NMI over numbers"
    write_results("social/how-many", table, seed=seeds, note=note)


if __name__ == "__main__":
    main()
