"""`cotempo rename`, `merge` and `split`: the events of a run as an analyst puts them right."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from cotempo.cli.models import RunPath, capable, load_result, save_result
from cotempo.cli.output import Output
from cotempo.errors import ParameterError

Client = Annotated[str | None, typer.Option(help="Whose events; needed where the run has several clients.")]
Event = Annotated[str, typer.Argument(metavar="EVENT", help="The name of an event, as cotempo export shows it.")]


def rename(
    run: RunPath,
    event: Event,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its new name.")],
    client: Client = None,
) -> Output:
    """Give an event of a run another name, such as one that was found without a label."""
    return _change(run, client, lambda model: model.rename(event, name))


def merge(
    run: RunPath,
    events: Annotated[list[str], typer.Argument(metavar="EVENT...", help="The names of two events or more.")],
    into: Annotated[str | None, typer.Option(help="The name of the one; by default that of the largest.")] = None,
    client: Client = None,
) -> Output:
    """Make one event of several in a run."""
    return _change(run, client, lambda model: model.merge(*events, into=into))


def split(
    run: RunPath,
    event: Event,
    parts: Annotated[int, typer.Option(help="How many events to make of it.")] = 2,
    client: Client = None,
) -> Output:
    """Split an event of a run into several: EVENT-1, EVENT-2 and so on."""
    return _change(run, client, lambda model: model.split(event, parts))


def _change(run: Path, client: str | None, change: Callable[[Any], Any]) -> Output:
    """Change the events of a client, and save the run with them and a new report."""
    fitted = load_result(run)
    if client is None and len(fitted.names) > 1:
        raise ParameterError(f"--client must say whose events, one of {', '.join(fitted.names)}")
    name = client or fitted.names[0]
    model = capable(fitted[name], ("rename",), fitted)
    before = {record.name for record in model.store.events}
    change(model)
    after = {record.name for record in model.store.events}
    gone, new = sorted(before - after), sorted(after - before)
    lines = [f"{name}: {', '.join(gone) or 'nothing'} gone, {', '.join(new) or 'nothing'} new"]
    return Output([*lines, *save_result(fitted, run)], {"client": name, "gone": gone, "new": new})
