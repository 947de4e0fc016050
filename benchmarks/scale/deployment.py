"""A deployment on this machine, for measuring: a server and one process group per site, with TLS and node keys."""

from __future__ import annotations

import json
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from cotempo.data import Table, write_clients
from cotempo.engines.flower.coordinator.server import Server
from cotempo.engines.flower.processes import free_port, wait_until
from cotempo.engines.flower.provision import Federation, provision
from cotempo.engines.flower.site.daemon import SiteDaemon
from cotempo.engines.flower.site.enrolment import confirm_with, enrol, pin
from cotempo.federation import Method

PATIENCE = 180.0


@contextmanager
def deployment(
    method: Method, tables: Mapping[str, Table], imports: Sequence[str] = (), *, own_keys: bool = False
) -> Iterator[Server]:
    """Provision, start, wait until everybody is there, and stop at the end; sites import modules of methods.

    With `own_keys` sites make their keys and pin each other's.
    """
    with tempfile.TemporaryDirectory(prefix="scale-") as folder:
        made = Path(folder) / "made"
        address = f"127.0.0.1:{free_port()}"
        provision(
            Federation(name="scale", address=address, sites=tuple(tables), methods=(type(method).__name__,)),
            made,
            with_keys=not own_keys,
        )
        server = Server(made / "server")
        kits = {name: unpack(made, Path(folder) / "sites", name, table) for name, table in tables.items()}
        if own_keys:
            for kit in kits.values():
                server.admit(enrol(kit)[1], lambda entry: None)
            for kit in kits.values():
                pin(kit, server.folder / "book.toml", confirm_with(server.book.fingerprint))
        for kit in kits.values():
            relax(kit, imports)
        sites = [SiteDaemon(kit) for kit in kits.values()]
        try:
            server.start()
            for site in sites:
                site.start()
            if not wait_until(lambda: all(server.sites().get(name) == "online" for name in tables), PATIENCE):
                raise TimeoutError(f"not all sites came: {server.sites()}")
            yield server
        finally:
            for site in sites:
                site.stop()
            server.stop()


def unpack(made: Path, sites: Path, name: str, table: Table) -> Path:
    """A site's kit, with its table beside it."""
    with zipfile.ZipFile(made / "kits" / f"{name}.zip") as packed:
        packed.extractall(sites)
    kit = sites / name
    write_clients({name: table}, kit / "data.csv")
    settings = kit / "site.toml"
    settings.write_text(settings.read_text().replace('data = ""', 'data = "data.csv"'))
    return kit


def relax(kit: Path, imports: Sequence[str]) -> None:
    """Let a site answer small tables in the clear."""
    for key in (kit / "keys").iterdir():
        key.chmod(0o600)
    settings = kit / "site.toml"
    text = settings.read_text()
    for safe, lenient in (
        ("minimum_rows = 50", "minimum_rows = 0"),
        ("secure_sum = true", "secure_sum = false"),
        ("minimum_clients = 3", "minimum_clients = 1"),
        ("megabytes = 64", "megabytes = 4000"),
    ):
        text = text.replace(safe, lenient)
    settings.write_text(text.replace('# imports = ["our.methods"]', f"imports = {json.dumps(imports)}"))


def peak_of(server: Server) -> int:
    """The most memory the server's process ever had, in bytes."""
    status = Path(f"/proc/{server.pid}/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024
