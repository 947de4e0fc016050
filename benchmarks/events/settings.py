"""Settings of FedPP's function of history, chosen without the test: held-out gain on development sequences.

python benchmarks/events/settings.py --data taxi twitter

Variants change one setting of the default. What depends on time needs no settings: the estimate, its tempering, the
strength of levels and deviations are chosen by cross-validation in every run.
"""

from __future__ import annotations

import argparse
from typing import Any
from unittest.mock import patch

from common import FILES, PERIODS, cohort_score, deal, write_results

from cotempo.events import FedPP
from cotempo.events.records import design
from cotempo.events.shared_function import client

SHARES = {"taobao": 0.25, "stackoverflow": 0.25}
VARIANTS: dict[str, dict[str, Any]] = {
    "default": {}, "100 inducing": {"inducing": 100}, "25 inducing": {"inducing": 25}, "15 rounds": {"rounds": 15},
    "60 rounds": {"rounds": 60}, "length 1": {"length": 1.0}, "length 4": {"length": 4.0}, "grain 0.3": {"grain": 0.3},
}  # fmt: skip


def measure(name: str, seed: int, given: argparse.Namespace, variant: str) -> dict[str, Any]:
    parameters = dict(VARIANTS[variant])
    length = parameters.pop("length", client.FIRST_LENGTH)
    grain = parameters.pop("grain", design.FEATURE_BIN)
    share = given.share or SHARES.get(name, 1.0)
    train, held = deal(name, given.clients, share, seed, scored="dev")
    method = FedPP(kernel="history", period=PERIODS.get(name), compare=False, **parameters)
    with patch.object(client, "FIRST_LENGTH", length), patch.object(design, "FEATURE_BIN", grain):
        score = cohort_score(method.fit(train, progress=False, seed=seed), held)
    return {"data": name, "share": share, "seed": seed, "variant": variant, **score}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", choices=FILES, required=True)
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--share", type=float, default=0.0, help="by default a small share")
    parser.add_argument("--variants", nargs="+")
    parser.add_argument("--seeds", nargs="+", type=int, default=[100, 101])
    given = parser.parse_args()
    for name in given.data:
        found = []
        file = f"events-settings-history-{name}" + f"-{given.share * 100:g}" * (given.share > 0)
        for seed in given.seeds:
            for variant in given.variants or VARIANTS:
                found.append(measure(name, seed, given, variant))
                print(found[-1], flush=True)
                write_results(file, found, seed=given.seeds, note="held-out gain on development sequences")


if __name__ == "__main__":
    main()
