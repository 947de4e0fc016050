"""`cotempo audit`: repeat a run with canaries, and say what a reader of its messages finds."""

import json
from pathlib import Path
from typing import Annotated

import typer

from cotempo.cli.output import Output
from cotempo.errors import RunError


def audit_run(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run whose data are on this machine.")],
    canaries: Annotated[int, typer.Option(help="How many canaries at most.")] = 100,
    weigh_rows: Annotated[bool, typer.Option("--weigh-rows", help="Weigh rows of series, as sites do.")] = False,
    ledger: Annotated[Path | None, typer.Option(help="A site's ledger, to combine sums of past runs.")] = None,
) -> Output:
    """Repeat a run with canaries and attack it: a lower bound of epsilon, and what can be reconstructed.

    Messages of a run are not kept: the same seed makes the same ones again. Writes audit.json, and the finding into the
    run's result and report.
    """
    from cotempo.auditing import audit
    from cotempo.federation.fitted import load
    from cotempo.runs.experiment import Experiment, load_clients, load_public, load_truth
    from cotempo.runs.folder import read_experiment

    experiment = Experiment.from_dict(read_experiment(run))  # imports a method of one's own
    fitted = load(run)
    if experiment.engine.is_remote:
        raise RunError(
            f"{run} must be a run whose messages can be made again, its sites hold the tables; at a site, audit the "
            "method on tables like its own: cotempo.audit(method, clients, privacy=...) from Python"
        )
    if experiment.data is None:
        raise RunError(
            f"{run} must say where its data are, it was started on tables in memory and messages are not kept; give "
            "them again: cotempo.audit(method, clients, privacy=...) from Python"
        )
    clients, _ = load_clients(experiment)
    found = audit(
        experiment.make_method(), clients, privacy=experiment.privacy, public=load_public(experiment),
        weigh_rows=weigh_rows, canaries=canaries, seed=experiment.seed,
        ledger=ledger,
    )  # fmt: skip
    (run / "audit.json").write_text(json.dumps(found.to_dict(), indent=1))
    fitted.privacy["audit"] = found.sentence()
    fitted.save(run / "result")
    report = fitted.report(run / "report.html", truth=load_truth(experiment), run=run)
    lines = [f"{name}: {value:.3g} ({about})" for name, value, about in found.rows()]
    lines += [one.sentence() for one in found.differences]
    return Output([repr(found)[1:-1], *lines, f"Report: {report}"], found.to_dict(), 0 if found.holds else 1)
