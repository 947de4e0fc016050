"""Read saved objects in a fresh process: ``python reading.py PATH ...`` prints a digest of what each says."""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np

import cotempo as ct
from cotempo.federation import Fitted
from cotempo.storage.tree import digest

SERIES = ct.make_series(clients=2, length=60, missing=0.2, seed=3)[0]
POSTS = ct.make_posts(clients=2, posts=60, events=6, seed=3)[0]


def numbers_of(model: Any) -> Any:
    """Return numbers that a model gives by the verbs it has, as a tree."""
    if isinstance(model, Fitted):
        clients = {name: numbers_of(part) for name in model.names if (part := model[name]) is not model}
        return {"state": model.state, "clients": clients, "benefit": {n: vars(b) for n, b in model.benefit.items()}}
    found: dict[str, Any] = {}
    if hasattr(model, "intensity"):
        found["intensity"] = tuple(np.asarray(part) for part in model.intensity(np.array([1.0, 2.5, 4.0])))
    if hasattr(model, "impute"):
        found["impute"] = model.impute(SERIES["client-0"], draws=3).values
        found["sample"] = model.sample(2).values
    if hasattr(model, "detect"):
        detected = model.detect(POSTS["client-0"])
        found["detect"] = (tuple(detected.event.tolist()), detected.confidence)
    if hasattr(model, "events") and hasattr(model, "partial_fit"):
        found["events"] = tuple(map(str, model.events()["event"]))
    if hasattr(model, "network"):
        found["network"] = numbers_of(model.network)
    if isinstance(model, ct.Network):
        found["weights"] = model.stacked
    if hasattr(model, "scores") and not callable(model.scores):
        found["scores"] = model.scores
    assert found, type(model)
    return found


if __name__ == "__main__":
    print(json.dumps([digest(numbers_of(ct.load(path))) for path in sys.argv[1:]]))
