"""`Server`: the coordinator's server, Flower's SuperLink, run from a provisioned folder.

Its process is python -m cotempo.engines.flower.coordinator.server OPERATOR_FILE [flags of flower-superlink]. Flower
serves sites and operators on one port and authenticates sites only, so operators show a secret of ours: otherwise
anybody who can reach the port could start a run or admit a site.
"""

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_ssh_public_key
from cryptography.x509 import load_pem_x509_certificate
from filelock import FileLock

from cotempo.engines.flower.coordinator.heard import HEARD, LastHeard, silent_sites
from cotempo.engines.flower.coordinator.meetings import Meetings
from cotempo.engines.flower.coordinator.middleware import OPERATOR, BodyLimit, LongPoll, OperatorAuth
from cotempo.engines.flower.patches import run_superlink
from cotempo.engines.flower.processes import Daemon
from cotempo.engines.flower.provision import Federation
from cotempo.engines.flower.wire import Wire, translate_http_errors
from cotempo.engines.settings import paused_sites
from cotempo.errors import EngineError, ParameterError
from cotempo.privacy.keys import Enrolment, PeerBook, coordinator_identity
from cotempo.privacy.orders import read_people
from cotempo.privacy.secure_sum.identity import Identity
from cotempo.storage.files import write_whole

START_SECONDS = 60.0


class Server(Daemon):
    """A provisioned server's folder.

    ==================  =======================================================================
    ``federation.toml`` the consortium as it was provisioned
    ``server.crt/key``  the server's certificate and its key
    ``ca.crt``          the certificate authority by which sites recognise it
    ``operator``        the secret that admits operators
    ``coordinator.key`` the key with which contracts are signed
    ``book.toml``       the public keys of all admitted sites, for the sites to pin
    ``sites/*.pub``     the keys by which Flower knows them
    ``revoked``         signing keys that are not admitted again
    ``paused``          sites that are not asked for now
    ``people.toml``     who may start runs, if not everybody who can read this folder
    ``alerts.toml``     whom to tell what goes wrong in runs, if anybody
    ``queue/``          runs that wait for their turn
    ``state/``          Flower's database and its log, which of its runs each of ours is, and when sites were heard of
    ==================  =======================================================================
    """

    def __init__(self, folder: str | Path):
        self.folder = Path(folder).resolve()
        self.state = self.folder / "state"
        super().__init__(self.state, "server")
        path = self.folder / "federation.toml"
        if not path.is_file():
            raise EngineError(f"{folder} must be a server's folder, with a federation.toml; see cotempo provision")
        self.federation = Federation.from_file(path)
        self.authority = (self.folder / "ca.crt").read_bytes()
        listen = self.federation.listen
        self.local_address = f"{'127.0.0.1' if listen in ('0.0.0.0', '::') else listen}:{self.federation.port}"

    @property
    def site_names(self) -> list[str]:
        """The sites that may join."""
        return sorted(path.stem for path in (self.folder / "sites").glob("*.pub"))

    @property
    def paused(self) -> set[str]:
        """The sites that are not asked for now."""
        return paused_sites(self.folder)

    @property
    def book(self) -> PeerBook:
        """The keys of the admitted sites."""
        return PeerBook.from_file(self.folder / "book.toml")

    @property
    def identity(self) -> Identity:
        """The coordinator's signing key."""
        return coordinator_identity(self.folder / "coordinator.key")

    def signing_keys(self, names: Iterable[str]) -> dict[str, str]:
        """Return the signing keys of sites; raise `EngineError` for one that was not admitted."""
        known = {name: entry.signing for name, entry in self.book.sites.items()}
        if unknown := [name for name in names if name not in known]:
            raise EngineError(
                f"every participant must be admitted, {', '.join(unknown)} is not; admit it with: cotempo server admit"
            )
        return {name: known[name] for name in names}

    def admit(self, entry: Enrolment, confirm: Callable[[Enrolment], None]) -> None:
        """Admit a site by its public keys; `confirm` is called, and may raise, unless its admitted key signed them."""
        if entry.name not in self.federation.sites:
            known = ", ".join(self.federation.sites)
            raise ParameterError(f"a site must be one of the consortium's, {known}, got {entry.name}")
        if entry.signing in self.revoked:
            raise ParameterError(
                f"the key of {entry.name} must not have been revoked; the site must enrol with a new one"
            )
        before = self.book.sites.get(entry.name)
        if before is None or not (entry.keys == before.keys or entry.follows(before.signing)):
            confirm(entry)
        self.book.with_site(entry).save(self.folder / "book.toml")
        write_whole(self.folder / "sites" / f"{entry.name}.pub", entry.node.encode())

    def revoke(self, name: str) -> None:
        """Exclude a site, and never admit its present key again."""
        book = self.book
        if name not in book.sites:
            raise ParameterError(f"the site must be an admitted one, {', '.join(book.sites) or 'nobody'}, got {name}")
        write_whole(self.folder / "revoked", "\n".join([*self.revoked, book.sites[name].signing]).encode())
        (self.folder / "sites" / f"{name}.pub").unlink(missing_ok=True)
        book.without(name).save(self.folder / "book.toml")

    @property
    def revoked(self) -> list[str]:
        """Signing keys that are not admitted again."""
        path = self.folder / "revoked"
        return path.read_text().split() if path.exists() else []

    def start(self) -> None:
        """Start the server in the background, wait until it answers, and admit the sites."""
        command = [
            sys.executable, "-m", "cotempo.engines.flower.coordinator.server", str(self.folder / "operator"),
            "--ssl-certfile", str(self.folder / "server.crt"), "--ssl-keyfile", str(self.folder / "server.key"),
            "--ssl-ca-certfile", str(self.folder / "ca.crt"),
            "--host", self.federation.listen, "--port", str(self.federation.port),
            "--database", str(self.state / "flower.db"),
            "--enable-supernode-auth", "--isolation", "process", "--disable-runtime-dependency-installation",
        ]  # fmt: skip
        process = self.launch(command, FLWR_HOME=str(self.state / "flower"))
        until = time.monotonic() + START_SECONDS
        while True:
            try:
                self.sync_sites()
                return self._require_secret()
            except EngineError as error:
                if process.poll() is not None or time.monotonic() > until:
                    self.stop()
                    raise EngineError(
                        f"the server did not start: {error}\nthe end of its log, {self.log_file}:\n{self.tail()}"
                    ) from error
            time.sleep(0.1)

    def _require_secret(self) -> None:
        """Stop a server that lets operators in without their secret: a version of Flower that serves in another way."""
        with translate_http_errors(self.local_address):
            try:
                Wire(self.local_address, self.authority, dict).call("control/list-nodes")
            except httpx.HTTPStatusError as error:
                if error.response.status_code == 403:
                    return
                raise
        self.stop()
        raise EngineError("the server must ask operators for their secret, with this version of flwr it does not")

    def wire(self, headers: Mapping[str, str], *, patience: float = 0.0) -> Wire:
        """Return a connection that shows the operator's secret."""
        shown = {OPERATOR: (self.folder / "operator").read_text(), **headers}
        return Wire(self.local_address, self.authority, lambda: shown, patience=patience)

    @contextmanager
    def control(self) -> Iterator[Wire]:
        """Open Flower's control interface."""
        wire = self.wire({})
        with translate_http_errors(self.local_address):
            try:
                yield wire
            finally:
                wire.close()

    def sync_sites(self) -> None:
        """Admit exactly the sites whose keys are in the folder."""
        with self.control() as client:
            keys = {}
            for name in self.site_names:
                key = load_ssh_public_key((self.folder / "sites" / f"{name}.pub").read_bytes())
                keys[name] = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
            nodes = _list_nodes(client)
            for name, node in nodes.items():
                if node.public_key != keys.get(name):  # excluded, or its keys were replaced
                    client.call("control/unregister-node", node_id=node.node_id)
            for name, pem in keys.items():
                if name not in nodes or nodes[name].public_key != pem:
                    client.call("control/register-node", public_key=pem, name=name)

    def sites(self) -> dict[str, str]:
        """Return every site that may join, with Flower's word for its state: `online`, `offline` or `registered`."""
        with self.control() as client:
            return {name: node.status for name, node in _list_nodes(client).items()}

    def status(self) -> dict[str, Any]:
        """Return what an operator asks first: the sites, the certificate, the room on the disk, who may start runs."""
        states = self.sites()
        silent = silent_sites(self.folder, (name for name, state in states.items() if state == "online"))
        words = {name: "not heard of" if name in silent else state for name, state in states.items()}
        words |= {name: f"paused, {words.get(name, 'not admitted')}" for name in self.paused}
        certificate = load_pem_x509_certificate((self.folder / "server.crt").read_bytes())
        return {
            "process": self.pid,
            "address": f"{self.federation.listen}:{self.federation.port}",
            "sites": {name: words.get(name, "not admitted") for name in sorted({*self.federation.sites, *words})},
            "certificate_until": certificate.not_valid_after_utc.date().isoformat(),
            "free_bytes": shutil.disk_usage(self.folder).free,
            "people": sorted(read_people(self.folder)),
        }

    def exclusive(self) -> FileLock:
        """Return the lock by which one operator at a time begins a run."""
        self.state.mkdir(parents=True, exist_ok=True)
        return FileLock(self.state / "lock")


def _list_nodes(client: Wire) -> dict[str, Any]:
    nodes = client.call("control/list-nodes").nodes_info
    return {node.name: node for node in nodes if not node.unregistered_at}


def main() -> None:
    """Serve until stopped."""
    secret = Path(sys.argv.pop(1)).read_bytes().strip()
    heard = Path(sys.argv[sys.argv.index("--database") + 1]).with_name(HEARD)
    os.umask(0o077)
    run_superlink(lambda app: BodyLimit(LastHeard(OperatorAuth(Meetings(LongPoll(app)), secret), heard)))


if __name__ == "__main__":
    main()
