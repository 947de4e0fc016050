"""`command`: functions as commands that print lines for people or one JSON object for machines; texts of results."""

from __future__ import annotations

import inspect
import json
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
import typer.core

from cotempo.errors import printable

if TYPE_CHECKING:  # commands import what takes time when they run, so that --help does not
    from cotempo.federation.fitted import Fitted

typer.core.HAS_RICH = False  # it would escape the brackets of [required] in plain help
PLAIN = ContextVar("plain", default=False)  # whether the command at work was called with --quiet or --json
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
            PLAIN.set(quiet or as_json)
            try:
                lines, record, code = function(**options)
            except KeyboardInterrupt as stop:  # here, because typer would drop what the run noted
                print(*getattr(stop, "__notes__", ["interrupted"]), sep="\n", file=sys.stderr)
                return 130
            if as_json:
                print(json.dumps(dict(record)))
            elif not quiet:
                print(*map(printable, lines), sep="\n")
            return code

        own = inspect.signature(function, eval_str=True).parameters
        added = inspect.signature(run, eval_str=True).parameters
        parameters = [*own.values(), added["quiet"], added["as_json"]]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {one.name: one.annotation for one in parameters}
        app.command(name or function.__name__, help=function.__doc__)(run)
        return function

    return add


def shows_progress() -> bool | None:
    """Return whether this command shows progress: `None` leaves it to the terminal, --quiet and --json forbid it."""
    return False if PLAIN.get() else None


def count(number: int, word: str) -> str:
    """Return a number with its noun in the right form: 1 message, 2,000 messages."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def describe_result(fitted: Fitted, folder: Path, truth: Any) -> Output:
    """Return what a run learned."""
    found = fitted.summary(truth)
    benefit, scores = found["benefit"], found["scores"]
    lines = [fitted.headline()]
    if scores:
        lines.append("against the truth: " + ", ".join(f"{k.replace('_', ' ')} {v:.3g}" for k, v in scores.items()))
    if benefit and len(fitted.names) > 1:
        verdicts = Counter(item.verdict for item in benefit.values())
        metric = next(iter(benefit.values())).metric
        clients = ", ".join(f"{verdict}: {count(number, 'client')}" for verdict, number in verdicts.items())
        lines.append(f"did joining help? {clients} ({metric})")
    lines += found["advice"]
    if fitted.failures:
        were = "answer was" if len(fitted.failures) == 1 else "answers were"
        lines.append(f"{len(fitted.failures)} {were} left out; see {folder / 'log.jsonl'}")
    lines.append(f"Report: {folder / 'report.html'}")
    plain = {name: {**asdict(item), "verdict": item.verdict} for name, item in benefit.items()}
    return Output(lines, {**found, "clients": len(fitted.names), "benefit": plain, "run": str(folder)})


def describe_messages(client: str, records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return lines about everything a client sent, phase by phase, then step by step."""
    from cotempo.runs.dry_run import span

    total = sum(record["bytes"] for record in records)
    lines = [f"{client} sent {count(len(records), 'message')}, {total:,} bytes in all.", ""]
    for phase in dict.fromkeys(record["phase"] for record in records):
        first, *_ = group = [record for record in records if record["phase"] == phase]
        fate = "only their sum over clients is used" if first["summed"] else "each is used as it is"
        if phase.startswith("secure_sum/") or all(record.get("masked") for record in group):
            fate = "masked: only a sum over clients can be read"
        sizes = span(record["bytes"] for record in group)
        lines.append(f"Phase {phase!r}: {count(len(group), 'message')} of {sizes} bytes; {fate}.")
        for name, field in first["fields"].items():
            shapes = dict.fromkeys(str(record["fields"].get(name, field).get("shape")) for record in group)
            what = f"{field['dtype']} {', then '.join(shapes)}" if "shape" in field else "one value"
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
