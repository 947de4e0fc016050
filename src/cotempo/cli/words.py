"""Results and messages in plain words."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cotempo.federation.exchange import Expect
from cotempo.federation.fitted import Fitted
from cotempo.federation.message import Message


def describe_result(fitted: Fitted, folder: Path, truth: Any) -> tuple[list[str], dict[str, Any]]:
    """What came out, for people and for machines."""
    seconds = sum(record["seconds"] for record in fitted.history)
    scores = dict(fitted.scores(truth)) if truth is not None else {}
    benefit = fitted.benefit
    helped = sum(item.helped for item in benefit.values())
    name = type(fitted.method).__name__
    lines = [f"{name}: {len(fitted.names)} clients, {fitted.rounds} rounds, {seconds:.2f} s"]
    if scores:
        lines.append("against the truth: " + ", ".join(f"{k.replace('_', ' ')} {v:.3g}" for k, v in scores.items()))
    if benefit:
        metric = next(iter(benefit.values())).metric
        lines.append(f"joining helped {helped} of {len(benefit)} clients ({metric})")
    if fitted.failures:
        lines.append(f"{len(fitted.failures)} answers were left out; see {folder / 'log.jsonl'}")
    lines.append(f"Report: {folder / 'report.html'}")
    record = {
        "method": name, "clients": len(fitted.names), "rounds": fitted.rounds, "seconds": seconds, "scores": scores,
        "benefit": {client: dataclasses.asdict(item) for client, item in benefit.items()},
        "failures": fitted.failures, "digest": fitted.digest, "run": str(folder),
    }  # fmt: skip
    return lines, record


def describe_message(client: str, message: Message, expect: Expect) -> list[str]:
    """A message before it leaves."""
    fate = "only its sum over clients is used" if expect.sums else "it is used as it is"
    lines = [f"{client} would send {message.nbytes:,} bytes (weight {message.weight:g}); {fate}:"]
    for name, value in message.items():
        what = f"{value.size:,} numbers {list(value.shape)}" if isinstance(value, np.ndarray) else repr(value)
        about = expect.fields[name].description if name in expect.fields else ""
        lines.append(f"  {name}: {what}{about and ': ' + about}")
    return lines


def describe_messages(client: str, records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Everything a client sent, phase by phase, then step by step."""
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
        return "empty"
    first = ", ".join(f"{value:.4g}" for value in field["first"])
    return f"from {field['smallest']:.4g} to {field['largest']:.4g}, beginning {first}"
