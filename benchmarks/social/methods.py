"""All methods beside each other and beside rows without training (Tables 2 and 4, ablation, convergence, variants).

    python benchmarks/social/methods.py [--variant bare] [--seeds 5,6,7,8,9] [--methods "Local;FedAvg;DAMe"] [--collect]
    python benchmarks/social/methods.py --preset paper --rounds 50 --jobs 16          (the papers' rows, see `PAPER`)

Variants of the six real clients: `collected` (as they are), `keywords` (without keywords), `times` (without times),
`hashtags` (without hashtags and times), `bare` (without keywords and times), and of the bare ones `fifteen` (15 % of
the labels), `small` (120 posts a client), `unseen` (a third of the events is new), `unlabelled` (no labels); and
`generated` concurrent events. Each method is given the same split, rounds and epochs, and keeps its best model by
validation. Every row is written as a part; `--collect` makes tables of the parts there are: one per variant of what
groups posts, and `naming` of what names known events in all variants. With `--preset paper` every learner has the
preset, DAMe's ablations leave out one part of it, and what BOLA tried is kept (Figure 3); its encoder's vectors may
come from a file (`vectors.py`).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parent)]
from parts import FOLDER, about, do_parts, read_parts  # noqa: E402
from results import write_results  # noqa: E402
from setting import (  # noqa: E402
    Clients,
    data_file,
    generated_clients,
    judge,
    label_free,
    linear_svc,
    real_clients,
    run_method,
    split,
    without_labels,
)
from tables import client_table, curve_table, method_table, search_table  # noqa: E402
from vectors import NAME as VECTORS_FILE  # noqa: E402
from vectors import use_vectors  # noqa: E402

from cotempo import social  # noqa: E402
from cotempo.data import Posts  # noqa: E402
from cotempo.learners.dual.bola import search_weight  # noqa: E402

VARIANTS: dict[str, dict[str, Any]] = {
    "collected": {},
    "keywords": {"keywords": False},
    "times": {"times": False},
    "hashtags": {"hashtags": False, "times": False},
    "bare": {"keywords": False, "times": False},
    "fifteen": {"keywords": False, "times": False, "labels": 0.15},
    "small": {"keywords": False, "times": False, "posts": 120},
    "unseen": {"keywords": False, "times": False, "unseen": True},
    "unlabelled": {"hashtags": False, "times": False, "unlabelled": True},
    "generated": {},
}
TRAINED = {
    **{
        name: (getattr(social, name), {})
        for name in ("Local", "FedAvg", "DAMe", "FedProx", "PerFedAvg", "Ditto", "SFL", "APPLE", "FedALA")
    },
    "Local, restarted": (social.Local, {"restart": True}),
    "DAMe, paper's similarities": (social.DAMe, {"similarity": "paper"}),
    "DAMe without BOLA": (social.DAMe, {"bola": False}),
    "DAMe without SEGA": (social.DAMe, {"sega": False}),
    "DAMe with GLECC": (social.DAMe, {"glecc": True}),
}
PAPER = {
    **{
        name: (getattr(social, name), {})
        for name in ("FedAvg", "DAMe", "FedProx", "PerFedAvg", "Ditto", "SFL", "APPLE", "FedALA")
    },
    "Local, restarted": (social.Local, {"restart": True}),
    "Local": (social.Local, {}),
    "DAMe without BOLA": (social.DAMe, {"bola": False}),
    "DAMe without SEGA": (social.DAMe, {"sega": False}),
    "DAMe without GLECC": (social.DAMe, {"glecc": False}),
}
UNTIMED = ("times", "hashtags", "bare", "fifteen", "small", "unseen", "unlabelled")
CLASSIFIERS = ("linear SVC, own posts", "linear SVC, all posts")
DETECTORS = ("EventDetector, together", "EventDetector, alone")
LABEL_FREE = ("k-means on time alone", "SVD, own basis", "SVD, shared basis", "multilingual embedding")
GROUPING = (*LABEL_FREE, *TRAINED)
NAMING = (*CLASSIFIERS, *DETECTORS)
WAYS = ("sent", "received")
SIZE = 800
Scores = Mapping[str, Any]


def prepare(variant: str, posts: int, seed: int) -> tuple[Clients, Clients]:
    """The clients of a variant, split."""
    options = dict(VARIANTS[variant])
    shares = {key: options.pop(key) for key in ("labels", "unseen") if key in options}
    posts, unlabelled = min(options.pop("posts", posts), posts), options.pop("unlabelled", False)
    clients = generated_clients(posts, seed) if variant == "generated" else real_clients(posts, seed, **options)
    learn, test = split(clients, seed, **shares)
    return {name: without_labels(table) for name, table in learn.items()} if unlabelled else learn, test


def measure(
    name: str, variant: str, posts: int, rounds: int, seed: int, device: str = "cpu", preset: str = "cotempo"
) -> Scores:
    """One row of one seed."""
    learn, test = prepare(variant, posts, seed)
    if preset == "paper":
        return measure_searched(make_paper(name, rounds, device), learn, test, seed)
    if name in TRAINED:
        cls, options = TRAINED[name]
        when = "ignore" if variant == "generated" else "scaled"
        method = cls(rounds=rounds, test=0.0, compare=False, time=when, device=device, **options)
        return measure_trained(method, learn, test, seed)
    if name in DETECTORS:
        return measure_detector(name == DETECTORS[0], variant, learn, test, seed)
    if name in CLASSIFIERS:
        return measure_classifier(name == CLASSIFIERS[0], learn, test)
    known, unknown = label_free(name, learn)
    return {**judge(test, known), "unknown": judge(test, unknown)["NMI"]}


def make_paper(name: str, rounds: int, device: str = "cpu") -> Any:
    """A learner with the paper's preset; times say nothing here, and posts to test on were taken before."""
    file = data_file()
    if file is not None:
        use_vectors(file.with_name(VECTORS_FILE))
    cls, options = PAPER[name]
    return cls(preset="paper", rounds=rounds, test=0.0, compare=False, time="ignore", device=device, **options)


def measure_searched(method: Any, learn: Clients, test: Clients, seed: int) -> Scores:
    """The same as `measure_trained`, with every weight BOLA tried and its score, by client and round."""
    found: list[dict[str, Any]] = []

    def search(*given: Any, **options: Any) -> Any:
        one = search_weight(*given, **options)
        found.append({"weight": one.weight, "tried": one.tried.tolist(), "scores": one.scores.tolist()})
        return one

    with patch("cotempo.learners.dual.learner.search_weight", search):
        return {**measure_trained(method, learn, test, seed), "searches": found}


def measure_trained(method: Any, learn: Clients, test: Clients, seed: int) -> Scores:
    """A graph learner: how well it groups new posts into their true number of events, and into an unknown one."""
    began = time.perf_counter()
    fitted = run_method(method, learn, seed)
    seconds = time.perf_counter() - began
    trained = [step for step in fitted.history if step["phase"] == "train"]
    traffic = [sum(step["sent"].values()) + sum(step["received"].values()) for step in trained[1:]]
    return {
        **judge(test, lambda client, table, k: fitted[client].detect(table, events=k).event),
        "unknown": judge(test, lambda client, table, _: fitted[client].detect(table).event)["NMI"],
        "seconds": seconds,
        "bytes": float(np.mean(traffic)),
        "curve": [step["metrics"]["score"] for step in trained],
        "weights": [dict(entry.weights) for entry in fitted.record],
        "groups": [dict(entry.groups) for entry in fitted.record],
    }


def measure_detector(together: bool, variant: str, learn: Clients, test: Clients, seed: int) -> Scores:
    """The detector names known events; new ones are grouped by their number, or as the stream finds them.

    Without labels posts are grouped by their number, or go to the events that were found.
    """
    method = social.EventDetector(compare=False)
    began = time.perf_counter()
    if together:
        fitted: Any = method.fit(learn, seed=seed, progress=False)
    else:
        fitted = {name: method.fit(table, seed=seed, progress=False) for name, table in learn.items()}
    seconds = time.perf_counter() - began
    given = variant in ("unseen", "unlabelled")

    def name(client: str, table: Posts, k: int) -> Any:
        return fitted[client].detect(table, events=k if given else None, outliers=False).event

    scores = judge(test, name)
    unknown = scores
    if variant == "unseen":
        unknown = judge(test, lambda client, table, _: follow(fitted[client], table))
    elif variant == "unlabelled":
        unknown = judge(test, lambda client, table, _: fitted[client].detect(table, outliers=False).event)
    found = {**scores, "unknown": unknown["NMI"], "seconds": seconds}
    if together:
        found |= {way: max(sum(step[way].get(name, 0) for step in fitted.history) for name in learn) for way in WAYS}
    return found


def measure_classifier(alone: bool, learn: Clients, test: Clients) -> Scores:
    """A linear classifier of the posts' words and characters, learned by each client alone or from all posts."""
    began = time.perf_counter()
    if alone:
        each = {name: linear_svc({name: posts}) for name, posts in learn.items()}
    else:
        each = dict.fromkeys(learn, linear_svc(learn))
    scores = judge(test, lambda client, table, k: each[client](client, table, k))
    return {**scores, "unknown": scores["NMI"], "seconds": time.perf_counter() - began}


def follow(detector: Any, posts: Posts) -> Any:
    """Events of posts as the next window of a stream."""
    window = without_labels(posts)
    return detector.partial_fit(window).detect(window, outliers=False).event


def collect(folder: Path, variant: str, posts: int, rounds: int) -> None:
    """Write the tables of a variant."""
    parts = [
        part for part in read_parts(folder, variant=variant, posts=posts, rounds=rounds)
        if part["method"] in GROUPING and "preset" not in part
    ]  # fmt: skip
    if not parts:
        return
    order = {name: place for place, name in enumerate(GROUPING)}
    parts.sort(key=lambda part: (order[part["method"]], part["seed"]))
    seeds = sorted({part["seed"] for part in parts})
    size = min(VARIANTS[variant].get("posts", posts), posts)
    note = f"at most {size} posts a client, {rounds} rounds; means over clients and seeds; new posts; {about(parts)}"
    name = f"social/{variant}" if posts == SIZE else f"social/{variant}-{posts}-posts"
    write_results(name, method_table(parts), seed=seeds, note=note)
    if variant == "bare":
        write_results(f"{name}-clients", client_table(parts), seed=seeds, note=note)
        if curves := curve_table(parts):
            write_results(f"{name}-convergence", curves, seed=seeds, note=note)


def collect_paper(folder: Path, posts: int, rounds: int) -> None:
    """Write the tables of the preset: scores, convergence, and BOLA's search space."""
    parts = read_parts(folder, preset="paper", posts=posts, rounds=rounds)
    parts = [part for part in parts if "attack" not in part]
    if not parts:
        return
    order = {name: place for place, name in enumerate(PAPER)}
    parts.sort(key=lambda part: (order[part["method"]], part["seed"]))
    seeds = sorted({part["seed"] for part in parts})
    note = (
        f"preset paper, at most {posts} posts a client, {rounds} rounds; means over clients and seeds; {about(parts)}"
    )
    write_results("social/paper", method_table(parts), seed=seeds, note=note)
    write_results("social/paper-clients", client_table(parts), seed=seeds, note=note)
    if curves := curve_table(parts):
        write_results("social/paper-convergence", curves, seed=seeds, note=note)
    if searches := search_table(parts):
        write_results("social/paper-searches", searches, seed=seeds, note=note)


def collect_naming(folder: Path, posts: int, rounds: int) -> None:
    """Write the table of what names known events, and the detector without labels: all variants, paired by seed."""
    parts = [part for part in read_parts(folder, posts=posts, rounds=rounds) if part["method"] in NAMING]
    if not parts:
        return
    order = {name: place for place, name in enumerate(NAMING)}
    table, clients = [], []
    for variant in [name for name in VARIANTS if any(part["variant"] == name for part in parts)]:
        rows = sorted(
            (part for part in parts if part["variant"] == variant), key=lambda one: (order[one["method"]], one["seed"])
        )
        table += [{"variant": variant, **row} for row in method_table(rows, rival=DETECTORS[0])]
        clients += [{"variant": variant, **row} for row in client_table(rows)]
    seeds = {variant: sorted({part["seed"] for part in parts if part["variant"] == variant}) for variant in VARIANTS}
    note = f"at most {posts} posts a client; means over clients and seeds; new posts; {about(parts)}"
    write_results("social/naming", table, seed=seeds, note=note)
    write_results("social/naming-clients", clients, seed=seeds, note=note)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--variant", default="bare", choices=VARIANTS)
    parser.add_argument("--seeds", default="5,6,7,8,9")
    parser.add_argument("--posts", type=int, default=SIZE)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--methods", help="split by semicolons")
    parser.add_argument("--preset", default="cotempo", choices=("cotempo", "paper"))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--parts", type=Path, default=FOLDER)
    parser.add_argument("--collect", action="store_true")
    given = parser.parse_args()
    size = {"variant": given.variant, "posts": given.posts, "rounds": given.rounds}
    names = (given.methods or ";".join(PAPER if given.preset == "paper" else (*GROUPING, *NAMING))).split(";")
    names = [name for name in names if given.variant not in UNTIMED or "on time" not in name]
    preset = {} if given.preset == "cotempo" else {"preset": given.preset}
    work = [
        ({**size, **preset, "seed": seed, "method": name},
         partial(measure, name, **size, **preset, seed=seed, device=given.device))
        for seed in map(int, given.seeds.split(",")) for name in names
    ]  # fmt: skip
    if not given.collect:
        do_parts(given.parts, work, given.jobs)
    if given.preset == "paper":
        collect_paper(given.parts, given.posts, given.rounds)
        return
    collect(given.parts, **size)
    collect_naming(given.parts, given.posts, given.rounds)


if __name__ == "__main__":
    main()
