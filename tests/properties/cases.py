"""Small runs of every registered method, and what their results say to people, in coordinates that do not change."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cotempo.data import READERS, Events, Posts, Series
from cotempo.federation import Method
from cotempo.federation.registry import methods
from cotempo.social.graph_model.learner import EventLearner
from cotempo.testing import example

Reading = dict[str, NDArray[np.float64]]
SHARES = np.array([0.1, 0.3, 0.5, 0.7, 0.9])


@dataclass(frozen=True)
class Case:
    """A method and the data to try it on."""

    method: Method
    clients: Mapping[str, Any]
    public: Any = None

    def change(self, table: Callable[[Any], Any]) -> Case:
        """The same method on other tables."""
        changed = {name: table(own) for name, own in self.clients.items()}
        return replace(self, clients=changed, public=None if self.public is None else table(self.public))

    def fit(self) -> Any:
        """Learn, one client after the other."""
        return self.method.fit(self.clients, public=self.public, batched=False, progress=False)


@dataclass(frozen=True)
class View:
    """How data were changed, so that a result can be read as if they had not been.

    `names` has the new name of each client; by feature, `scale` and `shift` what its values were multiplied by and what
    was then added.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    scale: Mapping[str, float] = field(default_factory=dict)
    shift: Mapping[str, float] = field(default_factory=dict)


def make_case(name: str) -> Case:
    """A case by name: a registered method's example, with what stands after the comma changed."""
    own, _, change = name.partition(", ")
    method, clients, public = example(methods()[own])
    options = CHANGES[change] if change else SCALED if isinstance(method, EventLearner) else {}
    given = method.model_dump(include=method.model_fields_set)
    values = {key: value for key, value in {**given, **options}.items() if value is not ...}
    return Case(methods()[own](**values), {k: _dated(t) for k, t in clients.items()}, public)


# As published, graph learners of posts are told the date itself; told it in the client's own units, they are to be
# invariant to where time begins.
SCALED = {"time": "scaled"}
CHANGES: dict[str, dict[str, Any]] = {
    "history": {"kernel": "history", "compare": True},
    "paper": {
        "preset": "paper",
        "kernel": "time",
        "rounds": 1,
        "epochs": 1,
        "refit_rounds": ...,  # left out
        "base_rounds": ...,
        "compare": ...,
    },
    "poisson": {"process": "poisson", "rounds": 30, "compare": True},
    "profile": {"process": "profile", "rounds": 30, "compare": True},
    "compare": {"compare": True, "test": 0.3, **SCALED},
    "scaled": {"scaled": True},
    "common": {"personal": False, "compare": False},
}
OURS = [name for name, method in methods().items() if method.__module__.startswith("cotempo.")]
CASES = (
    *OURS, "FedPP, history", "FedPP, paper", "FedPointProcess, poisson", "FedPointProcess, profile", "FedAvg, compare",
    "FDBNL, scaled", "PFDBNL, scaled",
)  # fmt: skip


def of_kind(kind: str) -> list[str]:
    """Names of the cases whose clients have tables of a kind."""
    return [name for name in CASES if methods()[name.partition(", ")[0]].kind == kind]


def _dated(table: Any) -> Any:
    """Posts on days of a calendar; other tables as they are."""
    return replace(table, time=table.time + 18_000, unit="D") if isinstance(table, Posts) else table


def read(case: Case, fitted: Any, before: Mapping[str, Any], view: View | None = None) -> Reading:
    """What a result says of each client, as of the tables `before` they were changed, and what joining was worth to it.

    Networks: weights in the units before. Rankings: scores. Means: in the units before. Series: filled cells, in the
    units before. Events: the gain on the own events, and intensities at shares of the first window, times its length.
    Posts: which of them belong together.
    """
    found: Reading = {}
    view = view or View()
    for old, table in before.items():
        new = view.names.get(old, old)
        found |= {f"{old}: {what}": values for what, values in _read(fitted, new, case.clients[new], table, view)}
        if new in fitted.benefit:
            found[f"{old}: gain of joining"] = np.array([fitted.benefit[new].gain])
    return found


Parts = Iterator[tuple[str, NDArray[np.float64]]]


def _read(fitted: Any, name: str, own: Any, table: Any, view: View) -> Parts:
    if hasattr(fitted, "findings"):
        yield "findings", np.array([float(len(fitted[name])), 1.0])
    elif isinstance(own, Events):
        yield from _read_events(fitted[name], own)
    elif isinstance(own, Posts):
        model = fitted[name]
        found = model.detect(own) if hasattr(model, "book") else model.detect(own, events=3)
        labels = np.asarray(getattr(found, "event", found))
        yield "together", (labels[:, None] == labels[None]).astype(np.float64)
    else:
        yield from _read_series(fitted, name, own, table, view)


def _read_events(model: Any, own: Events) -> Parts:
    if hasattr(model, "score"):
        yield "gain on own events", np.array([model.score(own)["gain"]])
    start, length = float(own.start[0]), float(own.end[0] - own.start[0])
    given = model.intensity(start + SHARES * length)
    yield "intensity", np.asarray(given[0] if isinstance(given, tuple) else given) * length


def _read_series(fitted: Any, name: str, own: Series, table: Series, view: View) -> Parts:
    features = table.features
    scale = np.array([view.scale.get(feature, 1.0) for feature in features])
    shift = np.array([view.shift.get(feature, 0.0) for feature in features])
    if hasattr(fitted, "network"):
        network = fitted[name].network
        place = [network.variables.index(feature) for feature in features]
        stacked = np.concatenate([network.within[None], network.across])
        yield "weights", stacked[:, place][:, :, place] * scale[:, None] / scale
    elif hasattr(fitted, "ranking"):
        place = [fitted.ranking.variables.index(feature) for feature in features]
        yield "scores", np.nan_to_num(fitted.ranking.scores[np.ix_(place, place)])
    elif hasattr(fitted, "mean"):
        place = [own.features.index(feature) for feature in features]
        yield "mean", (fitted.mean[place] - shift) / scale
    else:
        place = [own.features.index(feature) for feature in features]
        yield "filled", (fitted[name].impute(own).values[:, place] - shift) / scale


def apart(one: Reading, other: Reading) -> dict[str, float]:
    """How far two readings are apart, by what was read, relative to its largest value."""
    found: dict[str, float] = {}
    for key, values in one.items():
        what = key.partition(": ")[2]
        size = max(float(np.abs(values).max()), 1e-12)
        far = float(np.abs(values - other[key]).max()) / size if key in other else np.inf
        found[what] = max(found.get(what, 0.0), far)
    return found


def halves(table: Any) -> tuple[Any, Any]:
    """A client's table in two: half of its sequences each, or its one sequence cut in two."""
    if isinstance(table, Series):
        first = np.arange(table.rows) < table.rows // 2
        named = replace(table, sequence=np.where(first, "first", "second"))
        return named.select(first), named.select(~first)
    rows, own = (np.isin(names, table.names[: len(table.names) // 2]) for names in (table.sequence, table.names))
    one, two = (
        Events(
            table.sequence[here], table.time[here], table.mark[here], table.marks, table.names[named],
            table.start[named], table.end[named], table.unit,
        )
        for here, named in ((rows, own), (~rows, ~own))
    )  # fmt: skip
    return one, two


def from_files(*tables: Any) -> Any:
    """One client's table, read from what several files hold, one after the other."""
    kind = tables[0].kind
    sides = {
        side: pd.concat([pd.DataFrame(table.side_tables()[side]) for table in tables])
        for side in tables[0].side_tables()
    }
    (read,) = READERS[kind](pd.concat([table.to_frame() for table in tables]), **sides).values()
    return read


def make_empty(table: Any) -> Any:
    """A table like this one, with nothing in it."""
    if isinstance(table, Events):
        return Events([], [], [], table.marks, [], [], [], table.unit)
    return table.select([])
