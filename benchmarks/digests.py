"""SHA-256 of what every registered method learns from its example: the same before and after a change of code alone.

python benchmarks/digests.py                          print a line a case: name, digest
python benchmarks/digests.py --out before.json        and keep them
python benchmarks/digests.py --compare before.json    say what changed; the exit code is 1 where something did

The same machine, thread count and versions give the same digests. Batched and looped runs have their own, and so do
options that the examples leave out.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import sys
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import cotempo as ct
from cotempo.federation.registry import methods
from cotempo.storage.tree import is_tensor
from cotempo.testing import example

OTHERS: dict[str, tuple[str, dict[str, Any]]] = {
    "FedPP, history": ("FedPP", {"kernel": "history", "base_rounds": 2}),
    "FedPP, paper": (
        "FedPP",
        {"preset": "paper", "cells": ..., "base_rounds": ..., "refit_rounds": ..., "compare": ...},
    ),
    "FedTDD, paper": (
        "FedTDD",
        {"preset": "paper", "corrector_steps": 0, "token_steps": 0, "start_steps": 0, "last_steps": 0},
    ),
    "FedPointProcess, renewal": ("FedPointProcess", {"process": "renewal", "compare": True}),
    "FedAvg, compare": ("FedAvg", {"compare": True, "test": 0.3}),
    "FDBNL, paper": ("FDBNL", {**ct.FDBNL.presets["paper"], "preset": "paper", "rounds": 3}),
    "OneRound, common": ("OneRound", {"personal": False}),
}


def cases() -> Iterator[tuple[str, Any, Any, Any]]:
    """Every registered method's example, and some ways of learning that the examples leave out."""
    for name, cls in methods().items():
        yield name, *example(cls)
    for name, (own, options) in OTHERS.items():
        method, clients, public = example(methods()[own])
        values = {**{key: getattr(method, key) for key in method.model_fields_set}, **options}  # `...` leaves one out
        yield name, methods()[own](**{k: v for k, v in values.items() if v is not ...}), clients, public


def alone() -> Iterator[tuple[str, Any]]:
    """What models of a single owner say."""
    events = ct.make_events(clients=1, sequences=6, length=10.0, seed=0)[0]["client-0"]
    yield "SigmoidCox", ct.SigmoidCox().fit(events).intensity([1.0, 5.0, 9.0])
    table = ct.make_series(clients=1, length=80, features=2, missing=0.2, seed=0)[0]["client-0"]
    small = {"window": 8, "width": 8, "heads": 2, "imputer_width": 8, "imputer_layers": 1, "batch": 8}
    model = ct.SeriesDiffusion(**small, diffusion_steps=20, sampler_steps=4, imputer_steps=3, steps=3).fit(table)
    yield "SeriesDiffusion", (model.impute(table).values, model.sample(2).values)
    clients, _ = ct.make_networks(variables=4, clients=2, samples=200, seed=0)
    yield "rank_edges", ct.rank_edges(clients).scores


def result_digest(fitted: Any) -> str:
    """Of every number in the server's state and in what clients keep, whatever it is called and wherever it lies."""
    return numbers_digest({"state": fitted.state, "memories": dict(fitted.outcome.memories)})


def numbers_digest(tree: Any) -> str:
    """Hash the arrays and numbers of a tree without names, nesting and order, which a change of code may rearrange."""
    leaves = sorted(hashlib.sha256(leaf).hexdigest() for leaf in _leaves(tree))
    return hashlib.sha256("".join(leaves).encode()).hexdigest()


def _leaves(tree: Any) -> Iterator[bytes]:
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        tree = {field.name: getattr(tree, field.name) for field in dataclasses.fields(tree)}
    if isinstance(tree, Mapping):
        for value in tree.values():
            yield from _leaves(value)
    elif isinstance(tree, tuple | list):
        for value in tree:
            yield from _leaves(value)
    elif is_tensor(tree) or isinstance(tree, np.ndarray):
        array = np.asarray(tree)
        yield f"{array.dtype}{array.shape}".encode() + array.tobytes()
    elif isinstance(tree, float | int) and not isinstance(tree, bool):
        yield repr(tree).encode()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[], help="names of cases")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--compare", type=Path)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    found: dict[str, str] = {}
    for name, method, clients, public in cases():
        if given.only and name not in given.only:
            continue
        for way in ("batched", "looped") if method.batches else ("looped",):
            fitted = method.fit(clients, public=public, batched=way == "batched", progress=False)
            key = f"{name} ({way})"
            found[key] = result_digest(fitted)
            print(f"{key:34} {found[key]}", flush=True)
    for name, said in alone():
        if not given.only or name in given.only:
            found[name] = numbers_digest(said)
            print(f"{name:34} {found[name]}", flush=True)
    if given.out:
        given.out.write_text(json.dumps(found, indent=1) + "\n")
    if given.compare:
        before = json.loads(given.compare.read_text())
        changed = sorted(key for key in found if before.get(key) != found[key])
        gone = sorted(set(before) - set(found)) if not given.only else []
        print(f"{len(found) - len(changed)} as before; changed or new: {changed or 'none'}; gone: {gone or 'none'}")
        sys.exit(bool(changed or gone))


if __name__ == "__main__":
    main()
