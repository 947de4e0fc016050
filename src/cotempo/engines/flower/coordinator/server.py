"""The coordinator's server: Flower's SuperLink, started from a provisioned folder, and what operators ask of it."""

from __future__ import annotations

import fcntl
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cotempo.engines.flower import need_flower
from cotempo.engines.flower.processes import Daemon
from cotempo.engines.flower.provision import Federation, make_federation
from cotempo.errors import EngineError

STARTING = 60.0


class Server:
    """A provisioned server's folder.

    ==================  =======================================================================
    ``federation.toml`` the consortium as it was provisioned
    ``server.crt/key``  the server's certificate and its key
    ``ca.crt``          the authority sites know it by
    ``operator``        the secret that lets in operators
    ``sites/*.pub``     the keys of the sites that may join; to shut one out, remove its file
    ``state/``          Flower's database, made when the server starts; also its log
    ==================  =======================================================================
    """

    def __init__(self, folder: str | Path):
        self.folder = Path(folder).resolve()
        path = self.folder / "federation.toml"
        if not path.is_file():
            raise EngineError(
                f"{self.folder} must be a server's folder, it holds no federation.toml; make one by: cotempo provision"
            )
        self.federation: Federation = make_federation(tomllib.loads(path.read_text()), str(path))
        self.daemon = Daemon(self.folder / "state", "server")

    @property
    def local(self) -> str:
        """Where this machine reaches the server."""
        listen = self.federation.listen
        return f"{'127.0.0.1' if listen in ('0.0.0.0', '::') else listen}:{self.federation.port}"

    def command(self) -> list[str]:
        """What starts Flower's SuperLink."""
        folder = self.folder
        return [
            sys.executable, "-m", "cotempo.engines.flower.superlink", str(folder / "operator"),
            "--ssl-certfile", str(folder / "server.crt"), "--ssl-keyfile", str(folder / "server.key"),
            "--ssl-ca-certfile", str(folder / "ca.crt"),
            "--host", self.federation.listen, "--port", str(self.federation.port),
            "--database", str(self.daemon.folder / "flower.db"),
            "--enable-supernode-auth", "--isolation", "process", "--disable-runtime-dependency-installation",
        ]  # fmt: skip

    def environment(self) -> dict[str, str]:
        """Flower's files belong into the server's folder."""
        return {"FLWR_HOME": str(self.daemon.folder / "flower")}

    def start(self) -> None:
        """Start the server in the background, wait until it answers, and let the sites in."""
        need_flower()
        process = self.daemon.start(self.command(), self.environment())
        until = time.monotonic() + STARTING
        while True:
            try:
                self.admit()
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
        """Stop the server."""
        return self.daemon.stop()

    @contextmanager
    def control(self) -> Iterator[Any]:
        """Flower's control interface, as an operator."""
        need_flower()
        from cotempo.engines.flower.coordinator.runtime import control_client

        with control_client(self.local, self.folder) as client:
            yield client

    def admit(self) -> None:
        """Make the sites that may join those whose keys are in the folder."""
        from cotempo.engines.flower.coordinator.runtime import list_nodes, register, unregister

        keys = {path.stem: path.read_bytes() for path in sorted((self.folder / "sites").glob("*.pub"))}
        with self.control() as client:
            known = {node.name: node for node in list_nodes(client)}
            for name in known.keys() - keys.keys():
                unregister(client, known[name].node_id)
            for name in sorted(keys.keys() - known.keys()):
                register(client, name, keys[name])

    def sites(self) -> dict[str, str]:
        """Every site that may join, with Flower's word for its state: `online`, `offline` or `registered`."""
        from cotempo.engines.flower.coordinator.runtime import list_nodes

        with self.control() as client:
            return {node.name: node.status for node in list_nodes(client)}

    @contextmanager
    def alone(self) -> Iterator[None]:
        """One operator at a time, while a run is begun."""
        self.daemon.folder.mkdir(parents=True, exist_ok=True)
        with open(self.daemon.folder / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
