"""`cotempo provision`, `cotempo server`, `cotempo client`: a consortium, its server and its sites."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cotempo.cli.output import Output, command, count, shows_progress
from cotempo.errors import EngineError, ParameterError

if TYPE_CHECKING:
    from cotempo.engines.flower.coordinator.server import Server
    from cotempo.engines.flower.site.daemon import SiteDaemon
    from cotempo.privacy.keys import Enrolment, PeerBook
    from cotempo.runs.queue import RunQueue

server = typer.Typer(help="The coordinator's server.", no_args_is_help=True, rich_markup_mode=None)
client = typer.Typer(help="A site.", no_args_is_help=True, rich_markup_mode=None)

Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="The server's folder, as provision made it.")]
Foreground = Annotated[bool, typer.Option("--foreground", help="Stay until stopped by Ctrl-C.")]
Kit = Annotated[Path, typer.Argument(metavar="KIT", help="The folder of an unpacked startup kit.")]
Words = Annotated[
    str | None, typer.Option("--fingerprint", help="The words that were read to you; else you are asked.")
]


def open_server(folder: Path) -> "Server":
    """Return the server of a folder."""
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
    place = open_server(folder)
    place.start()
    open_queue(folder).start()
    where = f"{place.federation.listen}:{place.federation.port}"
    line = f"Server running on {where} as process {place.pid}; log: {place.log_file}"
    return Output([line], {"address": where, "process": place.pid})


def open_queue(folder: Path) -> "RunQueue":
    """Return the queue of a server."""
    from cotempo.runs.queue import RunQueue

    return RunQueue(folder)


@command(server, "status")
def server_status(folder: Folder) -> Output:
    """Say whether the server runs, what its sites do, what is queued, and who may start runs."""
    place = open_server(folder)
    if place.pid is None:
        raise EngineError(f"the server is not running; start it with: cotempo server start {folder}")
    status = place.status()
    queued = [one for one in open_queue(folder).runs if one.status in ("waiting", "running")]
    sites = status["sites"]
    width = max(map(len, sites), default=0)
    lines = [
        f"Server running on {status['address']} as process {status['process']}",
        *(f"  {name:{width}}  {state}" for name, state in sites.items()),
        f"  certificate: good until {status['certificate_until']}",
        f"  room on its disk: {status['free_bytes'] / 1e9:.1f} GB",
        f"  runs are started by: {', '.join(status['people']) or 'whoever can read its folder'}",
        f"  queued: {', '.join(f'{one.number} {one.name} ({one.status})' for one in queued) or 'nothing'}",
    ]
    return Output(lines, {**status, "queue": [one.model_dump() for one in queued]})


@command(server, "admit")
def admit_site(
    folder: Folder,
    enrolments: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="What the sites' cotempo client enrol wrote.")
    ],
    fingerprint: Words = None,
) -> Output:
    """Admit sites by their public keys, once the fingerprint of each was compared over another channel."""
    from cotempo.privacy.keys import Enrolment

    place, entries = open_server(folder), [Enrolment.from_file(path) for path in enrolments]
    if fingerprint is not None and len(entries) > 1:
        raise ParameterError(f"--fingerprint must come with one file, got {len(entries)}; without it you are asked")
    try:
        for entry in entries:
            place.admit(entry, lambda entry: _compare(entry.name, entry.fingerprint, fingerprint))
    finally:
        if place.pid is not None:  # those before one whose words differ are in
            place.sync_sites()
    lines = [*(f"Admitted {entry.name}: {entry.fingerprint}" for entry in entries), *_describe_book(place)]
    admitted = {entry.name: entry.fingerprint for entry in entries}
    return Output(lines, {"admitted": admitted, "book": place.book.fingerprint})


@command(server, "revoke")
def revoke_site(folder: Folder, name: Annotated[str, typer.Argument(metavar="SITE", help="Its name.")]) -> Output:
    """Exclude a site, and never admit its present key again."""
    place = open_server(folder)
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
    """Stop the server and its queue; runs go on where they stopped once it is back."""
    open_queue(folder).stop()
    return _stopped(open_server(folder).stop())


@command(client, "enrol")
def enrol_client(
    kit: Kit,
    table: Annotated[
        Path | None, typer.Option("--data", help="Your table; else fill it in in site.toml yourself.")
    ] = None,
) -> Output:
    """Make this site's keys, here and for nobody else to see, and a file with the public ones to hand over."""
    from cotempo.engines.flower.site.enrolment import enrol, fill_in_data

    if table is not None:
        fill_in_data(kit, table)
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
    pinned = _pin(kit, book, fingerprint)
    lines = [f"Pinned {', '.join(sorted(pinned.sites))}: {pinned.fingerprint}"]
    return Output(lines, {"sites": sorted(pinned.sites), "fingerprint": pinned.fingerprint})


def _pin(kit: Path, book: Path, fingerprint: str | None) -> "PeerBook":
    from cotempo.engines.flower.site.enrolment import pin

    return pin(kit, book, lambda book: _compare("all sites", book.fingerprint, fingerprint))


@command(client, "check")
def check_client(kit: Kit) -> Output:
    """Check data, methods, connection, clock and key before joining; change nothing."""
    checks = list(_site(kit).check())
    lines = [f"{'ok' if check.ok else 'FAILED':6} {check.name}: {check.detail}" for check in checks]
    code = 0 if all(check.ok for check in checks) else 6
    return Output(lines, {"checks": [check._asdict() for check in checks]}, code)


@command(client, "start")
def start_client(
    kit: Kit,
    foreground: Foreground = False,
    book: Annotated[Path | None, typer.Option("--book", help="Pin this book of the coordinator's first.")] = None,
    fingerprint: Words = None,
) -> Output:
    """Check, then join and stay joined."""
    if book is not None:
        _pin(kit, book, fingerprint)
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
    """Say whether the site is joined, what left, what was spent and how much room it has; fail if it is not joined."""
    site = _site(kit)
    status = site.status()
    name = site.settings.name
    joined = f"{name} is joined as process {status['process']}"
    budget = "" if status["budget"] is None else f" of {status['budget']:g}"
    spent = ", ".join(f"{epsilon:g}{budget} on {kind}" for kind, epsilon in status["epsilon"].items())
    return Output(
        [
            joined if status["process"] else f"{name} is not joined; join with: cotempo client start {kit}",
            *([f"  its people have paused it; to answer again: cotempo client pause {kit} --off"] * status["paused"]),
            f"  runs: {status['runs']}",
            f"  left: {status['bytes']:,} bytes in {count(status['messages'], 'message')}",
            f"  epsilon spent: {spent or 'none'}",
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
