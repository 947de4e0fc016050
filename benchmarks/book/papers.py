"""`docs/papers.md`: every table and figure of the papers, ours beside the printed, made of `papers.toml`.

python benchmarks/book/papers.py      writes the page; a test fails if it is out of date
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from book.files import ROOT, number, result_file
from book.registry import read_papers

PAGE = ROOT / "docs" / "papers.md"
HEAD = """# The papers' tables and figures

One row for each table and figure of the five papers: the benchmark that measures it (`cotempo bench run NAME` in a
checkout, `cotempo bench table NAME` prints all of its numbers), the seeds, ours, what the paper printed, and a verdict.
Errors are standard errors over seeds where a result file has them by seed. Rows that were not run say so. This page is
made of `benchmarks/book/papers.toml` and the result files: `python benchmarks/book/papers.py`.
"""


def render() -> str:
    """Return the page."""
    lines = [HEAD]
    for paper in read_papers():
        lines += [f"## {paper['short']}", "", f"*{paper['title']}.* {paper['note']}", ""]
        lines += ["| | what | benchmark | seeds | ours | printed | verdict |", "|---|---|---|---|---|---|---|"]
        for item in paper["item"]:
            ours, seeds = fill(item.get("ours", ""))
            bench = f"`{item['bench']}`" if "bench" in item else ""
            cells = [item["item"], item["what"], bench, seeds, ours, item.get("printed", ""), item["verdict"]]
            lines.append("| " + " | ".join(cells) + " |")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def fill(text: str) -> tuple[str, str]:
    """Return a text with every reference to a result file replaced by its value, and how many seeds are behind them."""
    seeds: dict[str, None] = {}

    def replace(found: re.Match[str]) -> str:
        value, count = look_up(*(part.strip() for part in found[1].split("|")))
        seeds[count] = None
        return value

    return re.sub(r"\{(.*?)\}", replace, text), ", ".join(seeds)


def look_up(name: str, where: str, column: str, form: str) -> tuple[str, str]:
    """Return the mean of a column over the rows meant, with its standard error if they are of seeds, and how many."""
    wanted = dict(pair.split("=", 1) for pair in where.split(" & "))
    rows = [row for row in result_file(name).rows if all(row[key] == value for key, value in wanted.items())]
    values = [value for row in rows if (value := number(row[column])) is not None]
    if not values or (len(values) > 1 and "seed" not in rows[0]):
        raise ValueError(f"{name} must hold one row, or one for each seed, where {where}, got {len(values)}")
    mean = sum(values) / len(values)
    if len(values) == 1:
        return f"{mean:{form}}", "1" if "seed" in rows[0] else seeds_of(name, rows[0])
    error = (sum((value - mean) ** 2 for value in values) / (len(values) - 1) / len(values)) ** 0.5
    return f"{mean:{form}} ± {error:{form}}", str(len(values))


def seeds_of(name: str, row: dict[str, str]) -> str:
    """Return how many seeds a row is the mean of, or what its file says of them."""
    seed = result_file(name).about["seed"]
    if row.get("seeds") or row.get("runs") or isinstance(seed, list):
        return row.get("seeds") or row.get("runs") or str(len(seed))
    ends = re.fullmatch(r"(\d+) to (\d+)", str(seed))
    return str(int(ends[2]) - int(ends[1]) + 1) if ends else "1"


if __name__ == "__main__":
    PAGE.write_text(render())
