"""`cotempo server add`, `remove`, `pause`, `queue`, `cancel` and `key`: who is in a consortium, and what it runs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cotempo.cli.consortium import deploy
from cotempo.cli.consortium.deploy import Folder, open_queue, open_server
from cotempo.cli.output import Output, command

if TYPE_CHECKING:
    from cotempo.runs.queue import QueuedRun

server = deploy.server
SiteName = Annotated[str, typer.Argument(metavar="SITE", help="Its name.")]


@command(server, "add")
def add_to_consortium(
    folder: Folder,
    name: SiteName,
    path: Annotated[Path | None, typer.Option("--out", help="The kit; by default SITE.zip here.")] = None,
) -> Output:
    """Add a site to a consortium that runs, and write its startup kit."""
    from cotempo.engines.flower.coordinator.membership import add_site
    from cotempo.storage.files import write_whole

    path = path or Path(f"{name}.zip")
    write_whole(path, add_site(open_server(folder), name))
    lines = [
        f"Kit:       {path}",
        f"Give it to {name}; once it has enrolled: cotempo server admit {folder} {name}.enrolment.json",
    ]
    return Output(lines, {"site": name, "kit": str(path)})


@command(server, "remove")
def remove_from_consortium(folder: Folder, name: SiteName) -> Output:
    """Remove a site that leaves; to shut out a key that others may have seen: revoke."""
    from cotempo.engines.flower.coordinator.membership import remove_site

    place = open_server(folder)
    remove_site(place, name)
    if place.pid is not None:
        place.sync_sites()
    left = ", ".join(place.federation.sites)
    return Output([f"Removed {name}; left are {left}."], {"site": name, "sites": list(place.federation.sites)})


@command(server, "pause")
def pause_in_consortium(
    folder: Folder, name: SiteName, off: Annotated[bool, typer.Option("--off", help="Ask it again.")] = False
) -> Output:
    """Do not ask a site until told otherwise: running runs go on without it, queued ones with it wait."""
    from cotempo.engines.flower.coordinator.membership import pause_site

    pause_site(open_server(folder), name, paused=not off)
    again = f"Paused {name}. To ask it again: cotempo server pause {folder} {name} --off"
    return Output([f"{name} is asked again." if off else again], {"site": name, "paused": not off})


@command(server, "queue")
def queue_run(
    folder: Folder,
    experiment_file: Annotated[
        Path | None, typer.Argument(metavar="[EXPERIMENT.toml]", help="What to run; else the queue is listed.")
    ] = None,
    run: Annotated[Path | None, typer.Option("--run", help="The run's folder; by default runs/<name>.")] = None,
    key: Annotated[Path | None, typer.Option("--key", help="Your key, if only some people may start runs.")] = None,
) -> Output:
    """Queue a run, which begins once those before it have ended; without a file, list the queue."""
    from cotempo.runs.experiment import Experiment

    queue = open_queue(folder)
    if experiment_file is None:
        runs = queue.runs
        return Output(
            list(describe_queue(runs)) or ["The queue is empty."], {"queue": [one.model_dump() for one in runs]}
        )
    experiment = Experiment.from_file(experiment_file, engine="flower", server=folder)
    queued = queue.add(experiment, run or Path("runs") / experiment.name, key=key)
    queue.start()
    return Output(
        [f"Queued as {queued.number}: {queued.method} among {', '.join(queued.participants)}, in {queued.run}"],
        queued.model_dump(),
    )


def describe_queue(runs: "list[QueuedRun]") -> list[str]:
    """Return a line for each queued run."""
    return [
        f"{one.number:4}  {one.status:9}  {one.method} among {', '.join(one.participants)}"
        f"{f', for {one.by}' if one.by else ''}{f': {one.says.splitlines()[0]}' if one.says else ''}"
        for one in runs
    ]


@command(server, "cancel")
def cancel_run(
    folder: Folder, number: Annotated[int, typer.Argument(metavar="NUMBER", help="Its number in the queue.")]
) -> Output:
    """Take a run out of the queue; one that is at work stops, and its folder can be resumed."""
    cancelled = open_queue(folder).cancel(number)
    return Output([f"Cancelled {number}."], cancelled.model_dump())


@command(server, "key")
def make_person_key(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Who will start runs.")],
    path: Annotated[Path | None, typer.Option("--out", help="The key; by default NAME.key here.")] = None,
) -> Output:
    """Make your own key to sign runs with; its public half goes into people.toml in the server's folder."""
    from cotempo.privacy.orders import make_key

    path = path or Path(f"{name}.key")
    public = make_key(name, path)
    line = f'{name} = "{public}"'
    return Output([f"Your key: {path}, for you only.", f"For people.toml in the server's folder: {line}"],
                  {"key": str(path), "line": line})  # fmt: skip
