"""`cotempo provision`, `cotempo server` and `cotempo client`: a consortium, its server and its sites."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cotempo.cli.output import Output, command, shows_progress
from cotempo.errors import EngineError

if TYPE_CHECKING:
    from cotempo.engines.flower.coordinator.server import Server
    from cotempo.engines.flower.site.daemon import SiteDaemon

server = typer.Typer(help="The coordinator's server.", no_args_is_help=True, rich_markup_mode=None)
client = typer.Typer(help="A site.", no_args_is_help=True, rich_markup_mode=None)

Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="The server's folder, as provision made it.")]
Foreground = Annotated[bool, typer.Option("--foreground", help="Stay until stopped by Ctrl-C.")]
Kit = Annotated[Path, typer.Argument(metavar="KIT", help="The folder of an unpacked startup kit.")]


def _server(folder: Path) -> "Server":
    from cotempo.engines.flower.coordinator.server import Server

    return Server(folder)


def _site(kit: Path) -> "SiteDaemon":
    from cotempo.engines.flower.site.daemon import SiteDaemon

    return SiteDaemon(kit)


def provision_kits(
    federation_file: Annotated[Path, typer.Argument(metavar="FEDERATION.toml", help="Who takes part, and where.")],
    folder: Annotated[Path | None, typer.Option("--out", help="A new folder; by default its name.")] = None,
) -> Output:
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
    return Output(lines, {"server": str(folder / "server"), "kits": [str(kit) for kit in kits]})


@command(server, "start")
def start_server(folder: Folder) -> Output:
    """Start the server in the background and admit the sites."""
    place = _server(folder)
    place.start()
    where = f"{place.federation.listen}:{place.federation.port}"
    line = f"Server running on {where} as process {place.pid}; log: {place.log_file}"
    return Output([line], {"address": where, "process": place.pid})


@command(server, "status")
def server_status(folder: Folder) -> Output:
    """Say whether the server runs and which sites are online."""
    place = _server(folder)
    if place.pid is None:
        raise EngineError(f"the server is not running; start it with: cotempo server start {folder}")
    sites = place.sites()
    width = max(map(len, sites), default=0)
    lines = [f"Server running as process {place.pid}", *(f"  {name:{width}}  {sites[name]}" for name in sites)]
    return Output(lines, {"process": place.pid, "sites": sites})


@command(server, "admit")
def admit_sites(folder: Folder) -> Output:
    """Admit the sites whose keys are in the server's folder, and exclude all others."""
    place = _server(folder)
    place.sync_sites()
    sites = place.sites()
    return Output([f"Admitted: {', '.join(sites)}"], {"sites": sites})


@command(server, "stop")
def stop_server(folder: Folder) -> Output:
    """Stop the server; runs can be resumed once it is back."""
    return _stopped(_server(folder).stop())


@command(client, "check")
def check_client(kit: Kit) -> Output:
    """Check data, methods, connection, clock and key before joining; change nothing."""
    checks = list(_site(kit).check())
    lines = [f"{'ok' if check.ok else 'FAILED':6} {check.name}: {check.detail}" for check in checks]
    code = 0 if all(check.ok for check in checks) else 6
    return Output(lines, {"checks": [check._asdict() for check in checks]}, code)


@command(client, "start")
def start_client(kit: Kit, foreground: Foreground = False) -> Output:
    """Check, then join and stay joined."""
    site = _site(kit)
    if foreground:
        site.require_healthy()
        if shows_progress() is not False:
            print(f"{site.settings.name} joins {site.settings.server}")
        site.run_forever()
    site.start()
    line = f"{site.settings.name} joins as process {site.pid}; log: {site.home / 'site.log'}"
    return Output([line], {"process": site.pid})


@command(client, "stop")
def stop_client(kit: Kit) -> Output:
    """Leave; the site's memory of runs stays."""
    return _stopped(_site(kit).stop())


def _stopped(stopped: bool) -> Output:
    return Output(["Stopped." if stopped else "It was not running."], {"stopped": stopped})
