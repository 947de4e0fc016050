"""The published experiments, one command: aggregation, local epochs, data shares, straggling, clients, types.

    python benchmarks/events/published.py aggregation --data taobao
    python benchmarks/events/published.py epochs | shares | straggling | clients | types | rates

The numbers printed in the paper cannot stand beside these: its code minimises the bound it should maximise, takes
log(1 + x) for log x, puts all inducing points into the first hundredth of the window and ignores exposure.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import numpy as np
from common import FILES, ROOT, Tables, cohort_score, deal, write_results

from cotempo.events import FedPP, read_event_archive
from cotempo.federation.participation import Participation

RULES = ("kl", "wasserstein", "fedavg", "mmd")


def variants(what: str) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Parameters of the method, and of the experiment."""
    if what == "aggregation":
        yield from (({"kernel": kernel, "aggregation": rule}, {}) for kernel in ("time", "deep") for rule in RULES)
    elif what == "epochs":
        yield from (({"epochs": epochs}, {}) for epochs in (1, 2, 5, 10))
    elif what == "shares":
        yield from (({}, {"share": share}) for share in (0.01, 0.05, 0.1, 0.2))
    elif what == "straggling":
        yield from (({}, {"period": period}) for period in (2, 5, 10, 20))
    elif what == "clients":
        yield from (({}, {"clients": clients, "cohort": clients // 10}) for clients in (50, 100, 150, 200))
    elif what == "types":
        yield from (({}, {"types": types}) for types in (1, 3, 8))
    else:
        yield from (({"learning_rate": rate}, {}) for rate in (0.001, 0.01, 0.05, 0.1))


def deal_types(name: str, clients: int, types: int, seed: int) -> tuple[Tables, Tables]:
    """Each client is given only the events of some types: the heterogeneous partition."""
    archive = read_event_archive(ROOT / f"{FILES[name]}.npz")
    rng = np.random.default_rng(seed)
    owned = [rng.choice(archive.mark_count, types, replace=False) for _ in range(clients)]
    parts: list[Tables] = []
    for split in ("train", "test"):
        found = rng.permutation(archive.of_split(split))
        tables = {}
        for number, kept in enumerate(owned):
            mine = found[number::clients]
            marks = archive.marks or []
            times = [archive.times[i][np.isin(marks[i], kept)] for i in mine]
            held = archive._replace(times=times, windows=archive.windows[mine], marks=None)
            tables[f"client-{number:03d}"] = held.select(np.arange(len(mine)))
        parts.append(tables)
    return parts[0], parts[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    choices = ("aggregation", "epochs", "shares", "straggling", "clients", "types", "rates")
    parser.add_argument("what", choices=choices)
    parser.add_argument("--data", choices=FILES, default="taobao")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--cohort", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=5)
    given = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for parameters, setting in variants(given.what):
        clients = setting.get("clients", given.clients)
        for seed in range(given.seeds):
            if "types" in setting:
                train, test = deal_types(given.data, clients, setting["types"], seed)
            else:
                train, test = deal(given.data, clients, setting.get("share", 1.0), seed)
            cohort = Participation(setting.get("cohort", given.cohort), setting.get("period", 1))
            method = FedPP(preset="paper", rounds=given.rounds, **parameters)
            fitted = method.fit(train, progress=False, seed=seed, cohort=cohort)
            taking_part = {name: test[name] for name in test if name in fitted.outcome.memories}
            score = cohort_score(fitted, taking_part)
            rows.append({"data": given.data, **parameters, **setting, "seed": seed, **score})
            print(rows[-1], flush=True)
            write_results(f"events-{given.what}-{given.data}", rows, seed=f"0 to {given.seeds - 1}")


if __name__ == "__main__":
    main()
