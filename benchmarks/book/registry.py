"""The benchmarks of `book.toml`: list them, run one, and print its results with the papers' numbers beside them."""

from __future__ import annotations

import shlex
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import numpy as np

from book.files import ROOT, ResultFile, all_names, number, result_file

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Benchmark:
    """A question, the commands that answer it, and the patterns of the result files they write."""

    name: str
    question: str
    command: list[str]
    patterns: list[str]

    @property
    def results(self) -> list[str]:
        """Return the names of the result files that are there."""
        return [name for name in all_names() if any(fnmatch(name, pattern) for pattern in self.patterns)]

    @property
    def script(self) -> Path:
        """Return the script of the first command."""
        return ROOT / "benchmarks" / shlex.split(self.command[0])[0]

    def run(self) -> int:
        """Run the commands, one after the other; return the first exit code that is not 0."""
        for command in self.command:
            script, *options = shlex.split(command)
            print(f"benchmarks/{command}", flush=True)
            ended = subprocess.run([sys.executable, f"benchmarks/{script}", *options], cwd=ROOT)
            if ended.returncode:
                return ended.returncode
        return 0


def read_book() -> dict[str, Benchmark]:
    """Return all benchmarks by name."""
    found = tomllib.loads((HERE / "book.toml").read_text())
    return {name: Benchmark(name, one["question"], one["command"], one["results"]) for name, one in found.items()}


def read_papers() -> list[dict[str, Any]]:
    """Return the papers with their tables and figures, as `papers.toml` has them."""
    found: list[dict[str, Any]] = tomllib.loads((HERE / "papers.toml").read_text())["paper"]
    return found


def list_lines() -> list[str]:
    """Return a line for every benchmark: name, question, paper, files, commits and whether they are clean."""
    places: dict[str, list[str]] = {}
    for paper in read_papers():
        for item in paper["item"]:
            if item.get("bench"):
                places.setdefault(item["bench"], []).append(f"{paper['short']} {item['item']}")
    lines = []
    for one in read_book().values():
        files = [result_file(name) for name in one.results]
        states = sorted({file.state for file in files})
        commits = sorted({commit for file in files for commit in file.commits})
        measured = f"{len(files)} files, commits {', '.join(commits)}, {' and '.join(states)}" if files else "no result"
        paper = f" [{'; '.join(places[one.name])}]" if one.name in places else ""
        lines += [f"{one.name}: {one.question}{paper}", f"    {measured}"]
    return lines


def table_lines(one: Benchmark) -> list[str]:
    """Return the results of a benchmark as tables, seeds as mean and standard error, then what the papers printed."""
    lines = []
    for name in one.results:
        file = result_file(name)
        lines += [f"{name} (seeds {file.about['seed']}, commit {', '.join(file.commits)}, {file.state})", ""]
        lines += [*_markdown(over_seeds(file)), ""]
    for paper in read_papers():
        for item in paper["item"]:
            if item.get("bench") == one.name:
                lines.append(f"printed, {paper['short']} {item['item']}: {item.get('printed', 'a picture')}")
    return lines


def table_records(one: Benchmark) -> dict[str, Any]:
    """Return the result files of a benchmark for machines: what is known about each, and its rows as they stand."""
    return {
        name: {
            "about": (file := result_file(name)).about,
            "rows": [
                {key: text if (value := number(text)) is None else value for key, text in row.items()}
                for row in file.rows
            ],
        }
        for name in one.results
    }


def over_seeds(file: ResultFile) -> list[dict[str, str]]:
    """Return the rows of a file; where it has one per seed, means and standard errors over them."""
    if "seed" not in file.rows[0]:
        return file.rows
    groups: dict[tuple[str, ...], list[dict[str, str]]] = {}
    for row in file.rows:
        groups.setdefault(tuple(row[key] for key in file.keys), []).append(row)
    found = []
    for key, rows in groups.items():
        line = dict(zip(file.keys, key, strict=True)) | {"seeds": str(len(rows))}
        for name in file.rows[0]:
            values = [value for row in rows if (value := number(row[name])) is not None]
            if name not in (*file.keys, "seed"):
                line[name] = mean_and_error(values)
        found.append(line)
    return found


def mean_and_error(values: list[float]) -> str:
    """Return mean and standard error in words, without the error where there is one value."""
    if len(values) < 2:
        return "".join(f"{value:.4g}" for value in values)
    return f"{np.mean(values):.4g} ± {np.std(values, ddof=1) / len(values) ** 0.5:.2g}"


def _markdown(rows: list[dict[str, str]]) -> list[str]:
    names = list(rows[0])
    cells = [names, *([row[name] for name in names] for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(names))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in cells
    ]
    return [lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]]
