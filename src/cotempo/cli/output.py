"""`command`: functions as commands that print lines for people or one JSON object for machines; texts of results."""

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import click
import numpy as np
import typer

from cotempo.federation.exchange import Expect
from cotempo.federation.fitted import Fitted
from cotempo.federation.message import Message

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object, for machines.")]


class Output(NamedTuple):
    """What a command returns: lines for people, a record for machines, and its exit code."""

    lines: Sequence[str]
    record: Mapping[str, Any]
    code: int = 0


def command(app: typer.Typer, name: str | None = None) -> Callable[[Callable[..., Output]], Callable[..., Output]]:
    """Return a decorator that makes a function a command with --quiet and --json, which prints what it returns."""

    def add(function: Callable[..., Output]) -> Callable[..., Output]:
        def run(*, quiet: Quiet = False, as_json: Json = False, **options: Any) -> int:
            lines, record, code = function(**options)
            if as_json:
                print(json.dumps(dict(record)))
            elif not quiet:
                print(*lines, sep="\n")
            return code

        own, added = inspect.signature(function).parameters, inspect.signature(run).parameters
        parameters = [*own.values(), added["quiet"], added["as_json"]]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        app.command(name or function.__name__, help=function.__doc__)(run)
        return function

    return add


def shows_progress() -> bool | None:
    """Return whether this command shows progress: `None` leaves it to the terminal, --quiet and --json forbid it."""
    options = click.get_current_context().params
    return False if options["quiet"] or options["as_json"] else None


def describe_result(fitted: Fitted, folder: Path, truth: Any) -> Output:
    """Return what a run learned."""
    found = fitted.summary(truth)
    benefit, scores = found["benefit"], found["scores"]
    lines = [fitted.headline()]
    if scores:
        lines.append("against the truth: " + ", ".join(f"{k.replace('_', ' ')} {v:.3g}" for k, v in scores.items()))
    if benefit:
        metric = next(iter(benefit.values())).metric
        lines.append(f"joining helped {found['helped']} of {len(benefit)} clients ({metric})")
    if fitted.failures:
        lines.append(f"{len(fitted.failures)} answers were left out; see {folder / 'log.jsonl'}")
    lines.append(f"Report: {folder / 'report.html'}")
    plain = {name: asdict(item) for name, item in benefit.items()}
    return Output(lines, {**found, "clients": len(fitted.names), "benefit": plain, "run": str(folder)})


def describe_dry_run(messages: Mapping[str, tuple[Message, Expect]]) -> Output:
    """Return what each client would send first."""
    lines = []
    for client, (message, expect) in messages.items():
        fate = "only its sum over clients is used" if expect.sums else "it is used as it is"
        lines.append(f"{client} would send {message.nbytes:,} bytes (weight {message.weight:g}); {fate}:")
        for name, value in message.items():
            what = f"{value.size:,} numbers {list(value.shape)}" if isinstance(value, np.ndarray) else repr(value)
            about = expect.fields[name].description if name in expect.fields else ""
            lines.append(f"  {name}: {what}{about and ': ' + about}")
    record = {name: {"bytes": message.nbytes, "fields": sorted(message)} for name, (message, _) in messages.items()}
    return Output(lines or ["Nothing is sent in the first step."], record)


def describe_messages(client: str, records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return lines about everything a client sent, phase by phase, then step by step."""
    total = sum(record["bytes"] for record in records)
    lines = [f"{client} sent {len(records)} messages, {total:,} bytes in all.", ""]
    for phase in dict.fromkeys(record["phase"] for record in records):
        first, *_ = group = [record for record in records if record["phase"] == phase]
        fate = "only their sum over clients is used" if first["summed"] else "each is used as it is"
        lines.append(f"Phase {phase!r}: {len(group)} messages of {first['bytes']:,} bytes; {fate}.")
        for name, field in first["fields"].items():
            what = f"{field['dtype']} {field['shape']}" if "shape" in field else "one value"
            lines.append(f"  {name}: {what}{field['description'] and ': ' + field['description']}")
    lines.append("")
    for record in records:
        values = "; ".join(f"{name} {_values(field)}" for name, field in record["fields"].items())
        lines.append(f"step {record['step']} ({record['phase']}), weight {record['weight']:g}: {values}")
    return lines


def _values(field: Mapping[str, Any]) -> str:
    if "first" not in field:
        return str(field.get("value", "masked or sealed" if field.get("bytes") else "empty"))
    first = ", ".join(f"{value:.4g}" for value in field["first"])
    return f"from {field['smallest']:.4g} to {field['largest']:.4g}, beginning {first}"
