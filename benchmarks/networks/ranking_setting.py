"""What the benchmarks of rankings share: where the data are, how edges of a network are scored, means."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import cotempo as ct
from cotempo.networks import Network, Ranking

ROOT = Path(__file__).parents[2]


def data_file(name: str) -> Path:
    """A file of the folder COTEMPO_DATA, or of ../shared/data beside the repository."""
    folder = Path(os.environ.get("COTEMPO_DATA", ROOT.parent / "shared" / "data")) / "networks"
    path = folder / name
    if not path.is_file():
        raise SystemExit(f"{name} must be in {folder}; set COTEMPO_DATA to the folder that holds networks/")
    return path


def papers_way(cls: Any, settings: Mapping[str, Any]) -> Callable[[Any], Ranking]:
    """Fit one of the papers' methods, and rank by their score."""
    method = cls(**{name: value for name, value in settings.items() if name in cls.model_fields})
    return lambda clients: papers_score(method.fit(clients).network)


def scored_way(**settings: Any) -> Callable[[Any], Ranking]:
    """Rank by one of our scores."""
    return lambda clients: ct.rank_edges(clients, **settings)


def papers_score(network: Network) -> Ranking:
    """The papers' edge score: the elements of W and A added."""
    return Ranking(np.abs(network.within + network.across.sum(axis=0)), network.variables, "W + A")


def mean_rows(rows: Sequence[Mapping[str, Any]], by: Sequence[str], measures: Sequence[str]) -> list[dict[str, Any]]:
    """Means and standard errors of the measures over rows that agree in `by`, in order of appearance."""
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in by), []).append(row)
    found = []
    for key, group in groups.items():
        line: dict[str, Any] = {**dict(zip(by, key, strict=True)), "runs": len(group)}
        for name in measures:
            values = np.array([row[name] for row in group], dtype=float)
            line[name] = float(values.mean())
            line[f"{name}_se"] = float(values.std(ddof=1) / len(values) ** 0.5) if len(values) > 1 else float("nan")
        found.append(line)
    return found


def grouped(
    rows: Sequence[Mapping[str, Any]], group: str, bar: str, length: str
) -> tuple[list[str], dict[str, list[float]]]:
    """Rows as groups of bars: the groups' names, and for each bar its length in every group, NaN where it has none."""
    lengths = {(row[group], row[bar]): float(row[length]) for row in rows}
    groups = list(dict.fromkeys(row[group] for row in rows))
    bars = list(dict.fromkeys(row[bar] for row in rows))
    return groups, {one: [lengths.get((each, one), float("nan")) for each in groups] for one in bars}
