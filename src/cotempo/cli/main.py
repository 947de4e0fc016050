"""`cotempo`: init, methods, doctor, demo, run, resume, watch, report, messages, audit; check, survey,
make-data; predict, next, count, impute, sample, release, detect, update, rename, merge, split, export; provision,
server, client, ledger; bench.

Exit codes: 0 done; 1 an unexpected error; 2 wrong usage or parameters; 3 something is wrong with the data;
4 paused, below quorum or until people at sites approve, can be resumed; 5 a run folder cannot be used as asked;
6 an engine, a server or a site cannot be reached or refuses; 130 interrupted.
"""

import json
import shutil
import sys
import uuid
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

import cotempo
from cotempo.cli import audit, bench, doctor, models, start, tables, watch
from cotempo.cli.consortium import approve, deploy, ledger, steer
from cotempo.cli.examples import add_examples
from cotempo.cli.output import Output, command, describe_messages, describe_result, shows_progress
from cotempo.cli.posts import curate, stream
from cotempo.errors import (
    AdviceWarning,
    AwaitingApproval,
    CotempoError,
    DataError,
    EngineError,
    ParameterError,
    QuorumError,
    RunError,
    printable,
)

app = typer.Typer(
    help="Learn together from time-stamped data that must not leave its owners.",
    epilog=(__doc__ or "").split("\n\n", 1)[1].replace("\n", " "),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    suggest_commands=False,  # click suggests already
)
USAGE_ERROR: Any = typer.BadParameter.__mro__[2]  # click's, which newer versions of typer bring along
EXIT_CODES = {ParameterError: 2, DataError: 3, QuorumError: 4, AwaitingApproval: 4, RunError: 5, EngineError: 6}
EngineName = Annotated[str | None, typer.Option("--engine", help="inprocess, flower-simulation or flower.")]
ServerPath = Annotated[Path | None, typer.Option("--server", help="The server's folder, for the engine flower.")]
RunPath = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")]

command(app, "init")(start.write_experiment)
command(app, "methods")(start.list_methods)
command(app, "doctor")(doctor.examine)


@command(app)
def demo(folder: Annotated[Path, typer.Option("--out", help="The report's folder.")] = Path("cotempo-demo")) -> Output:
    """Run one method of each family on generated data and write an HTML report."""
    from cotempo.cli.demo import run_demo

    return run_demo(folder, progress=shows_progress())


@command(app)
def run(
    experiment_file: Annotated[Path, typer.Argument(metavar="EXPERIMENT.toml", help="What to run on what.")],
    folder: Annotated[Path | None, typer.Option("--run", help="The run's folder; by default runs/<name>.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier run in that folder.")] = False,
    dry: Annotated[bool, typer.Option("--dry-run", help="Show everything that would be sent; send nothing.")] = False,
    engine: EngineName = None,
    server: ServerPath = None,
) -> Output:
    """Run an experiment file."""
    from cotempo.runs import run as runs
    from cotempo.runs.experiment import Experiment, load_clients, load_public

    experiment = Experiment.from_file(experiment_file, engine=engine, server=server)
    if dry and experiment.engine.is_remote:
        raise ParameterError("a dry run must have the data: run it at a site, on its table, with --engine inprocess")
    clients, truth = load_clients(experiment)
    if dry:
        from cotempo.runs.dry_run import dry_run

        found = dry_run(
            experiment.make_method(), clients, public=load_public(experiment), seed=experiment.seed,
            cohort=experiment.cohort, privacy=experiment.privacy, progress=shows_progress(),
        )  # fmt: skip
        return Output(found.lines(), {"bytes": found.sizes, "messages": list(found.messages)})
    folder = folder or Path("runs") / experiment.name
    with _replaced(folder) if force else nullcontext():
        fitted = runs.run(experiment, clients, truth=truth, run=folder, progress=shows_progress())
    return describe_result(fitted, folder, truth)


@contextmanager
def _replaced(folder: Path) -> Iterator[None]:
    """Set a run aside; delete it once a new one stands in its place, else put it back.

    A folder that holds anything else is refused.
    """
    from cotempo.runs.folder import RunFolder

    if not folder.exists() or not any(folder.iterdir()):
        yield
        return
    RunFolder.reopen(folder).close()  # it is a run, and nobody is running it
    aside = folder.with_name(f".{folder.name}.{uuid.uuid4().hex[:8]}")
    folder.rename(aside)
    is_awaited = False
    try:
        yield
    except AwaitingApproval:
        is_awaited = True
        raise
    finally:
        if is_awaited or any(folder.glob("checkpoints/*")):  # method and tables were accepted
            shutil.rmtree(aside)
        else:
            shutil.rmtree(folder, ignore_errors=True)
            aside.rename(folder)


@command(app, "resume")
def resume_run(run: RunPath, engine: EngineName = None, server: ServerPath = None) -> Output:
    """Continue a run that was stopped; the result is the same, bit for bit."""
    from cotempo.runs.run import resume

    fitted = resume(run, engine=engine, server=server, progress=shows_progress())
    return describe_result(fitted, run, None)


command(app)(watch.watch)


@command(app)
def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="The folder of a run, or several to compare.")],
    path: Annotated[
        Path | None, typer.Option("--out", help="The page; by default report.html in the run, or comparison.html here.")
    ] = None,
) -> Output:
    """Write the report of a finished run again, or compare several runs client by client, each with the first."""
    from cotempo.report import write_comparison
    from cotempo.runs.experiment import Experiment, load_truth
    from cotempo.runs.folder import read_experiment

    results, truths = {run: models.load_result(run) for run in runs}, {}
    kept = [run for run in results if (run / "experiment.toml").is_file()]
    for run in kept:
        truths[run] = load_truth(Experiment.from_dict(read_experiment(run)))
    if len(runs) == 1:
        (run, fitted), *_ = results.items()
        page = fitted.report(path or run / "report.html", truth=truths.get(run), run=run if kept else None)
    else:
        if len(results) < len(runs):
            raise ParameterError(f"runs to compare must be different folders, got {', '.join(map(str, runs))}")
        short = len({run.resolve().name for run in runs}) == len(runs)
        names = {run: run.resolve().name if short else str(run) for run in runs}
        page = write_comparison(
            {names[run]: fitted for run, fitted in results.items()},
            path or Path("comparison.html"),
            {names[run]: truth for run, truth in truths.items()},
        )
    return Output([f"Report: {page}"], {"report": str(page)})


@command(app)
def messages(run: RunPath, client: Annotated[str, typer.Option(help="Whose messages.")]) -> Output:
    """Show everything a client sent, in plain words."""
    from cotempo.runs.folder import read_lines

    records = read_lines(run / "messages.jsonl")
    known = ", ".join(sorted({record["client"] for record in records}))
    records = [record for record in records if record["client"] == client]
    if not records:
        raise RunError(f"client must be one of {known or 'nobody'}, whose messages {run} holds, got {client!r}")
    return Output(describe_messages(client, records), {"client": client, "messages": records})


command(app, "audit")(audit.audit_run)
command(app, "check")(tables.check)
command(app, "survey")(tables.survey_tables)
command(app, "make-data")(tables.make_data)
command(app, "next")(models.next_event)
command(app, "count")(models.count_events)
for verb in (models.predict, models.impute, models.sample, models.release, models.export):
    command(app)(verb)
command(app)(stream.detect)
command(app)(stream.update)
command(app)(curate.rename)
command(app)(curate.merge)
command(app)(curate.split)
command(app, "provision")(deploy.provision_kits)
app.add_typer(steer.server, name="server")
app.add_typer(approve.client, name="client")
app.add_typer(ledger.ledger, name="ledger")
app.add_typer(bench.bench, name="bench")


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"cotempo {cotempo.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Learn together from time-stamped data that must not leave its owners."""


program = typer.main.get_command(app)
add_examples(program)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    quiet = {"--quiet", "-q"} & {*arguments}

    def say(message: Warning | str, *_: Any, **__: Any) -> None:
        if not quiet and not isinstance(message, AdviceWarning):
            print(printable(f"warning: {message}"), file=sys.stderr)

    try:
        with warnings.catch_warnings():
            warnings.showwarning = say
            code = program(args=arguments, standalone_mode=False)
    except USAGE_ERROR as error:
        error.show()
        code = 2
    except typer.Abort:
        code = 130
    except CotempoError as error:
        if "--json" in arguments:
            print(json.dumps({"error": type(error).__name__, "message": str(error)}))
        else:
            print(printable(f"error: {error}"), file=sys.stderr)
        code = next((code for kind, code in EXIT_CODES.items() if isinstance(error, kind)), 1)
    sys.exit(code if isinstance(code, int) else 0)
