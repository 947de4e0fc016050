"""Who is in a consortium that runs: add a site, remove one, and pause one, while runs go on."""

from pathlib import Path

import tomli_w

from cotempo.engines.flower.coordinator.server import Server
from cotempo.engines.flower.provision import Federation, make_kit
from cotempo.errors import ParameterError
from cotempo.storage.files import write_whole


def add_site(server: Server, name: str) -> bytes:
    """Add a site to the consortium and return its startup kit, a zip without keys; it enrols like all others.

    Runs that have begun go on among those that signed them.
    """
    federation = server.federation
    if name in federation.sites:
        raise ParameterError(f"a new site must have a name of its own, {name} is in the consortium already")
    _keep(server, (*federation.sites, name))
    locked = server.folder / "requirements.txt"
    given = {"requirements.txt": locked.read_bytes()} if locked.is_file() else {}
    return make_kit(server.federation, name, {**given, "ca.crt": server.authority})


def remove_site(server: Server, name: str) -> None:
    """Remove a site that leaves: it is not asked any more, and runs that need its answers pause.

    Its key is not revoked: a site that comes back is added and admitted again.
    """
    require_site(server, name)
    if len(server.federation.sites) == 1:
        raise ParameterError(f"a consortium must have a site, {name} is its last; stop the server instead")
    _keep(server, tuple(site for site in server.federation.sites if site != name))
    (server.folder / "sites" / f"{name}.pub").unlink(missing_ok=True)
    server.book.without(name).save(server.folder / "book.toml")
    _write_paused(server.folder, server.paused - {name})


def pause_site(server: Server, name: str, *, paused: bool) -> None:
    """Do not ask a site from the next step on, or ask it again; running runs take it for one that is away."""
    require_site(server, name)
    _write_paused(server.folder, server.paused | {name} if paused else server.paused - {name})


def require_site(server: Server, name: str) -> None:
    """Raise `ParameterError` unless a site is in the consortium."""
    if name not in server.federation.sites:
        raise ParameterError(f"the site must be one of {', '.join(server.federation.sites)}, got {name}")


def _keep(server: Server, sites: tuple[str, ...]) -> None:
    """Write the consortium with other sites."""
    content = {**server.federation.model_dump(mode="json"), "sites": list(sites)}
    server.federation = Federation.read(content, "the consortium")
    write_whole(server.folder / "federation.toml", tomli_w.dumps(content).encode())


def _write_paused(folder: Path, names: set[str]) -> None:
    write_whole(folder / "paused", "\n".join(sorted(names)).encode())
