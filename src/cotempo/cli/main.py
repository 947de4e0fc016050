"""`cotempo`: demo, run, resume, report, check, make-data, messages; provision, server, client.

Exit codes: 0 done; 1 an unexpected error; 2 wrong usage or parameters; 3 something is wrong with the data;
4 paused below quorum, can be resumed; 5 a run folder cannot be used as asked;
6 an engine, a server or a site cannot be reached or refuses; 130 interrupted.
"""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import click
import typer

import cotempo
from cotempo import data
from cotempo.cli import deploy
from cotempo.cli.output import Json, Quiet, describe_message, describe_messages, describe_result, emit
from cotempo.data.argument_checks import check_choice
from cotempo.errors import CotempoError, DataError, EngineError, ParameterError, QuorumError, RunError
from cotempo.federation.fitted import load
from cotempo.runs.experiment import Experiment, generators, load_clients, load_truth
from cotempo.runs.folder import read_experiment, read_lines
from cotempo.runs.run import dry_run, resume
from cotempo.runs.run import run as run_experiment

app = typer.Typer(
    help="Learn together from time-stamped data that must not leave its owners.",
    epilog=(__doc__ or "").split("\n\n", 1)[1].replace("\n", " "),
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
EngineName = Annotated[
    str | None, typer.Option("--engine", help="inprocess, flower-simulation or flower; by default the file's.")
]
ServerPath = Annotated[Path | None, typer.Option("--server", help="The server's folder, for the engine flower.")]
RunPath = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")]


def _version(wanted: bool) -> None:
    if wanted:
        print(f"cotempo {cotempo.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@app.command()
def demo(
    folder: Annotated[Path, typer.Option("--out", help="Where the report goes.")] = Path("cotempo-demo"),
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Run one method of each family on generated data and write an HTML report."""
    from cotempo.cli.demo import run_demo

    lines, record = run_demo(folder, progress=False if quiet or as_json else None)
    emit(lines, record, quiet=quiet, as_json=as_json)


@app.command()
def run(
    experiment_file: Annotated[Path, typer.Argument(metavar="EXPERIMENT.toml", help="What to run on what.")],
    folder: Annotated[Path | None, typer.Option("--run", help="The run's folder; by default runs/<name>.")] = None,
    dry: Annotated[bool, typer.Option("--dry-run", help="Show what would be sent first; send nothing.")] = False,
    engine: EngineName = None,
    server: ServerPath = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Run an experiment file."""
    experiment = Experiment.from_file(experiment_file, engine=engine, server=server)
    if dry and experiment.engine.is_remote:
        raise ParameterError("a dry run must have the data: run it at a site, on its table, with --engine inprocess")
    clients, truth = load_clients(experiment)
    if dry:
        messages = dry_run(experiment.make_method(), clients, seed=experiment.seed)
        lines = [
            line for name, (message, expect) in messages.items() for line in describe_message(name, message, expect)
        ]
        record = {name: {"bytes": message.nbytes, "fields": sorted(message)} for name, (message, _) in messages.items()}
        emit(lines or ["Nothing is sent in the first step."], record, quiet=quiet, as_json=as_json)
        return
    folder = folder or Path("runs") / experiment.name
    progress = False if quiet or as_json else None
    fitted = run_experiment(experiment, clients, truth=truth, run=folder, progress=progress)
    emit(*describe_result(fitted, folder, truth), quiet=quiet, as_json=as_json)


@app.command(name="resume")
def resume_run(
    run: RunPath,
    engine: EngineName = None,
    server: ServerPath = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Continue a run that was stopped; the result is the same, bit for bit."""
    fitted = resume(run, engine=engine, server=server, progress=False if quiet or as_json else None)
    emit(*describe_result(fitted, run, None), quiet=quiet, as_json=as_json)


@app.command()
def report(
    run: RunPath,
    path: Annotated[Path | None, typer.Option("--out", help="The page; by default report.html in the run.")] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Write the report of a finished run again."""
    if not (run / "result").is_dir():
        raise RunError(f"{run} must be a finished run, it has no result; continue with: cotempo resume {run}")
    truth = load_truth(Experiment.from_dict(read_experiment(run)))
    page = load(run / "result").report(path or run / "report.html", truth=truth)
    emit([f"Report: {page}"], {"report": str(page)}, quiet=quiet, as_json=as_json)


@app.command()
def check(
    source: Annotated[str, typer.Argument(metavar="DATA", help="A CSV or Parquet file, or a folder of them.")],
    kind: Annotated[str | None, typer.Option(help="events, series or posts; by default by the columns.")] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Describe a table and list what is wrong with it."""
    kind = kind or data.detect_kind(source)
    check_choice("kind", kind, data.READERS)
    description = data.describe(data.READERS[kind](source))
    emit(list(description.lines()), description.to_dict(), quiet=quiet, as_json=as_json)


@app.command(name="make-data")
def make_data(
    name: Annotated[str, typer.Argument(metavar="NAME", help="networks, lorenz96, events, series or posts.")],
    folder: Annotated[Path, typer.Option("--out", help="A new or empty folder.")],
    seed: Annotated[int, typer.Option(help="Seed of all random numbers.")] = 0,
    options: Annotated[
        list[str] | None, typer.Option("--set", help="An option of the generator, like variables=10.")
    ] = None,
    each: Annotated[bool, typer.Option("--each", help="One file per client, named after it.")] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Write generated data, a table with a column `client`, and the known truth."""
    known = generators()
    check_choice("the generator", name, known)
    if folder.exists() and any(folder.iterdir()):
        raise RunError(f"{folder} must be a new or empty folder")
    try:
        clients, truth = known[name](seed=seed, **_options(options or []))
    except CotempoError:
        raise
    except (TypeError, ValueError) as error:
        raise ParameterError(f"--set or --seed: {error}; fix or remove that option") from error
    folder.mkdir(parents=True, exist_ok=True)
    if each:
        paths = [path for key in clients for path in data.write_clients({key: clients[key]}, folder / f"{key}.csv")]
    else:
        paths = data.write_clients(clients, folder / f"{name}.csv")
    if hasattr(truth, "to_frame"):
        paths.append(folder / "truth.csv")
        truth.to_frame().to_csv(paths[-1], index=False)
    record = {"clients": len(clients), "files": [str(path) for path in paths]}
    emit([f"{len(clients)} clients in {paths[0]}", *map(str, paths[1:])], record, quiet=quiet, as_json=as_json)


def _options(pairs: list[str]) -> dict[str, Any]:
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


@app.command()
def messages(
    run: RunPath,
    client: Annotated[str, typer.Option(help="Whose messages.")],
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Show everything a client sent, in plain words."""
    records = [record for record in read_lines(run / "messages.jsonl") if record["client"] == client]
    if not records:
        known = sorted({record["client"] for record in read_lines(run / "messages.jsonl")})
        raise RunError(
            f"client must be one of {', '.join(known) or 'nobody'}, whose messages {run} holds, got {client!r}"
        )
    emit(describe_messages(client, records), {"client": client, "messages": records}, quiet=quiet, as_json=as_json)


app.command(name="provision")(deploy.provision_kits)
app.add_typer(deploy.server, name="server")
app.add_typer(deploy.client, name="client")


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        code = app(args=arguments, standalone_mode=False)
    except click.ClickException as error:
        error.show()
        code = 2
    except (click.Abort, KeyboardInterrupt):
        print("interrupted", file=sys.stderr)
        code = 130
    except CotempoError as error:
        if "--json" in arguments:
            print(json.dumps({"error": type(error).__name__, "message": str(error)}))
        else:
            print(f"error: {error}", file=sys.stderr)
        code = exit_code(error)
    sys.exit(code if isinstance(code, int) else 0)


def exit_code(error: CotempoError) -> int:
    """Return the exit code of an error's class."""
    kinds: list[tuple[type[CotempoError], int]] = [
        (ParameterError, 2), (DataError, 3), (QuorumError, 4), (RunError, 5), (EngineError, 6),
    ]  # fmt: skip
    return next((code for kind, code in kinds if isinstance(error, kind)), 1)
