"""`cotempo`: demo, run, resume, report, check, make-data, messages; provision, server, client, ledger.

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
from cotempo.cli.output import Output, command, describe_dry_run, describe_messages, describe_result, shows_progress
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
EXIT_CODES = {ParameterError: 2, DataError: 3, QuorumError: 4, RunError: 5, EngineError: 6}
EngineName = Annotated[str | None, typer.Option("--engine", help="inprocess, flower-simulation or flower.")]
ServerPath = Annotated[Path | None, typer.Option("--server", help="The server's folder, for the engine flower.")]
RunPath = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")]


@command(app)
def demo(folder: Annotated[Path, typer.Option("--out", help="The report's folder.")] = Path("cotempo-demo")) -> Output:
    """Run one method of each family on generated data and write an HTML report."""
    from cotempo.cli.demo import run_demo

    return run_demo(folder, progress=shows_progress())


@command(app)
def run(
    experiment_file: Annotated[Path, typer.Argument(metavar="EXPERIMENT.toml", help="What to run on what.")],
    folder: Annotated[Path | None, typer.Option("--run", help="The run's folder; by default runs/<name>.")] = None,
    dry: Annotated[bool, typer.Option("--dry-run", help="Show what would be sent first; send nothing.")] = False,
    engine: EngineName = None,
    server: ServerPath = None,
) -> Output:
    """Run an experiment file."""
    experiment = Experiment.from_file(experiment_file, engine=engine, server=server)
    if dry and experiment.engine.is_remote:
        raise ParameterError("a dry run must have the data: run it at a site, on its table, with --engine inprocess")
    clients, truth = load_clients(experiment)
    if dry:
        return describe_dry_run(dry_run(experiment.make_method(), clients, seed=experiment.seed))
    folder = folder or Path("runs") / experiment.name
    fitted = run_experiment(experiment, clients, truth=truth, run=folder, progress=shows_progress())
    return describe_result(fitted, folder, truth)


@command(app, "resume")
def resume_run(run: RunPath, engine: EngineName = None, server: ServerPath = None) -> Output:
    """Continue a run that was stopped; the result is the same, bit for bit."""
    fitted = resume(run, engine=engine, server=server, progress=shows_progress())
    return describe_result(fitted, run, None)


@command(app)
def report(
    run: RunPath,
    path: Annotated[Path | None, typer.Option("--out", help="The page; by default report.html in the run.")] = None,
) -> Output:
    """Write the report of a finished run again."""
    if not (run / "result").is_dir():
        raise RunError(f"{run} must be a finished run, it has no result; continue with: cotempo resume {run}")
    truth = load_truth(Experiment.from_dict(read_experiment(run)))
    page = load(run / "result").report(path or run / "report.html", truth=truth)
    return Output([f"Report: {page}"], {"report": str(page)})


@command(app)
def check(
    source: Annotated[str, typer.Argument(metavar="DATA", help="A CSV or Parquet file, or a folder of them.")],
    kind: Annotated[str | None, typer.Option(help="events, series or posts; by default by the columns.")] = None,
) -> Output:
    """Describe a table and list what is wrong with it."""
    kind = kind or data.detect_kind(source)
    check_choice("kind", kind, data.READERS)
    description = data.describe(data.READERS[kind](source))
    return Output(list(description.lines()), description.to_dict())


@command(app, "make-data")
def make_data(
    name: Annotated[str, typer.Argument(metavar="NAME", help="networks, lorenz96, events, series or posts.")],
    folder: Annotated[Path, typer.Option("--out", help="A new or empty folder.")],
    seed: Annotated[int, typer.Option(help="Seed of all random numbers.")] = 0,
    options: Annotated[list[str] | None, typer.Option("--set", help="A generator's option, like clients=9.")] = None,
    each: Annotated[bool, typer.Option("--each", help="One file per client, named after it.")] = False,
) -> Output:
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
    files = {key: {key: clients[key]} for key in clients} if each else {name: clients}
    paths = [path for stem, group in files.items() for path in data.write_clients(group, folder / f"{stem}.csv")]
    if hasattr(truth, "to_frame"):
        paths.append(folder / "truth.csv")
        truth.to_frame().to_csv(paths[-1], index=False)
    record = {"clients": len(clients), "files": [str(path) for path in paths]}
    return Output([f"{len(clients)} clients in {paths[0]}", *map(str, paths[1:])], record)


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


@command(app)
def messages(run: RunPath, client: Annotated[str, typer.Option(help="Whose messages.")]) -> Output:
    """Show everything a client sent, in plain words."""
    records = read_lines(run / "messages.jsonl")
    known = ", ".join(sorted({record["client"] for record in records}))
    records = [record for record in records if record["client"] == client]
    if not records:
        raise RunError(f"client must be one of {known or 'nobody'}, whose messages {run} holds, got {client!r}")
    return Output(describe_messages(client, records), {"client": client, "messages": records})


command(app, "provision")(deploy.provision_kits)
app.add_typer(deploy.server, name="server")
app.add_typer(deploy.client, name="client")
app.add_typer(deploy.ledger, name="ledger")
program = click.version_option(cotempo.__version__, message="cotempo %(version)s")(typer.main.get_command(app))


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        code = program(args=arguments, standalone_mode=False)
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
        code = next((code for kind, code in EXIT_CODES.items() if isinstance(error, kind)), 1)
    sys.exit(code if isinstance(code, int) else 0)
