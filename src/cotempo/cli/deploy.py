"""`cotempo provision`, `cotempo server`, `cotempo client`, `cotempo ledger`: a consortium, its server and its sites."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cotempo.cli.output import Output, command, shows_progress
from cotempo.errors import EngineError

if TYPE_CHECKING:
    from cotempo.engines.flower.coordinator.server import Server
    from cotempo.engines.flower.site.daemon import SiteDaemon
    from cotempo.privacy.keys import Enrolment
    from cotempo.privacy.ledger import Ledger

server = typer.Typer(help="The coordinator's server.", no_args_is_help=True, rich_markup_mode=None)
client = typer.Typer(help="A site.", no_args_is_help=True, rich_markup_mode=None)
ledger = typer.Typer(help="What left a site, over all runs.", no_args_is_help=True, rich_markup_mode=None)

Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="The server's folder, as provision made it.")]
Foreground = Annotated[bool, typer.Option("--foreground", help="Stay until stopped by Ctrl-C.")]
Kit = Annotated[Path, typer.Argument(metavar="KIT", help="The folder of an unpacked startup kit.")]
Words = Annotated[
    str | None, typer.Option("--fingerprint", help="The words that were read to you; else you are asked.")
]


def _server(folder: Path) -> "Server":
    from cotempo.engines.flower.coordinator.server import Server

    return Server(folder)


def _site(kit: Path) -> "SiteDaemon":
    from cotempo.engines.flower.site.daemon import SiteDaemon

    return SiteDaemon(kit)


def provision_kits(
    federation_file: Annotated[Path, typer.Argument(metavar="FEDERATION.toml", help="Who takes part, and where.")],
    folder: Annotated[Path | None, typer.Option("--out", help="A new folder; by default its name.")] = None,
    with_keys: Annotated[
        bool, typer.Option("--with-keys", help="For tests and demos only: make the sites' keys here, and admit them.")
    ] = False,
    wheelhouse: Annotated[
        Path | None,
        typer.Option("--wheelhouse", help="A folder with all wheels: kits pin them by hash, and need no Internet."),
    ] = None,
) -> Output:
    """Make a certificate authority, the server's folder and one startup kit per site."""
    from cotempo.engines.flower.provision import Federation, provision

    federation = Federation.from_file(federation_file)
    folder = folder or Path(federation.name)
    _, _, *kits = provision(federation, folder, with_keys=with_keys, wheelhouse=wheelhouse)
    lines = [
        f"Server:    {folder / 'server'}, for the coordinator; start it with: cotempo server start {folder / 'server'}",
        f"Authority: {folder / 'authority'}; keep its key offline, it is needed only to renew the certificate",
        *(f"Kit:       {kit}" for kit in kits),
        "The kits hold private keys that this machine has seen: for tests and demos only."
        if with_keys
        else "Give each site its kit. It holds no keys: sites make their own with cotempo client enrol.",
        *([] if wheelhouse is None else [f"Give each site the folder {wheelhouse} too, as wheelhouse in its kit."]),
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
def admit_site(
    folder: Folder,
    enrolment: Annotated[Path, typer.Argument(metavar="FILE", help="What the site's cotempo client enrol wrote.")],
    fingerprint: Words = None,
) -> Output:
    """Admit a site by its public keys, once its fingerprint was compared over another channel."""
    from cotempo.privacy.keys import Enrolment

    place, entry = _server(folder), Enrolment.from_file(enrolment)
    place.admit(entry, lambda entry: _compare(entry.name, entry.fingerprint, fingerprint))
    if place.pid is not None:
        place.sync_sites()
    lines = [f"Admitted {entry.name}: {entry.fingerprint}", *_describe_book(place)]
    return Output(lines, {"site": entry.name, "fingerprint": entry.fingerprint, "book": place.book.fingerprint})


@command(server, "revoke")
def revoke_site(folder: Folder, name: Annotated[str, typer.Argument(metavar="SITE", help="Its name.")]) -> Output:
    """Exclude a site, and never admit its present key again."""
    place = _server(folder)
    place.revoke(name)
    if place.pid is not None:
        place.sync_sites()
    return Output([f"Revoked {name}.", *_describe_book(place)], {"site": name, "book": place.book.fingerprint})


def _describe_book(place: "Server") -> list[str]:
    book = place.book
    return [
        f"Keys of {len(book.sites)} sites: {place.folder / 'book.toml'}, for all of them to pin: {book.fingerprint}"
    ]


def _compare(name: str, fingerprint: str, words: str | None) -> None:
    """Compare a fingerprint with the words that were heard, or ask whether they are the same."""
    from cotempo.privacy.keys import require_fingerprint

    if words is not None:
        require_fingerprint(fingerprint, words)
    elif not typer.confirm(f"{name}: {fingerprint}\nAre these the words that were read to you, all of them?", err=True):
        raise EngineError(f"the keys of {name} must not be taken unless the words agree; find out who exchanged them")


@command(server, "stop")
def stop_server(folder: Folder) -> Output:
    """Stop the server; runs can be resumed once it is back."""
    return _stopped(_server(folder).stop())


@command(client, "enrol")
def enrol_client(kit: Kit) -> Output:
    """Make this site's keys, here and for nobody else to see, and a file with the public ones to hand over."""
    from cotempo.engines.flower.site.enrolment import enrol

    return _handed_over(*enrol(kit))


@command(client, "rotate")
def rotate_client(kit: Kit) -> Output:
    """Replace this site's keys between two runs; the old ones sign the new ones, so no words need to be compared."""
    from cotempo.engines.flower.site.enrolment import rotate

    return _handed_over(*rotate(kit))


def _handed_over(path: Path, entry: "Enrolment") -> Output:
    lines = [
        f"Keys made in {path.parent / 'keys'}, for you only.",
        f"Give to the coordinator: {path}",
        f"Read to the coordinator over another channel: {entry.fingerprint}",
    ]
    return Output(lines, {"file": str(path), "fingerprint": entry.fingerprint})


@command(client, "pin")
def pin_peers(
    kit: Kit,
    book: Annotated[Path, typer.Argument(metavar="BOOK", help="The coordinator's book.toml.")],
    fingerprint: Words = None,
) -> Output:
    """Pin the keys of all sites, once their common fingerprint was compared with the other sites."""
    from cotempo.engines.flower.site.enrolment import pin

    pinned = pin(kit, book, lambda book: _compare("all sites", book.fingerprint, fingerprint))
    lines = [f"Pinned {', '.join(sorted(pinned.sites))}: {pinned.fingerprint}"]
    return Output(lines, {"sites": sorted(pinned.sites), "fingerprint": pinned.fingerprint})


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


@command(client, "status")
def client_status(kit: Kit) -> Output:
    """Say whether the site is joined, what it did last and how much room it has; fail if it is not joined."""
    site = _site(kit)
    status = site.status()
    name = site.settings.name
    return Output(
        [
            f"{name} is joined as process {status['process']}"
            if status["process"]
            else f"{name} is not joined; join with: cotempo client start {kit}",
            f"  runs: {status['runs']}",
            f"  requests that wait for a person: {status['waiting']}",
            f"  room on its disk: {status['free_bytes'] / 1e9:.1f} GB",
            *(f"  {line}" for line in status["log"]),
        ],
        status,
        0 if status["process"] else 6,
    )


@command(client, "stop")
def stop_client(kit: Kit) -> Output:
    """Leave; the site's memory of runs stays."""
    return _stopped(_site(kit).stop())


def _stopped(stopped: bool) -> Output:
    return Output(["Stopped." if stopped else "It was not running."], {"stopped": stopped})


def _ledger(kit: Path) -> "Ledger":
    from cotempo.engines.flower.site.enrolment import site_name
    from cotempo.privacy.ledger import Ledger

    site_name(kit)
    return Ledger(kit / "home" / "ledger.jsonl")


@command(ledger, "verify")
def verify_ledger(kit: Kit) -> Output:
    """Check, offline, that no entry of a site's ledger was changed, removed or cut off."""
    entries = _ledger(kit).verify()
    return Output([f"ok: {len(entries)} entries, each as it was written"], {"entries": len(entries)})


@command(ledger, "show")
def show_ledger(kit: Kit) -> Output:
    """List what left a site: run by run, to whom, among whom, how much of it masked, and the epsilon spent."""
    entries = _ledger(kit).verify()
    lines = []
    for run in [entry for entry in entries if entry["kind"] == "run"]:
        own = [entry for entry in entries if entry["run"] == run["run"]]
        sent = [entry for entry in own if entry["kind"] == "message"]
        masked = sum(entry["bytes"] for entry in sent if entry["is_masked"])
        clear = sum(entry["bytes"] for entry in sent) - masked
        epsilon = run["privacy"].get("epsilon")
        lines += [
            f"{run['time'][:19]}  {run['method']} on {run['data']} {run['table'][:8]}, run {run['run'][:8]}",
            f"  among {', '.join(run['participants'])}; to the coordinator with the key {run['to'][:8]}",
            f"  left: {masked:,} bytes masked, {clear:,} bytes readable by the coordinator, in {len(sent)} messages",
            f"  epsilon: {'no noise' if epsilon is None else f'{epsilon:g}'}",
            f"  approved by {run.get('approved', 'site.toml')}",
        ]
        lines += [
            f"  a sum over {', '.join(entry['participants'])} was revealed"
            for entry in own
            if entry["kind"] == "sum" and entry["participants"] != run["participants"]
        ]
    return Output(lines or ["Nothing has left."], {"entries": entries})
