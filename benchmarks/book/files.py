"""Result files: their rows, where they were measured, and the means and errors of what repeats over seeds."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "benchmarks" / "results"
Row = dict[str, str]
SETTINGS = {
    "share",
    "epsilon",
    "level",
    "learning_rate",
    "lambda_within",
    "lambda_across",
    "low",
    "high",
    "force",
    "step",
    "branching",
}
COUNTS = {"seed", "seeds", "runs", "took part", "edges", "released", "withheld"}


@dataclass(frozen=True)
class ResultFile:
    """One CSV file of `benchmarks/results` and the JSON file beside it."""

    name: str

    @cached_property
    def rows(self) -> list[Row]:
        """Return the rows as text."""
        with open(FOLDER / f"{self.name}.csv", newline="") as file:
            return list(csv.DictReader(file))

    @cached_property
    def about(self) -> dict[str, Any]:
        """Return seed, commit, date, machine and note."""
        found: dict[str, Any] = json.loads((FOLDER / f"{self.name}.json").read_text())
        return found

    @property
    def commits(self) -> list[str]:
        """Return the commits measured: those of the parts, where the file was made of parts, else its own."""
        return re.findall(r"commit (\w+\+?)", self.about.get("note", "")) or [self.about["commit"]]

    @property
    def state(self) -> str:
        """Return "clean"; "dirty" if uncommitted code was measured; "dirty table" if it only added up clean parts."""
        if any(commit.endswith("+") for commit in self.commits):
            return "dirty"
        return "dirty table" if self.about["commit"].endswith("+") else "clean"

    @cached_property
    def keys(self) -> list[str]:
        """Return the columns that say what a row is of: texts, whole numbers, and fractions that are settings."""
        return [name for name in self.rows[0] if name not in COUNTS and (name in SETTINGS or self._is_whole(name))]

    def _is_whole(self, name: str) -> bool:
        return all((value := number(row[name])) is None or value == int(value) for row in self.rows)

    def numbers(self, rows: Iterable[Row], columns: Iterable[str]) -> Iterator[float]:
        """Yield the numbers of some columns in these rows."""
        chosen = list(columns)
        yield from (value for row in rows for name in chosen if (value := number(row[name])) is not None)


def statistics(file: ResultFile, rows: list[Row], columns: list[str]) -> Iterator[float]:
    """Yield sum, mean, standard deviation and standard error of every column over rows that differ in the seed alone,
    and standard errors of deviations over a known number of seeds."""
    by_seed = _groups(rows, [*(name for name in file.keys if name != "client"), "seed"])
    for group in [*_groups(rows, file.keys).values(), *by_seed.values(), rows]:
        for name in columns:
            yield from _summary([value for row in group if (value := number(row[name])) is not None])
    for row in rows:
        seeds = number(row.get("seeds") or row.get("runs"))
        spread = file.numbers([row], [name for name in columns if re.search(r"_sd|deviation", name)])
        yield from (
            value / count**0.5 for value in spread for count in (seeds, (seeds or 0) - 1) if count and count > 0
        )


def differences(file: ResultFile, rows: list[Row], columns: list[str]) -> Iterator[float]:
    """Yield mean and standard error of what these rows differ by from all others, paired by seed."""
    every = _groups(file.rows, file.keys)
    for own in _groups(rows, file.keys).values():
        for other in every.values():
            for name in columns:
                pairs = [
                    (number(a[name]), number(b[name])) for a in own for b in other if a.get("seed") == b.get("seed")
                ]
                yield from _summary([b - a for a, b in pairs if a is not None and b is not None])
                yield from _summary([100 * (b / a - 1) for a, b in pairs if a and b])


def _groups(rows: list[Row], keys: list[str]) -> dict[tuple[str, ...], list[Row]]:
    found: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(row.get(name, "") for name in keys), []).append(row)
    return found


def _summary(values: list[float]) -> tuple[float, ...]:
    if len(values) < 2:
        return ()
    deviation = float(np.std(values, ddof=1))
    return sum(values), float(np.mean(values)), deviation, deviation / len(values) ** 0.5


@cache
def result_file(name: str) -> ResultFile:
    """Return a result file by its name: its path below `benchmarks/results` without `.csv`."""
    return ResultFile(name)


def all_names() -> list[str]:
    """Return the names of all result files, sorted."""
    return sorted(str(path.relative_to(FOLDER).with_suffix("")) for path in FOLDER.rglob("*.csv"))


def number(text: str | None) -> float | None:
    """Return a finite number written in a cell, or None."""
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if np.isfinite(value) else None
