"""`emit` and the texts of results and messages: lines for people, one JSON object for machines."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.markup import escape

from cotempo.federation.exchange import Expect
from cotempo.federation.fitted import Fitted
from cotempo.federation.message import Message

out = Console(highlight=False, soft_wrap=True)

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object, for machines.")]


def emit(lines: Sequence[str], record: Mapping[str, Any], *, quiet: bool, as_json: bool) -> None:
    """Print lines for people, or a record as one JSON object."""
    if as_json:
        print(json.dumps(dict(record)))
    elif not quiet:
        for line in lines:
            out.print(escape(line))


def describe_result(fitted: Fitted, folder: Path, truth: Any) -> tuple[list[str], dict[str, Any]]:
    """Return what a run learned, as lines and as a record."""
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
    return lines, {**found, "clients": len(fitted.names), "benefit": plain, "run": str(folder)}


def describe_message(client: str, message: Message, expect: Expect) -> list[str]:
    """Return lines about a message before it is sent."""
    fate = "only its sum over clients is used" if expect.sums else "it is used as it is"
    lines = [f"{client} would send {message.nbytes:,} bytes (weight {message.weight:g}); {fate}:"]
    for name, value in message.items():
        what = f"{value.size:,} numbers {list(value.shape)}" if isinstance(value, np.ndarray) else repr(value)
        about = expect.fields[name].description if name in expect.fields else ""
        lines.append(f"  {name}: {what}{about and ': ' + about}")
    return lines


def describe_messages(client: str, records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return lines about everything a client sent, phase by phase, then step by step."""
    total = sum(record["bytes"] for record in records)
    lines = [f"{client} sent {len(records)} messages, {total:,} bytes in all.", ""]
    phases: dict[str, list[Mapping[str, Any]]] = {}
    for record in records:
        phases.setdefault(record["phase"], []).append(record)
    for phase, group in phases.items():
        first = group[0]
        fate = "only their sum over clients is used" if first["summed"] else "each is used as it is"
        lines.append(f"Phase {phase!r}: {len(group)} messages of {first['bytes']:,} bytes; {fate}.")
        for name, field in first["fields"].items():
            lines.append(f"  {name}: {_what(field)}{field['description'] and ': ' + field['description']}")
    lines.append("")
    for record in records:
        values = "; ".join(f"{name} {_values(field)}" for name, field in record["fields"].items())
        lines.append(f"step {record['step']} ({record['phase']}), weight {record['weight']:g}: {values}")
    return lines


def _what(field: Mapping[str, Any]) -> str:
    return f"{field['dtype']} {field['shape']}" if "shape" in field else "one value"


def _values(field: Mapping[str, Any]) -> str:
    if "value" in field:
        return f"{field['value']}"
    if "first" not in field:
        return "masked or sealed" if field["bytes"] else "empty"
    first = ", ".join(f"{value:.4g}" for value in field["first"])
    return f"from {field['smallest']:.4g} to {field['largest']:.4g}, beginning {first}"
