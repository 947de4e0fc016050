"""`cotempo provision`, `cotempo server` and `cotempo client`: a consortium, its server and its sites."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cotempo.cli.output import Json, Quiet
from cotempo.cli.output import emit as say
from cotempo.errors import EngineError

server = typer.Typer(help="The coordinator's server.", no_args_is_help=True, rich_markup_mode=None)
client = typer.Typer(help="A site.", no_args_is_help=True, rich_markup_mode=None)

Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="The server's folder, as provision made it.")]
Kit = Annotated[Path, typer.Argument(metavar="KIT", help="The folder of an unpacked startup kit.")]


def provision_kits(
    federation_file: Annotated[Path, typer.Argument(metavar="FEDERATION.toml", help="Who takes part, and where.")],
    folder: Annotated[Path | None, typer.Option("--out", help="A new folder; by default its name.")] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Make a certificate authority, the server's folder and one startup kit per site."""
    from cotempo.engines.flower import need_flower

    need_flower()
    from cotempo.engines.flower.provision import provision, read_federation

    federation = read_federation(federation_file)
    folder = folder or Path(federation.name)
    _, _, *kits = provision(federation, folder)
    lines = [
        f"Server:    {folder / 'server'}, for the coordinator; start it by: cotempo server start {folder / 'server'}",
        f"Authority: {folder / 'authority'}; keep its key offline, it is needed only to renew the certificate",
        *(f"Kit:       {kit}" for kit in kits),
        "Give each site its kit over a channel you trust, then delete it here: it holds the site's private key.",
    ]
    say(lines, {"server": str(folder / "server"), "kits": [str(kit) for kit in kits]}, quiet=quiet, as_json=as_json)


@server.command(name="start")
def start_server(folder: Folder, quiet: Quiet = False, as_json: Json = False) -> None:
    """Start the server in the background and let the sites in."""
    from cotempo.engines.flower.server import Server

    place = Server(folder)
    place.start()
    where = f"{place.federation.listen}:{place.federation.port}"
    lines = [f"Server running on {where} as process {place.daemon.pid}; log: {place.daemon.log}"]
    say(lines, {"address": where, "process": place.daemon.pid}, quiet=quiet, as_json=as_json)


@server.command(name="status")
def server_status(folder: Folder, quiet: Quiet = False, as_json: Json = False) -> None:
    """Say whether the server runs and which sites are there."""
    from cotempo.engines.flower.server import Server

    place = Server(folder)
    if place.daemon.pid is None:
        raise EngineError(f"the server is not running; start it by: cotempo server start {folder}")
    sites = place.sites()
    width = max(len(name) for name in sites) if sites else 0
    lines = [f"Server running as process {place.daemon.pid}", *(f"  {name:{width}}  {sites[name]}" for name in sites)]
    say(lines, {"process": place.daemon.pid, "sites": sites}, quiet=quiet, as_json=as_json)


@server.command(name="admit")
def admit_sites(folder: Folder, quiet: Quiet = False, as_json: Json = False) -> None:
    """Let in the sites whose keys are in the server's folder, and shut out the others."""
    from cotempo.engines.flower.server import Server

    place = Server(folder)
    place.admit()
    sites = place.sites()
    say([f"Let in: {', '.join(sites)}"], {"sites": sites}, quiet=quiet, as_json=as_json)


@server.command(name="stop")
def stop_server(folder: Folder, quiet: Quiet = False, as_json: Json = False) -> None:
    """Stop the server; runs can be resumed once it is back."""
    from cotempo.engines.flower.server import Server

    stopped = Server(folder).stop()
    say(["Stopped." if stopped else "It was not running."], {"stopped": stopped}, quiet=quiet, as_json=as_json)


@client.command(name="check")
def check_client(kit: Kit, quiet: Quiet = False, as_json: Json = False) -> None:
    """Look at data, methods, connection, clock and key before joining; change nothing."""
    from cotempo.engines.flower.client import Client

    looked = list(Client(kit).check())
    lines = [f"ok      {about}" if why is None else f"FAILED  {about}: {why}" for about, why in looked]
    say(lines, {"checks": [{"about": about, "wrong": why} for about, why in looked]}, quiet=quiet, as_json=as_json)
    if any(why for _, why in looked):
        raise typer.Exit(6)


@client.command(name="start")
def start_client(
    kit: Kit,
    foreground: Annotated[bool, typer.Option("--foreground", help="Stay until stopped by Ctrl-C.")] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Check, then join and stay joined."""
    from cotempo.engines.flower.client import Client

    place = Client(kit)
    if foreground:
        place.demand_well()
        say([f"{place.settings.name} joins {place.settings.server}"], {}, quiet=quiet, as_json=False)
        place.watch()
        return
    place.start()
    lines = [f"{place.settings.name} joins as process {place.daemon.pid}; log: {place.home / 'site.log'}"]
    say(lines, {"process": place.daemon.pid}, quiet=quiet, as_json=as_json)


@client.command(name="stop")
def stop_client(kit: Kit, quiet: Quiet = False, as_json: Json = False) -> None:
    """Leave; the site's memory of runs stays."""
    from cotempo.engines.flower.client import Client

    stopped = Client(kit).stop()
    say(["Stopped." if stopped else "It was not running."], {"stopped": stopped}, quiet=quiet, as_json=as_json)
