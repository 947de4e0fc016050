"""One malicious client: what the honest ones lose, and whether the attacker stands alone (Table 3).

    python benchmarks/social/poisoning.py [--data bare] [--seeds 5,6,7,8,9] [--attacks strong] [--collect]
    python benchmarks/social/poisoning.py --preset paper --rounds 50 --jobs 16

The attacker is the largest English client, or the first generated one; scores are means over the others, on new posts.
Runs without an attack are those of `methods.py` on the same data.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parent)]
from methods import TRAINED, make_paper, prepare  # noqa: E402
from parts import FOLDER, about, do_parts, read_parts  # noqa: E402
from results import write_results  # noqa: E402
from setting import judge, run_method  # noqa: E402
from tables import with_error  # noqa: E402

from attacks import Attacked, Backdoor, ParameterNoise, SignFlip  # noqa: E402

ATTACKER = {"bare": "en_americas", "generated": "client-0"}
UPLOADS = {
    "strong": ParameterNoise.strong(),
    "weak": ParameterNoise.weak(),
    "flip": SignFlip(),
}
ATTACKS = (*UPLOADS, "backdoor")
METHODS = ("FedAvg", "DAMe", "DAMe, paper's similarities")


def measure(
    name: str, attack: str, data: str, posts: int, rounds: int, seed: int, preset: str = "cotempo"
) -> dict[str, Any]:
    """Scores with an attacker among the clients, and the groups of every round."""
    learn, test = prepare(data, posts, seed)
    attacker = ATTACKER[data]
    if attack == "backdoor":
        learn[attacker] = Backdoor().poison(learn[attacker], np.random.default_rng(seed))
    uploads = {attacker: UPLOADS[attack]} if attack in UPLOADS else {}
    if preset == "paper":
        method = make_paper(name, rounds)
    else:
        cls, options = TRAINED[name]
        method = cls(rounds=rounds, test=0.0, compare=False, time="ignore", **options)
    fitted = run_method(method, learn, seed, lambda engine: Attacked(engine, uploads, seed))
    scores = judge(test, lambda client, table, k: fitted[client].detect(table, events=k).event)
    return {**scores, "groups": [dict(entry.groups) for entry in fitted.record]}


def honest(part: dict[str, Any], attacker: str) -> float:
    """Mean NMI of the clients that do not attack."""
    return float(np.mean([scores["NMI"] for client, scores in part["clients"].items() if client != attacker]))


def alone(part: dict[str, Any], attacker: str) -> list[bool]:
    """In which rounds the attacker had a group of its own."""
    return [list(groups.values()).count(groups[attacker]) == 1 for groups in part["groups"]]


def collect(folder: Path, data: str, posts: int, rounds: int, preset: str | None) -> None:
    """Write the table of one data set."""
    attacker, size = ATTACKER[data], {"posts": posts, "rounds": rounds}
    attacked = [part for part in read_parts(folder, data=data, **size) if part.get("preset") == preset]
    seeds = sorted({part["seed"] for part in attacked})
    calm = [part for part in read_parts(folder, variant=data, **size) if part["seed"] in seeds]
    calm = [part for part in calm if part.get("preset") == preset]
    calm = [{**part, "attack": "none"} for part in calm if part["method"] in METHODS]
    clean = {(part["method"], part["seed"]): honest(part, attacker) for part in calm}
    table = []
    for name in METHODS:
        for attack in ("none", *ATTACKS):
            rows = [part for part in (*calm, *attacked) if (part["method"], part["attack"]) == (name, attack)]
            rows = [part for part in rows if (name, part["seed"]) in clean]
            if not rows:
                continue
            row: dict[str, Any] = {"method": name, "attack": attack, "seeds": len(rows)}
            row["NMI"], row["NMI error"] = with_error([honest(part, attacker) for part in rows])
            lost = [clean[name, part["seed"]] - honest(part, attacker) for part in rows]
            row["lost"], row["lost error"] = with_error(lost)
            rounds_alone = [is_alone for part in rows for is_alone in alone(part, attacker)]
            row["attacker alone"] = float(np.mean(rounds_alone)) if rounds_alone else ""
            table.append(row)
    parts = about([*calm, *attacked])
    note = f"{data}: {posts} posts a client, {rounds} rounds; honest clients only, losses paired by seed; {parts}"
    if table:
        write_results(f"social/poisoning-{preset or data}", table, seed=seeds, note=note)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="bare", choices=ATTACKER)
    parser.add_argument("--seeds", default="5,6,7,8,9")
    parser.add_argument("--posts", type=int, default=800)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--attacks", default=",".join(ATTACKS))
    parser.add_argument("--methods", default=";".join(METHODS), help="split by semicolons")
    parser.add_argument("--preset", choices=("paper",))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--parts", type=Path, default=FOLDER)
    parser.add_argument("--collect", action="store_true")
    given = parser.parse_args()
    size = {"data": given.data, "posts": given.posts, "rounds": given.rounds}
    preset = {"preset": given.preset} if given.preset else {}
    names = [name for name in given.methods.split(";") if not given.preset or name in ("FedAvg", "DAMe")]
    work = [
        ({**size, **preset, "seed": seed, "method": name, "attack": attack},
         partial(measure, name, attack, **size, **preset, seed=seed))
        for seed in map(int, given.seeds.split(",")) for attack in given.attacks.split(",") for name in names
    ]  # fmt: skip
    if not given.collect:
        do_parts(given.parts, work, given.jobs)
    collect(given.parts, **size, preset=given.preset)


if __name__ == "__main__":
    main()
