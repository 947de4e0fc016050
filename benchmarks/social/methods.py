"""Graph learners beside each other and beside rows without training (Tables 2 and 4, ablation, variants).

    python benchmarks/social/methods.py [--variant bare] [--seeds 5] [--methods Local,FedAvg,DAMe] [--posts 450]

Variants of the six real clients: `collected` (as they are), `keywords` (without keywords), `bare` (without keywords and
times), `fifteen` (bare, 15 % of the labels), `unseen` (bare, a third of the events is new); and `generated` concurrent
events. Every method is given the same split, rounds and epochs, and keeps its best model by validation.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parent)]
from results import write_results  # noqa: E402
from setting import (  # noqa: E402
    generated_clients,
    judge,
    label_free,
    mean_of,
    real_clients,
    run_method,
    split,
    with_error,
)

from cotempo import social  # noqa: E402

VARIANTS: dict[str, dict[str, Any]] = {
    "collected": {},
    "keywords": {"keywords": False},
    "bare": {"keywords": False, "times": False},
    "fifteen": {"keywords": False, "times": False, "labels": 0.15},
    "unseen": {"keywords": False, "times": False, "unseen": True},
    "generated": {},
}
METHODS = {
    "Local, restarted": (social.Local, {"restart": True}),
    "DAMe, paper's similarities": (social.DAMe, {"similarity": "paper"}),
    "DAMe without BOLA": (social.DAMe, {"bola": False}),
    "DAMe without SEGA": (social.DAMe, {"sega": False}),
    "DAMe with GLECC": (social.DAMe, {"glecc": True}),
    **{
        name: (getattr(social, name), {})
        for name in ("Local", "FedAvg", "FedProx", "PerFedAvg", "Ditto", "SFL", "APPLE", "FedALA", "DAMe")
    },
}


def prepare(variant: str, posts: int, seed: int) -> Any:
    """The clients of a variant, split."""
    options = dict(VARIANTS[variant])
    shares = {key: options.pop(key) for key in ("labels", "unseen") if key in options}
    clients = generated_clients(posts, seed) if variant == "generated" else real_clients(posts, seed, **options)
    return split(clients, seed, **shares)


def measure(names: list[str], variant: str, posts: int, rounds: int, seed: int) -> dict[str, dict[str, float]]:
    """All rows of one seed."""
    learn, test = prepare(variant, posts, seed)
    rows = {name: {**scores, "seconds": 0.0, "bytes": 0.0} for name, scores in label_free(learn, test).items()}
    for name in names:
        cls, options = METHODS[name]
        when = "scaled" if variant == "collected" else "ignore"
        method = cls(rounds=rounds, test=0.0, compare=False, time=when, **options)
        began = time.perf_counter()
        fitted = run_method(method, learn, seed)
        seconds = time.perf_counter() - began
        trained = [step for step in fitted.history if step["phase"] == "train"]
        traffic = sum(sum(step["sent"].values()) + sum(step["received"].values()) for step in trained[1:])
        scores = mean_of(judge(test, lambda client, table, k, f=fitted: f[client].detect(table, events=k)))
        rows[name] = {**scores, "seconds": seconds, "bytes": traffic / max(len(trained) - 1, 1)}
        print(seed, name, {key: round(value, 3) for key, value in rows[name].items()}, flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--variant", default="bare", choices=VARIANTS)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--posts", type=int, default=450)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--methods", default="Local;Local, restarted;FedAvg;DAMe", help="separated by semicolons")
    given = parser.parse_args()
    names = given.methods.split(";")
    runs = [measure(names, given.variant, given.posts, given.rounds, seed) for seed in range(given.seeds)]
    table = []
    for name in runs[0]:
        row: dict[str, Any] = {"method": name}
        for metric in ("NMI", "AMI", "ARI"):
            row[metric], row[f"{metric} error"] = with_error([run[name][metric] for run in runs])
        if "DAMe" in runs[0]:
            paired = [run["DAMe"]["NMI"] - run[name]["NMI"] for run in runs]
            row["DAMe minus it"], row["error of that"] = with_error(paired)
        row["seconds"], row["bytes a round"] = (
            with_error([run[name][key] for run in runs])[0] for key in ("seconds", "bytes")
        )
        table.append(row)
        print(row)
    note = f"{given.posts} posts a client, {given.rounds} rounds; means over clients and {given.seeds} seeds; new posts"
    write_results(f"social/{given.variant}", table, seed=list(range(given.seeds)), note=note)


if __name__ == "__main__":
    main()
