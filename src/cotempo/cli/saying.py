"""How every command speaks: lines for people, one JSON object for machines, or nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

out = Console(highlight=False, soft_wrap=True)

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object, for machines.")]


def say(lines: Sequence[str], record: Mapping[str, Any], *, quiet: bool, as_json: bool) -> None:
    """Print for people or for machines."""
    if as_json:
        print(json.dumps(dict(record)))
    elif not quiet:
        for line in lines:
            out.print(escape(line))
