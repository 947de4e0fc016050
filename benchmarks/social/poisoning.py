"""One malicious client: what the honest ones lose, and whether the attacker stands alone (Table 3).

    python benchmarks/social/poisoning.py [--seeds 5] [--attacks strong] [--rounds 12]

The attacker is the largest English client; scores are means over the others, on new posts without keywords and times.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parent)]
from methods import prepare  # noqa: E402
from results import write_results  # noqa: E402
from setting import Clients, judge, mean_of, run_method, with_error  # noqa: E402

from cotempo import social  # noqa: E402

ATTACKER = "en_americas"
UPLOADS = {
    "strong": social.ParameterNoise.strong(),
    "weak": social.ParameterNoise.weak(),
    "flip": social.SignFlip(),
}
METHODS = {
    "FedAvg": (social.FedAvg, {}),
    "DAMe, centred": (social.DAMe, {}),
    "DAMe, paper's similarities": (social.DAMe, {"similarity": "paper"}),
}


def honest(method: Any, learn: Clients, test: Clients, seed: int, attack: str | None) -> tuple[float, float]:
    """Mean NMI of the honest clients, and the share of rounds in which the attacker stood alone."""
    given = dict(learn)
    if attack == "backdoor":
        given[ATTACKER] = social.Backdoor().poison(given[ATTACKER], np.random.default_rng(seed))
    uploads = {ATTACKER: UPLOADS[attack]} if attack in UPLOADS else {}
    fitted = run_method(method, given, seed, lambda engine: social.Attacked(engine, uploads, seed))
    others = {name: table for name, table in test.items() if name != ATTACKER}
    scores = judge(others, lambda client, table, k: fitted[client].detect(table, events=k))
    alone = [list(entry.groups.values()).count(entry.groups[ATTACKER]) == 1 for entry in fitted.record]
    return mean_of(scores)["NMI"], float(np.mean(alone)) if alone else float("nan")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--posts", type=int, default=450)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--attacks", default="strong,weak,flip,backdoor")
    given = parser.parse_args()
    attacks = [None, *given.attacks.split(",")]
    found: dict[tuple[str, str | None], list[tuple[float, float]]] = {}
    for seed in range(given.seeds):
        learn, test = prepare("bare", given.posts, seed)
        for name, (cls, options) in METHODS.items():
            method = cls(rounds=given.rounds, test=0.0, compare=False, time="ignore", **options)
            for attack in attacks:
                found.setdefault((name, attack), []).append(honest(method, learn, test, seed, attack))
                print(seed, name, attack, found[name, attack][-1], flush=True)
    table = []
    for (name, attack), runs in found.items():
        row: dict[str, Any] = {"method": name, "attack": attack or "none"}
        row["NMI"], row["NMI error"] = with_error([nmi for nmi, _ in runs])
        lost = [clean - nmi for (nmi, _), (clean, _) in zip(runs, found[name, None], strict=True)]
        row["lost"], row["lost error"] = with_error(lost)
        row["attacker alone"] = float(np.mean([alone for _, alone in runs]))
        table.append(row)
        print(row)
    note = f"{given.posts} posts a client, {given.rounds} rounds, {given.seeds} seeds; honest clients only"
    write_results("social/poisoning", table, seed=list(range(given.seeds)), note=note)


if __name__ == "__main__":
    main()
