"""`cotempo check`, `survey` and `make-data`: what tables hold, whether they fit together, and some with a truth."""

import inspect
import json
from pathlib import Path
from typing import Annotated, Any

import typer

from cotempo.cli.output import Output, count, shows_progress
from cotempo.errors import ParameterError, RunError

GENERATORS = "networks, lorenz96, events, posts or series"  # a test holds it to `generators()`


def check(
    source: Annotated[
        str,
        typer.Argument(
            metavar="DATA", help="A CSV, TSV, Parquet or JSONL file, a folder of them, or an experiment (.toml)."
        ),
    ],
    kind: Annotated[str | None, typer.Option(help="events, series or posts; by default by the columns.")] = None,
) -> Output:
    """Describe a table and list what is wrong with it; names of columns, zones and windows stand in an experiment."""
    from cotempo import data
    from cotempo.data.argument_checks import check_choice

    if source.endswith(".toml"):
        from cotempo.runs.experiment import Experiment, load_clients

        if kind is not None:
            raise ParameterError(f"--kind must be left out with an experiment, whose method needs one, got {kind!r}")
        experiment = Experiment.from_file(source, engine="inprocess")
        description = data.describe(load_clients(experiment)[0], also=experiment.make_method().misled_by)
        return Output(list(description.lines()), description.to_dict())
    kind = kind or data.detect_kind(source)
    check_choice("kind", kind, data.READERS)
    description = data.describe(data.READERS[kind](source))
    return Output(list(description.lines()), description.to_dict())


def survey_tables(
    source: Annotated[
        str,
        typer.Argument(
            metavar="DATA", help="A CSV, TSV, Parquet or JSONL file, a folder of them, or an experiment (.toml)."
        ),
    ],
    kind: Annotated[str | None, typer.Option(help="events, series or posts; by default by the columns.")] = None,
) -> Output:
    """Compare clients' tables by sums before learning, and tell what is probably wrong with each."""
    from cotempo import data
    from cotempo.data.argument_checks import check_choice
    from cotempo.surveys import survey

    if source.endswith(".toml"):
        from cotempo.federation.registry import find_method
        from cotempo.runs.experiment import Experiment, load_clients

        if kind is not None:
            raise ParameterError(f"--kind must be left out with an experiment, whose method needs one, got {kind!r}")
        experiment = Experiment.from_file(source)
        engine = experiment.engine
        if engine.is_remote:  # a site finds the words of its own findings in the result it is sent
            engine = engine.model_copy(update={"share_result": True})
        fitted = survey(
            load_clients(experiment)[0] or None, kind=find_method(experiment.method).kind, engine=engine,
            seed=experiment.seed, privacy=experiment.privacy, progress=shows_progress(),
        )  # fmt: skip
    else:
        kind = kind or data.detect_kind(source)
        check_choice("kind", kind, data.READERS)
        fitted = survey(data.READERS[kind](source), kind=kind, progress=shows_progress())
    findings = {client: [vars(finding) for finding in own] for client, own in fitted.findings.items()}
    record = {"counts": fitted.counts, "findings": findings, "limits": fitted.limits}
    return Output(fitted.lines(), record, 3 if fitted.counts else 0)


def make_data(
    name: Annotated[str, typer.Argument(metavar="NAME", help=f"{GENERATORS}.")],
    folder: Annotated[Path | None, typer.Option("--out", help="A new or empty folder.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of all random numbers.")] = 0,
    options: Annotated[list[str] | None, typer.Option("--set", help="A generator's option, like clients=9.")] = None,
    each: Annotated[bool, typer.Option("--each", help="One file per client, named after it.")] = False,
) -> Output:
    """Write generated data, a table with a column `client`, and the known truth; without --out, list the options."""
    from cotempo import data
    from cotempo.data.argument_checks import check_choice
    from cotempo.runs.experiment import call_with, generators

    known = generators()
    check_choice("the generator", name, known)
    if folder is None:
        return describe_generator(name, known[name])
    if folder.exists() and any(folder.iterdir()):
        raise RunError(f"{folder} must be a new or empty folder")
    clients, truth = call_with(known[name], {"seed": seed, **parse_options(options or [])}, where="--set")
    folder.mkdir(parents=True, exist_ok=True)
    files = {key: {key: clients[key]} for key in clients} if each else {name: clients}
    paths = [path for stem, group in files.items() for path in data.write_clients(group, folder / f"{stem}.csv")]
    if hasattr(truth, "to_frame"):
        paths.append(folder / "truth.csv")
        truth.to_frame().to_csv(paths[-1], index=False)
    record = {"clients": len(clients), "files": [str(path) for path in paths]}
    return Output([f"{count(len(clients), 'client')} in {paths[0]}", *map(str, paths[1:])], record)


def describe_generator(name: str, function: Any) -> Output:
    """Return a generator's options and their defaults."""
    options = {key: one.default for key, one in inspect.signature(function).parameters.items()}
    about = inspect.cleandoc(function.__doc__ or "").partition("\n")[0]
    lines = [f"{name}: {about}", "Options, each by --set NAME=VALUE:", *(f"  {k} = {v}" for k, v in options.items())]
    return Output(lines, {"name": name, "options": {key: str(value) for key, value in options.items()}})


def parse_options(pairs: list[str]) -> dict[str, Any]:
    """Return ``NAME=VALUE`` texts as values by name; a value that is no JSON is text."""
    options: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals:
            raise ParameterError(f"--set must be NAME=VALUE, got {pair!r}")
        try:
            options[key] = json.loads(text)
        except ValueError:
            options[key] = text
    return options
