"""`cotempo provision`, `cotempo server` and `cotempo client`: a consortium, its server and its sites."""

from pathlib import Path
from typing import Annotated

import typer

from cotempo.cli.output import Json, Quiet, emit
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
    from cotempo.engines.flower.provision import Federation, provision

    federation = Federation.from_file(federation_file)
    folder = folder or Path(federation.name)
    _, _, *kits = provision(federation, folder)
    lines = [
        f"Server:    {folder / 'server'}, for the coordinator; start it with: cotempo server start {folder / 'server'}",
        f"Authority: {folder / 'authority'}; keep its key offline, it is needed only to renew the certificate",
        *(f"Kit:       {kit}" for kit in kits),
        "Give each site its kit over a channel you trust, then delete it here: it holds the site's private key.",
    ]
    emit(lines, {"server": str(folder / "server"), "kits": [str(kit) for kit in kits]}, quiet=quiet, as_json=as_json)


@server.command(name="start")
def start_server(folder: Folder, quiet: Quiet = False, as_json: Json = False) -> None:
    """Start the server in the background and admit the sites."""
    from cotempo.engines.flower.coordinator.server import Server

    place = Server(folder)
    place.start()
    where = f"{place.federation.listen}:{place.federation.port}"
    lines = [f"Server running on {where} as process {place.pid}; log: {place.log_file}"]
    emit(lines, {"address": where, "process": place.pid}, quiet=quiet, as_json=as_json)


@server.command(name="status")
def server_status(folder: Folder, quiet: Quiet = False, as_json: Json = False) -> None:
    """Say whether the server runs and which sites are online."""
    from cotempo.engines.flower.coordinator.server import Server

    place = Server(folder)
    if place.pid is None:
        raise EngineError(f"the server is not running; start it with: cotempo server start {folder}")
    sites = place.sites()
    width = max(map(len, sites), default=0)
    lines = [f"Server running as process {place.pid}", *(f"  {name:{width}}  {sites[name]}" for name in sites)]
    emit(lines, {"process": place.pid, "sites": sites}, quiet=quiet, as_json=as_json)


@server.command(name="admit")
def admit_sites(folder: Folder, quiet: Quiet = False, as_json: Json = False) -> None:
    """Admit the sites whose keys are in the server's folder, and exclude all others."""
    from cotempo.engines.flower.coordinator.server import Server

    place = Server(folder)
    place.sync_sites()
    sites = place.sites()
    emit([f"Admitted: {', '.join(sites)}"], {"sites": sites}, quiet=quiet, as_json=as_json)


@server.command(name="stop")
def stop_server(folder: Folder, quiet: Quiet = False, as_json: Json = False) -> None:
    """Stop the server; runs can be resumed once it is back."""
    from cotempo.engines.flower.coordinator.server import Server

    _say_stopped(Server(folder).stop(), quiet, as_json)


@client.command(name="check")
def check_client(kit: Kit, quiet: Quiet = False, as_json: Json = False) -> None:
    """Check data, methods, connection, clock and key before joining; change nothing."""
    from cotempo.engines.flower.site.daemon import SiteDaemon

    checks = list(SiteDaemon(kit).check())
    lines = [f"{'ok' if check.ok else 'FAILED':6} {check.name}: {check.detail}" for check in checks]
    emit(lines, {"checks": [check._asdict() for check in checks]}, quiet=quiet, as_json=as_json)
    if not all(check.ok for check in checks):
        raise typer.Exit(6)


@client.command(name="start")
def start_client(
    kit: Kit,
    foreground: Annotated[bool, typer.Option("--foreground", help="Stay until stopped by Ctrl-C.")] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Check, then join and stay joined."""
    from cotempo.engines.flower.site.daemon import SiteDaemon

    site = SiteDaemon(kit)
    if foreground:
        site.require_healthy()
        emit([f"{site.settings.name} joins {site.settings.server}"], {}, quiet=quiet, as_json=False)
        site.run_forever()
    site.start()
    lines = [f"{site.settings.name} joins as process {site.pid}; log: {site.home / 'site.log'}"]
    emit(lines, {"process": site.pid}, quiet=quiet, as_json=as_json)


@client.command(name="stop")
def stop_client(kit: Kit, quiet: Quiet = False, as_json: Json = False) -> None:
    """Leave; the site's memory of runs stays."""
    from cotempo.engines.flower.site.daemon import SiteDaemon

    _say_stopped(SiteDaemon(kit).stop(), quiet, as_json)


def _say_stopped(stopped: bool, quiet: bool, as_json: bool) -> None:
    emit(["Stopped." if stopped else "It was not running."], {"stopped": stopped}, quiet=quiet, as_json=as_json)
