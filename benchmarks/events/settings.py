"""Settings of the default FedPP, chosen without the test: held-out gain on development sequences.

    python benchmarks/events/settings.py time --data taobao taxi twitter stackoverflow
    python benchmarks/events/settings.py time --data taobao --types 2 --variants "length 2" "not personal"
    python benchmarks/events/settings.py history --data taxi twitter

Variants of time change one setting of what was the default before they were measured, a first length of 4 in 100; of
these runs came the present one, 2. Those of history change one setting of the default.
"""

from __future__ import annotations

import argparse
from typing import Any
from unittest.mock import patch

from common import FILES, PERIODS, cohort_score, deal, deal_types, write_results

from cotempo.events import FedPP, function_state, rows

SHARES = {
    "time": {"taobao": 0.1, "taxi": 0.1, "twitter": 0.05, "stackoverflow": 0.1},
    "history": {"taobao": 0.25, "stackoverflow": 0.25},
}
VARIANTS: dict[str, dict[str, dict[str, Any]]] = {
    "time": {
        "default": {"length": 4.0}, "30 inducing": {"length": 4.0, "inducing": 30},
        "80 inducing": {"length": 4.0, "inducing": 80}, "15 rounds": {"length": 4.0, "rounds": 15},
        "60 rounds": {"length": 4.0, "rounds": 60}, "not personal": {"length": 4.0, "personal": False},
        "not tempered": {"length": 4.0, "temper": False}, "length 2": {"length": 2.0},
        "length 2, not personal": {"length": 2.0, "personal": False}, "length 8": {"length": 8.0},
        "length 15": {"length": 15.0},
    },
    "history": {
        "default": {}, "100 inducing": {"inducing": 100}, "25 inducing": {"inducing": 25}, "15 rounds": {"rounds": 15},
        "60 rounds": {"rounds": 60}, "length 1": {"length": 1.0}, "length 4": {"length": 4.0},
        "grain 0.3": {"grain": 0.3}, "personal": {"personal": True},
    },
}  # fmt: skip


def measure(kernel: str, name: str, seed: int, given: argparse.Namespace, variant: str) -> dict[str, Any]:
    parameters = dict(VARIANTS[kernel][variant])
    starts = dict(function_state.FIRST_LENGTHS)
    starts[kernel] = (parameters.pop("length", starts[kernel][0]), starts[kernel][1])
    grain = parameters.pop("grain", rows.QUANTUM)
    period = PERIODS.get(name) if kernel == "history" else None
    share = given.share or SHARES[kernel].get(name, 1.0)
    if given.types:
        train, held = deal_types(name, given.clients, given.types, seed, share, scored="dev")
    else:
        train, held = deal(name, given.clients, share, seed, scored="dev")
    with patch.object(function_state, "FIRST_LENGTHS", starts), patch.object(rows, "QUANTUM", grain):
        fitted = FedPP(kernel=kernel, period=period, compare=False, **parameters).fit(train, progress=False, seed=seed)
        score = cohort_score(fitted, held)
    return {"kernel": kernel, "data": name, "share": share, "seed": seed, "variant": variant, **score}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kernel", choices=("time", "history"))
    parser.add_argument("--data", nargs="+", choices=FILES, required=True)
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--share", type=float, default=0.0, help="by default a small share")
    parser.add_argument("--types", type=int, default=0, help="types of events a client has; by default all")
    parser.add_argument("--variants", nargs="+")
    parser.add_argument("--seeds", nargs="+", type=int, default=[100, 101])
    given = parser.parse_args()
    for name in given.data:
        found = []
        file = f"events-settings-{given.kernel}-{name}" + f"-{given.share * 100:g}" * (given.share > 0)
        file += f"-{given.types}-types" * (given.types > 0)
        for seed in given.seeds:
            for variant in given.variants or VARIANTS[given.kernel]:
                found.append(measure(given.kernel, name, seed, given, variant))
                print(found[-1], flush=True)
                write_results(file, found, seed=given.seeds, note="held-out gain on development sequences")


if __name__ == "__main__":
    main()
