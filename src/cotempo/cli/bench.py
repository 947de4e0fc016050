"""`cotempo bench`: the benchmark book of a checkout of the repository."""

import importlib
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from cotempo.cli.output import Output, command
from cotempo.errors import ParameterError, nearest

bench = typer.Typer(
    help="List, run, print and check the benchmarks of a checkout.", no_args_is_help=True, rich_markup_mode=None
)
Name = Annotated[str, typer.Argument(metavar="NAME", help="A benchmark; cotempo bench list names them.")]


@command(bench, "list")
def list_benchmarks() -> Output:
    """List the benchmarks: question, place in a paper, results, commits, and whether these were clean."""
    lines = book().list_lines()
    return Output(lines, {"benchmarks": list(book().read_book())})


@command(bench, "run")
def run_benchmark(name: Name) -> Output:
    """Run a benchmark; it writes its files to benchmarks/results. Commit first: a result names its commit."""
    code = chosen(name).run()
    return Output([f"{name}: " + ("done" if code == 0 else f"ended with exit code {code}")], {"code": code}, code)


@command(bench, "table")
def print_table(name: Name) -> Output:
    """Print a benchmark's results, seeds as mean and standard error, and the papers' numbers, marked as printed."""
    one = chosen(name)
    if not one.results:
        raise ParameterError(f"{name} must have results to print, got none; measure with: cotempo bench run {name}")
    return Output(book().table_lines(one), {"results": book().table_records(one)})


@command(bench, "check")
def check_pages() -> Output:
    """Compare README and docs with the result files; exit code 3 if a number, a file or a command is wrong."""
    found = book("check").check()
    record = {"wrong": found.wrong, "tied": found.tied, "by_hand": sum(found.by_hand.values()), "dirty": found.dirty}
    return Output(found.lines, record, 3 if found.wrong else 0)


def book(module: str = "registry") -> Any:
    """Return a module of the checkout that the working folder lies in; the book is no part of the installed package."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / "benchmarks" / "book" / "book.toml").is_file():
            if str(folder / "benchmarks") not in sys.path:
                sys.path.insert(0, str(folder / "benchmarks"))
            return importlib.import_module(f"book.{module}")
    raise ParameterError(
        f"the working folder must lie in a checkout of the repository, which holds benchmarks/book, got {here}; "
        "clone the repository and run cotempo bench there"
    )


def chosen(name: str) -> Any:
    """Return a benchmark by its name."""
    benchmarks = book().read_book()
    if name not in benchmarks:
        raise ParameterError(
            f"NAME must be a benchmark{nearest(name, benchmarks)}, got {name!r}; see: cotempo bench list"
        )
    return benchmarks[name]
