"""`cotempo watch`: the live page of a run or of a folder of runs, and its twin in the terminal."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cotempo.cli.output import PLAIN, Output

if TYPE_CHECKING:
    from cotempo.runs.state import RunState

EVERY_SECONDS = 1.0
SIGNS = {"answered": "●", "computing": "◐", "late": "◐", "refused": "■", "left out": "■", "gone": "□", "idle": "○"}


def watch(
    folder: Annotated[Path, typer.Argument(metavar="RUN|FOLDER", help="A run, or a folder of runs.")] = Path("runs"),
    plain: Annotated[bool, typer.Option("--plain", help="In the terminal; outside of one, once.")] = False,
) -> Output:
    """Follow runs on a page in your browser: state and time left, sites, curves, failures, what leaves.

    The page is for this machine only. It reads the folder, so that runs can begin, end and be resumed meanwhile.
    """
    if plain:
        return follow(folder)
    from cotempo.pages.watch.server import watch_server

    with watch_server(folder) as server:
        if not PLAIN.get():
            print(f"Open {server.url} in a browser of this machine. Ctrl-C ends the page; runs go on.", flush=True)
        server.wait()
    return Output(["The page has ended; runs go on."], {"url": server.url})


def follow(folder: Path) -> Output:
    """Show runs in the terminal until they end; where there is no terminal, as they are now."""
    from cotempo.runs.state import RunState, find_runs

    states = {name: RunState(path) for name, path in find_runs(folder).items()}
    lines = describe_states(states)
    if sys.stdout.isatty() and not PLAIN.get():
        from rich.live import Live
        from rich.text import Text

        with Live(auto_refresh=False, transient=True) as live, suppress(KeyboardInterrupt):
            while any(state.is_going for state in states.values()):
                live.update(Text("\n".join(lines)), refresh=True)
                time.sleep(EVERY_SECONDS)
                lines = describe_states(states)
    return Output(lines, {name: record_of(state) for name, state in states.items()})


def describe_states(states: dict[str, RunState]) -> list[str]:
    """Return one run in full, several in a line each."""
    from cotempo.runs.state import STATES

    for state in states.values():
        state.refresh()
    if len(states) == 1:
        return describe_state(next(iter(states.values())))
    return [f"{name}: {STATES[state.status]}. {state.line()}" for name, state in states.items()]


def describe_state(state: RunState) -> list[str]:
    """Return a run in lines: how it stands, its sites, what went wrong, and what left."""
    from cotempo.report.content import failure_sentences
    from cotempo.report.tables import number, size
    from cotempo.runs.lights import lights
    from cotempo.runs.state import STATES

    found = list(lights(state))
    width = max((len(light.client) for light in found), default=0)
    lines = [f"{state.name}: {STATES[state.status]}. {state.line()}", ""]
    for light in found:
        word = "" if light.word == "idle" else f"{light.word} "
        lines.append(f"{SIGNS[light.word]} {light.client:{width}}  {word}{light.detail}")
    lines += ["", *failure_sentences(state.failures)]
    if newest := {name: points[-1][1] for name, points in state.metrics.items()}:
        lines.append(f"Measured last: {', '.join(f'{name} {number(value)}' for name, value in newest.items())}.")
    lines.append(f"{size(state.sent.total())} left the sites.")
    return lines


def record_of(state: RunState) -> dict[str, Any]:
    """Return a run for machines."""
    from cotempo.runs.lights import lights

    return {
        "status": state.status, "says": state.line(), "round": state.round, "step": state.steps, "done": state.done,
        "seconds": state.seconds, "seconds_left": state.left, "bytes": dict(state.sent),
        "metrics": {name: points[-1][1] for name, points in state.metrics.items()},
        "sites": {light.client: {"state": light.word, "detail": light.detail} for light in lights(state)},
        "failures": list(state.failures),
    }  # fmt: skip
