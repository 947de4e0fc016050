"""`cotempo detect` and `update`: the events of new posts."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from cotempo.cli.models import Client, Given, OutPath, RunPath, apply, capable, load_result, read_like, save_result
from cotempo.cli.output import Output, count


def detect(
    run: RunPath,
    given: Given,
    out: OutPath,
    events: Annotated[int | None, typer.Option(help="Group the posts into so many new events instead.")] = None,
    client: Client = None,
) -> Output:
    """Name the event of every post, with a confidence; labels in INPUT are kept as a column `label`."""

    def named(model: Any, table: Any) -> Any:
        found, frame = model.detect(table, events), table.to_frame()
        frame = frame.rename(columns={"event": "label"}) if "label" not in frame else frame
        return frame.assign(event=found.event, confidence=found.confidence)

    return apply(run, given, out, client, ("detect",), named)


def update(run: RunPath, given: Given, client: Client = None) -> Output:
    """Take in the next posts of a stream: groups of outliers become events, and RUN is saved with them."""
    fitted = load_result(run)
    tables = read_like(run, fitted, given, client)
    models = {name: capable(fitted[name], ("partial_fit",), fitted) for name in tables}
    lines, record = [], {}
    for name, table in tables.items():
        before = {one.name for one in models[name].store.events}
        known = table.rows - models[name].without_known(models[name].read(table)).rows
        models[name].partial_fit(table)
        new = sorted(one.name for one in models[name].store.events if one.name not in before)
        again = f", {known} of them taken in before and left out now" if known else ""
        lines.append(f"{name}: {count(table.rows, 'post')}{again}; new events: {', '.join(new) or 'none'}")
        record[name] = {"posts": table.rows, "known": known, "new": new}
    return Output([*lines, *save_result(fitted, run), "See cotempo export and cotempo detect."], record)
