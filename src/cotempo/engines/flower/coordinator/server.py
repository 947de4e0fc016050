"""`Server`: the coordinator's server, Flower's SuperLink, run from a provisioned folder."""

import sys
import time
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_ssh_public_key
from filelock import FileLock
from flwr.proto.control_pb2 import ListNodesRequest, RegisterNodeRequest, UnregisterNodeRequest
from flwr.supercore.control import ControlHttpClient

from cotempo.engines.flower.coordinator.runtime import control
from cotempo.engines.flower.processes import Daemon
from cotempo.engines.flower.provision import Federation
from cotempo.errors import EngineError

START_SECONDS = 60.0


class Server:
    """A provisioned server's folder.

    ==================  =======================================================================
    ``federation.toml`` the consortium as it was provisioned
    ``server.crt/key``  the server's certificate and its key
    ``ca.crt``          the certificate authority by which sites recognise it
    ``operator``        the secret that admits operators
    ``sites/*.pub``     the keys of the sites that may join; to exclude one, remove its file
    ``state/``          Flower's database and its log, created when the server starts
    ==================  =======================================================================
    """

    def __init__(self, folder: str | Path):
        self.folder = Path(folder).resolve()
        path = self.folder / "federation.toml"
        if not path.is_file():
            raise EngineError(
                f"{self.folder} must be a server's folder, it holds no federation.toml; create one with: "
                "cotempo provision"
            )
        self.federation = Federation.from_file(path)
        self.daemon = Daemon(self.folder / "state", "server")

    @property
    def local_address(self) -> str:
        """Where this machine reaches the server."""
        listen = self.federation.listen
        return f"{'127.0.0.1' if listen in ('0.0.0.0', '::') else listen}:{self.federation.port}"

    @property
    def site_names(self) -> list[str]:
        """The sites that may join."""
        return sorted(path.stem for path in (self.folder / "sites").glob("*.pub"))

    def start(self) -> None:
        """Start the server in the background, wait until it answers, and admit the sites."""
        command = [
            sys.executable, "-m", "cotempo.engines.flower.superlink", str(self.folder / "operator"),
            "--ssl-certfile", str(self.folder / "server.crt"), "--ssl-keyfile", str(self.folder / "server.key"),
            "--ssl-ca-certfile", str(self.folder / "ca.crt"),
            "--host", self.federation.listen, "--port", str(self.federation.port),
            "--database", str(self.daemon.folder / "flower.db"),
            "--enable-supernode-auth", "--isolation", "process", "--disable-runtime-dependency-installation",
        ]  # fmt: skip
        process = self.daemon.start(command, FLWR_HOME=str(self.daemon.folder / "flower"))
        until = time.monotonic() + START_SECONDS
        while True:
            try:
                self.sync_sites()
                return
            except EngineError as error:
                if process.poll() is not None or time.monotonic() > until:
                    self.daemon.stop()
                    raise EngineError(
                        f"the server did not start: {error}\nthe end of its log, {self.daemon.log}:\n"
                        f"{self.daemon.tail()}"
                    ) from error
            time.sleep(0.1)

    def stop(self) -> bool:
        """Stop the server; return whether it was running."""
        return self.daemon.stop()

    def sync_sites(self) -> None:
        """Admit exactly the sites whose keys are in the folder."""
        with control(self.local_address, self.folder) as client:
            nodes = _list_nodes(client)
            for name in nodes.keys() - set(self.site_names):
                client.UnregisterNode(UnregisterNodeRequest(node_id=nodes[name].node_id))
            for name in sorted(set(self.site_names) - nodes.keys()):
                key = load_ssh_public_key((self.folder / "sites" / f"{name}.pub").read_bytes())
                pem = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
                client.RegisterNode(RegisterNodeRequest(public_key=pem, name=name))

    def sites(self) -> dict[str, str]:
        """Return every site that may join, with Flower's word for its state: `online`, `offline` or `registered`."""
        with control(self.local_address, self.folder) as client:
            return {name: node.status for name, node in _list_nodes(client).items()}

    def exclusive(self) -> FileLock:
        """Return the lock by which one operator at a time begins a run."""
        self.daemon.folder.mkdir(parents=True, exist_ok=True)
        return FileLock(self.daemon.folder / "lock")


def _list_nodes(client: ControlHttpClient) -> dict[str, Any]:
    nodes = client.ListNodes(ListNodesRequest()).nodes_info
    return {node.name: node for node in nodes if not node.unregistered_at}
