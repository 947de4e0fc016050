"""The published experiments, one command each, with the preset `paper`.

    python benchmarks/events/published.py aggregation --data taobao stackoverflow --jobs 16     (Tables 2 and 3)
    python benchmarks/events/published.py epochs shares straggling clients types rates
    python benchmarks/events/published.py homogeneous --data taobao     (Tables J.5 to J.9: one type at a time)
    python benchmarks/events/published.py aggregation --data taobao --collect

Every variant and seed is a part of its own. Clients that were never asked are scored too, with the prior over kernel
weights. The numbers printed in the paper cannot stand beside these: its code minimises the bound it should maximise,
takes log(1 + x) for log x, puts all inducing points into the first hundredth of the window and ignores exposure.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from common import FILES, ROOT, Tables, archive_of, cohort_score, deal, deal_types, whole_span, write_results
from parts import FOLDER, about, do_parts, read_parts

from cotempo.events import EventArchive, FedPointProcess, FedPP, read_event_archive
from cotempo.federation import Participation
from cotempo.federation.reducers import PlainReducer

RULES = ("kl", "wasserstein", "fedavg", "mmd")
CHOICES = ("aggregation", "epochs", "shares", "straggling", "clients", "types", "rates", "homogeneous")


def variants(what: str, rounds: int) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
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
        counts = ((clients, stop) for clients in (50, 100, 150, 200) for stop in (5, 10, 20, rounds) if stop <= rounds)
        yield from (({"rounds": stop}, {"clients": n, "cohort": n // 10}) for n, stop in dict.fromkeys(counts))
    elif what == "types":
        yield from (({}, {"types": types}) for types in (1, 2, 4, 8))
    elif what == "homogeneous":
        yield from (({}, {"type": type}) for type in range(5))
    else:
        yield from (({"learning_rate": rate}, {}) for rate in (0.001, 0.005, 0.01, 0.05, 0.1))


def one_type_archive(name: str) -> tuple[EventArchive, Any]:
    """Return sequences of one type each, with their type, and those to draw from.

    Of Taobao, Stack Overflow and Amazon there are the authors' own files; of Conttime sequences are cut by type.
    """
    if name != "conttime-generated":
        archive = read_event_archive(ROOT / f"fedpp_bytype_{name}.npz")
        return archive, archive.of_split("train")
    whole = archive_of(name)
    assert whole.marks is not None
    some = whole.of_split("train")[:1000]
    cut = [(whole.times[i][whole.marks[i] == kind], whole.windows[i], kind) for kind in range(5) for i in some]
    times, windows, kinds = zip(*[part for part in cut if len(part[0]) >= 2], strict=True)
    marks = [np.full(len(part), kind) for part, kind in zip(times, kinds, strict=True)]
    archive = EventArchive(list(times), np.stack(windows), marks, np.zeros(len(times), dtype=np.int64), 5)
    return archive, np.arange(len(times))


def deal_one_type(name: str, clients: int, rank: int, seed: int) -> tuple[Tables, Tables]:
    """All clients have the events of one type, the most frequent being rank 0.

    Four fifths of the authors' training sequences are learned from and the rest scored: their test sequences have
    windows a fiftieth as long with a third of the events, which no rate learned from the training can tell.
    """
    archive, train = one_type_archive(name)
    assert archive.marks is not None
    kinds = np.array([archive.marks[i][0] for i in train])
    counts = np.bincount(kinds, weights=[len(archive.times[i]) for i in train])
    found = np.random.default_rng(seed).permutation(train[kinds == np.argsort(-counts)[rank]])
    cut, held = int(0.8 * len(found)), archive._replace(marks=None)
    return tuple(  # type: ignore[return-value]
        {f"client-{n:03d}": held.select(np.sort(part[n::clients])) for n in range(clients)}
        for part in (found[:cut], found[cut:])
    )


def make_data(data: str, setting: dict[str, Any], clients: int, seed: int) -> tuple[Tables, Tables]:
    if "types" in setting:
        return deal_types(data, clients, setting["types"], seed)
    if "type" in setting:
        return deal_one_type(data, clients, setting["type"], seed)
    return deal(data, clients, setting.get("share", 1.0), seed)


def measure(
    data: str, parameters: dict[str, Any], setting: dict[str, Any], size: dict[str, Any], clients: int, cohort: int,
    seed: int,
) -> dict[str, Any]:  # fmt: skip
    """FedPP in one setting on one seed, beside a federated profile of time."""
    clients, began = setting.get("clients", clients), time.process_time()
    train, test = make_data(data, setting, clients, seed)
    participation = Participation(setting.get("cohort", cohort), setting.get("period", 1))
    method = FedPP(preset="paper", window=whole_span(train, test), **{**size, **parameters})
    fitted = method.fit(train, progress=False, seed=seed, cohort=participation, reducer=PlainReducer())
    asked = {name for name, memory in fitted.outcome.memories.items() if len(memory.values)}
    models = {name: fitted[name] if name in asked else fitted.adapt(name, train[name]) for name in test}
    simple = FedPointProcess(process="profile").fit(train, progress=False)
    found = {"took part": len(asked), **cohort_score(models, test), "profile": cohort_score(simple, test)["gain"]}
    if len(asked) < clients:
        found["asked"] = cohort_score(models, {name: test[name] for name in asked})["gain"]
        found["never asked"] = cohort_score(models, {n: test[n] for n in test if n not in asked})["gain"]
    return {**found, "seconds": time.process_time() - began}


def collect(folder: Path, what: str, data: str) -> None:
    """Write the table of one experiment and data set."""
    parts = read_parts(folder, published=what, data=data)
    hidden = {"published", "commit", "machine", "inducing", "cells", "of", "at once"}
    names = dict.fromkeys(name for part in parts for name in part if name not in hidden)
    rows = [{name: part.get(name, "") for name in names} for part in parts]
    if rows:
        rows.sort(key=lambda row: (row["seed"], *(str(value) for value in row.values())))
        sizes = {f"rounds {p['rounds']}, {p['inducing']} inducing points, {p['cells']} cells" for p in parts}
        note = "; ".join(sorted(sizes)) + f"; {about(parts)}"
        write_results(f"events-{what}-{data}", rows, seed=sorted({row["seed"] for row in rows}), note=note)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=CHOICES, nargs="+")
    parser.add_argument("--data", choices=FILES, nargs="+", default=["taobao"])
    parser.add_argument("--rounds", type=int, default=100, help="as the paper has")
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--cohort", type=int, default=10)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument("--inducing", type=int, default=50)
    parser.add_argument("--cells", type=int, default=400)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--parts", type=Path, default=FOLDER)
    parser.add_argument("--collect", action="store_true")
    given = parser.parse_args()
    size, work = {"rounds": given.rounds, "inducing": given.inducing, "cells": given.cells}, []
    for seed in given.seeds:
        for what in given.what:
            for data in given.data:
                for parameters, setting in variants(what, given.rounds):
                    key = {"published": what, "data": data, **size, **parameters, **setting, "of": given.clients,
                           "at once": given.cohort, "seed": seed}  # fmt: skip
                    options = (data, parameters, setting, size, given.clients, given.cohort, seed)
                    work.append((key, partial(measure, *options)))
    if not given.collect:
        do_parts(given.parts, work, given.jobs)
    for what in given.what:
        for data in given.data:
            collect(given.parts, what, data)


if __name__ == "__main__":
    main()
